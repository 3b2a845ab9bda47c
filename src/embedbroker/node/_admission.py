"""Who is let in by a broker that is not live: other brokers of its cluster, while it waits for what they say.

Responsible for what host, cluster and protocol do differently meanwhile. Refuses to know why it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker.protocols import CoreService

from ._connections import Connections
from ._node_state import BEFORE, SERVING, NodeState
from ._outputs import LetBrokersIn

if TYPE_CHECKING:
    from embedbroker.cluster import Membership

__all__ = ["Admission"]


class Admission:
    """Of one life. ``is_open``: brokers are let in, and nobody else."""

    def __init__(
        self,
        core: CoreService,
        connections: Connections,
        cluster: Membership | None,
        output: Callable[[LetBrokersIn], None],
    ) -> None:
        self.is_open = False
        self._cluster = cluster
        self._core = core
        self._connections = connections
        self._output = output

    def lets_in(self, state: NodeState) -> bool:
        """Whether anybody may come."""
        return state in SERVING or self.is_open

    def follow(self, state: NodeState, *, wanted: bool) -> bool:
        """Open or shut it; False: it is so. A broker that serves by now lets in whom it likes."""
        wanted = wanted and state in BEFORE
        if wanted is self.is_open:
            return False
        assert self._cluster is not None
        self.is_open = self._core.waits = wanted
        self._cluster.be_found(wanted)
        if state in BEFORE:
            self._output(LetBrokersIn(wanted))
            if not wanted:
                self._connections.send_away("the broker is a backup")
        return True
