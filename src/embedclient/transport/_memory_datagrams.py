"""Datagrams inside one trio run, with what a network does to them: loss, delay, duplication and partition.

Responsible for the fate of each copy, drawn from a seeded source, so that a seed fixes it. Does not depend on names of
brokers. Times are those of the trio clock, so a test in virtual time waits for nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from heapq import heappop, heappush
from random import Random

import trio

from embedclient.model import (
    AnnouncementPort,
    BroadcastEndpoint,
    MulticastGroup,
    SharedDirectory,
    received_at,
    sent_to,
)

from ._datagrams import DatagramReceiver, DatagramSender
from ._stream import Buffer, TransportLost

__all__ = ["MemoryMulticast"]

# As many as a socket's buffer holds of usual ones; further ones are lost.
_WAITING_MAX = 256


class MemoryMulticast:
    """A network for datagrams. `at` returns the seam for one of its hosts.

    The conditions may change at any time, and hold for what is sent from then on.

    Args:
        random: Seeded source of every chance.
        latency_s: Time that each copy takes at least, in seconds.
        jitter_s: Time that is added at most, drawn for each copy: copies overtake each other.
        loss_chance: Share of copies that do not arrive, 0 to 1.
        duplication_chance: Share of copies that arrive twice, 0 to 1.
    """

    def __init__(
        self,
        random: Random,
        *,
        latency_s: float = 0.0,
        jitter_s: float = 0.0,
        loss_chance: float = 0.0,
        duplication_chance: float = 0.0,
    ) -> None:
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        self.loss_chance = loss_chance
        self.duplication_chance = duplication_chance
        self._random = random
        self._receivers: list[MemoryReceiver] = []
        # What each sender has in a shared directory or at its port, which receivers get that come later.
        self._files: dict[MemorySender, tuple[str, bytes]] = {}
        self._separated: set[tuple[str, str]] = set()

    def at(self, host: str) -> MemoryDatagrams:
        """Return the `Datagrams` of a host."""
        return MemoryDatagrams(self, host)

    def partition(self, one_side: Collection[str], other_side: Collection[str]) -> None:
        """Lose everything that hosts of one side send to hosts of the other, both ways."""
        for one in one_side:
            for other in other_side:
                self._separated |= {(one, other), (other, one)}

    def heal(self) -> None:
        """End every partition. What was lost stays lost."""
        self._separated.clear()

    def separates(self, sender: str, receiver: str) -> bool:
        """Return True if everything is lost that one host sends to another one now."""
        return (sender, receiver) in self._separated

    @property
    def is_empty(self) -> bool:
        """Return True if no host receives."""
        return not self._receivers

    def join(self, receiver: MemoryReceiver) -> None:
        self._receivers.append(receiver)
        for place, data in self._files.values():
            if place in receiver.places:
                receiver.put(trio.current_time(), data)

    def keep(self, sender: MemorySender, place: str, data: bytes) -> None:
        """Keep what a sender has at a place."""
        self._files[sender] = (place, data)

    def remove(self, sender: MemorySender) -> None:
        """Remove what a sender has at its place."""
        self._files.pop(sender, None)

    def leave(self, receiver: MemoryReceiver) -> None:
        self._receivers.remove(receiver)

    def carry(self, host: str, place: str, data: bytes) -> None:
        """Send a datagram from a host to all receivers of a place, also those of the same host."""
        now = trio.current_time()
        for receiver in self._receivers:
            if place not in receiver.places or self.separates(host, receiver.host):
                continue
            for delay_s in self.delays(host, receiver.host):
                receiver.put(now + delay_s, data)

    def delays(self, sender: str, receiver: str) -> list[float]:
        """Draw the time of each copy for one receiver: none if it is lost, two if it comes twice."""
        jitter_s, random = self.jitter_s, self._random
        copies = self.copies(self.loss_chance, self.duplication_chance)
        return [self.latency_s + (jitter_s * random.random() if jitter_s else 0.0) for _ in range(copies)]

    def copies(self, loss_chance: float, duplication_chance: float) -> int:
        """Draw how often one datagram arrives: 0, 1 or 2 times."""
        random = self._random
        if loss_chance and random.random() < loss_chance:
            return 0
        return 2 if duplication_chance and random.random() < duplication_chance else 1


class MemoryDatagrams:
    """The `Datagrams` of one host."""

    def __init__(self, network: MemoryMulticast, host: str) -> None:
        self._network = network
        self._host = host
        self._ports: set[int] = set()

    async def open_sender(self, group: BroadcastEndpoint) -> DatagramSender:
        await trio.lowlevel.checkpoint()
        wanted = [0]
        if isinstance(group, MulticastGroup):
            wanted = [group.local_bind_port]
        elif isinstance(group, AnnouncementPort):
            wanted = list(group.ports)
        port = next((each for each in wanted if each <= 0 or each not in self._ports), None)
        if port is None:
            raise OSError(
                errno.EADDRINUSE,
                f"cannot send to {group} from port {wanted[-1]}: in use; the local bind port must be free",
            )
        self._ports.add(port)
        return MemorySender(self._network, self._host, group, port, self._ports)

    async def open_receiver(self, group: BroadcastEndpoint) -> DatagramReceiver:
        await trio.lowlevel.checkpoint()
        return MemoryReceiver(self._network, self._host, group)


class MemorySender:
    """A DatagramSender of one host. ``ports`` are the local ports that its host uses."""

    def __init__(
        self, network: MemoryMulticast, host: str, group: BroadcastEndpoint, port: int, ports: set[int]
    ) -> None:
        self._network = network
        self._host = host
        self._place = sent_to(group, host, port)
        self._is_kept = isinstance(group, SharedDirectory | AnnouncementPort)
        self._port = port
        self._ports = ports
        self._closed = False

    def send_nowait(self, data: Buffer) -> None:
        if self._closed:
            raise TransportLost("closed here")
        self._network.carry(self._host, self._place, bytes(data))
        if self._is_kept:
            self._network.keep(self, self._place, bytes(data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._is_kept:
                self._network.remove(self)
            self._ports.discard(self._port)


class MemoryReceiver:
    """A DatagramReceiver of one host."""

    def __init__(self, network: MemoryMulticast, host: str, group: BroadcastEndpoint) -> None:
        self.host = host
        self.places = frozenset(received_at(group))
        self._network = network
        self._waiting: list[tuple[float, int, bytes]] = []
        self._serial = 0
        self._reader = trio.lowlevel.ParkingLot()
        self._closed = False
        network.join(self)

    def put(self, due: float, data: bytes) -> None:
        """Let a copy arrive at the time ``due``."""
        if len(self._waiting) < _WAITING_MAX:
            self._serial += 1
            heappush(self._waiting, (due, self._serial, data))
            self._reader.unpark_all()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._closed:
            due = self._waiting[0][0] if self._waiting else None
            if due is None:
                await self._reader.park()
            elif due > trio.current_time():
                with trio.move_on_at(due):
                    await self._reader.park()
            else:
                return heappop(self._waiting)[2]
        raise TransportLost("closed here")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._network.leave(self)
            self._reader.unpark_all()
