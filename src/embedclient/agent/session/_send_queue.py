"""The waiting entries of a session's channel, in order, and how long each waits for a connection.

Responsible for the number of waiting entries, for the failover time-out of each entry, for entries that must leave in
any case, and for failing waiting entries. Does not depend on the reason of the wait.
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

# A session that is reattached late keeps its state at the broker. Without these requests its consumers would be sent
# messages that no program receives. A rollback would give back messages that a session still delivers, and they would
# be sent again at once. A commit would omit the program's acknowledgements.
_OUTLIVES_ITS_CALLER: Final = (SessionConsumerClose, SessionStop, SessionAcknowledge, SessionIndividualAcknowledge)
# Half of each of these requests has happened on this side: consumers are closed or stopped, their messages are
# forgotten, batches are over. If one were rejected, the broker would keep messages for a consumer that never gives them
# out or acknowledges them. There are few of them: not more than consumers and messages delivered, and one rollback of a
# session at a time.
_NEVER_REFUSED: Final = (*_OUTLIVES_ITS_CALLER, SessionRollback)


class SendQueue(deque[Request | Send]):
    """The entries of one channel, the oldest first. A deque, because each send tests whether it is empty."""

    __slots__ = ("_count_max", "_deadlines", "_on_dropped", "_timeout_ms")

    def __init__(
        self,
        deadlines: Deadlines,
        timeout_ms: int,
        count_max: int,
        on_dropped: Callable[[JMSException], None] | None = None,
    ) -> None:
        super().__init__()
        # Called for a message that does not leave and whose sender does not wait for it.
        self._on_dropped = on_dropped
        self._deadlines = deadlines
        self._timeout_ms = timeout_ms
        self._count_max = count_max

    def admits(self, entry: Request | Send) -> bool:
        """Return True if the entry may wait here, behind all others."""
        if len(self) < self._count_max:
            return True
        if not isinstance(entry, Request):
            return False
        # Loaded here: a program without branches does not need their packets.
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
        """Fail the call of an entry. Report a dropped message whose sender does not wait for its call."""
        if isinstance(entry, Send) and entry.confirmed and self._on_dropped is not None:
            self._on_dropped(error)
        entry.call.fail(error)

    def lock(self) -> None:
        """Start the failover time-outs: all entries begin to wait for the failover."""
        for entry in self:
            self.wait_for_failover(entry)

    def unlock(self) -> None:
        """End the failover time-outs: the failover is over."""
        for entry in self:
            self._deadlines.stop(entry)

    def withdraw(self, entry: Request | Send) -> bool:
        """Remove an entry. Return True if it was present."""
        if entry not in self:
            return False
        self.remove(entry)
        self._deadlines.stop(entry)
        return True

    def fail_kind(self, packet_type: type[Packet], error: JMSException) -> None:
        """Fail requests of one kind."""
        for entry in list(self):
            if isinstance(entry, Request) and isinstance(entry.packet, packet_type) and self.withdraw(entry):
                entry.call.fail(error)

    def fail_all(self, error: JMSException) -> None:
        """Fail the entries that wait now. A follower of a call may add more."""
        entries = list(self)
        self.clear()
        for entry in entries:
            self._deadlines.stop(entry)
            entry.call.fail(error)
