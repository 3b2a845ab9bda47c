"""Conclusions of one side about the other side's count of its packets, when the two can differ.

Responsible for: translating a command id that the peer names into our numbering, or for reporting that it cannot be
done safely. Does not depend on: packets, sessions, the caller's reaction to an inexact answer.

Why the counts can differ. Both ends count confirmable packets without ever exchanging the numbers (core-protocol 7.1).
An Artemis broker does not count a request that it answers with EXCEPTION; an embedbroker does. History of the fault
that follows when a client uses the number unchecked (recorded as `reattach-after-exception`):

1. The client sends packets 0 to 4; packet 3 is a consumer with a bad filter and is answered with EXCEPTION.
2. Artemis has processed five packets and counted four: its last command id is 3, the client's numbering has 4.
3. The connection is cut. REATTACH_SESSION_RESPONSE names 3; the client keeps packet 4, a send, and sends it again.
4. The message of packet 4 is in the queue twice.

So after each EXCEPTION the peer's count is "ours minus 0 or 1". `PeerCount` keeps that as an interval and narrows it
with every fact it sees. A reply proves that its request was processed, and the peer cannot have processed packets that
were not sent. Once one interval closes while exceptions are known, the kind of peer is known, and the count stays exact
from then on.
"""

from attrs import define


@define(eq=False)
class PeerCount:
    """The drift between our numbering of sent packets and the peer's. Numbers are ours unless named `command_id`."""

    processed: int = -1
    """Our number of the newest packet that a reply proved to be processed."""
    _drift_min: int = 0
    _drift_max: int = 0
    _counts_exceptions: bool | None = None

    def on_reply(self, number: int) -> None:
        """Record that the peer answered our packet `number`."""
        if number > self.processed:
            self.processed = number

    def on_exception(self, number: int) -> None:
        """Record that the peer answered our packet `number` with EXCEPTION, and may or may not have counted it."""
        self.on_reply(number)
        if self._counts_exceptions is not True:
            self._drift_max += 1
        if self._counts_exceptions is False:
            self._drift_min += 1

    def on_confirmed(self, confirmed: int, sent: int) -> int:
        """Record a confirmation up to `confirmed` (the peer's count, unwrapped).

        At most our packet `sent` had reached the peer by then. Return our number of the newest packet that is certainly
        processed.
        """
        low = max(self._drift_min, min(self.processed - confirmed, self._drift_max))
        high = min(self._drift_max, max(sent - confirmed, self._drift_min))
        if low <= high:
            self._narrow(low, high)
        return max(self.processed, confirmed + self._drift_min)

    def certain_range(self, confirmed: int, unanswered: int) -> tuple[int, int]:
        """Return the range of our newest packet that the peer can have processed when it reattaches: smallest, largest.

        `confirmed` is the peer's count, `unanswered` our oldest packet that still waits for a reply. Replies are
        replayed before the answer to a reattachment, so that packet has not been processed. A reattachment changes no
        state here, because a broker reads its counter a moment before it replays.
        """
        low = max(self.processed, confirmed + self._drift_min)
        high = max(low, min(unanswered - 1, confirmed + self._drift_max))
        return low, high

    def reset(self) -> None:
        """Start again: the peer has forgotten the channel, and a new session may live on another kind of broker."""
        self.processed = -1
        self._drift_min = self._drift_max = 0
        self._counts_exceptions = None

    def _narrow(self, low: int, high: int) -> None:
        exceptions_seen = self._drift_max > self._drift_min
        known_before = self._drift_min
        largest_before = self._drift_max
        self._drift_min, self._drift_max = low, high
        if not exceptions_seen or low != high or self._counts_exceptions is not None:
            return
        # A mixture cannot occur: a broker counts all exceptions or none.
        if low == known_before:
            self._counts_exceptions = True
        elif low == largest_before:
            self._counts_exceptions = False
