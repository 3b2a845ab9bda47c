"""Whether the deliveries of one session flow: start, stop, and the pause that a rollback makes.

Responsible for what is said to the broker and to the consumers, those that are opened meanwhile included, and for what
a reconnect takes up again. Refuses to know transactions: it is told when a pause begins and ends.

History of the fault that `_rebuilding` avoids:

1. The session is rebuilt, and its broker delivers; the reconnect goes on with other sessions.
2. The program stops and starts the session: its consumers give out what came.
3. The program hears that the reconnect is complete, takes what it holds for lost, and waits for the message to come
   again. The broker waits for its acknowledgement.
"""

from embedclient.errors import JMSException
from embedclient.wire.core import NullResponse, SessionStart, SessionStop

from .._call import DONE, Call, Steps, settled
from ..consumer._consumer import Consumer
from ._addressing import Addressing
from ._channel import SessionChannel


class DeliveryFlow:
    """The flow of one session. `consumers` is the session's own table of those that are open."""

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

    def _open_consumers(self) -> list[Consumer]:
        return list(self._consumers.values())

    def admit(self, consumer: Consumer) -> None:
        """A consumer that has just been opened does as the others do."""
        if self._suspended:
            consumer.pause()
        elif self._rebuilding:
            consumer.hold()
        elif self.started:
            consumer.start()

    def start(self) -> None:
        """Lets deliveries flow."""
        if not self.started:
            self.started = True
            if not self._suspended:  # the rollback under way starts it in the end
                self._run()

    def _run(self) -> None:
        # The start overtakes what waits: a stop from before would hold deliveries for good.
        self._channel.fail_waiting(SessionStop, JMSException("the session was started again"))
        self._channel.post(SessionStart())
        if not self._rebuilding:  # the end of the reconnect starts them
            for consumer in self._open_consumers():
                consumer.start()

    def stop(self) -> Call[None]:
        """Holds deliveries; consumers give nothing out from now on."""
        if not self.started:
            return DONE
        self.started = False
        for consumer in self._open_consumers():
            consumer.stop()
        return self._addressing.ask(SessionStop())

    def suspend(self) -> Steps[None]:
        """Begins the pause of a rollback: done when the broker delivers nothing more."""
        self._suspended = True
        for consumer in self._open_consumers():
            consumer.pause()
        if self.started:
            # A reply that a reconnect swallows is of no interest: a suspended session does not deliver after it.
            yield from settled(self._channel.request(SessionStop(), NullResponse))

    def go_on(self) -> None:
        """Ends the pause."""
        self._suspended = False
        if self.started:
            self._run()
        elif not self._rebuilding:
            self._release()

    def _release(self) -> None:
        for consumer in self._open_consumers():
            if self.started:
                consumer.start()
            else:
                consumer.release()

    def hold(self) -> None:
        """In a session that is going to be made again: what consumers hold is given to nobody."""
        self._rebuilding = True
        for consumer in self._open_consumers():
            consumer.hold()

    def rebuild(self) -> None:
        """In a session that is made again: deliveries begin, unless a rollback is under way."""
        self._rebuilding = True
        if self.started and not self._suspended:
            self._channel.post_rebuilding(SessionStart())

    def resume(self) -> None:
        """The reconnect is complete: rebuilt consumers may give out what came meanwhile."""
        self._rebuilding = False
        if not self._suspended:  # the rollback under way does it in the end
            self._release()
