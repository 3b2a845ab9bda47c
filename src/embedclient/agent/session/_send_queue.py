"""What waits in a session's line until it may leave, in order, and how long it waits for a connection.

Responsible for how many may wait, for the failover time-out of each entry, for what has to leave in any case, and for
failing what waits. Refuses to know what holds the line up.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from embedclient.errors import ErrorCode, JMSException, exception_for
from embedclient.wire.core import (
    Packet,
    SessionAcknowledge,
    SessionConsumerClose,
    SessionIndividualAcknowledge,
    SessionRollback,
    SessionStop,
)

from .._deadlines import Deadlines
from ._requests import Request, Send

# A session that is reattached late is still what it was at the broker. Its consumers would be sent messages for nobody,
# a rollback would give back what a session that still delivers is sent again at once, and a commit would leave out what
# the program has acknowledged.
_OUTLIVES_ITS_CALLER: Final = (SessionConsumerClose, SessionStop, SessionAcknowledge, SessionIndividualAcknowledge)
# Of these the half has happened on this side: consumers are closed or stopped, what they held is forgotten, batches are
# over. Refused, the broker would keep for a consumer what that will never give out or acknowledge. There are few of
# them: not more than consumers and messages delivered, and one rollback of a session at a time.
_NEVER_REFUSED: Final = (*_OUTLIVES_ITS_CALLER, SessionRollback)


class SendQueue(deque[Request | Send]):
    """The entries of one line, the oldest first. A deque, because each send asks whether it is empty."""

    __slots__ = ("_count_max", "_deadlines", "_on_dropped", "_timeout_ms")

    def __init__(
        self,
        deadlines: Deadlines,
        timeout_ms: int,
        count_max: int,
        on_dropped: Callable[[JMSException], None] | None = None,
    ) -> None:
        super().__init__()
        # Called for a message that does not leave, and whose sender does not wait for it.
        self._on_dropped = on_dropped
        self._deadlines = deadlines
        self._timeout_ms = timeout_ms
        self._count_max = count_max

    def admits(self, entry: Request | Send) -> bool:
        """Whether it may wait here, behind all that do."""
        if len(self) < self._count_max:
            return True
        if not isinstance(entry, Request):
            return False
        # Loaded here: who has no branches has no need of their packets.
        from embedclient.wire.core import SessionXaRollback

        return isinstance(entry.packet, (*_NEVER_REFUSED, SessionXaRollback))

    def wait_for_failover(self, entry: Request | Send) -> None:
        self._deadlines.start(entry, lambda: self._on_timeout(entry))

    def _on_timeout(self, entry: Request | Send) -> None:
        text = f"no connection came back within {self._timeout_ms} ms"
        if not (isinstance(entry, Request) and isinstance(entry.packet, _OUTLIVES_ITS_CALLER)):
            self.remove(entry)
        self.drop(entry, exception_for(ErrorCode.CONNECTION_TIMEDOUT, text))

    def drop(self, entry: Request | Send, error: JMSException) -> None:
        """Fails the call of an entry; who sent a message without waiting for it may not look at that."""
        if isinstance(entry, Send) and entry.confirmed and self._on_dropped is not None:
            self._on_dropped(error)
        entry.call.fail(error)

    def lock(self) -> None:
        """Everything begins to wait for the failover."""
        for entry in self:
            self.wait_for_failover(entry)

    def unlock(self) -> None:
        """The failover is over."""
        for entry in self:
            self._deadlines.stop(entry)

    def withdraw(self, entry: Request | Send) -> bool:
        """Takes an entry out, True if it was there."""
        if entry not in self:
            return False
        self.remove(entry)
        self._deadlines.stop(entry)
        return True

    def fail_kind(self, packet_type: type[Packet], error: JMSException) -> None:
        """Fails requests of one kind."""
        for entry in list(self):
            if isinstance(entry, Request) and isinstance(entry.packet, packet_type) and self.withdraw(entry):
                entry.call.fail(error)

    def fail_all(self, error: JMSException) -> None:
        """Fails what waits now; a follower of a call may let more wait."""
        entries = list(self)
        self.clear()
        for entry in entries:
            self._deadlines.stop(entry)
            entry.call.fail(error)
