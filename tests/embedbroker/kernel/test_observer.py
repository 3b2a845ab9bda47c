"""Followers of a broker receive every event, once, and in the order in which it happened."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import (
    Address,
    CommitObserver,
    CommittedWork,
    Consumer,
    DecisionObserver,
    Message,
    Observers,
    Outcome,
    Queue,
    Reference,
)
from embedbroker.kernel._observer import SessionView

from .letters import letter, text_of
from .stage import MULTICAST, Stage

MANY = 1000
BUDGET = 100


class Follower(CommitObserver):
    """Notes what it observes, with the id of the transaction, None without one."""

    def __init__(self, observers: Observers) -> None:
        self.heard: list[tuple[object, ...]] = []
        observers.subscribe(self)

    def routed(self, message: Message, queues: list[Queue], transaction: CommittedWork | None) -> None:
        self.heard.append(("routed", text_of(message), [queue.name for queue in queues], number(transaction)))

    def settled(self, queue: Queue, reference: Reference, outcome: Outcome, transaction: CommittedWork | None) -> None:
        self.heard.append(("settled", text_of(reference.message), queue.name, outcome, number(transaction)))

    def address_added(self, address: Address) -> None:
        self.heard.append(("address", address.name, address.definition.anycast, address.definition.multicast))

    def address_changed(self, address: Address) -> None:
        self.heard.append(("changed", address.name, address.definition.anycast, address.definition.multicast))

    def address_removed(self, address: Address) -> None:
        self.heard.append(("no address", address.name))

    def queue_added(self, queue: Queue) -> None:
        self.heard.append(("queue", queue.name))

    def queue_removed(self, queue: Queue) -> None:
        self.heard.append(("no queue", queue.name))

    def take(self) -> list[tuple[object, ...]]:
        taken, self.heard = self.heard, []
        return taken


def number(transaction: CommittedWork | None) -> int | None:
    return transaction.id if transaction is not None else None


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    return stage


@pytest.fixture
def follower(stage: Stage) -> Follower:
    return Follower(stage.kernel.observers)


def test_a_send_and_its_acknowledgement_are_told_at_once(stage: Stage, follower: Follower) -> None:
    session = stage.session()
    consumer, taker = stage.consumer(session, "q")
    stage.send(letter("a", "q", durable=True))
    assert follower.take() == [("routed", "a", ["q"], None)]
    stage.run_all()
    assert follower.take() == []
    session.settle(consumer.key, taker.messages[0].message_id)
    assert follower.take() == [("settled", "a", "q", Outcome.ACCEPTED, None)]


def test_one_message_for_several_queues_is_one_event(stage: Stage, follower: Follower) -> None:
    for name in ("x", "y"):
        stage.queue(name, "t", MULTICAST)
    follower.take()
    stage.send(letter("a", "t"), letter("b", "nobody"))
    assert follower.take() == [("routed", "a", ["x", "y"], None)]


def test_a_message_is_told_before_anybody_has_it(stage: Stage, follower: Follower) -> None:
    stage.consumer(stage.session(pre_acknowledge=True), "q")
    stage.send(letter("a", "q"))
    assert follower.take() == [("routed", "a", ["q"], None), ("settled", "a", "q", Outcome.ACCEPTED, None)]


def test_a_transaction_is_told_behind_its_commit(stage: Stage, follower: Follower) -> None:
    stage.send(letter("a", "q"), letter("r", "q"))
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    follower.take()
    session.settle(consumer.key, taker.messages[0].message_id)
    session.settle(consumer.key, taker.messages[1].message_id, Outcome.REJECTED)
    stage.send(letter("b", "q", durable=True), session=session)
    transaction = session.transaction
    assert transaction is not None and follower.take() == []
    session.commit()
    assert stage.store.records[-1][0] == "commit"
    assert follower.take() == [
        ("routed", "r", ["DLQ"], transaction.id),
        ("routed", "b", ["q"], transaction.id),
        ("settled", "a", "q", Outcome.ACCEPTED, transaction.id),
        ("settled", "r", "q", Outcome.REJECTED, transaction.id),
    ]


def test_a_rollback_tells_only_what_goes_back(stage: Stage, follower: Follower) -> None:
    stage.send(letter("a", "q"))
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run_all()
    follower.take()
    session.settle(consumer.key, taker.messages[0].message_id)
    stage.send(letter("b", "q"), session=session)
    session.rollback(last_delivered=False)
    assert follower.take() == [("settled", "a", "q", Outcome.FAILED, None)]


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.RELEASED, Outcome.FAILED, Outcome.UNDELIVERABLE_HERE])
def test_what_goes_back_is_told_once(stage: Stage, follower: Follower, outcome: Outcome, transacted: bool) -> None:
    stage.send(letter("a", "q"))
    session = stage.session(transacted=transacted)
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run_all()
    follower.take()
    session.settle(consumer.key, taker.messages[0].message_id, outcome)
    session.commit()
    assert follower.take() == [("settled", "a", "q", outcome, None)]


@pytest.mark.parametrize("address", [None, "DLQ"])
def test_one_delivery_too_many_is_a_failure_and_then_a_rejection(address: str | None) -> None:
    stage = Stage({"#": AddressSettings(max_delivery_attempts=1, dead_letter_address=address)})
    stage.queue("q")
    follower = Follower(stage.kernel.observers)
    stage.send(letter("a", "q"))
    session = stage.session()
    stage.consumer(session, "q")
    stage.run_all()
    follower.take()
    session.close(failed=True)
    heard = [event[:4] for event in follower.take()]
    moved = [("routed", "a", ["DLQ"])] if address else []
    assert [event[:3] if event[0] == "routed" else event for event in heard] == [
        ("settled", "a", "q", Outcome.FAILED),
        *moved,
        ("settled", "a", "q", Outcome.REJECTED),
    ]


def test_what_expires_or_is_purged_is_told_although_nobody_had_it(stage: Stage, follower: Follower) -> None:
    stage.queue("p", purge_on_no_consumers=True)
    session = stage.session()
    consumer, _taker = stage.consumer(session, "p", credit=0)
    stage.send(letter("a", "p"), letter("e", "q", expiration=stage.kernel.now_ms + 10))
    follower.take()
    session.close_consumer(consumer.key)
    assert follower.take() == [("settled", "a", "p", Outcome.ACCEPTED, None)]
    stage.pass_time(100)
    assert [event[:2] for event in follower.take()] == [("routed", "e"), ("settled", "e")]


def test_queues_and_addresses_come_and_go(stage: Stage, follower: Follower) -> None:
    queue = stage.queue("new", auto_created=True)
    assert follower.take() == [("address", "new", True, False), ("queue", "new")]
    stage.queue("other", "new", MULTICAST)
    assert follower.take() == [("changed", "new", True, True), ("queue", "other")]
    stage.send(letter("a", "new"))
    follower.take()
    for each in (stage.kernel.address_manager.queues["other"], queue):
        stage.kernel.teardown.delete_queue(each, keep_address=True)
    stage.kernel.address_manager.remove_address(stage.kernel.address_manager.addresses["new"])
    assert follower.take() == [("no queue", "other"), ("no queue", "new"), ("no address", "new")]


def test_a_large_commit_is_told_over_several_steps_and_what_follows_stays_behind_it(
    stage: Stage, follower: Follower
) -> None:
    session = stage.session(transacted=True)
    _consumer, _taker = stage.consumer(stage.session(pre_acknowledge=True), "q")
    texts = [str(number) for number in range(MANY)]
    stage.send(*[letter(text, "q") for text in texts], session=session)
    session.commit()
    stage.send(letter("behind", "q"))
    stage.queue("later")
    while stage.kernel.has_work:
        before = len(follower.heard)
        stage.run(BUDGET)
        assert len(follower.heard) - before <= 2 * BUDGET
    heard = follower.take()
    assert [event[1] for event in heard if event[0] == "routed"] == [*texts, "behind"]
    assert [event[1] for event in heard if event[0] == "settled"] == [*texts, "behind"]
    assert ("queue", "later") in heard[MANY:]
    for text in texts:
        routed = next(at for at, event in enumerate(heard) if event[:2] == ("routed", text))
        assert heard.index(("settled", text, "q", Outcome.ACCEPTED, None)) > routed
    stage.assert_empty()


def test_a_mirror_may_send_while_a_commit_is_shown() -> None:
    stage = Stage(lags=True)
    for name in ("q", "copies", "r"):
        stage.queue(name)

    def send_copy(queue: Queue, reference: Reference, _outcome: Outcome, _transaction: CommittedWork | None) -> None:
        if queue.name == "q":
            stage.kernel.router.send(letter("copy of " + text_of(reference.message), "copies"), None, None)

    stage.kernel.observers.commit.settled.append(send_copy)
    Follower(stage.kernel.observers)
    # They settle while they are shown something.
    _consumer, taker = stage.consumer(stage.session(pre_acknowledge=True), "q")
    transacted = stage.session(transacted=True)
    # So few that followers receive them at once.
    texts = [str(number) for number in range(30)]
    stage.send(*[letter(text, "q", durable=True) for text in texts], session=transacted)
    transacted.commit()
    stage.send(*[letter(text, "r", durable=True) for text in texts])
    stage.store.sync()
    stage.run_all()
    assert taker.texts == texts
    assert stage.waiting("copies") == [f"copy of {text}" for text in texts]
    assert stage.waiting("r") == texts
    for name in ("copies", "r"):
        stage.consumer(stage.session(pre_acknowledge=True), name)
    stage.store.sync()
    stage.assert_empty()


def test_a_mirror_may_send_what_it_hears(stage: Stage) -> None:
    stage.queue("mirror")

    def copy(message: Message, queues: list[Queue], _transaction: CommittedWork | None) -> None:
        if queues[0].name != "mirror":
            stage.send(letter(text_of(message), "mirror", durable=message.durable))

    stage.kernel.observers.commit.routed.append(copy)
    session = stage.session(transacted=True)
    stage.send(letter("a", "q", durable=True))
    stage.send(letter("b", "q", durable=True), letter("c", "q"), session=session)
    session.commit()
    stage.run_all()
    assert (stage.waiting("q"), stage.waiting("mirror")) == (["a", "b", "c"], ["a", "b", "c"])


class Clients(CommitObserver):
    """Notes sessions and consumers that come and go."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def session_added(self, session: SessionView) -> None:
        self.seen.append(f"session {session.name}")

    def session_removed(self, session: SessionView) -> None:
        self.seen.append(f"no session {session.name}")

    def consumer_added(self, consumer: Consumer) -> None:
        self.seen.append(f"consumer of {consumer.queue.name}")

    def consumer_removed(self, consumer: Consumer) -> None:
        self.seen.append(f"no consumer of {consumer.queue.name}")


def test_sessions_and_consumers_that_come_and_go_are_observed(stage: Stage) -> None:
    clients = Clients()
    stage.kernel.observers.subscribe(clients)
    session = stage.session()
    stage.consumer(session, "q")
    stage.consumer(session, "q", browse=True)
    session.close(failed=False)
    assert clients.seen == [
        f"session {session.name}",
        *["consumer of q"] * 2,
        *["no consumer of q"] * 2,
        f"no session {session.name}",
    ]


class Decisions(DecisionObserver):
    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def routed(self, queue: Queue, message_id: int, durable: bool, transaction_id: int) -> None:
        self.seen.append(("routed", queue.name, durable, transaction_id > 0))

    def delivered(self, consumer: Consumer, reference: Reference) -> None:
        self.seen.append(("delivered", reference.delivery_count))

    def returned(self, queue: Queue, message_id: int, counted: bool) -> None:
        self.seen.append(("returned", queue.name, counted))


def test_an_observer_of_decisions_is_called_before_the_commit_until_it_unsubscribes(stage: Stage) -> None:
    decisions, follower = Decisions(), Follower(stage.kernel.observers)
    stage.kernel.observers.subscribe(decisions)
    consumer_session = stage.session()
    stage.consumer(consumer_session, "q")
    session = stage.session(transacted=True)
    stage.send(letter("a", "q"), session=session)
    assert decisions.seen == [("routed", "q", False, True)]
    assert follower.take() == []
    session.commit()
    stage.run()
    consumer_session.close(failed=True)
    assert decisions.seen[1:] == [("delivered", 1), ("returned", "q", True)]
    stage.kernel.observers.unsubscribe(decisions)
    stage.send(letter("b", "q"))
    assert len(decisions.seen) == 3


def test_what_an_observer_does_not_override_is_not_called(stage: Stage) -> None:
    stage.kernel.observers.subscribe(Clients())
    stage.kernel.observers.subscribe(Decisions())
    assert not stage.kernel.observers.follow_messages
    assert not stage.kernel.observers.decision.settled
