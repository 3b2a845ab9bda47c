"""Simulated consumers: every acknowledge mode, filters, durable and other subscriptions, browsers, early leavers.

They tell the ledger what their user saw and asked for, and let the scene judge it at once.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import IntEnum
from typing import Any

from attrs import define, field, frozen

from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import Letter, key_of, selector_of
from embedbroker.testing._scene import Moment, Phase, Scene, Topic
from embedbroker.testing._scripts import Arrival, Steps
from embedclient.agent import (
    Call,
    Consumer,
    Delivery,
    FailoverCompleted,
    FailureDetected,
    Notification,
    Producer,
    Session,
    SessionMode,
)
from embedclient.errors import ErrorCode, JMSException
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage

from .branch_habits import PLAIN, BranchHabits
from .promises import check_commit

__all__ = ["VERSION_WITH_MODERN_NAMES", "ConsumerKind", "ConsumerPlan", "SimulatedConsumer"]


#: Clients before this version spell the names of properties in the old way.
VERSION_WITH_MODERN_NAMES = 129


class ConsumerKind(IntEnum):
    AUTO = 0
    CLIENT = 1
    DUPS_OK = 2
    TRANSACTED = 3
    INDIVIDUAL = 4
    PRE_ACKNOWLEDGE = 5


_MODES = {
    ConsumerKind.AUTO: SessionMode.AUTO,
    ConsumerKind.CLIENT: SessionMode.CLIENT,
    ConsumerKind.DUPS_OK: SessionMode.DUPS_OK,
    ConsumerKind.TRANSACTED: SessionMode.TRANSACTED,
    ConsumerKind.INDIVIDUAL: SessionMode.INDIVIDUAL,
    ConsumerKind.PRE_ACKNOWLEDGE: SessionMode.PRE,
}


@frozen
class ConsumerPlan:
    """What one consumer does. ``color`` is its filter; one that ``forwards`` sends a message for each that it took.

    ``branches``: its transactions are XA branches, with ``habits``.
    """

    kind: ConsumerKind
    think_s: float
    color: str | None = None
    window_bytes: int | None = None
    batch_max: int = 5
    rollback_chance: float = 0.15
    leave_chance: float = 0.02
    away_s: float = 0.1
    forwards: bool = False
    priority: int = 0
    branches: bool = False
    habits: BranchHabits = PLAIN


@define(eq=False)
class SimulatedConsumer:
    """One user of one queue or subscription, through all its sessions, until the scene's last phase."""

    scene: Scene
    host: ClientHost
    broker: BrokerView
    name: str
    subscription: str
    plan: ConsumerPlan
    home: Topic
    forward_to: Topic | None = None
    #: It has been served in the roll call, and has gone for good.
    present: bool = field(default=False, init=False)
    #: The one in use, or the last one.
    session: Session | None = field(default=None, init=False)
    _lives: int = field(default=0, init=False)
    _batches: int = field(default=0, init=False)
    _forwarded: int = field(default=0, init=False)
    #: When the client gave the message that is being taken: it had not expired then.
    _handed_at: float = field(default=0.0, init=False)
    #: Broker's id and key of what was seen and not yet asked to be acknowledged: given back in order if the consumer
    #: leaves in order. Copies of a message that was sent twice share a key, not an id.
    _seen: dict[int, str] = field(factory=dict, init=False)
    _seen_before_failure: list[int] = field(factory=list, init=False)
    _rebuilds_before_failure: int = field(default=0, init=False)
    #: What the present session has shown, settled or not.
    _shown: list[str] = field(factory=list, init=False)
    #: Of these, the ones whose acknowledgement is asked for and not transacted, until it is known how that ends.
    _asked: list[str] = field(factory=list, init=False)
    #: Ids of what is taken in the present batch, and how often its session had been made again when that began.
    _batch_ids: list[int] = field(factory=list, init=False)
    _rebuilds_before_batch: int = field(default=0, init=False)
    #: What the ledger expects again because of a failure during the commit, or acknowledgement, under way.
    _foretold: list[str] = field(factory=list, init=False)
    _transaction: str | None = field(default=None, init=False)
    _in_batch: int = field(default=0, init=False)
    _committing: bool = field(default=False, init=False)
    _acknowledging: str | None = field(default=None, init=False)

    @property
    def takes_all(self) -> bool:
        """True if its filter leaves nothing in its subscription."""
        return self.plan.color in (None, self.home.subscriptions[self.subscription])

    @property
    def takes_something(self) -> bool:
        """True if its filter and that of its subscription have a color in common."""
        return self.takes_all or self.home.subscriptions[self.subscription] is None

    def steps(self) -> Steps:
        """The script of this consumer."""
        world = self.scene.world
        self.host.on_notification.append(self._on_notification)
        while self.scene.phase is not Phase.LEAVE and not self.present:
            session: Session | None = None
            try:
                session = yield self._new_session()
                yield from self._open(session)
            except JMSException as error:
                world.note(self.name, "loses its session", f"{error.error_code} {error}")
                self.give_up()
            if session is not None:
                if not session.closed:
                    # The broker may still have it and end it in order, when the connection is back.
                    self._on_close_in_doubt()
                yield session.close()
            yield world.random.random() * self.plan.away_s
        self.host.on_notification.remove(self._on_notification)

    def give_up(self) -> None:
        """The session is gone, or the whole client: nothing that is pending will be answered."""
        ledger = self.scene.ledger
        ledger.interrupted(self.subscription)
        self._seen.clear()
        if self._acknowledging is not None:
            ledger.acknowledgement_in_doubt(self.subscription, self._acknowledging)
            self._acknowledging = None
        if self._transaction is not None:
            if self._committing:
                ledger.transaction_in_doubt(self._transaction)
                self.scene.hit(Moment.COMMIT_IN_DOUBT)
            else:
                ledger.rolled_back(self._transaction)
        self._asked.clear()
        self._foretold.clear()
        self._transaction = None
        self._committing = False
        self._in_batch = 0

    def _new_session(self) -> Call[Session]:
        return self.host.agent().create_session_for(_MODES[self.plan.kind])

    def _undo(self, session: Session) -> Steps:
        """Rolls back. What the broker takes back then must wait for the redelivery delay."""
        scene = self.scene
        returned, before = self._batch_ids.copy(), self._rebuilds_before_batch
        rollback = scene.redeliveries.begin(self.subscription, returned, scene.world.now)
        answered = False
        try:
            yield from self._giving_back(session.rollback())
            # A session that was made again holds nothing of what it held before.
            answered = session.rebuilds == before and not session.closed
        finally:
            complaint = scene.redeliveries.end(rollback, answered=answered)
        if complaint is not None:
            scene.fail(f"{self.name}: {complaint}")

    def _open(self, session: Session) -> Steps:
        """Consumes on one session until the user leaves or the session fails."""
        plan, scene = self.plan, self.scene
        self._lives += 1
        self.session = session
        self._shown.clear()
        session.on_close_in_doubt = self._on_close_in_doubt
        filter_text = selector_of(plan.color) if plan.color is not None else None
        if self.home.automatic:
            # Its queue may not be there yet, or not any more; and it may go again before the consumer comes.
            yield session.destinations.prepare_destination(self.home.address, RoutingType.ANYCAST)
        try:
            consumer: Consumer = yield session.create_consumer(
                self.subscription, filter=filter_text, window=plan.window_bytes, priority=plan.priority
            )
        except JMSException as error:
            if error.error_code == ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED:
                scene.hit(Moment.CONSUMER_REFUSED)
            raise
        producer = session.create_producer(self.forward_to.address) if self.forward_to is not None else None
        yield session.start()
        while not session.closed and not consumer.closed:
            delivery = consumer.next(scene.world.instant)
            if delivery is None:
                if self._in_batch:
                    yield from self._end_batch(session, None)
                    continue
                if self._is_over():
                    break
                if scene.phase is Phase.WORK and scene.chance(0.1):
                    # A user that does not wait has the broker check whether there is really nothing.
                    consumer.want()
                    yield consumer.force_delivery()
                    delivery = consumer.next(scene.world.instant)
                    consumer.give_up()
            if delivery is None:
                delivery = yield from self._receive(consumer)
                if delivery is None:
                    continue
            self._handed_at = scene.world.now
            yield from self._take(session, producer, delivery)
            # In the end all users settle what they see: one that still holds messages leaves, and comes again.
            if scene.chance(plan.leave_chance) if scene.phase is Phase.WORK else self._is_over():
                break
            if plan.think_s:
                yield scene.world.random.random() * 2 * plan.think_s
        yield from self._leave(consumer)

    def _is_over(self) -> bool:
        """True if its user has no reason to wait on."""
        phase = self.scene.phase
        return phase is Phase.LEAVE or self.present or (phase is not Phase.WORK and bool(self._seen))

    def _receive(self, consumer: Consumer) -> Generator[Arrival, Any, Delivery | None]:
        """Waits for a message, as long as the user has patience; in the end for ever, so that only a message helps.

        The user requests a message once. It does not depend on what happens to what comes for it, and to its session.
        """
        scene = self.scene
        patience_s = scene.world.random.choice((0.02, 0.5, 5.0))
        gives_up_at = scene.world.now + patience_s
        consumer.want()
        while not consumer.closed and not self._is_over():
            if scene.phase is not Phase.WORK:
                consumer.acknowledgements.flush()  # a lazy consumer would keep the last ones for ever
            elif scene.world.now >= gives_up_at:
                break
            yield Arrival(consumer, min(patience_s, 0.5))
            delivery = consumer.next(scene.world.instant)
            if delivery is not None:
                return delivery
        consumer.give_up()
        return None

    def _leave(self, consumer: Consumer) -> Steps:
        """Closes the consumer in order, with what it holds: buffered messages and, perhaps, an unfinished batch."""
        ledger = self.scene.ledger
        self.scene.operate(self.name, "leaves")
        if self._transaction is not None:
            ledger.rolled_back(self._transaction)
            self._transaction = None
            self._in_batch = 0
        ledger.interrupted(self.subscription, self._seen.values())
        self._seen.clear()
        yield from self._giving_back(consumer.close())

    def _giving_back(self, call: Call[None]) -> Steps:
        """Waits for a call with which the consumer returns what it holds; others may get that before the answer."""
        self.scene.ledger.giving_back(self.subscription)
        try:
            yield call
        finally:
            self.scene.ledger.gave_back(self.subscription)

    def _take(self, session: Session, producer: Producer | None, delivery: Delivery) -> Steps:
        scene, ledger = self.scene, self.scene.ledger
        key = key_of(delivery.message)
        scene.operate(self.name, "takes", f"{key} {delivery.delivery_count}")
        if session.rebuilt:
            scene.fail(f"{self.name}: {key} was given out before its user heard that the session was made again")
        if self.plan.color is not None and delivery.message.property("color") != self.plan.color:
            scene.fail(f"{self.name}: {key} passed the filter {self.plan.color}")
        self._check_route(key, delivery.message)
        stale = not self.broker.has_session(session.name)
        finding = ledger.delivered(
            self.subscription,
            key,
            self._handed_at,
            redelivered=delivery.redelivered,
            consumer=f"{self.name}/{self._lives}",
            stale=stale,
        )
        scene.judge(finding, self.name, key)
        self._shown.append(key)
        if stale:
            # The broker has given it to another consumer, or will: whatever this user does about it means nothing.
            yield session.consumed(delivery)
            return
        self.present = scene.phase is Phase.ROLL_CALL
        match self.plan.kind:
            case ConsumerKind.PRE_ACKNOWLEDGE:
                yield session.consumed(delivery)
            case ConsumerKind.AUTO | ConsumerKind.DUPS_OK:
                yield from self._acknowledge_now(session, delivery, key)
            case ConsumerKind.INDIVIDUAL:
                self._seen[delivery.message.message_id] = key
                if delivery.message.message_id in self._seen_before_failure:
                    # It came again already, and the client has not reported yet that it has failed over.
                    self._seen_before_failure.remove(delivery.message.message_id)
                yield session.consumed(delivery)
                if scene.phase is not Phase.WORK or scene.chance(0.9):
                    yield from self._acknowledge_one(session, delivery, key)
                elif scene.chance(0.2):
                    yield from self._recover(session)
            case ConsumerKind.CLIENT | ConsumerKind.TRANSACTED:
                if self._transaction is None:
                    self._batches += 1
                    self._transaction = f"{self.name}#{self._batches}"
                    self._batch_ids.clear()
                    self._rebuilds_before_batch = session.rebuilds
                self._batch_ids.append(delivery.message.message_id)
                if self.plan.kind is ConsumerKind.TRANSACTED:
                    ledger.acknowledging(self.subscription, key, transaction=self._transaction)
                else:
                    ledger.acknowledging(self.subscription, key, batch=self._transaction)
                    self._asked.append(key)
                yield session.consumed(delivery)
                self._in_batch += 1
                if producer is not None:
                    yield from self._forward(producer)
                if self._in_batch >= self.plan.batch_max or scene.chance(0.2) or scene.phase is not Phase.WORK:
                    yield from self._end_batch(session, delivery)

    def _check_route(self, key: str, message: CoreMessage) -> None:
        """Check what a divert has added to a message."""
        scene, routes = self.scene, self.home.routes
        if routes is None or self.host.settings.client_version < VERSION_WITH_MODERN_NAMES:
            return
        complaint = routes.complaint(self.subscription, message)
        if complaint is not None:
            scene.fail(f"{self.name}: {key} in {self.subscription} {complaint}")
        if message.property("_AMQ_ORIG_QUEUE") is not None:
            scene.hit(Moment.DIVERTED)
        if self.home.address.endswith(("*", "#")):
            scene.hit(Moment.WILDCARD_DELIVERED)

    def _acknowledge_now(self, session: Session, delivery: Delivery, key: str) -> Steps:
        """One acknowledgement at once. It is confirmed only where the settings make it wait for an answer."""
        ledger = self.scene.ledger
        ledger.acknowledging(self.subscription, key)
        call = session.consumed(delivery)
        if call.done and call.error is None:
            return
        self._acknowledging = key
        failovers = self.host.failovers
        try:
            yield call
        except JMSException as error:
            self.scene.world.note(self.name, "acknowledgement fails", f"{key} {error.error_code}")
            ledger.acknowledgement_in_doubt(self.subscription, key)
            ledger.interrupted(self.subscription)
            # One that never left keeps the message with this consumer for as long as its session lives.
            self._seen[delivery.message.message_id] = key
        else:
            self._seen.pop(delivery.message.message_id, None)
            if self.host.failovers == failovers:
                finding = ledger.acknowledged(self.subscription, key, self.scene.world.now)
                self.scene.judge(finding, self.name, key)
            else:
                # The session was rebuilt meanwhile: the message belongs to no consumer now and comes again.
                ledger.acknowledgement_in_doubt(self.subscription, key)
        self._acknowledging = None

    def _recover(self, session: Session) -> Steps:
        """The user starts again with what was not acknowledged; only the broker's first message counts as delivered.

        Which one that is cannot be seen here, because a client shows messages by priority and not as they come.
        """
        self.scene.operate(self.name, "recovers")
        self.scene.ledger.interrupted(self.subscription, self._seen.values())
        self._seen.clear()
        yield from self._giving_back(session.rollback(last_message_as_delivered=True))

    def _acknowledge_one(self, session: Session, delivery: Delivery, key: str) -> Steps:
        """An acknowledgement with a separate commit."""
        ledger = self.scene.ledger
        self._batches += 1
        self._transaction = f"{self.name}#{self._batches}"
        self._seen.pop(delivery.message.message_id, None)
        ledger.acknowledging(self.subscription, key, batch=self._transaction)
        self._asked.append(key)
        yield from self._finish(session, delivery)

    def _end_batch(self, session: Session, delivery: Delivery | None) -> Steps:
        """Commits or rolls back what was taken since the last time."""
        scene, transaction = self.scene, self._transaction
        assert transaction is not None, "a batch is a transaction"
        if self.plan.kind is ConsumerKind.CLIENT and delivery is None:
            # Nothing to call acknowledge() on any more: the user recovers the session.
            roll_back = True
        else:
            roll_back = scene.phase is Phase.WORK and scene.chance(self.plan.rollback_chance)
        self._in_batch = 0
        if roll_back:
            scene.operate(self.name, "rolls back", transaction)
            scene.hit(Moment.ROLLBACK)
            scene.ledger.rolled_back(transaction)
            scene.ledger.interrupted(self.subscription)
            self._asked.clear()
            self._transaction = None
            yield from self._undo(session)
            return
        yield from self._finish(session, delivery)

    def _finish(self, session: Session, delivery: Delivery | None) -> Steps:
        """Request the commit, or the acknowledgement that is one, and note its outcome."""
        scene, transaction = self.scene, self._transaction
        assert transaction is not None, "only work is committed"
        scene.operate(self.name, "commits", transaction)
        self._committing = True
        failovers, sent = self.host.failovers, self.host.commits.of(session)
        try:
            if session.rollback_only:
                # The client rolls back instead, and others get what that returns before its user is informed.
                self._foretell()
                yield from self._giving_back(self._ending(session, delivery))
            else:
                yield self._ending(session, delivery)
        except JMSException as error:
            if self.plan.kind is ConsumerKind.TRANSACTED:
                check_commit(scene, self.name, error, self.host.commits.of(session) - sent)
            scene.world.note(self.name, "commit fails", f"{transaction} {error.error_code}")
            # The client has rolled the session back: what its user held and had not acknowledged is given back, and
            # so is what it requested to be acknowledged, if that never left.
            held = [*self._seen.values(), *self._asked]
            scene.ledger.interrupted(self.subscription, [key for key in held if key not in self._foretold])
            self._seen.clear()
            if error.error_code == ErrorCode.TRANSACTION_ROLLED_BACK:
                scene.ledger.rolled_back(transaction)
            else:
                scene.ledger.transaction_in_doubt(transaction)
                scene.hit(Moment.COMMIT_IN_DOUBT)
        else:
            scene.world.note(self.name, "has committed", transaction)
            if self.plan.kind is ConsumerKind.INDIVIDUAL and self.host.failovers != failovers:
                scene.ledger.transaction_in_doubt(transaction)
            else:
                scene.judge(scene.ledger.committed(transaction, scene.world.now), self.name, transaction)
        self._asked.clear()
        self._foretold.clear()
        self._transaction = None
        self._committing = False

    def _ending(self, session: Session, delivery: Delivery | None) -> Call[None]:
        if self.plan.kind is ConsumerKind.TRANSACTED:
            return session.commit()
        assert delivery is not None, "acknowledge() is called on a message"
        return session.acknowledge(delivery)

    def _forward(self, producer: Producer) -> Steps:
        """Send a new message inside the transaction."""
        scene, target = self.scene, self.forward_to
        assert target is not None, "only forwarders have a producer"
        self._forwarded += 1
        letter = Letter(key=f"{self.name}+{self._forwarded}", address=target.address, color=scene.color())
        scene.ledger.sent(
            letter.key,
            target.account,
            scene.world.now,
            producer=self.name,
            transaction=self._transaction,
            reaches=target.reached_by(letter.color),
        )
        scene.operate(self.name, "forwards", letter.key)
        yield producer.send(letter.build(scene.world.instant.wall_ms))

    def _on_close_in_doubt(self) -> None:
        """The client ends its session in order: what was shown and is not settled there comes again, not flagged."""
        self.scene.ledger.interrupted(self.subscription, self._shown)
        self._shown.clear()

    def _foretell(self) -> None:
        """What it holds may come to others before its user learns that the client has rolled back."""
        if not self._foretold:
            self._foretold = [*self._seen.values(), *self._asked]
            self.scene.ledger.interrupted(self.subscription, self._foretold)

    def _rebuilds(self) -> int:
        """Other sessions of the client may be rebuilt while this one goes on where it was."""
        return 0 if self.session is None else self.session.rebuilds

    def _on_notification(self, notification: Notification) -> None:
        if isinstance(notification, FailureDetected):
            if self._committing:
                # The client may roll back in order, and others get what that returns, before its user is informed.
                self._foretell()
            self._seen_before_failure = list(self._seen)
            self._rebuilds_before_failure = self._rebuilds()
        elif isinstance(notification, FailoverCompleted) and self._rebuilds() != self._rebuilds_before_failure:
            # What it had seen and not acknowledged comes again, flagged; what it had buffered may come behind others.
            # What came since its own session was rebuilt is valid: other sessions of the client may take longer.
            self.scene.ledger.interrupted(self.subscription)
            for message_id in self._seen_before_failure:
                self._seen.pop(message_id, None)
