"""Commit sets: all branches and the marker, or nothing."""

from __future__ import annotations

import pytest

from embedbroker.kernel import (
    BranchMissing,
    CommitSet,
    CommitSetDone,
    FencingToken,
    FencingTokenMoved,
    Session,
    TransactionState,
    name_of,
)
from embedbroker.kernel.xa import _fencing_token as _marker
from embedclient.model import XaCode, Xid
from tests.embedbroker.kernel.letters import letter, text_of
from tests.embedbroker.kernel.stage import MULTICAST, Stage


def xid(number: int) -> Xid:
    return Xid(7, b"branch", b"transaction %d" % number)


def send_in(stage: Stage, number: int, *texts: str, address: str = "q", session: Session | None = None) -> Session:
    """Begin a branch and send durable messages in it, which is left open."""
    session = session if session is not None else stage.session(transacted=True)
    assert stage.kernel.branches.start(session, xid(number)) is None
    stage.send(*(letter(text, address, durable=True) for text in texts), session=session)
    return session


def prepare(stage: Stage, number: int, session: Session) -> None:
    branches = stage.kernel.branches
    assert branches.end(session, xid(number)) is None
    assert branches.prepare(session, xid(number)) is None


def prepared(stage: Stage, number: int, *texts: str, address: str = "q") -> Session:
    session = send_in(stage, number, *texts, address=address)
    prepare(stage, number, session)
    return session


def put(stage: Stage, value: int, *numbers: int, expected: int | None = None) -> list[object]:
    """Ask for a set with marker ``m``; returns the list in which the answer will stand."""
    done: list[object] = []
    stage.kernel.commit_sets.commit("m", expected, value, [xid(number) for number in numbers], done.append)
    return done


def commit(stage: Stage, value: int, *numbers: int, expected: int | None = None) -> object:
    """The same, and let the kernel finish; returns the answer."""
    done = put(stage, value, *numbers, expected=expected)
    stage.run_all()
    (answer,) = done
    return answer


def refused(stage: Stage, value: int, *numbers: int, expected: int | None = None) -> object:
    """Why a set is refused; it leaves no trace."""
    before = len(stage.store.records), stage.kernel.fencing_tokens.list(""), stage.kernel.branches.in_doubt()
    reason = commit(stage, value, *numbers, expected=expected)
    assert not isinstance(reason, CommitSetDone)
    assert before == (len(stage.store.records), stage.kernel.fencing_tokens.list(""), stage.kernel.branches.in_doubt())
    return reason


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    return stage


def test_branches_are_committed_in_the_order_of_the_set_with_one_record(stage: Stage) -> None:
    other = stage.queue("r")
    q = stage.kernel.address_manager.queues["q"]
    prepared(stage, 1, "a", "b")
    prepared(stage, 2, "x", address="r")
    prepared(stage, 3, "c")
    ids = [branch.transaction.id for branch in stage.kernel.branches.prepared()]
    assert stage.waiting("q") == []
    assert commit(stage, 5, 3, 1, 2) == CommitSetDone(5)
    assert stage.waiting("q") == ["c", "a", "b"] and stage.waiting("r") == ["x"]
    ((_, record),) = stage.store.of_kind("fact")
    assert isinstance(record, CommitSet) and record.marker == FencingToken(record.marker.id, "m", 5)
    assert list(record.transaction_ids) == [ids[2], ids[0], ids[1]]
    assert list(record.places) == [ids[2], 1, q.id, 0, ids[0], 1, q.id, 1, ids[1], 1, other.id, 3]
    positions = [reference.position for reference in q.backlog]
    assert positions == [record.first_position + ordinal for ordinal in range(3)]
    assert not stage.store.of_kind("commit", "rollback") and not stage.kernel.branches.in_doubt()
    assert stage.kernel.fencing_tokens.get("m") == 5


def test_a_set_of_branches_to_several_queues_and_without_any_of_them(stage: Stage) -> None:
    stage.queue("t1", "t", MULTICAST)
    stage.queue("t2", "t", MULTICAST)
    stage.queue("brief", "t", MULTICAST, durable=False)
    prepared(stage, 1, "a", address="t")
    prepared(stage, 2)
    prepared(stage, 3, "b", address="t")
    assert commit(stage, 1, 1, 2, 3) == CommitSetDone(1)
    assert stage.waiting("t1") == stage.waiting("t2") == stage.waiting("brief") == ["a", "b"]


@pytest.mark.parametrize("clears_before", [False, True])
def test_a_clear_of_duplicate_ids_includes_those_of_a_set_whose_record_is_written(
    stage: Stage, clears_before: bool
) -> None:
    session = stage.session(transacted=True)
    assert stage.kernel.branches.start(session, xid(1)) is None
    for number in range(200):
        session.send(letter(f"{number}", "q", durable=True), None, b"id %d" % number)
    prepare(stage, 1, session)
    answer = put(stage, 1, 1)
    while not clears_before and not answer:
        stage.run(1)
    address = stage.kernel.address_manager.addresses["q"]
    assert not address.duplicate_ids
    stage.kernel.duplicates.forget_all(address)
    # Without its record, the commit is later than the clear.
    assert bool(stage.store.of_kind("clear ids")) is not clears_before
    stage.run_all()
    assert len(address.duplicate_ids or ()) == (200 if clears_before else 0)
    assert stage.kernel.statistics().claimed_duplicate_ids == 0
    assert len(stage.waiting("q")) == 200


def test_a_set_without_branches_moves_its_marker(stage: Stage) -> None:
    assert commit(stage, 1) == CommitSetDone(1)
    assert commit(stage, 2, expected=1) == CommitSetDone(2)
    assert stage.kernel.fencing_tokens.get("m") == 2


def test_nobody_sees_anything_before_the_record_is_durable() -> None:
    stage = Stage(lags=True)
    stage.queue("q")
    prepared(stage, 1, "a")
    prepared(stage, 2, "b")
    stage.store.sync()
    assert commit(stage, 1, 1, 2) == CommitSetDone(1)
    assert stage.waiting("q") == []
    stage.store.sync()
    stage.run_all()
    assert stage.waiting("q") == ["a", "b"]


def test_what_branches_acknowledged_leaves_with_the_set(stage: Stage) -> None:
    stage.send(*(letter(str(number), "q", durable=True) for number in range(200)))
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    assert stage.kernel.branches.start(session, xid(1)) is None
    session.settle(consumer.key, taker.messages[-1].message_id, through=True)
    prepare(stage, 1, session)
    # Prepared, but its acknowledgements and its own record are still to be written.
    assert stage.kernel.deferred.waiting and not stage.store.of_kind("prepare")
    assert commit(stage, 1, 1) == CommitSetDone(1)
    kinds = [record[0] for record in stage.store.of_kind("acknowledge", "prepare", "fact")]
    assert kinds == ["acknowledge"] * 200 + ["prepare", "fact"]
    stage.assert_empty()


def test_a_set_that_comes_again_changes_nothing_and_rolls_back_what_is_there(stage: Stage) -> None:
    prepared(stage, 1, "a")
    commit(stage, 5, 1)
    prepared(stage, 2, "a again")
    open_one = send_in(stage, 3, "a once more")
    idle = send_in(stage, 4, "and more")
    stage.kernel.branches.end(idle, xid(4))
    suspended = send_in(stage, 5, "and still more")
    stage.kernel.branches.suspend(suspended)
    assert commit(stage, 5, 1, 2, 3, 4, 5) == CommitSetDone(5, replayed=True)
    assert stage.waiting("q") == ["a"] and not stage.kernel.branches.in_doubt()
    assert all(stage.kernel.branches.find(xid(number)) is None for number in range(1, 6))
    # The session that still works in a branch receives the news.
    refusal = stage.kernel.branches.end(open_one, xid(3))
    assert refusal is not None and refusal.code is XaCode.XA_RBROLLBACK
    assert len(stage.store.of_kind("fact")) == 1


def test_a_set_below_the_marker_is_a_replay_whatever_it_expected(stage: Stage) -> None:
    commit(stage, 5)
    assert commit(stage, 3, expected=2) == CommitSetDone(5, replayed=True)
    assert stage.kernel.fencing_tokens.get("m") == 5


def test_a_set_that_comes_again_while_it_is_carried_out_is_a_replay(stage: Stage) -> None:
    for number in range(100):
        prepared(stage, number, str(number))
    first, second = put(stage, 1, *range(100)), put(stage, 1, *range(100))
    while not stage.store.of_kind("fact"):
        assert not first and not second
        stage.run(budget=9)
    stage.run_all(budget=9)
    assert (first, second) == ([CommitSetDone(1)], [CommitSetDone(1, replayed=True)])
    assert stage.waiting("q") == [str(number) for number in range(100)]


def test_a_set_with_another_marker_than_expected_is_refused(stage: Stage) -> None:
    prepared(stage, 1, "a")
    assert refused(stage, 5, 1, expected=4) == FencingTokenMoved(None)
    commit(stage, 2)
    assert refused(stage, 5, 1, expected=1) == refused(stage, 5, 1) == FencingTokenMoved(2)
    assert commit(stage, 5, 1, expected=2) == CommitSetDone(5)


def test_a_branch_that_is_not_there_is_named(stage: Stage) -> None:
    prepared(stage, 1, "a")
    reason = refused(stage, 1, 1, 2)
    assert reason == BranchMissing(xid(2), False, f"{name_of(xid(2))} is not known")


@pytest.mark.parametrize(("step", "state"), [("open", "worked in"), ("suspended", "suspended"), ("ended", "idle")])
def test_a_branch_that_is_not_prepared_is_named_with_where_it_stands(stage: Stage, step: str, state: str) -> None:
    prepared(stage, 1, "a")
    session = send_in(stage, 2, "b")
    if step == "suspended":
        stage.kernel.branches.suspend(session)
    elif step == "ended":
        stage.kernel.branches.end(session, xid(2))
    assert refused(stage, 1, 1, 2) == BranchMissing(xid(2), True, f"{name_of(xid(2))} is {state}, not prepared")


@pytest.mark.parametrize("settles_first", [False, True])
def test_a_branch_whose_prepare_is_not_recorded_yet_is_not_prepared(stage: Stage, settles_first: bool) -> None:
    stage.send(*(letter(str(number), "q", durable=True) for number in range(300)))
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    assert stage.kernel.branches.start(session, xid(1)) is None
    last = taker.messages[-1].message_id
    if settles_first:
        session.settle(consumer.key, last, through=True)
        done = put(stage, 1, 1)
    else:
        done = put(stage, 1, 1)
        session.settle(consumer.key, last, through=True)
    # All of it is asked for behind the set, which finds the branch in its state by then.
    prepare(stage, 1, session)
    stage.run_all(budget=9)
    assert done == [BranchMissing(xid(1), True, f"{name_of(xid(1))} is being prepared, not prepared")]
    assert stage.kernel.fencing_tokens.get("m") is None and stage.kernel.branches.in_doubt() == [xid(1)]
    assert commit(stage, 1, 1) == CommitSetDone(1)
    kinds = [record[0] for record in stage.store.of_kind("acknowledge", "prepare", "fact")]
    assert kinds == ["acknowledge"] * 300 + ["prepare", "fact"]
    stage.assert_empty()


def test_a_branch_that_an_operator_decided_is_named(stage: Stage) -> None:
    prepared(stage, 1, "a")
    prepared(stage, 2, "b")
    stage.kernel.branches.decide(xid(2), commit=False)
    reason = refused(stage, 1, 1, 2)
    assert isinstance(reason, BranchMissing) and not reason.is_known and "was decided by an operator" in reason.text
    # A replay leaves the decision to the manager that must get it.
    commit(stage, 1, 1)
    assert commit(stage, 1, 1, 2) == CommitSetDone(1, replayed=True)
    assert stage.kernel.branches.in_doubt() == [xid(2)]


def test_a_set_needs_room_for_its_marker(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_marker, "FENCING_TOKENS_MAX", 0)
    prepared(stage, 1, "a")
    assert refused(stage, 1, 1) is not None


def test_nobody_else_decides_a_branch_of_a_set_that_is_being_carried_out(stage: Stage) -> None:
    for number in range(100):
        prepared(stage, number, str(number))
    done = put(stage, 1, *range(100))
    while stage.kernel.branches.find(xid(99)) is not None:
        stage.run(budget=9)
    assert not done and not stage.store.of_kind("fact")
    session, branches = stage.session(transacted=True), stage.kernel.branches
    for answer in (branches.rollback(session, xid(99)), branches.commit(session, xid(99), one_phase=False)):
        assert answer is not None and answer.code == XaCode.XAER_NOTA
    assert not branches.decide(xid(99), commit=False)
    stage.run_all(budget=9)
    assert done == [CommitSetDone(1)] and len(stage.waiting("q")) == 100


def test_a_branch_that_is_decided_while_a_set_looks_its_branches_up_is_missing(stage: Stage) -> None:
    for number in range(100):
        prepared(stage, number, str(number))
    done = put(stage, 1, *range(100))
    stage.run(budget=9)
    session, branches = stage.session(transacted=True), stage.kernel.branches
    assert branches.commit(session, xid(0), one_phase=False) is None
    stage.run_all(budget=9)
    assert done == [BranchMissing(xid(0), False, f"{name_of(xid(0))} is not known")]
    assert stage.waiting("q") == ["0"] and len(branches.in_doubt()) == 99
    assert stage.kernel.fencing_tokens.get("m") is None


def test_messages_sent_while_a_set_is_gathered_stand_before_it_and_those_after_it_behind(stage: Stage) -> None:
    for number in range(100):
        prepared(stage, number, str(number))
    done = put(stage, 1, *range(100))
    stage.run(budget=9)
    stage.send(letter("before", "q", durable=True))
    while not done:
        stage.run(budget=9)
    stage.send(letter("after", "q", durable=True))
    stage.run_all(budget=9)
    assert stage.waiting("q") == ["before", *map(str, range(100)), "after"]
    positions = [reference.position for reference in stage.kernel.address_manager.queues["q"].backlog]
    assert positions == sorted(positions) and len(set(positions)) == 102


def test_duplicate_ids_of_its_branches_come_into_force_with_the_set(stage: Stage) -> None:
    session = stage.session(transacted=True)
    stage.kernel.branches.start(session, xid(1))
    assert session.send(letter("a", "q", durable=True), None, b"once") is None
    prepare(stage, 1, session)
    commit(stage, 1, 1)
    plain = stage.session()
    plain.send(letter("a again", "q", durable=True), None, b"once")
    stage.run_all()
    assert stage.waiting("q") == ["a"]


def test_a_queue_that_is_deleted_before_the_set_is_carried_out_takes_what_it_would_have_got(stage: Stage) -> None:
    prepared(stage, 1, "a")
    doomed = stage.queue("doomed")
    prepared(stage, 2, "b", address="doomed")
    stage.kernel.teardown.delete_queue(doomed)
    assert commit(stage, 1, 1, 2) == CommitSetDone(1)
    assert stage.waiting("q") == ["a"]
    ((_, record),) = stage.store.of_kind("fact")
    assert isinstance(record, CommitSet) and doomed.id not in record.places
    session = stage.session()
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    session.settle(consumer.key, taker.messages[0].message_id)
    stage.assert_empty()


def test_followers_hear_of_a_set_behind_its_record_in_its_order(stage: Stage) -> None:
    heard: list[str] = []
    stage.kernel.observers.commit.routed.append(lambda message, _queues, transaction: heard.append(text_of(message)))
    prepared(stage, 1, "a")
    prepared(stage, 2, "b")
    assert heard == []
    commit(stage, 1, 2, 1)
    assert heard == ["b", "a"]


def test_transactions_of_a_set_are_over_and_hold_no_queue(stage: Stage) -> None:
    queue = stage.kernel.address_manager.queues["q"]
    prepared(stage, 1, "a")
    (branch,) = stage.kernel.branches.prepared()
    assert queue.pledged == 1
    commit(stage, 1, 1)
    assert queue.pledged == 0 and branch.transaction.state is TransactionState.ENDED


def test_followers_hear_of_all_that_a_set_acknowledged_behind_what_it_sent(stage: Stage) -> None:
    stage.send(*(letter(str(number), "q", durable=True) for number in range(300)))
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    heard: list[str] = []
    stage.kernel.observers.commit.routed.append(lambda message, _queues, _transaction: heard.append(text_of(message)))
    stage.kernel.observers.commit.settled.append(lambda _queue, reference, *_: heard.append(text_of(reference.message)))
    stage.queue("r")
    send_in(stage, 1, "sent", address="r", session=session)
    session.settle(consumer.key, taker.messages[-1].message_id, through=True)
    prepare(stage, 1, session)
    stage.run_all()
    done = put(stage, 1, 1)
    stage.run_all(budget=9)
    assert done == [CommitSetDone(1)]
    assert heard == ["sent", *map(str, range(300))]
    assert stage.kernel.address_manager.queues["q"].message_count == 0
