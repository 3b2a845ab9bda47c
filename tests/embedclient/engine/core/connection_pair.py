"""Two ends of one CORE connection without anything between them: what one sends, the other receives.

Responsible for cutting bytes into reads, for the loop over frames, and for the answers that an acceptor owes to pings.
"""

from __future__ import annotations

from attrs import Factory, define, field

from embedclient.engine.core import ConnectionState, Role
from embedclient.model import Instant
from embedclient.wire.core import Packet, Ping


def at(seconds: float) -> Instant:
    return Instant(seconds, round(seconds * 1000))


def other(role: Role) -> Role:
    return Role.ACCEPTOR if role is Role.INITIATOR else Role.INITIATOR


@define(eq=False)
class ConnectionPair:
    """`read_size` bytes make one read; all that is sent at once by default. `received` has the packets of each end."""

    initiator: ConnectionState = Factory(
        lambda: ConnectionState(Role.INITIATOR, 136, ttl_ms=60_000, ping_period_ms=30_000)
    )
    acceptor: ConnectionState = Factory(lambda: ConnectionState(Role.ACCEPTOR, 136, ttl_ms=60_000))
    read_size: int = 1 << 30
    now: Instant = Factory(lambda: at(0))
    received: dict[Role, list[tuple[int, Packet]]] = field(init=False, factory=lambda: {role: [] for role in Role})

    def end(self, role: Role) -> ConnectionState:
        return self.initiator if role is Role.INITIATOR else self.acceptor

    def open(self, *, handshake: bool = True) -> None:
        self.deliver(Role.ACCEPTOR, self.acceptor.open(self.now))
        self.deliver(Role.INITIATOR, self.initiator.open(self.now, handshake=handshake))

    def send(self, role: Role, packet: Packet, channel_id: int = 0) -> Packet:
        """Send one packet; return what the other end made of it."""
        self.deliver(role, self.end(role).send(packet, channel_id))
        received_on, received = self.received[other(role)][-1]
        assert received_on == channel_id
        return received

    def deliver(self, sender: Role, data: bytes) -> None:
        """Let the other end receive bytes, in as many reads as their size needs."""
        for start in range(0, len(data), self.read_size):
            self._receive(other(sender), data[start : start + self.read_size])

    def _receive(self, role: Role, data: bytes) -> None:
        state = self.end(role)
        buffer, headers = state.receive(data, self.now)
        start = 0
        for length, _, channel_id in headers:
            end = start + 4 + length
            packet = state.read(buffer, start, end)
            self.received[role].append((channel_id, packet))
            if role is Role.ACCEPTOR and isinstance(packet, Ping):
                self.deliver(role, state.answer(packet))
            start = end
