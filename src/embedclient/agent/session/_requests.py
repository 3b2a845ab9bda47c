"""What leaves a session and expects an answer: requests and messages.

Responsible for these values and for which packets are numbered. Refuses to know when they leave.
"""

from typing import TYPE_CHECKING

from embedclient.wire.core import (
    CoreMessage,
    Packet,
    SessionAddMetadataV2,
    SessionUniqueAddMetadata,
    is_confirmed,
)

from .._call import Call
from .._rate import RateLimit
from ..producer._credits import AddressCredits

if TYPE_CHECKING:
    from .._connection import Connection


class Request:
    """A blocking call: waiting for its turn, or in flight when `number` is set.

    A packet that needs no reply expects nothing: it is one only where it must not overtake what waits.
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
        # The connection that has it to send, and how often that had sent before.
        self._given: tuple[Connection, int] | None = None

    def give(self, connection: "Connection") -> None:
        """A connection has it to send."""
        self._given = connection, connection.takes

    def lose(self, connection: "Connection") -> None:
        """A connection is over: one that has sent nothing since it was given this has not sent this.

        A session may come to several connections that end before it is reattached there. They were not given this,
        whatever their numbers.
        """
        given, self._given = self._given, None
        if given is not None and given[0] is connection:
            self.is_unsent = given[1] == connection.takes

    def repeat(self, connection: "Connection") -> None:
        """The session is reattached, and sends it again. What has left once stays in doubt."""
        if self.is_unsent:
            self.is_unsent = False
            self.give(connection)


class Send:
    """A message on its way out."""

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


def is_counted(packet: Packet) -> bool:
    """Whether a packet takes part in the numbering; two kinds of metadata say so themselves."""
    if isinstance(packet, (SessionAddMetadataV2, SessionUniqueAddMetadata)):
        return is_confirmed(packet.TYPE, packet.requires_response)
    return is_confirmed(packet.TYPE)
