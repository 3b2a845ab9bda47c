"""Datagrams in the simulated network: each copy has its own fate, and shares holds and slow ways with the connections.

A hold delays the bytes of a connection, because TCP sends them again; a datagram that meets one is lost. Chances are
drawn only where one is set, so that a world without them has the same run as before.
"""

from __future__ import annotations

from typing import Protocol

from ._network import Network

__all__ = ["DatagramHost", "SimulatedMulticast"]


class DatagramHost(Protocol):
    """A host that is a member of multicast groups."""

    name: str

    def on_datagram(self, group: str, data: bytes) -> None:
        """Handle a datagram that was sent to a group."""


class SimulatedMulticast:
    """All multicast groups of a network. A group is a text, such as ``231.7.7.7:9876``.

    Args:
        network: The network whose delays, slow ways and holds apply to datagrams too.
    """

    def __init__(self, network: Network) -> None:
        #: Share of copies that do not arrive, 0 to 1.
        self.loss_chance = 0.0
        #: Share of copies that arrive twice, 0 to 1.
        self.duplication_chance = 0.0
        self._network = network
        self._members: dict[str, list[_Membership]] = {}

    def join(self, group: str, host: DatagramHost) -> None:
        """Let a host receive what is sent to a group from now on."""
        self._members.setdefault(group, []).append(_Membership(host))

    def leave(self, group: str, host: DatagramHost) -> None:
        """Let a host receive nothing more, not even what is on its way: it stopped, or crashed."""
        members = self._members[group]
        members.remove(next(member for member in members if member.host is host))

    def is_member(self, group: str, host: DatagramHost) -> bool:
        """Return True if a host receives the datagrams of a group."""
        return any(member.host is host for member in self._members.get(group, ()))

    def send(self, sender: str, group: str, data: bytes) -> None:
        """Send a datagram from the host of that name to all members of a group, the sender included."""
        network = self._network
        random = network.world.random
        for member in self._members.get(group, ()):
            host = member.host
            if network.any_held and network.holds(sender, host.name):
                continue
            if self.loss_chance and random.random() < self.loss_chance:
                continue
            is_doubled = self.duplication_chance and random.random() < self.duplication_chance
            for _ in range(2 if is_doubled else 1):
                network.world.after(network.delay_s(sender, host.name), _Arrival(self, group, member), data)

    def arrive(self, group: str, member: _Membership, data: bytes) -> None:
        """Give a copy to its host, unless it has left since the datagram was sent."""
        if any(each is member for each in self._members.get(group, ())):
            member.host.on_datagram(group, data)


class _Membership:
    """One stay of a host in a group: a host that left and joins again has another one."""

    __slots__ = ("host",)

    def __init__(self, host: DatagramHost) -> None:
        self.host = host


class _Arrival:
    """A copy of a datagram on its way to one host."""

    __slots__ = ("_group", "_member", "_multicast")

    def __init__(self, multicast: SimulatedMulticast, group: str, member: _Membership) -> None:
        self._multicast = multicast
        self._group = group
        self._member = member

    def on_event(self, event: object) -> None:
        assert isinstance(event, bytes), "the only event of an arrival is its datagram"
        self._multicast.arrive(self._group, self._member, event)
