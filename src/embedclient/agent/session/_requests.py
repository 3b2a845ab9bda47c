"""Requests and messages that leave a session and expect an answer.

Responsible for these values and for which packets are numbered. Does not depend on the time they leave.
"""

from typing import TYPE_CHECKING

from embedclient.wire.core import (
    CoreMessage,
    Packet,
    SessionAddMetadataV2,
    SessionSendContinuation,
    SessionUniqueAddMetadata,
    encode_packet,
    encode_send,
    is_confirmed,
)

from .._call import Call
from .._rate import RateLimit
from ..producer._credits import AddressCredits
from ..producer._large_body import Chunk, FedBody, HeldBody

if TYPE_CHECKING:
    from .._connection import Connection


class Request:
    """A blocking call: waiting for its turn, or in flight when `number` is set.

    A packet that needs no reply has no expected types. It is a `Request` only where it must not overtake waiting
    entries.
    """

    __slots__ = ("_given", "call", "correlation_id", "expected", "is_unsent", "number", "packet")

    def __init__(
        self, call: Call[Packet], packet: Packet | None, expected: tuple[type[Packet], ...], number: int = -1
    ) -> None:
        self.call = call
        self.packet = packet
        self.expected = expected
        self.number = number
        # The id that the reply must repeat; 0 for a packet that has no field for it.
        self.correlation_id = 0
        self.is_unsent = False
        # The connection that holds it for sending, and the connection's count of earlier sends.
        self._given: tuple[Connection, int] | None = None

    def give(self, connection: "Connection") -> None:
        """Record the connection that holds it for sending."""
        self._given = connection, connection.takes

    def lose(self, connection: "Connection") -> None:
        """Handle the end of a connection: one without a send since it got this request has not sent it.

        A session may come to several connections that end before it is reattached there. They did not get this request,
        whatever their numbers.
        """
        given, self._given = self._given, None
        if given is not None and given[0] is connection:
            self.is_unsent = given[1] == connection.takes

    def repeat(self, connection: "Connection") -> None:
        """Record a repeated send after a reattachment. A request that has left once stays in doubt."""
        if self.is_unsent:
            self.is_unsent = False
            self.give(connection)


class Send:
    """An outgoing message."""

    __slots__ = ("blocking", "call", "confirmed", "credits", "message", "rate", "sender_id")

    def __init__(
        self,
        call: Call[None],
        message: CoreMessage,
        sender_id: int,
        credits: AddressCredits | None,
        blocking: bool,
        confirmed: bool,
        rate: RateLimit | None,
    ) -> None:
        self.call = call
        self.message = message
        self.sender_id = sender_id
        self.credits = credits
        self.blocking = blocking
        self.confirmed = confirmed
        self.rate = rate

    def frame(
        self, channel_id: int, version: int, answered: bool, correlation_id: int
    ) -> tuple[bytes, bytes | bytearray, bytes]:
        """Return the frame that sends it, in parts."""
        return encode_send(self.message.raw, channel_id, version, answered, correlation_id, self.sender_id)


class LargeSend(Send):
    """An outgoing large message: its headers, then the chunks of its body. `message` has no body.

    It keeps its place in the queue until its last chunk has left. `started`: the headers have left.
    """

    __slots__ = ("body", "chunk", "lives", "sent_bytes", "started")

    def __init__(
        self,
        call: Call[None],
        message: CoreMessage,
        sender_id: int,
        credits: AddressCredits | None,
        blocking: bool,
        confirmed: bool,
        rate: RateLimit | None,
        body: HeldBody | FedBody,
    ) -> None:
        super().__init__(call, message, sender_id, credits, blocking, confirmed, rate)
        self.body = body
        self.started = False
        # How many times it began. Answers to chunks of an earlier life carry no information.
        self.lives = 0
        # The chunk that leaves now.
        self.chunk: Chunk = (b"", False)
        # The size of the last frame.
        self.sent_bytes = 0

    def restart(self) -> bool:
        """Begin again, for a broker that forgot the session. Return True if the body can be read again."""
        self.started = False
        self.lives += 1
        return self.body.rewind()

    def charge(self, size: int) -> None:
        """Take credit for a packet that has left (core-protocol 7.4). The balance may be negative then."""
        if self.credits is not None:
            self.credits.charge(size)

    def may_continue(self) -> bool:
        """Return True if the packets that have left are paid. Raise AddressFullException."""
        return self.credits is None or self.credits.is_settled()

    def frame(
        self, channel_id: int, version: int, answered: bool, correlation_id: int
    ) -> tuple[bytes, bytes | bytearray, bytes]:
        """Return the frame that sends the present chunk."""
        data, last = self.chunk
        packet = SessionSendContinuation(data, not last, self.body.body_bytes, answered, correlation_id, self.sender_id)
        frame = encode_packet(packet, channel_id, version)
        self.sent_bytes = len(frame)
        return frame, b"", b""


def is_counted(packet: Packet) -> bool:
    """Return True if a packet takes part in the numbering; two kinds of metadata carry a flag for it."""
    if isinstance(packet, (SessionAddMetadataV2, SessionUniqueAddMetadata)):
        return is_confirmed(packet.TYPE, packet.requires_response)
    return is_confirmed(packet.TYPE)
