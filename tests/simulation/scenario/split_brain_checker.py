"""The members of one pair, as each other's rivals: never do two of them confirm, each without the other.

Responsible for noticing it whichever broker is live, and however it came to that. Does not depend on which may be.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from embedbroker.config import Role
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Scene

from .copy_view import stream_of
from .members import HAS_JOURNAL

__all__ = ["SplitBrainChecker"]


@define(eq=False)
class SplitBrainChecker:
    """``newest`` is the host that became live last."""

    scene: Scene
    hosts: Sequence[NodeHost]
    newest: NodeHost | None = field(default=None, init=False)
    # What each had confirmed when another one took over.
    _confirmed: dict[str, int] = field(factory=dict, init=False)

    def watch(self) -> None:
        """Follows all of them from now on."""
        for host in self.hosts:
            self._watch(host)

    def _watch(self, host: NodeHost) -> None:
        host.on_role.append(lambda role: self._on_role(host, role))
        host.after_step.append(lambda: self._check(host))

    @property
    def live(self) -> NodeHost | None:
        """The host that serves."""
        return self.newest if self.newest is not None and self.newest.ready else None

    def _on_role(self, host: NodeHost, role: Role) -> None:
        if role is not Role.ACTIVATING:
            return
        self.newest = host
        self._confirmed.clear()
        for other in self.hosts:
            if other is host or other.node is None or other.node.role not in HAS_JOURNAL:
                continue
            self._check(other)
            journal = other.node.journal
            self._confirmed[other.name] = journal.reached if journal is not None else 0

    def _check(self, host: NodeHost) -> None:
        """A replaced broker confirms nothing on its own. What its backup has, too, it may still confirm."""
        stream = stream_of(host) if host is not self.newest else None
        if stream is None or host.node is None or not stream.is_alone:
            return
        newest = self.newest.name if self.newest is not None else "nobody"
        if host.ready:
            self.scene.fail(f"{host.name} is live and {stream.state}, beside {newest}")
        known, journal = self._confirmed.get(host.name), host.node.journal
        if known is not None and journal is not None and journal.reached > known:
            self.scene.fail(f"{host.name} confirms {stream.state}, beside {newest}")
