"""The credits of one consumer: the bytes its broker may still send, and the return of credit per message (core-protocol
7.5).

Responsible for the window, for its special sizes (0: one message at a time, -1: no limit), and for the credits that
cross messages in transit. Does not depend on messages: its input is the sizes of frames.
"""

from embedclient.wire.core import SessionConsumerFlowCredit, encode_consumer_credit

from ..session._channel import SessionChannel


class ConsumerCredits:
    """A consumer's grants. `consumed_bytes` was given out and is returned when it reaches the `threshold`.

    The consumer increments `consumed_bytes` directly while it stays below the threshold: that happens for each message.
    """

    __slots__ = (
        "_balance_unknown",
        "_channel",
        "_consumer_id",
        "_doubtful",
        "_wanted",
        "_window",
        "consumed_bytes",
        "is_pressed",
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
        # A caller has given up. Whether its credit was used by then or withdrawn is unknown, and so is which credit a
        # later message costs.
        self._doubtful = False
        self._balance_unknown = False
        #: True while a large message arrives, and messages before it in the buffer are not paid for. Those may take
        #: more than half of the window: a wait for the other half would leave the broker without credit.
        self.is_pressed = False

    def open(self) -> None:
        """Grant the first credits."""
        if self._window != 0:
            self._grant(self._window)

    def _grant(self, credits: int) -> None:
        channel = self._channel
        if channel.closed_error is None:
            channel.post_frame(encode_consumer_credit(channel.channel_id, self._consumer_id, credits))

    def cost_of_wanted(self, frame_size: int) -> int:
        """Return, with window 0, the size to pay back for a message that has just come."""
        # A message that crossed the credits of `give_up` was paid for with them. If its size were returned, the broker
        # could send without a waiting caller, and such messages would never be paid for.
        if self._doubtful or not self._wanted:
            frame_size = 1
            self._balance_unknown = True
        self._wanted = False
        return frame_size

    def give_back(self, frame_size: int) -> None:
        """Pay for a message that was given out, or that never will be."""
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

    def pay_for_chunk(self, frame_size: int, last: bool) -> None:
        """Pay for a packet of a large message. With window 0 all but the last make the broker go on with it."""
        if self._window == 0 and not last:
            self._grant(frame_size)
        elif self.is_pressed and not last and self.threshold > 0:
            consumed, self.consumed_bytes = self.consumed_bytes + frame_size, 0
            self._grant(consumed)
        else:
            self.give_back(frame_size)

    def pay_for_header(self, frame_size: int) -> None:
        """Pay for the headers of a large message, so that the broker goes on with it."""
        if self._window == 0 and frame_size == 1:
            # It crossed the credits of `give_up`. The broker's balance is unknown, and one credit may leave it
            # negative: the chunks would never come.
            self._grant(0)
        self.pay_for_chunk(frame_size, False)

    def pay_for_abandoned(self, frame_size: int) -> None:
        """Pay for a packet of a large message whose delivery the broker ended in the middle."""
        if self._window == 0:
            # What the broker sent last, and so the balance, is unknown. The next request sets it.
            self._balance_unknown = True
        else:
            self.give_back(frame_size)

    def want(self, buffered: bool) -> None:
        """Register a waiting caller. With window 0 this requests one message from the broker, once."""
        if self._window == 0:
            self.waiting = True
            self.want_again(buffered)

    def want_again(self, buffered: bool) -> None:
        """Request one message again for a waiting caller whose message was expired, or is taken back."""
        if self.waiting and not self._wanted and not buffered:
            self._wanted = True
            if self._balance_unknown:
                self._balance_unknown = False
                self._grant(0)
            self._grant(1)

    def give_up(self) -> None:
        """End the wait of a caller. With window 0 the broker must not send more; a message in transit is kept."""
        self.waiting = False
        if self._wanted:
            self._wanted = False
            self._doubtful = True
            self._grant(0)

    def rebuild(self) -> None:
        """Grant credits again to a new session: it has delivered nothing yet."""
        self.consumed_bytes = 0
        if self._window == 0:
            # Only a waiting caller may be sent a message; a message without a request would stay here.
            self._wanted = self.waiting
            self._doubtful = self._balance_unknown = False
            credits = 1 if self._wanted else 0
        else:
            credits = self.threshold
        if credits:
            self._channel.post_rebuilding(SessionConsumerFlowCredit(self._consumer_id, credits))
