"""Simulated producers: blocking, asynchronous, not durable, and transacted; what is in doubt they may send again.

They tell the ledger what they know, at the moment they know it. They refuse to know why a call failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Moment, Scene, Topic
from embedbroker.testing._scripts import Steps
from embedclient.agent import Call, Producer, Session, SessionMode
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import RoutingType

from .branch_habits import PLAIN, BranchHabits
from .promises import check_commit, check_send

__all__ = ["ProducerKind", "ProducerPlan", "SimulatedProducer"]

#: Failures that say the broker did not take the message; after all others it may have.
_REFUSALS = frozenset({ErrorCode.ADDRESS_FULL, ErrorCode.IO_ERROR})


class ProducerKind(IntEnum):
    BLOCKING = 0
    ASYNCHRONOUS = 1
    NOT_DURABLE = 2
    TRANSACTED = 3


@frozen
class ProducerPlan:
    """What one producer does. Chances are probabilities, ``in_flight_max`` counts asynchronous sends.

    ``delay_chance``: how often a message is scheduled. ``group_count``: message groups of each color, 0 for none.
    ``identifies``: its messages carry duplicate ids. ``branches``: its transactions are XA branches, with ``habits``.
    ``sets``: they are commit sets of several branches. ``impatient_chance``: how often it does not wait for the end of
    a transaction.
    ``large_chance``: how often a body has up to ``large_size_max`` bytes.
    """

    kind: ProducerKind
    count: int
    think_s: float
    size_max: int = 200
    mixed_priorities: bool = False
    expire_chance: float = 0.0
    delay_chance: float = 0.0
    group_count: int = 0
    resend_chance: float = 0.8
    rollback_chance: float = 0.15
    transaction_max: int = 6
    in_flight_max: int = 8
    identifies: bool = False
    branches: bool = False
    impatient_chance: float = 0.0
    sets: bool = False
    large_chance: float = 0.0
    large_size_max: int = 0
    habits: BranchHabits = PLAIN


@define(eq=False)
class SimulatedProducer:
    """One producer: it survives its sessions, its agents and its host's crashes, and sends ``plan.count`` messages."""

    scene: Scene
    host: ClientHost
    name: str
    topics: Sequence[Topic]
    plan: ProducerPlan
    _made: int = field(default=0, init=False)
    _transactions: int = field(default=0, init=False)
    _again: deque[Letter] = field(factory=deque, init=False)
    _pending: dict[str, Letter] = field(factory=dict, init=False)
    _transaction: str | None = field(default=None, init=False)
    _committing: bool = field(default=False, init=False)
    finished: bool = field(default=False, init=False)

    def steps(self) -> Steps:
        """The script of this producer."""
        world = self.scene.world
        while not self.finished:
            session: Session | None = None
            try:
                session = yield self._new_session()
                for topic in self.topics:
                    if topic.automatic:
                        yield session.destinations.prepare_destination(topic.address, RoutingType.ANYCAST)
                producers = {topic.address: session.create_producer(topic.address) for topic in self.topics}
                while self._has_work() and not session.closed:
                    yield from self._work(session, producers)
                    yield world.random.random() * 2 * self.plan.think_s
                self.finished = not self._has_work()
            except JMSException as error:
                world.note(self.name, "loses its session", f"{error.error_code} {error}")
                self.give_up()
            if session is not None:
                yield session.close()
            if not self.finished:
                yield world.random.random() * 0.2

    def give_up(self) -> None:
        """The session is gone, or the whole client: nothing that is pending will be answered."""
        ledger, transaction = self.scene.ledger, self._transaction
        letters = list(self._pending.values())
        if transaction is None:
            for letter in letters:
                self._doubt(letter)
        elif self._committing:
            self._doubt_transaction(transaction, letters)
        else:
            # A commit that was never asked for cannot happen.
            ledger.rolled_back(transaction)
            self._requeue(letters)
        self._pending.clear()
        self._transaction = None
        self._committing = False

    def _new_session(self) -> Call[Session]:
        mode = SessionMode.TRANSACTED if self.plan.kind is ProducerKind.TRANSACTED else SessionMode.AUTO
        return self.host.agent().create_session_for(mode)

    def _has_work(self) -> bool:
        return self._made < self.plan.count or bool(self._again)

    def _work(self, session: Session, producers: dict[str, Producer]) -> Steps:
        match self.plan.kind:
            case ProducerKind.TRANSACTED:
                yield from self._send_transaction(session, producers)
            case ProducerKind.ASYNCHRONOUS:
                yield from self._send_asynchronously(producers)
            case ProducerKind.BLOCKING:
                letter = self._next_letter(None)
                call = self._send(producers, letter)
                if not call.done and self.scene.chance(0.05) and call.cancel():
                    # It had not left yet, so no consumer may ever see it, unless it goes again.
                    self.scene.world.note(self.name, "takes back", letter.key)
                    self._pending.pop(letter.key)
                    self.scene.ledger.refused(letter.key)
                    self._requeue([letter])
                    return
                try:
                    yield call
                except JMSException as error:
                    self._failed(letter, error)
                else:
                    self._confirm(letter)
            case ProducerKind.NOT_DURABLE:
                letter = self._next_letter(None)
                try:
                    yield self._send(producers, letter)
                except JMSException as error:
                    self._failed(letter, error)
                # Done means written, not stored: nothing is promised about it.
                self._pending.pop(letter.key, None)

    def _send(self, producers: dict[str, Producer], letter: Letter) -> Call[None]:
        self.scene.operate(self.name, "sends", letter.key)
        producer = producers[letter.address]
        message = letter.build(self.scene.world.instant.wall_ms)
        if self.plan.kind is ProducerKind.ASYNCHRONOUS:
            return producer.send_confirmed(message)
        return producer.send(message)

    def _send_asynchronously(self, producers: dict[str, Producer]) -> Steps:
        """A burst of sends, then their answers; the answers come in order."""
        burst: list[tuple[Letter, Call[None]]] = []
        for _ in range(self.scene.world.random.randint(1, self.plan.in_flight_max)):
            if self._has_work():
                letter = self._next_letter(None)
                burst.append((letter, self._send(producers, letter)))
        for letter, call in burst:
            try:
                yield call
            except JMSException as error:
                self._failed(letter, error)
            else:
                self._confirm(letter)

    def _send_transaction(self, session: Session, producers: dict[str, Producer]) -> Steps:
        scene, random = self.scene, self.scene.world.random
        self._transactions += 1
        transaction = self._transaction = f"{self.name}#{self._transactions}"
        for _ in range(random.randint(1, self.plan.transaction_max)):
            if not self._has_work():
                break
            yield self._send(producers, self._next_letter(transaction))
            if random.random() < 0.3:
                yield random.random() * self.plan.think_s
        letters = list(self._pending.values())
        if scene.chance(self.plan.rollback_chance):
            scene.operate(self.name, "rolls back", transaction)
            scene.hit(Moment.ROLLBACK)
            scene.ledger.rolled_back(transaction)
            self._pending.clear()
            self._transaction = None
            yield from self._roll_back(session)
            return
        self._committing = True
        scene.operate(self.name, "commits", transaction)
        yield from self._commit(session, transaction, letters)
        self._pending.clear()
        self._transaction = None
        self._committing = False

    def _roll_back(self, session: Session) -> Steps:
        yield session.rollback()

    def _commit(self, session: Session, transaction: str, letters: list[Letter]) -> Steps:
        sent, alone = self.host.commits.of(session), not self._other_endings_are_open
        try:
            yield session.commit()
        except JMSException as error:
            check_commit(self.scene, self.name, error, self.host.commits.of(session) - sent, alone=alone)
            self._conclude(transaction, letters, error)
        else:
            self._conclude(transaction, letters, None)

    @property
    def _other_endings_are_open(self) -> bool:
        """Return True if commits are under way that no script waits for."""
        return False

    def _conclude(self, transaction: str, letters: list[Letter], error: JMSException | None) -> None:
        """Notes how a commit ended."""
        scene = self.scene
        if error is None:
            finding = scene.ledger.committed(transaction, scene.world.now)
            scene.judge(finding, self.name, transaction)
            scene.world.note(self.name, "has committed", transaction)
            return
        scene.world.note(self.name, "commit fails", error.error_code)
        if error.error_code == ErrorCode.TRANSACTION_ROLLED_BACK:
            scene.ledger.rolled_back(transaction)
            self._requeue(letters)
        else:
            self._doubt_transaction(transaction, letters)

    def _next_letter(self, transaction: str | None) -> Letter:
        """The next message: one that must go again, or a new one. The ledger notes it."""
        scene = self.scene
        if self._again:
            letter = self._again.popleft()
            scene.ledger.resent(letter.key, scene.world.now, transaction=transaction)
        else:
            letter, topic = self._new_letter()
            scene.ledger.sent(
                letter.key,
                topic.account,
                scene.world.now,
                producer=self._order_of(letter),
                priority=letter.priority,
                durable=letter.durable,
                expires_at=scene.wall_to_virtual(letter.expiration) if letter.expiration else None,
                transaction=transaction,
                reaches=topic.reached_by(letter.color),
            )
        self._pending[letter.key] = letter
        return letter

    def _order_of(self, letter: Letter) -> str:
        """The order that a message keeps: that of its producer, or of its group. A scheduled one keeps none."""
        if letter.deliver_at:
            return letter.key
        return f"{self.name} {letter.group}" if letter.group else self.name

    def _new_letter(self) -> tuple[Letter, Topic]:
        scene, plan, random = self.scene, self.plan, self.scene.world.random
        self._made += 1
        topic = random.choice(self.topics) if len(self.topics) > 1 else self.topics[0]
        expiration = 0
        if plan.expire_chance and random.random() < plan.expire_chance:
            expiration = scene.world.instant.wall_ms + random.randint(5, 3_000)
        deliver_at = 0
        if plan.delay_chance and not expiration and random.random() < plan.delay_chance:
            deliver_at = scene.world.instant.wall_ms + random.choice((20, 300, 2_000))
        color = scene.color()
        letter = Letter(
            key=f"{self.name}-{self._made}",
            address=topic.address,
            color=color,
            priority=random.choice((0, 4, 4, 9)) if plan.mixed_priorities else 4,
            durable=plan.kind is not ProducerKind.NOT_DURABLE,
            expiration=expiration,
            size=self._draw_size(),
            routing_type=RoutingType.ANYCAST if topic.automatic else None,
            deliver_at=deliver_at,
            # A consumer of one color that has a group must want all its messages.
            group=f"{color}{random.randrange(plan.group_count)}" if plan.group_count else "",
        )
        return letter, topic

    def _draw_size(self) -> int:
        plan, random = self.plan, self.scene.world.random
        if plan.large_chance and random.random() < plan.large_chance:
            return random.randint(plan.size_max, plan.large_size_max)
        return random.randint(0, plan.size_max)

    def _confirm(self, letter: Letter) -> None:
        self._pending.pop(letter.key, None)
        self.scene.ledger.confirmed(letter.key, self.scene.world.now)
        self.scene.world.note(self.name, "is confirmed", letter.key)

    def _failed(self, letter: Letter, error: JMSException) -> None:
        check_send(self.scene, self.name, error)
        self.scene.world.note(self.name, "send fails", f"{letter.key} {error.error_code}")
        self._pending.pop(letter.key, None)
        if error.error_code in _REFUSALS:
            self.scene.ledger.refused(letter.key)
            self._requeue([letter])
        else:
            self._doubt(letter)

    def _doubt(self, letter: Letter) -> None:
        self.scene.ledger.in_doubt(letter.key)
        if letter.durable:
            self.scene.hit(Moment.SEND_IN_DOUBT)
        if self.scene.chance(self.plan.resend_chance):
            self._requeue([letter])

    def _doubt_transaction(self, transaction: str, letters: list[Letter]) -> None:
        self.scene.ledger.transaction_in_doubt(transaction)
        self.scene.hit(Moment.COMMIT_IN_DOUBT)
        if self.scene.chance(self.plan.resend_chance):
            self._requeue(letters)

    def _requeue(self, letters: Sequence[Letter]) -> None:
        """To be sent again; not what would be expired by then, and not what carries no promise."""
        wall_ms = self.scene.world.instant.wall_ms
        self._again.extend(letter for letter in letters if not letter.expiration or letter.expiration > wall_ms)
