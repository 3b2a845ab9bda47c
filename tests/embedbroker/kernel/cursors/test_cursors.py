"""Cursors: ranges that are pinned, read twice, acknowledged by position; leases; what others may not do meanwhile."""

from __future__ import annotations

from itertools import islice

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import Consumer, CursorRefused, Cursors, CursorState, Leaving, Outcome, Pin, Reading, Refused
from embedbroker.protocols import restore_message
from tests.embedbroker.kernel.letters import letter, text_of
from tests.embedbroker.kernel.stage import Stage, Taker

PLENTY = 1 << 20


@pytest.fixture
def stage() -> Stage:
    stage = Stage({"#": AddressSettings(max_delivery_attempts=1, dead_letter_address="dead")})
    stage.queue("q")
    return stage


def send(stage: Stage, *texts: str, durable: bool = True, **wishes: int) -> None:
    stage.send(*[letter(text, "q", durable=durable, **wishes) for text in texts])  # type: ignore[arg-type]
    stage.run_all()


def opened(
    stage: Stage, owner: str = "job", *, start: int | None = 0, take_over: bool = False, discards: bool = False
) -> CursorState:
    standing = cursors(stage).open("q", "c", owner, 10_000, take_over=take_over, start=start, discards=discards)
    assert isinstance(standing, CursorState), standing
    return standing


def refused_to_open(stage: Stage, name: str = "c", owner: str = "job") -> CursorRefused:
    refused = stage.kernel.cursors.open("q", name, owner, 10_000, take_over=False, start=0)
    assert isinstance(refused, CursorRefused), refused
    return refused


def asked(stage: Stage, start: int, owner: str = "job", rows_max: int = 0, bytes_max: int = 0) -> Pin | CursorRefused:
    answers: list[Pin | CursorRefused] = []
    stage.kernel.cursors.pin("q", "c", owner, start, answers.append, rows_max=rows_max, bytes_max=bytes_max)
    stage.run_all()
    (answer,) = answers
    return answer


def pinned(stage: Stage, start: int = 0, rows_max: int = 0, bytes_max: int = 0) -> Pin:
    pin = asked(stage, start, rows_max=rows_max, bytes_max=bytes_max)
    assert isinstance(pin, Pin), pin
    return pin


def read(stage: Stage, after: int, until: int, bytes_max: int = PLENTY) -> tuple[list[str], int]:
    answers: list[Reading | CursorRefused] = []
    refused = stage.kernel.cursors.read("q", "c", after, until, bytes_max, answers.append)
    assert refused is None, refused
    stage.run_all()
    (reading,) = answers
    assert isinstance(reading, Reading), reading
    return [text_of(restore_message(row[3], row[4])) for row in reading.rows], reading.next_position


def cursors(stage: Stage) -> Cursors:
    return stage.kernel.cursors


def test_a_range_is_pinned_read_twice_and_acknowledged(stage: Stage) -> None:
    send(stage, "a", "b", "c")
    assert opened(stage) == CursorState(0, 0, 10_000)
    pin = pinned(stage, rows_max=2)
    assert (pin.rows, pin.lost) == (2, 0)
    assert read(stage, 0, pin.end) == read(stage, 0, pin.end) == (["a", "b"], pin.end)
    records = len(stage.store.records)
    assert cursors(stage).acknowledge("q", "c", "job", pin.end) == pin.end
    assert [record[0] for record in stage.store.records[records:]] == ["cursor", "acknowledge", "acknowledge"]
    assert cursors(stage).acknowledge("q", "c", "job", pin.end - 1) == pin.end
    assert stage.waiting("q") == ["c"]
    following = pinned(stage, pin.end)
    assert (following.rows, read(stage, pin.end, following.end)[0]) == (1, ["c"])
    assert isinstance(cursors(stage).acknowledge("q", "c", "job", following.end), int)
    stage.assert_empty()


def test_an_owner_is_told_whose_the_lease_was_before_as_often_as_it_asks(stage: Stage) -> None:
    assert [opened(stage).before for _ in range(2)] == [None, None]
    assert [opened(stage, "other", take_over=True).before for _ in range(2)] == ["job", "job"]
    cursors(stage).release("q", "c", "other")
    assert [opened(stage).before for _ in range(2)] == ["", ""]
    cursor = stage.kernel.address_manager.queues["q"].cursor
    assert cursor is not None
    cursor.lease_until = 0.0
    assert cursors(stage).give_way(stage.kernel.address_manager.queues["q"]) is None
    assert [opened(stage).before for _ in range(2)] == ["", ""]


def test_rows_of_all_priorities_come_by_position(stage: Stage) -> None:
    for text, priority in (("a", 4), ("b", 9), ("c", 0), ("d", 9)):
        send(stage, text, priority=priority)
    opened(stage)
    assert read(stage, 0, pinned(stage).end)[0] == ["a", "b", "c", "d"]


def test_pinning_goes_on_where_it_was_and_never_back(stage: Stage) -> None:
    send(stage, *"abcd")
    opened(stage)
    first = pinned(stage, rows_max=2)
    assert pinned(stage, rows_max=1).end == first.end
    assert pinned(stage, first.end, rows_max=1).rows == 1
    assert pinned(stage, first.end).rows == 2
    refused = asked(stage, 0)
    assert isinstance(refused, CursorRefused)
    assert refused.reason == "bad-request"
    last = pinned(stage, first.end).end
    beyond = cursors(stage).acknowledge("q", "c", "job", last + 1)
    assert isinstance(beyond, CursorRefused)
    assert beyond.reason == "bad-request"


def test_bytes_limit_a_range_that_has_one_message_at_least(stage: Stage) -> None:
    send(stage, *"abc")
    size = len(next(iter(stage.kernel.address_manager.queues["q"].backlog)).message.stored_bytes())
    opened(stage)
    assert pinned(stage, bytes_max=1).rows == 1
    pin = pinned(stage, bytes_max=2 * size)
    assert (pin.rows, pin.size_bytes) == (2, 2 * size)
    texts, reached = read(stage, 0, pin.end, bytes_max=1)
    assert texts == ["a"]
    assert read(stage, reached, pin.end, bytes_max=1) == (["b"], pin.end)


def test_an_end_that_is_pinned_covers_what_waits_for_its_disk() -> None:
    """Case 1: nothing that comes later stands before it."""
    stage = Stage()
    stage.queue("q")
    opened(stage)
    stage.store.lags = True
    stage.send(letter("slow", "q", durable=True), letter("quick", "q"))
    stage.run_all()
    empty = pinned(stage)
    assert (empty.rows, empty.end) == (0, 0)
    stage.store.sync()
    stage.run_all()
    assert read(stage, 0, pinned(stage).end)[0] == ["slow", "quick"]


def test_a_message_sent_early_and_committed_late_is_behind_the_end(stage: Stage) -> None:
    """Case 2."""
    session = stage.session(transacted=True)
    stage.send(letter("early", "q", durable=True), session=session)
    send(stage, "between")
    opened(stage)
    first = pinned(stage)
    session.commit()
    stage.run_all()
    assert read(stage, first.end, pinned(stage, first.end).end)[0] == ["early"]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("transacted", [False, True])
def test_what_followers_send_is_behind_what_they_are_told_of(stage: Stage, transacted: bool, durable: bool) -> None:
    """Case 3, with and without a transaction: a consumer gets it in the order in which it becomes visible."""
    _consumer, taker = stage.consumer(stage.session(), "q")

    def follow(message: object, _queues: object, _transaction: object) -> None:
        if text_of(message) == "told":
            stage.send(letter("following", "q"))

    stage.kernel.observers.commit.routed.append(follow)
    session = stage.session(transacted=transacted)
    stage.send(letter("told", "q", durable=durable), session=session)
    if transacted:
        session.commit()
    stage.run_all()
    assert taker.texts == ["told", "following"]


def test_what_goes_back_within_a_commit_is_behind_what_the_commit_sent(stage: Stage) -> None:
    """Case 3: a delivery that was the last attempt moves to the queue that the transaction sent to."""
    stage.queue("work")
    stage.kernel.address_manager.provide_targets(AddressSettings(dead_letter_address="dead"))
    _consumer, dead = stage.consumer(stage.session(), "dead")
    session = stage.session(transacted=True)
    consumer, _taker = stage.consumer(session, "work")
    stage.send(letter("bad", "work", durable=True))
    stage.run_all()
    stage.send(letter("report", "dead", durable=True), session=session)
    (message_id,) = consumer.unsettled
    assert session.settle(consumer.key, message_id, Outcome.FAILED) is None
    session.commit()
    stage.run_all()
    assert dead.texts == ["report", "bad"]


def test_a_large_commit_is_pinned_as_far_as_it_is_visible(stage: Stage) -> None:
    """Case 4."""
    session = stage.session(transacted=True)
    stage.send(*[letter(str(number), "q", durable=True) for number in range(200)], session=session)
    session.commit()
    opened(stage)
    stage.run(50)
    answers: list[Pin | CursorRefused] = []
    cursors(stage).pin("q", "c", "job", 0, answers.append)
    (first,) = answers
    assert isinstance(first, Pin)
    assert 0 < first.rows < 200
    stage.run_all()
    behind = pinned(stage, first.end)
    assert first.rows + behind.rows == 200


def test_a_queue_with_messages_in_a_transaction_is_in_use(stage: Stage) -> None:
    """Case 5: a rollback would bring them back among those that were skipped."""
    send(stage, "a", "b")
    session = stage.session(client=True)
    consumer, _taker = stage.consumer(session, "q", credit=1)
    stage.run_all()
    assert refused_to_open(stage).reason == "in-use"
    session.settle(consumer.key, next(iter(consumer.unsettled)))
    session.close_consumer(consumer.key)
    stage.run_all()
    assert "1 messages of it are in delivery" in refused_to_open(stage).text
    session.commit()
    stage.run_all()
    opened(stage)
    assert read(stage, 0, pinned(stage).end)[0] == ["b"]


def test_consumers_are_refused_while_the_lease_is_in_force_and_end_it_afterwards(stage: Stage) -> None:
    send(stage, "a", "b")
    opened(stage)
    pin = pinned(stage)
    stage.pass_time(9)
    session = stage.session()
    refused = session.create_consumer(1, "q", None, Taker(), browse=False, priority=0)
    assert isinstance(refused, Refused)
    assert "read by cursor 'c' of 'job', for 1.0 seconds more" in refused.text
    _browser, browsed = stage.consumer(session, "q", browse=True)
    stage.run_all()
    assert browsed.texts == ["a", "b"]
    stage.pass_time(2)
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run_all()
    assert taker.texts == ["a"]
    lost = asked(stage, 0)
    assert isinstance(lost, CursorRefused)
    assert lost.reason == "lost-lease"
    assert session.settle(consumer.key, next(iter(consumer.unsettled))) is None
    session.close_consumer(consumer.key)
    stage.run_all()
    assert opened(stage).end == pin.end
    after = pinned(stage)
    assert (after.lost, after.rows) == (1, 1)
    assert pinned(stage) == after
    assert pinned(stage, after.end).lost == 0


def test_a_lease_that_ran_out_is_its_owners_again_if_nobody_came(stage: Stage) -> None:
    send(stage, "a")
    opened(stage)
    pin = pinned(stage)
    stage.pass_time(11)
    unread: list[Reading | CursorRefused] = []
    refused = cursors(stage).read("q", "c", 0, pin.end, PLENTY, unread.append)
    assert refused is not None
    assert refused.reason == "not-pinned"
    assert cursors(stage).renew("q", "c", "job") == 0
    assert read(stage, 0, pin.end)[0] == ["a"]


def test_another_owner_waits_or_takes_over(stage: Stage) -> None:
    send(stage, "a")
    opened(stage)
    pinned(stage)
    held = refused_to_open(stage, owner="other")
    assert (held.reason, held.owner, held.lease_ms) == ("held", "job", 10_000)
    assert refused_to_open(stage, name="second").reason == "held"
    opened(stage, "other", take_over=True)
    lost = cursors(stage).renew("q", "c", "job")
    assert isinstance(lost, CursorRefused)
    assert (lost.reason, lost.owner) == ("lost-lease", "other")
    assert isinstance(cursors(stage).release("q", "c", "other"), int)
    opened(stage)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("way", ["a range is pinned", "a lease is taken up again", "a range is acknowledged"])
def test_a_range_that_its_reader_may_rely_on_is_left_alone_by_an_expiry_scan_that_is_under_way(
    way: str, returned: bool
) -> None:
    stage = Stage(
        {"#": AddressSettings(expiry_address="expired")}, message_expiry_scan_period_ms=1000, work_per_step_max=320
    )
    stage.queue("q")
    soon = stage.kernel.now_ms + 500
    send(stage, *map(str, range(400)), expiration=soon)
    if returned:
        session = stage.session()
        stage.consumer(session, "q")
        stage.run_all()
        session.close(failed=False)
        stage.run_all()
    kernel, housekeeping = stage.kernel, stage.kernel.housekeeping
    end = kernel.ids.next_id - 1
    if way != "a range is pinned":
        opened(stage)
        assert pinned(stage).end == end
        # The lease runs out, and no other owner comes.
        kernel.monotonic = 20.0
    kernel.now_ms += 2000
    housekeeping.run(20.0)
    assert kernel.address_manager.queues["expired"].message_count == 10
    if way == "a range is pinned":
        opened(stage)
        assert pinned(stage).end == end
    elif way == "a lease is taken up again":
        assert isinstance(cursors(stage).renew("q", "c", "job"), int)
    else:
        cursors(stage).acknowledge("q", "c", "job", end)
        cursors(stage).release("q", "c", "job")
        # What is acknowledged leaves as a chore, which has its turn behind the scan.
        assert kernel.deferred.waiting
    while housekeeping.next_deadline(20.0) <= 20.0:
        housekeeping.run(20.0)
    assert kernel.address_manager.queues["expired"].message_count == 10
    if way != "a range is acknowledged":
        assert len(read(stage, 0, end)[0]) == 390
        cursors(stage).acknowledge("q", "c", "job", end)
    stage.run_all()
    assert stage.waiting("q") == []


@pytest.mark.parametrize("returned", [False, True])
def test_a_range_that_is_pinned_while_its_queue_is_emptied_stays(stage: Stage, returned: bool) -> None:
    send(stage, *map(str, range(400)))
    kernel, queue = stage.kernel, stage.kernel.address_manager.queues["q"]
    if returned:
        session = stage.session()
        stage.consumer(session, "q")
        stage.run_all()
        session.close(failed=False)
        stage.run_all()
    leaving = (reference for reference in kernel.teardown.take_waiting(queue) if reference is not None)
    for reference in islice(leaving, 10):
        kernel.removal.leave(queue, (reference,), Leaving.REMOVED)
    opened(stage)
    end = pinned(stage, 0, 300).end
    for reference in leaving:
        kernel.removal.leave(queue, (reference,), Leaving.REMOVED)
    assert len(read(stage, 0, end)[0]) == 300
    assert stage.waiting("q") == [str(number) for number in range(10, 310)]
    assert pinned(stage, 0).lost == 0


def test_a_pinned_range_does_not_expire_while_the_lease_is_in_force() -> None:
    stage = Stage(message_expiry_scan_period_ms=1000)
    stage.queue("q")
    soon = stage.kernel.now_ms + 500
    send(stage, "pinned", expiration=soon)
    opened(stage)
    pin = pinned(stage)
    send(stage, "later", expiration=soon)
    stage.pass_time(5)
    assert stage.waiting("q") == ["pinned"]
    stage.pass_time(10)
    assert stage.waiting("q") == []
    assert pinned(stage).lost == 1
    assert pinned(stage).end == pin.end


def test_what_expires_behind_the_lease_of_a_range_that_was_read_is_no_loss() -> None:
    """Its reader has it in its sink, and was gone before it could say so."""
    stage = Stage(message_expiry_scan_period_ms=1000)
    stage.queue("q")
    send(stage, "read", expiration=stage.kernel.now_ms + 500)
    opened(stage)
    end = pinned(stage).end
    stage.pass_time(15)
    assert stage.waiting("q") == []
    assert pinned(stage, end).lost == 0
    send(stage, "next")
    assert pinned(stage, end).rows == 1


def test_a_queue_with_a_lease_in_force_does_not_go_by_itself() -> None:
    stage = Stage(address_queue_scan_period_ms=1000)
    queue = stage.queue("q", auto_delete=True)
    queue.used = True
    opened(stage)
    stage.pass_time(8)
    assert "q" in stage.kernel.address_manager.queues
    stage.pass_time(8)
    assert "q" not in stage.kernel.address_manager.queues
    assert stage.store.of_kind("no cursor", "no queue")[0][0] == "no cursor"


def test_a_cursor_begins_where_it_is_told(stage: Stage) -> None:
    send(stage, "a", "b")
    last = stage.kernel.address_manager.queues["q"].backlog.last_position
    assert opened(stage, start=None, discards=True) == CursorState(last, last, 10_000, None, last, 2)
    send(stage, "c")
    # A request that is repeated has the same answer, whatever came since.
    assert opened(stage, start=None) == CursorState(last, last, 10_000, None, last, 0)
    assert stage.waiting("q") == ["c"]
    removed: list[int] = []
    assert cursors(stage).remove("q", "c", "job", removed.append) is None
    assert removed
    assert stage.waiting("q") == ["c"]
    future = cursors(stage).open("q", "c", "job", 1, take_over=False, start=1 << 40)
    assert isinstance(future, CursorRefused)
    assert future.reason == "bad-request"


def refused_for_backlog(stage: Stage, start: int | None, messages: int, owner: str = "job") -> None:
    refused = cursors(stage).open("q", "c", owner, 10_000, take_over=True, start=start)
    assert isinstance(refused, CursorRefused)
    assert (refused.reason, refused.messages) == ("backlog", messages)
    assert f"would discard {messages} messages of queue 'q' unread" in refused.text


def test_a_cursor_discards_nothing_unless_it_is_asked_to(stage: Stage) -> None:
    send(stage, "a", "b", "c")
    positions = [entry[0] for entry in stage.kernel.address_manager.queues["q"].backlog.behind(-1, 1 << 40, 10)]
    refused_for_backlog(stage, None, 3)
    refused_for_backlog(stage, positions[1], 2)
    refused_for_backlog(stage, positions[0], 1)
    assert stage.waiting("q") == ["a", "b", "c"] and stage.kernel.address_manager.queues["q"].cursor is None
    assert opened(stage, start=positions[0] - 1).position == positions[0] - 1
    # It counts from where another owner left it, and stays there.
    pin = pinned(stage, positions[0] - 1, rows_max=1)
    assert cursors(stage).acknowledge("q", "c", "job", pin.end) == positions[0]
    refused_for_backlog(stage, None, 2, owner="other")
    refused_for_backlog(stage, positions[1], 1, owner="other")
    standing = opened(stage, "other", start=None, take_over=True, discards=True)
    assert (standing.position, standing.start, standing.discarded) == (positions[0], positions[2], 2)
    assert stage.waiting("q") == ["b", "c"]
    assert opened(stage, start=positions[0], take_over=True).discarded == 0


def test_a_cursor_on_an_empty_queue_begins_at_the_latest(stage: Stage) -> None:
    assert opened(stage, start=None).discarded == 0
    send(stage, "a")
    assert stage.waiting("q") == ["a"]


def test_a_hundred_thousand_are_acknowledged_over_many_steps(stage: Stage) -> None:
    stage.send(*[letter(str(number), "q", durable=True) for number in range(20_000)])
    opened(stage)
    end = pinned(stage).end
    stage.store.records.clear()
    assert cursors(stage).acknowledge("q", "c", "job", end) == end
    removed: list[int] = []
    assert cursors(stage).remove("q", "c", "job", removed.append) is None
    _browser, browsed = stage.consumer(stage.session(), "q", browse=True)
    stage.run(1000)
    assert 0 < stage.kernel.address_manager.queues["q"].backlog.size < 20_000
    assert (browsed.texts, removed) == ([], [])
    stage.run_all(1000)
    kinds = [record[0] for record in stage.store.records]
    assert (kinds[0], kinds.count("acknowledge"), kinds[-1]) == ("cursor", 20_000, "no cursor")
    assert removed == [end]
    stage.assert_empty()


def test_followers_are_told_of_each_message(stage: Stage) -> None:
    told: list[str] = []
    stage.kernel.observers.commit.settled.append(
        lambda _queue, reference, outcome, _t: told.append(text_of(reference.message))
    )
    send(stage, "a", "b")
    opened(stage)
    cursors(stage).acknowledge("q", "c", "job", pinned(stage).end)
    stage.run_all()
    assert told == ["a", "b"]


@pytest.mark.parametrize("count", [0, 1, 10, 40_000])
def test_a_range_is_split_into_parts_of_about_one_size(stage: Stage, count: int) -> None:
    stage.send(*[letter("x", "q") for _ in range(count)])
    opened(stage)
    end = pinned(stage).end
    split = cursors(stage).split("q", "c", 0, end, 4)
    assert not isinstance(split, CursorRefused)
    bounds, rows = split
    assert (bounds[0], bounds[-1], sum(rows)) == (0, end, count)
    assert len(rows) == min(max(count, 1), 4)
    assert max(rows) - min(rows) <= max(count // 20, 1)


def test_a_queue_that_is_purged_without_consumers_has_no_cursor(stage: Stage) -> None:
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["q"])
    stage.queue("q", purge_on_no_consumers=True)
    assert refused_to_open(stage).reason == "bad-request"


def test_a_consumer_is_a_consumer_again_after_release(stage: Stage) -> None:
    send(stage, "a")
    opened(stage)
    cursors(stage).release("q", "c", "job")
    session = stage.session()
    consumer = session.create_consumer(1, "q", None, Taker(), browse=False, priority=0)
    assert isinstance(consumer, Consumer)


def test_a_cursor_begins_behind_nothing_that_is_still_to_become_visible() -> None:
    stage = Stage(lags=True)
    stage.queue("q")
    stage.store.sync()
    stage.send(letter("seen", "q", durable=True))
    seen = stage.kernel.ids.next_id - 1
    stage.store.sync()
    stage.run_all()
    stage.send(letter("unseen", "q", durable=True))
    position = stage.kernel.ids.next_id - 1
    refused = cursors(stage).open("q", "c", "job", 10_000, take_over=False, start=position)
    assert isinstance(refused, CursorRefused) and refused.reason == "in-use"
    assert "may not be durable yet" in refused.text and stage.kernel.address_manager.queues["q"].cursor is None
    # What is visible stays a place to begin at.
    assert opened(stage, start=seen, discards=True).position == seen
    cursors(stage).remove("q", "c", "job", lambda _position: None)
    stage.store.sync()
    stage.run_all()
    assert opened(stage, start=position, discards=True).position == position
    stage.store.sync()
    stage.assert_empty()


def test_a_range_ends_in_front_of_a_scheduled_message_until_that_is_due(stage: Stage) -> None:
    opened(stage)
    send(stage, "0")
    stage.send(letter("later", "q", durable=True).directed(stage.kernel.now_ms + 5_000))
    send(stage, "1")
    stage.run_all()
    pin = pinned(stage)
    assert read(stage, 0, pin.end)[0] == ["0"]
    stage.pass_time(4.9)
    cursors(stage).renew("q", "c", "job")
    assert pinned(stage, pin.end).rows == 0
    stage.pass_time(0.2)
    behind = pinned(stage, pin.end)
    assert read(stage, pin.end, behind.end)[0] == ["later", "1"]


def test_a_cursor_does_not_begin_behind_a_scheduled_message(stage: Stage) -> None:
    stage.send(letter("later", "q", durable=True).directed(stage.kernel.now_ms + 5_000))
    send(stage, "0")
    stage.run_all()
    found = cursors(stage).open("q", "c", "job", 30_000, take_over=False, start=None, discards=True)
    assert isinstance(found, CursorRefused) and found.reason == "in-use"
    assert "scheduled for later" in found.text
