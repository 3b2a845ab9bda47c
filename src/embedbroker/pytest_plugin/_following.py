"""The state of one of a test's brokers, observed at each of the broker's steps.

Responsible for its role, its kernel, and why it does not run; and for what a crash does to the disk. Also responsible
for refusing, in words, what cannot be done to a broker that does not run. Refuses to do anything to the broker.
"""

from __future__ import annotations

from random import Random

from embedbroker import Role
from embedbroker.kernel import Kernel
from embedbroker.node import Node
from embedclient.errors import IllegalStateException

from ._operation_faults import OperationFaults
from ._surroundings import Around, Surroundings

__all__ = ["Following"]

# Members by themselves: each step of a broker compares.
_LIVE, _ACTIVATING = Role.LIVE, Role.ACTIVATING


class Following:
    """Follow one broker through all of its starts. ``ended`` gives, in words, why it does not run."""

    def __init__(self, name: str, around: Around) -> None:
        self.name = name
        self.role = Role.STOPPED
        self.ended = "was never started: await broker.start()"
        #: What decides which unsynced sectors survive the crash that comes; None: none does.
        self.torn: Random | None = None
        self.surroundings: Surroundings | None = None
        self._around = around
        self._kernel: Kernel | None = None
        self._node: Node | None = None
        self.faults = OperationFaults(lambda: self.placed().link, around.note)

    # -- an observer of the broker -------------------------------------------------------------------------------

    def role_changed(self, role: Role, failure: str | None) -> None:
        before, self.role = self.role, role
        surroundings = self.placed()
        self._around.note(f"{self.name}: {role.value}" + (f", {failure}" if failure else ""))
        if failure is not None:
            self.ended = f"stopped by itself: {failure}"
        served = role in (Role.STOPPED, Role.BACKUP) and before in (Role.LIVE, Role.ACTIVATING)
        if served or (role is Role.STOPPED and surroundings.replicates):
            # Before any other broker opens the disk: the one that takes over must find what was synced, and nothing
            # else. A backup with no disk except the shared one has written nothing.
            surroundings.disk.lose_power(self.torn)
            self.torn = None
        if served:
            surroundings.ledger.ended(self._kernel)
        if role is Role.STOPPED:
            self._kernel = None
        if role is Role.LIVE:
            surroundings.ledger.serves()
        self._around.waiting.changed()

    def stepped(self, node: Node) -> None:
        if node is not self._node:
            node.core.session_type = self.faults.session_type
            self._node = node
        self._kernel = node.kernel
        if self.role is _LIVE or self.role is _ACTIVATING:
            assert self.surroundings is not None, "what serves has a place"
            ledger = self.surroundings.ledger
            if ledger.unsafe or ledger.kernel is not node.kernel:
                ledger.stepped(node.kernel, node.gate.confirmed)
        waiting = self._around.waiting
        if waiting.waiters:
            waiting.changed()

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.role is not Role.STOPPED

    @property
    def has_seen_backup(self) -> bool:
        """True if it can announce its own backup to clients."""
        return self.members().get(self.node_id, False)

    def members(self) -> dict[str, bool]:
        """Return the node ids of its cluster's members as it sees them, each with True if it has a backup."""
        cluster = self._node.cluster if self._node is not None else None
        if cluster is None:
            return {}
        return {node_id: member.backup is not None for node_id, member in cluster.topology.members.items()}

    def sees(self, node_id: str) -> bool:
        """Return True if it is connected with the active broker of a member."""
        cluster = self._node.cluster if self._node is not None else None
        member = cluster.topology.members.get(node_id) if cluster is not None else None
        return cluster is not None and member is not None and cluster.sees(member)

    def has_bridge_to(self, node_id: str) -> bool:
        """Return True if each cluster connection that forwards is connected with a member."""
        kernel = self.live_kernel()
        # No comprehension: it is evaluated after each step of a broker.
        for each in kernel.cluster_connections.values() if kernel is not None else ():
            if each.is_started and not each.is_connected_to(node_id):
                return False
        return True

    @property
    def node_id(self) -> str:
        """The node id of its pair; empty until it is known."""
        return self._node.node_id if self._node is not None else ""

    def live_kernel(self) -> Kernel | None:
        """Return its kernel while it is live, else None."""
        return self._kernel if self.role is Role.LIVE else None

    def describe(self) -> str:
        """Return its state in words."""
        return f"broker {self.name!r} {f'is {self.role.value}' if self.is_running else self.ended}"

    # -- refusals ------------------------------------------------------------------------------------------------

    def placed(self) -> Surroundings:
        """Return its surroundings.

        Raises:
            IllegalStateException: it was never started.
        """
        if self.surroundings is None:
            raise IllegalStateException(f"broker {self.name!r} {self.ended}")
        return self.surroundings

    def require_running(self, wish: str) -> None:
        """Check that it runs.

        Raises:
            IllegalStateException: it does not run.
        """
        if not self.is_running:
            raise IllegalStateException(f"cannot {wish}: broker {self.name!r} {self.ended}")

    def require_live(self) -> Kernel:
        """Return its kernel.

        Raises:
            IllegalStateException: it is not live.
        """
        self.require_running("look at its queues")
        kernel = self.live_kernel()
        if kernel is None:
            raise IllegalStateException(
                f"cannot look at its queues: broker {self.name!r} is {self.role.value}, not live; "
                "await broker.wait_for_role(Role.LIVE), or ask the pair"
            )
        return kernel
