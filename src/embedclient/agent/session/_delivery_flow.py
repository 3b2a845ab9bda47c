"""The flow of deliveries in one session: start, stop, and the pause of a rollback.

Responsible for the flow requests to the broker and to the consumers, including those opened meanwhile, and for the
state that a reconnect restores. Does not depend on transactions: the caller reports the begin and end of a pause.

History of the fault that `_rebuilding` avoids:

1. The session is rebuilt, and its broker delivers; the reconnect continues with other sessions.
2. The program stops and starts the session: its consumers give out the new deliveries.
3. The program receives the notice that the reconnect is complete. It regards its messages as lost, and waits for them
   to come again. The broker waits for their acknowledgement.
"""

from embedclient.errors import JMSException
from embedclient.wire.core import NullResponse, SessionStart, SessionStop

from .._call import DONE, Call, Steps, settled
from ..consumer._consumer import Consumer
from ._addressing import Addressing
from ._channel import SessionChannel


class DeliveryFlow:
    """A session's flow of deliveries. `consumers` is the session's table of open consumers."""

    __slots__ = ("_addressing", "_channel", "_consumers", "_rebuilding", "_suspended", "started")

    def __init__(self, channel: SessionChannel, addressing: Addressing, consumers: dict[int, Consumer]) -> None:
        self._channel = channel
        self._addressing = addressing
        self._consumers = consumers
        self.started = False
        # Between the stop and the start of a rollback.
        self._suspended = False
        # Made again, or about to be, in a reconnect that is not complete.
        self._rebuilding = False

    def open_consumers(self) -> list[Consumer]:
        return list(self._consumers.values())

    def flush_acknowledgements(self) -> None:
        """Send the acknowledgements that wait for a batch."""
        for consumer in self.open_consumers():
            consumer.acknowledgements.flush()

    def admit(self, consumer: Consumer) -> None:
        """Set a newly opened consumer to the state of the others."""
        if self._suspended:
            consumer.pause()
        elif self._rebuilding:
            consumer.hold()
        elif self.started:
            consumer.start()

    def start(self) -> None:
        """Start deliveries."""
        if not self.started:
            self.started = True
            if not self._suspended:  # the rollback in progress starts it at its end
                self._run()

    def _run(self) -> None:
        # The start overtakes waiting entries: an earlier stop would hold deliveries for good.
        self._channel.fail_waiting(SessionStop, JMSException("the session was started again"))
        self._channel.post(SessionStart())
        if not self._rebuilding:  # the end of the reconnect starts them
            for consumer in self.open_consumers():
                consumer.start()

    def stop(self) -> Call[None]:
        """Stop deliveries. Consumers give out no message from now on."""
        if not self.started:
            return DONE
        self.started = False
        for consumer in self.open_consumers():
            consumer.stop()
        return self._addressing.send_request(SessionStop())

    def suspend(self) -> Steps[None]:
        """Begin the pause of a rollback. The sequence ends when the broker has stopped its deliveries."""
        self._suspended = True
        for consumer in self.open_consumers():
            consumer.pause()
        if self.started:
            # A reply lost in a reconnect is irrelevant: a suspended session does not deliver after it.
            yield from settled(self._channel.request(SessionStop(), NullResponse))

    def go_on(self) -> None:
        """End the pause."""
        self._suspended = False
        if self.started:
            self._run()
        elif not self._rebuilding:
            self._release()

    def _release(self) -> None:
        for consumer in self.open_consumers():
            if self.started:
                consumer.start()
            else:
                consumer.release()

    def hold(self) -> None:
        """Hold the messages in consumers' buffers: the session is going to be made again."""
        self._rebuilding = True
        for consumer in self.open_consumers():
            consumer.hold()

    def give_up(self, cause: JMSException) -> None:
        """Forget the broker's deliveries: the session must be made again so that they come again."""
        self.hold()
        self._channel.give_up(cause)

    def rebuild(self) -> None:
        """Begin deliveries in a session that is made again, unless a rollback is in progress."""
        self._rebuilding = True
        if self.started and not self._suspended:
            self._channel.post_rebuilding(SessionStart())

    def resume(self) -> None:
        """Release rebuilt consumers: the reconnect is complete."""
        self._rebuilding = False
        if not self._suspended:  # the rollback in progress does it at its end
            self._release()
