"""Producers and consumers whose transactions are XA branches, each with a transaction manager of its own.

Responsible for when a branch begins and ends. They refuse to know what is done about branches of sessions that were
lost; their managers do.
"""

from __future__ import annotations

from attrs import define, evolve, field

from embedbroker.testing._branches import TransactionManager
from embedbroker.testing._consumers import ConsumerKind, SimulatedConsumer
from embedbroker.testing._plan import ScenarioPlan
from embedbroker.testing._producers import ProducerKind, SimulatedProducer
from embedbroker.testing._scene import Moment
from embedbroker.testing._scripts import Steps
from embedclient.agent import Call, Consumer, Delivery, Producer, Session, SessionMode
from embedclient.errors import JMSException

__all__ = ["XaConsumer", "XaProducer", "two_phase"]


@define(eq=False)
class XaProducer(SimulatedProducer):
    """A transacted producer of this kind."""

    manager: TransactionManager = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.manager = TransactionManager(self.scene, self.name)

    def give_up(self) -> None:
        self.manager.give_up()
        super().give_up()

    def _new_session(self) -> Call[Session]:
        return self.host.agent().create_session_for(SessionMode.TRANSACTED, xa=True)

    def _has_work(self) -> bool:
        return super()._has_work() or self.manager.has_unfinished

    def _send_transaction(self, session: Session, producers: dict[str, Producer]) -> Steps:
        scene, random, manager = self.scene, self.scene.world.random, self.manager
        yield from manager.recover(session)
        if not self._has_work():
            return
        self._transactions += 1
        transaction = f"{self.name}#{self._transactions}"
        yield from manager.begin(session, transaction)
        self._transaction = transaction
        for _ in range(random.randint(1, self.plan.transaction_max)):
            if not self._has_work():
                break
            yield self._send(producers, self._next_letter(transaction))
            if random.random() < 0.3:
                yield random.random() * self.plan.think_s
        if scene.chance(self.plan.rollback_chance):
            scene.operate(self.name, "rolls back", transaction)
            scene.hit(Moment.ROLLBACK)
            scene.ledger.rolled_back(transaction)
            self._pending.clear()
            self._transaction = None
            yield from manager.undo(session)
            return
        scene.operate(self.name, "prepares", transaction)
        yield from manager.prepare(session, transaction)
        self._pending.clear()
        self._transaction = None
        if scene.chance(0.3):
            yield random.random() * 2 * self.plan.think_s
        yield from manager.commit(session)


@define(eq=False)
class XaConsumer(SimulatedConsumer):
    """A transacted consumer of this kind."""

    manager: TransactionManager = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.manager = TransactionManager(self.scene, self.name)

    def give_up(self) -> None:
        self.manager.give_up()
        super().give_up()

    def _new_session(self) -> Call[Session]:
        return self.host.agent().create_session_for(SessionMode.TRANSACTED, xa=True)

    def _open(self, session: Session) -> Steps:
        # Before it has messages in hand: a rollback gives back all that the session was sent.
        yield from self.manager.recover(session)
        yield from super()._open(session)

    def _take(self, session: Session, producer: Producer | None, delivery: Delivery) -> Steps:
        if self._transaction is None:
            self._batches += 1
            transaction = f"{self.name}#{self._batches}"
            rebuilds = session.rebuilds
            yield from self.manager.begin(session, transaction)
            self._transaction = transaction
            if session.rebuilds != rebuilds:
                return  # it comes again: nobody has looked at it, and it was given to a session that is gone
        yield from super()._take(session, producer, delivery)

    def _leave(self, consumer: Consumer) -> Steps:
        # Its session ends in order, which leaves a branch to others.
        assert self.session is not None, "only who came leaves"
        if self._transaction is not None:
            self.scene.ledger.rolled_back(self._transaction)
            self._transaction = None
            self._in_batch = 0
            yield from self._undo(self.session)
        yield from super()._leave(consumer)

    def _undo(self, session: Session) -> Steps:
        self.scene.ledger.giving_back(self.subscription)
        try:
            yield from self.manager.undo(session)
        finally:
            self.scene.ledger.gave_back(self.subscription)

    def _finish(self, session: Session, delivery: Delivery | None) -> Steps:
        scene, transaction = self.scene, self._transaction
        assert transaction is not None, "only work is committed"
        scene.operate(self.name, "prepares", transaction)
        try:
            yield from self.manager.prepare(session, transaction)
        except JMSException as error:
            scene.world.note(self.name, "prepare fails", f"{transaction} {error.error_code}")
            raise
        self._transaction = None
        if scene.chance(0.3):
            yield scene.world.random.random() * 0.05
        yield from self.manager.commit(session)


def two_phase(plan: ScenarioPlan) -> ScenarioPlan:
    """The same plan with users of these kinds in place of transacted ones."""
    producers = [
        evolve(role, plan=evolve(role.plan, branches=True)) if role.plan.kind is ProducerKind.TRANSACTED else role
        for role in plan.producers
    ]
    consumers = [
        evolve(role, plan=evolve(role.plan, branches=True)) if role.plan.kind is ConsumerKind.TRANSACTED else role
        for role in plan.consumers
    ]
    return evolve(plan, producers=tuple(producers), consumers=tuple(consumers))
