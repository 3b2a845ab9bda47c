"""Users that take messages from one queue of a node, and know which acknowledgements the broker has confirmed.

Responsible for deliveries and for what became of their acknowledgements. Does not depend on where messages come from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of, selector_of
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Call, Consumer, Session, SessionMode
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import RoutingType

from .cluster_plan import TakerPlan

__all__ = ["TakeBook", "Taken", "TakenTogether", "Taker"]


@frozen
class Taken:
    """A message that a user has acknowledged. ``is_confirmed`` False: in doubt."""

    node: str
    message_id: int
    is_confirmed: bool
    #: The consumer, one of many that its user had.
    consumer: tuple[str, int] = ("", 0)
    #: True if no other consumer of its queue was there since it came.
    was_alone: bool = False


@frozen
class TakenTogether:
    """The messages that a transaction in doubt has acknowledged: all or none of them."""

    queue: str
    keys: tuple[str, ...]


@define(eq=False)
class TakeBook:
    """What users have taken, by the name of the queue and the key of the message."""

    taken: defaultdict[tuple[str, str], list[Taken]] = field(factory=lambda: defaultdict(list))
    #: All of them in the order of time.
    history: list[tuple[str, str, Taken]] = field(factory=list)
    in_doubt: list[TakenTogether] = field(factory=list)
    #: Queues and keys of what transactions acknowledged whose consumers went before they ended.
    returned: set[tuple[str, str]] = field(factory=set)

    def note(self, queue: str, key: str, taken: Taken) -> None:
        """Note an acknowledgement."""
        self.taken[(queue, key)].append(taken)
        self.history.append((queue, key, taken))


@define(eq=False)
class Taker:
    """One user. It takes messages while others work; one that ``stays`` does so until the end."""

    scene: Scene
    host: ClientHost
    plan: TakerPlan
    book: TakeBook
    #: Returns the number of consumers that the broker has for the queue, -1 if it does not serve.
    consumers_there: Callable[[], int]
    stays: bool = False
    _consumers: int = field(default=0, init=False)
    _is_alone: bool = field(default=False, init=False)
    #: What the open transaction has acknowledged: keys and message ids.
    _open: list[tuple[str, int]] = field(factory=list, init=False)

    def steps(self) -> Steps:
        """The script of the user."""
        while not self._is_over():
            session: Session | None = None
            self._open.clear()
            try:
                mode = SessionMode.TRANSACTED if self.plan.batch else SessionMode.AUTO
                session = yield self.host.agent().create_session_for(mode)
                yield from self.work(session, self._is_over)
            except JMSException as error:
                self.scene.world.note(self.plan.name, "loses its session", f"{error.error_code} {error}")
            self.book.returned.update([(self.plan.queue, key) for key, _message_id in self._open])
            if session is not None:
                yield session.close()
            yield self.scene.world.random.random() * 0.1

    def _is_over(self) -> bool:
        return self.scene.phase > (Phase.SWEEP if self.stays else Phase.WORK)

    def work(self, session: Session, is_over: Callable[[], bool]) -> Steps:
        """Take messages with one consumer, until it is over or the consumer leaves."""
        if self.plan.creates:
            yield from self._create(session)
        color = self.plan.color
        is_free = self.consumers_there() == 0
        consumer: Consumer = yield session.create_consumer(
            self.plan.queue, filter=selector_of(color) if color is not None else None
        )
        self._consumers += 1
        self._is_alone = is_free and self.consumers_there() == 1
        yield session.start()
        consumer.want()
        while not consumer.closed and not is_over():
            delivery = consumer.next(self.scene.world.instant)
            if delivery is None:
                if self._open:
                    yield from self._end_transaction(session)
                else:
                    yield Arrival(consumer, 0.5)
                continue
            key, message_id = key_of(delivery.message), delivery.message.message_id
            self._is_alone = self._is_alone and self.consumers_there() == 1
            self.scene.operate(self.plan.name, "takes", key)
            if self.plan.batch:
                yield session.consumed(delivery)
                self._open.append((key, message_id))
                if len(self._open) >= self.plan.batch:
                    yield from self._end_transaction(session)
            else:
                yield from self._take(session.consumed(delivery), [(key, message_id)])
            if not self.stays and self.scene.chance(self.plan.leave_chance):
                yield consumer.close()
                return
            if self.plan.think_s:
                yield self.scene.world.random.random() * 2 * self.plan.think_s
        yield consumer.close()

    def _create(self, session: Session) -> Steps:
        """Create the queue as a client library does, if it is not there."""
        name = self.plan.queue
        try:
            yield session.addressing.create_queue(name, name, RoutingType.ANYCAST, auto_created=True)
        except JMSException as error:
            if error.error_code != ErrorCode.QUEUE_EXISTS:
                raise
        else:
            self.scene.hit(Moment.QUEUE_AUTO_CREATED)

    def _end_transaction(self, session: Session) -> Steps:
        """Commit what was acknowledged, or roll it back: then all of it comes again."""
        taken, self._open = self._open, []
        if self.plan.rollback_chance and self.scene.chance(self.plan.rollback_chance):
            yield session.rollback()
            self.scene.hit(Moment.ROLLBACK)
            return
        yield from self._take(session.commit(), taken)

    def _take(self, call: Call[None], taken: list[tuple[str, int]]) -> Steps:
        """Wait for the confirmation of what was taken."""
        try:
            yield call
        except JMSException:
            self.scene.hit(Moment.ACKNOWLEDGED_IN_DOUBT)
            self._note(taken, is_confirmed=False)
            self.book.in_doubt.append(TakenTogether(self.plan.queue, tuple([key for key, _ in taken])))
            raise
        self.scene.hits[Moment.TAKEN] += len(taken)
        self._note(taken, is_confirmed=True)

    def _note(self, taken: list[tuple[str, int]], *, is_confirmed: bool) -> None:
        consumer = self.plan.name, self._consumers
        for key, message_id in taken:
            noted = Taken(self.plan.node, message_id, is_confirmed, consumer, self._is_alone)
            self.book.note(self.plan.queue, key, noted)
