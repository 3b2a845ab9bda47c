"""The credits of one consumer: what its broker may still send, and how each message is paid back (core-protocol 7.5).

Responsible for the window, for its special sizes (0: one message at a time, -1: no limit), and for the credits that
cross messages on their way. Refuses to know messages: sizes of frames are all it is told.
"""

from embedclient.wire.core import SessionConsumerFlowCredit, encode_consumer_credit

from ..session._channel import SessionChannel


class ConsumerCredits:
    """What one consumer grants. `consumed_bytes` was given out and is returned when it reaches the `threshold`.

    The consumer counts on `consumed_bytes` itself while it stays below the threshold: that happens for each message.
    """

    __slots__ = (
        "_balance_unknown",
        "_channel",
        "_consumer_id",
        "_doubtful",
        "_wanted",
        "_window",
        "consumed_bytes",
        "threshold",
        "waiting",
    )

    def __init__(self, consumer_id: int, channel: SessionChannel, window: int) -> None:
        self._consumer_id = consumer_id
        self._channel = channel
        self._window = window
        self.threshold = window // 2 if window > 1 else window
        self.consumed_bytes = 0
        # With window 0: a caller waits for a message, and the broker has a credit for one.
        self.waiting = False
        self._wanted = False
        # A caller has given up: whether its credit was used by then or taken back cannot be told any more, and so not
        # which credit a message cost that comes from now on.
        self._doubtful = False
        self._balance_unknown = False

    def open(self) -> None:
        """Grants the first credits."""
        if self._window != 0:
            self._grant(self._window)

    def _grant(self, credits: int) -> None:
        channel = self._channel
        if channel.closed_error is None:
            channel.post_frame(encode_consumer_credit(channel.channel_id, self._consumer_id, credits))

    def cost_of_wanted(self, frame_size: int) -> int:
        """With window 0: what is paid back for a message that has just come."""
        # A message that crossed the credits of `give_up` was paid for with them: returning its size would let the
        # broker send to nobody, and what it sends so would never be paid for.
        if self._doubtful or not self._wanted:
            frame_size = 1
            self._balance_unknown = True
        self._wanted = False
        return frame_size

    def give_back(self, frame_size: int) -> None:
        """Pays for a message that was given out, or that nobody will see."""
        threshold = self.threshold
        if threshold > 0:
            consumed = self.consumed_bytes + frame_size
            if consumed < threshold:
                self.consumed_bytes = consumed
            else:
                self.consumed_bytes = 0
                self._grant(consumed)
        elif threshold == 0 and frame_size > 1:
            # One credit let the message through and left the broker's balance negative; the rest makes it 0 again.
            self._grant(frame_size - 1)

    def pay_for_chunk(self, frame_size: int) -> None:
        """A chunk of a large message is paid for at once, or the broker would stop in the middle."""
        if self._window == 0:
            self._grant(frame_size)
        elif self._window > 0:
            self.give_back(frame_size)

    def want(self, buffered: bool) -> None:
        """A caller waits. With window 0 this asks the broker for one message, once."""
        if self._window == 0:
            self.waiting = True
            self.want_again(buffered)

    def want_again(self, buffered: bool) -> None:
        """For a caller that still waits after the message that came for it was expired, or is taken back."""
        if self.waiting and not self._wanted and not buffered:
            self._wanted = True
            if self._balance_unknown:
                self._balance_unknown = False
                self._grant(0)
            self._grant(1)

    def give_up(self) -> None:
        """The caller stopped waiting. With window 0 the broker must not send to nobody; what is underway is kept."""
        self.waiting = False
        if self._wanted:
            self._wanted = False
            self._doubtful = True
            self._grant(0)

    def rebuild(self) -> None:
        """Grants again, to a session that begins: it has delivered nothing yet."""
        self.consumed_bytes = 0
        if self._window == 0:
            # Only a caller that waits may be sent something; a message nobody asked for would be stuck here.
            self._wanted = self.waiting
            self._doubtful = self._balance_unknown = False
            credits = 1 if self._wanted else 0
        else:
            credits = self.threshold
        if credits:
            self._channel.post_rebuilding(SessionConsumerFlowCredit(self._consumer_id, credits))
