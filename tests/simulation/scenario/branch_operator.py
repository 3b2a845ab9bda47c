"""An operator that decides prepared branches in place of their transaction managers.

Responsible for when the operator looks, and for what it decides. Does not depend on what becomes of that: the managers
check it. The operator never takes a decision that contradicts one of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from attrs import define, field

from embedbroker.node import BranchDecided
from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Phase, Scene
from embedclient.model import Xid

from .branches import TransactionManager

__all__ = ["Operator"]

_DECIDES = 0.5


@define(eq=False)
class Operator:
    """Looks about every ``pause_s`` seconds, while users work. ``managers`` are named as their users are."""

    scene: Scene
    broker: BrokerView
    hosts: Sequence[NodeHost]
    managers: Mapping[str, TransactionManager]
    pause_s: float
    _random: Random = field(init=False)
    _requests: dict[int, Xid] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._random = Random(f"operator {self.scene.world.seed}")

    def watch(self) -> None:
        """He comes to work."""
        for host in self.hosts:
            host.on_decided.append(self._on_decided)
        self._look_later()

    def on_event(self, event: object) -> None:
        """He looks."""
        if self.scene.phase is Phase.WORK:
            self._look()
            self._look_later()

    def _look_later(self) -> None:
        self.scene.world.after(self._random.random() * 2 * self.pause_s, self, None)

    def _look(self) -> None:
        serving = [host for host in self.hosts if host.node is self.broker.node and host.ready and not host.frozen]
        for host in serving:
            assert host.node is not None, "who serves has a life"
            for branch in host.node.kernel.branches.prepared():
                commit = self._random.random() < 0.5
                manager = self._manager_of(branch.xid)
                if self._random.random() < _DECIDES and manager.may_be_decided(branch.xid, commit=commit):
                    self._decide(host, manager, branch.xid, commit=commit)
                    return

    def _decide(self, host: NodeHost, manager: TransactionManager, xid: Xid, *, commit: bool) -> None:
        name = xid.global_transaction_id.decode()
        self.scene.operate("operator", "commits" if commit else "rolls back", name)
        request = len(self._requests) + 1
        self._requests[request] = xid
        manager.on_operator(xid, commit=commit)
        host.decide(request, xid, commit=commit)

    def _on_decided(self, decided: BranchDecided) -> None:
        xid = self._requests[decided.request]
        self._manager_of(xid).on_decided(xid, found=decided.found)

    def _manager_of(self, xid: Xid) -> TransactionManager:
        user, _, _ = xid.global_transaction_id.decode().partition("#")
        return self.managers[user]
