"""What leaves a session and expects an answer: requests and messages.

Responsible for these values and for which packets are numbered. Refuses to know when they leave.
"""

from typing import Final

from embedclient.agent._call import Call
from embedclient.agent._credits import AddressCredits
from embedclient.agent._rate import RateLimit
from embedclient.wire.core import (
    CoreMessage,
    Packet,
    SessionAddMetadataV2,
    SessionUniqueAddMetadata,
    is_confirmed,
)

# Of no connection.
_NEVER: Final = -1


class Request:
    """A blocking call: waiting for its turn, or in flight when `number` is set.

    A packet that needs no reply expects nothing: it is one only where it must not overtake what waits.
    """

    __slots__ = ("call", "correlation_id", "expected", "is_unsent", "number", "packet", "takes")

    def __init__(
        self, call: Call[Packet], packet: Packet | None, expected: tuple[type[Packet], ...], number: int = -1
    ) -> None:
        self.call = call
        self.packet = packet
        self.expected = expected
        self.number = number
        # The id that the reply must repeat; 0 for a packet that has no field for it.
        self.correlation_id = 0
        # How often its connection had sent before it was given this, and whether that ended before it sent this.
        self.takes = _NEVER
        self.is_unsent = False

    def lose(self, takes: int) -> None:
        """Its connection is gone, and had sent so often."""
        self.is_unsent |= self.takes == takes

    def repeat(self, takes: int) -> None:
        """It is given to the next connection, which has sent so often; what has left once is in doubt for ever."""
        self.takes, self.is_unsent = takes if self.is_unsent else _NEVER, False


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
