"""Interfaces of what surrounds CORE sessions: their connection, the durability gate and the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from embedbroker.kernel import ClientConnection

if TYPE_CHECKING:
    from embedbroker.kernel import (
        Backpressure,
        Body,
        Consumer,
        Kernel,
        Refused,
        Session,
        StoredMessage,
        TemporaryQueues,
    )
    from embedclient.engine.core import Peer
    from embedclient.wire.core import CoreMessage, SessionSendContinuation

    from .._port import ConnectionPort
    from ._address_prefixes import AddressPrefixes

__all__ = ["Cluster", "Gate", "LargeSession", "Releasable", "ReplicaView", "SessionConnection"]


class Releasable(Protocol):
    """Hold replies until records are durable."""

    def release(self, reached: int) -> bool:
        """Release what is durable; return True if anything is still held."""


class Gate(Protocol):
    """Define the one durability gate of a node."""

    def hold(self, holder: Releasable) -> None:
        """Call ``holder.release`` whenever more became durable."""


class SessionConnection(ClientConnection, Protocol):
    """Carry the frames of a session. A reattachment replaces it."""

    #: Temporary queues that end with it.
    temporary_queues: TemporaryQueues

    @property
    def link(self) -> ConnectionPort:
        """Return its output."""

    @property
    def version(self) -> int:
        """Return the protocol version that both ends use."""

    @property
    def prefixes(self) -> AddressPrefixes | None:
        """Return the prefixes of addresses at its acceptor; None without any."""

    @property
    def backpressure(self) -> Backpressure:
        """Return the valve that stops its consumers while the peer does not keep up."""

    def log(self, text: str) -> None:
        """Log one line for the operator, with the name of the peer."""

    def inform(self, text: str) -> None:
        """Like `log`, for an ordinary event."""

    def fail(self, reason: str) -> None:
        """End the connection because of an action or an omission of the peer."""

    def forget_session(self, channel_id: int, session: object) -> None:
        """Forget a session that is over, unless its channel belongs to another one by now."""

    def block(self) -> None:
        """Handle nothing more of what arrives, until `unblock`."""

    def unblock(self) -> None:
        """Handle what arrived since `block`, and read on."""

    def abandon_if_unused(self) -> None:
        """Forget the connection if it has no session left."""


class LargeSession(Protocol):
    """Provide to large messages what they need of their session."""

    version: int
    channel_id: int
    #: Size of the chunks of its deliveries.
    chunk_bytes: int
    kernel_session: Session
    connection: SessionConnection

    @property
    def kernel(self) -> Kernel:
        """Return the kernel of the broker."""

    @property
    def holds_deliveries(self) -> bool:
        """Return True if deliveries wait for their counts to be on disk."""

    def plain(self, message: CoreMessage) -> tuple[CoreMessage, int | None]:
        """Return a sent message with its plain address, and the routing type that a prefix of its address states."""

    def with_address(self, message: CoreMessage) -> CoreMessage:
        """Return a sent message with the default address if it has none."""

    def send_large(
        self, header: CoreMessage, body: Body, routing_type: int | None, announced_size: int
    ) -> Refused | None:
        """Send a large message whose body is stored; return why it was refused.

        Raises:
            RoutingUndecided: The message must wait, and is then sent anew.
        """

    def answer_chunk(self, packet: SessionSendContinuation) -> None:
        """Answer a chunk that is not the last one."""

    def end_upload(
        self, header: CoreMessage, packet: SessionSendContinuation, refused: Refused | None, frame_size: int
    ) -> None:
        """Answer the last chunk of an upload, and count its frame unless ``frame_size`` is 0: it was counted."""

    def write_chunk(self, head: bytes, chunk: memoryview, trailer: bytes) -> int:
        """Send the frame of a chunk; return its size."""

    def break_off(self, consumer: Consumer, message: StoredMessage, why: str, *, is_damaged: bool) -> None:
        """Have a client close its consumer in the middle of a body that cannot be delivered."""

    def forget_large(self, delivery: object) -> None:
        """Forget a large delivery that is over."""


class Cluster(Protocol):
    """Handle connections of other brokers, for a broker with a cluster connection."""

    def subscribe(self, peer: Peer) -> None:
        """Send a peer every member now, and every change while its connection lasts."""

    def is_broker(self, peer: Peer) -> bool:
        """Return True if a peer is another broker of this cluster."""

    def on_frame(
        self, peer: Peer, channel_id: int, packet_type: int, buffer: bytes | bytearray, start: int, end: int
    ) -> None:
        """Handle a frame of a channel that only brokers use."""

    def forget(self, peer: Peer) -> None:
        """Forget a connection that is gone."""

    def places(self) -> list[tuple[str, str | None, str | None]]:
        """Return node id, place of the active broker and place of the backup of each member; None for no place."""

    def announces(self, node_id: str) -> bool:
        """Return True if its subscribers have the place of the active broker of a node."""

    def acts_for(self, node_id: str | None) -> bool:
        """Return True if the sessions of a node may go on here, after a failover or a scale-down."""

    def refuses_login(self, user: str | None, password: str | None) -> bool:
        """Return True if a session claims to be a broker of this cluster, and is not."""


class ReplicaView(Protocol):
    """Provide what management shows of a broker that replicates."""

    @property
    def is_in_sync(self) -> bool:
        """Return True if this broker has a copy, or is one, up to the last record."""

    @property
    def activation_sequence(self) -> int:
        """Return the activation sequence of the data here."""
