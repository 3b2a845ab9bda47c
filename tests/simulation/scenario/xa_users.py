"""Producers and consumers whose transactions are XA branches, each with its own transaction manager.

Responsible for when a branch begins and ends. They do not depend on what is done about branches of sessions that
were lost; their managers do.
"""

from __future__ import annotations

from random import Random

from attrs import define, evolve, field

from embedbroker.testing._scene import Moment, Phase
from embedbroker.testing._scripts import Steps
from embedclient.agent import Call, Consumer, Delivery, Producer, Session, SessionMode
from embedclient.errors import JMSException

from .branch_habits import draw_habits
from .branches import TransactionManager
from .consumers import ConsumerKind, SimulatedConsumer
from .plan import ScenarioPlan
from .producers import ProducerKind, SimulatedProducer

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
        scene, manager, habits = self.scene, self.manager, self.plan.habits
        yield from manager.recover(session)
        if not self._has_work():
            return
        self._transactions += 1
        transaction = f"{self.name}#{self._transactions}"
        dawdles = manager.chance(habits.dawdle_chance)
        yield from manager.begin(session, transaction, hurried=dawdles)
        self._transaction = transaction
        yield from self._send_some(producers, transaction)
        if manager.chance(habits.suspend_chance):
            yield from manager.pause(session, manager.random.random() * 2 * self.plan.think_s)
            yield from self._send_some(producers, transaction)
        if manager.chance(habits.join_chance):
            yield from self._send_beside(session, transaction)
        elif dawdles:
            yield from manager.dawdle(session)
            scene.ledger.rolled_back(transaction)
            self._requeue(list(self._pending.values()))
            self._concluded()
            return
        if scene.chance(self.plan.rollback_chance):
            scene.operate(self.name, "rolls back", transaction)
            scene.hit(Moment.ROLLBACK)
            scene.ledger.rolled_back(transaction)
            self._concluded()
            yield from manager.undo(session)
            return
        if manager.chance(habits.one_phase_chance):
            yield from self._commit_at_once(session, transaction)
            return
        scene.operate(self.name, "prepares", transaction)
        yield from manager.prepare(session, transaction)
        self._concluded()
        if scene.chance(0.3):
            yield scene.world.random.random() * 2 * self.plan.think_s
        if habits.hesitation_s:
            yield manager.random.random() * habits.hesitation_s
        yield from manager.commit(session)

    def _send_some(self, producers: dict[str, Producer], transaction: str) -> Steps:
        random = self.scene.world.random
        for _ in range(random.randint(1, self.plan.transaction_max)):
            if not self._has_work():
                break
            yield self._send(producers, self._next_letter(transaction))
            if random.random() < 0.3:
                yield random.random() * self.plan.think_s

    def _send_beside(self, session: Session, transaction: str) -> Steps:
        """A second session goes on with the branch: which of the two was first is known only if one has ended."""
        manager = self.manager
        helper: Session = yield self._new_session()
        try:
            overlaps = manager.chance(0.5)
            if not overlaps:
                yield from manager.leave(session)
            yield from manager.join(helper)
            if overlaps:
                yield from manager.leave(session)
            producers = {topic.address: helper.create_producer(topic.address) for topic in self.topics}
            yield from self._send_some(producers, transaction)
            yield from manager.leave(helper)
        except JMSException:
            yield helper.close()
            raise
        yield helper.close()

    def _commit_at_once(self, session: Session, transaction: str) -> Steps:
        scene, letters = self.scene, list(self._pending.values())
        yield from self.manager.end(session)
        scene.operate(self.name, "commits in one phase", transaction)
        self._committing = True
        if (yield from self.manager.commit_at_once(session)):
            scene.judge(scene.ledger.committed(transaction, scene.world.now), self.name, transaction)
        else:
            scene.ledger.rolled_back(transaction)
            self._requeue(letters)
        self._committing = False
        self._concluded()

    def _concluded(self) -> None:
        """The work of the transaction is done, or undone; what is left of it is for its manager."""
        self._pending.clear()
        self._transaction = None


@define(eq=False)
class XaConsumer(SimulatedConsumer):
    """A transacted consumer of this kind."""

    manager: TransactionManager = field(init=False)
    #: The present branch is to outlive its time.
    _dawdles: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.manager = TransactionManager(self.scene, self.name, self.subscription)

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
            self._dawdles = self.scene.phase is Phase.WORK and self.manager.chance(self.plan.habits.dawdle_chance)
            yield from self.manager.begin(session, transaction, hurried=self._dawdles)
            self._transaction = transaction
            if session.rebuilds != rebuilds:
                return  # it comes again: no user has looked at it, and it was given to a session that is gone
        yield from super()._take(session, producer, delivery)
        yield from self._rest(session)

    def _rest(self, session: Session) -> Steps:
        """A batch that is not full may have to wait, and its branch with it."""
        if self._transaction is None:
            return
        if self._dawdles:
            yield from self._dawdle(session, self._transaction)
        elif self.manager.chance(self.plan.habits.suspend_chance):
            yield from self.manager.pause(session, self.manager.random.random() * 2 * self.plan.think_s)

    def _dawdle(self, session: Session, transaction: str) -> Steps:
        """The branch outlives its time; others get what it took before its user is informed."""
        self.scene.ledger.giving_back(self.subscription)
        try:
            yield from self.manager.dawdle(session)
        finally:
            self.scene.ledger.gave_back(self.subscription)
        self.scene.ledger.rolled_back(transaction)
        self._transaction = None
        self._in_batch = 0

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
        habits, manager = self.plan.habits, self.manager
        if manager.chance(habits.one_phase_chance):
            yield from self._commit_at_once(session, transaction)
            return
        scene.operate(self.name, "prepares", transaction)
        try:
            yield from manager.prepare(session, transaction)
        except JMSException as error:
            scene.world.note(self.name, "prepare fails", f"{transaction} {error.error_code}")
            raise
        self._transaction = None
        if scene.chance(0.3):
            yield scene.world.random.random() * 0.05
        if habits.hesitation_s:
            yield manager.random.random() * habits.hesitation_s
        yield from manager.commit(session)

    def _commit_at_once(self, session: Session, transaction: str) -> Steps:
        scene = self.scene
        yield from self.manager.end(session)
        scene.operate(self.name, "commits in one phase", transaction)
        self._committing = True
        if (yield from self.manager.commit_at_once(session)):
            scene.judge(scene.ledger.committed(transaction, scene.world.now), self.name, transaction)
        else:
            scene.ledger.rolled_back(transaction)
        self._committing = False
        self._transaction = None


def two_phase(plan: ScenarioPlan) -> ScenarioPlan:
    """The same plan with users of these kinds in place of transacted ones, and maybe with an operator."""
    random = Random(f"xa {plan.seed}")
    producers = [
        evolve(role, plan=evolve(role.plan, branches=True, habits=draw_habits(random)))
        if role.plan.kind is ProducerKind.TRANSACTED
        else role
        for role in plan.producers
    ]
    consumers = [
        evolve(role, plan=evolve(role.plan, branches=True, habits=draw_habits(random)))
        if role.plan.kind is ConsumerKind.TRANSACTED
        else role
        for role in plan.consumers
    ]
    pause_s = random.choice((0.0, 0.01, 0.05))
    return evolve(plan, producers=tuple(producers), consumers=tuple(consumers), operator_pause_s=pause_s)
