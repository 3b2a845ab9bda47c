"""What the faults of every group of brokers have in common: their agenda, those of clients, and traps for brokers.

Responsible for when faults strike, for what waits for its moment, and for when everything has healed. Does not
depend on what one kind of group suffers from: the own faults of that group do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from attrs import define, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Scene

from .crashes import Trap
from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule
from .member_faults import Group, MemberFaults
from .network_faults import NetworkFaults

__all__ = ["GroupFaults", "OwnFaults"]


class OwnFaults(Protocol):
    """What one kind of group suffers from. Faults with a trap strike when a broker walks into it.

    ``patience_s`` is how long a trap waits.
    """

    patience_s: float

    @property
    def members(self) -> MemberFaults: ...

    @property
    def traps(self) -> Mapping[FaultKind, Trap]: ...

    def strike(self, kind: FaultKind) -> bool:
        """Strike with one fault; return False if it is not one of these."""

    def look(self) -> None:
        """After each step of the live broker."""

    def look_at(self, host: NodeHost) -> None:
        """After each step of any broker."""


@define(eq=False)
class GroupFaults:
    """The faults of one scenario of a group. ``make`` gives those of its kind their agenda."""

    scene: Scene
    network: Network
    group: Group
    clients: Sequence[ClientHost]
    on_client_crash: Callable[[ClientHost], None]
    make: Callable[[FaultSchedule], OwnFaults]
    _schedule: FaultSchedule = field(init=False)
    _own: OwnFaults = field(init=False)
    _links: NetworkFaults = field(init=False)

    def __attrs_post_init__(self) -> None:
        names, clients = self.group.members.names, self.clients
        schedule = self._schedule = FaultSchedule(self.scene.world, self._strike, self.group.disturbed)
        self._own = self.make(schedule)
        self._links = NetworkFaults(self.scene, schedule, self.network, names, clients, self.on_client_crash)

    def schedule(self, strikes: Iterable[tuple[FaultKind, float]]) -> None:
        """Sets each fault at its time, in seconds from now."""
        members = self.group.members
        members.after_step.append(self._own.look)
        self._own.members.watch()
        for host in members.hosts.values():
            self._watch(host)
        self._schedule.schedule(strikes)

    def _watch(self, host: NodeHost) -> None:
        host.after_step.append(lambda: self._own.look_at(host))

    @property
    def struck(self) -> int:
        """How many have struck."""
        return self._schedule.struck

    @property
    def over(self) -> bool:
        """True if every fault has struck and healed, and every broker has the role that it should have."""
        return self._schedule.over and self.group.in_order

    def _strike(self, kind: FaultKind) -> None:
        trap = self._own.traps.get(kind)
        if trap is not None:
            number = trap.lay()
            self._schedule.later(self._own.patience_s, lambda: trap.give_up(number))
        elif not (self._own.strike(kind) or self._own.members.strike(kind)):
            self._links.strike(kind)
