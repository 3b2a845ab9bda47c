"""The connections that a broker accepts before it is live: brokers of its cluster, while it waits for their votes.

Responsible for the differences for host, cluster and protocol meanwhile. Does not depend on the reason for the wait.
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
    """The admission state of one life. ``is_open``: only connections of brokers are accepted."""

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
        """Return True if connections may be accepted at all."""
        return state in SERVING or self.is_open

    def follow(self, state: NodeState, *, wanted: bool) -> bool:
        """Open or shut the admission; return False if nothing changed.

        A broker that serves by now decides on its own admission.
        """
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
