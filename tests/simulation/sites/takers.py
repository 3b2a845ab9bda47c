"""Users that take messages from one queue of a node, and know which acknowledgements the broker has confirmed.

Responsible for deliveries and for what became of their acknowledgements. Does not depend on where messages come from.
"""

from __future__ import annotations

from collections import defaultdict

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import key_of, selector_of
from embedbroker.testing._scene import Moment, Phase, Scene
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import Consumer, Session, SessionMode
from embedclient.errors import JMSException

from .cluster_plan import TakerPlan

__all__ = ["TakeBook", "Taken", "Taker"]


@frozen
class Taken:
    """A message that a user has acknowledged. ``is_confirmed`` False: in doubt."""

    node: str
    message_id: int
    is_confirmed: bool
    #: The consumer, one of many that its user had.
    consumer: tuple[str, int] = ("", 0)


@define(eq=False)
class TakeBook:
    """What users have taken, by the name of the queue and the key of the message."""

    taken: defaultdict[tuple[str, str], list[Taken]] = field(factory=lambda: defaultdict(list))
    #: All of them in the order of time.
    history: list[tuple[str, str, Taken]] = field(factory=list)

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
    stays: bool = False
    _consumers: int = field(default=0, init=False)

    def steps(self) -> Steps:
        """The script of the user."""
        while not self._is_over():
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                yield from self._work(session)
            except JMSException as error:
                self.scene.world.note(self.plan.name, "loses its session", f"{error.error_code} {error}")
            if session is not None:
                yield session.close()
            yield self.scene.world.random.random() * 0.1

    def _is_over(self) -> bool:
        return self.scene.phase > (Phase.SWEEP if self.stays else Phase.WORK)

    def _work(self, session: Session) -> Steps:
        color = self.plan.color
        consumer: Consumer = yield session.create_consumer(
            self.plan.queue, filter=selector_of(color) if color is not None else None
        )
        self._consumers += 1
        yield session.start()
        consumer.want()
        while not consumer.closed and not self._is_over():
            delivery = consumer.next(self.scene.world.instant)
            if delivery is None:
                yield Arrival(consumer, 0.5)
                continue
            key, message_id = key_of(delivery.message), delivery.message.message_id
            self.scene.operate(self.plan.name, "takes", key)
            try:
                yield session.consumed(delivery)
            except JMSException:
                self.scene.hit(Moment.ACKNOWLEDGED_IN_DOUBT)
                self._note(key, message_id, is_confirmed=False)
                raise
            self.scene.hit(Moment.TAKEN)
            self._note(key, message_id, is_confirmed=True)
            if not self.stays and self.scene.chance(self.plan.leave_chance):
                yield consumer.close()
                return
            if self.plan.think_s:
                yield self.scene.world.random.random() * 2 * self.plan.think_s
        yield consumer.close()

    def _note(self, key: str, message_id: int, *, is_confirmed: bool) -> None:
        consumer = self.plan.name, self._consumers
        self.book.note(self.plan.queue, key, Taken(self.plan.node, message_id, is_confirmed, consumer))
