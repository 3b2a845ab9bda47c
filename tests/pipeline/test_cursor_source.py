"""What a stream requests of cursors, call by call as Spark makes them, and how it handles losses: without a Spark."""

from __future__ import annotations

import threading

import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._cursor_source import CURSOR, CursorSource, DataLost, read_range
from embedbroker.pipeline._offsets import Offset, Range
from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._services import ServiceRefused, Services
from embedclient.blocking import ServerLocator
from embedclient.errors import JMSException, ResourceAllocationException
from embedclient.wire.core import CoreMessage
from tests.pipeline.queues import create, fill, left_in, numbered

QUERY = "a-query"


def source(broker: ThreadedBroker, query: str = QUERY, **options: str) -> CursorSource:
    values = {"url": broker.url, **({} if "queue" in options else {"queue": "orders"}), **options}
    return CursorSource(SourceOptions.parse(values), query, None)


def options_of(broker: ThreadedBroker, **options: str) -> SourceOptions:
    return SourceOptions.parse({"url": broker.url, "queue": "orders", **options})


def bodies(broker: ThreadedBroker, found: CursorSource, end: Offset) -> list[bytes]:
    """What the batch has that ends there, in the order of its partitions."""
    read = [block for each in found.partitions(end) for block in read_range(options_of(broker), each)]
    return [bytes(block.message(place).body).strip() for block in read for place in block.places()]


def expected(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in range(*numbers)]


def ask(broker: ThreadedBroker, operation: str, **fields: object) -> dict[str, object]:
    services = Services(BrokerConnection.shared(options_of(broker).connection))
    try:
        return dict(services.call(operation, **fields))
    finally:
        services.close()


def consume(broker: ThreadedBroker, queue: str, count: int) -> None:
    """Take messages as any consumer does."""
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        with session.create_consumer(queue) as consumer:
            assert len(consumer.receive_encoded(count)) == count
            consumer.acknowledge_received()


def refuse_threads(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Start no thread of this name."""
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_others)


def test_leases_are_renewed_as_soon_as_a_thread_starts(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    name = "embedbroker leases"
    with pytest.MonkeyPatch.context() as monkeypatch:
        refuse_threads(monkeypatch, name)
        with pytest.raises(ResourceAllocationException, match="the renewal of leases needs a thread"):
            stream.latest(stream.initial(), 60, 0)
    before = {thread for thread in threading.enumerate() if thread.name == name}
    end = stream.latest(stream.initial(), 60, 0)
    assert bodies(broker, stream, end) == expected(10)
    assert len({thread for thread in threading.enumerate() if thread.name == name} - before) == 1
    stream.close()


def test_a_batch_is_read_as_often_as_wanted_and_acknowledged_with_the_next(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(100)))
    stream = source(broker)
    start = stream.initial()
    end = stream.latest(start, 60, 0)
    assert [bodies(broker, stream, end) for _ in range(2)] == [expected(60)] * 2
    assert left_in(broker.url, "orders") == expected(100)
    after = stream.latest(end, 60, 0)
    assert bodies(broker, stream, after) == expected(60, 100)
    assert left_in(broker.url, "orders") == expected(60, 100)
    stream.commit(end)
    stream.commit(end)
    assert left_in(broker.url, "orders") == expected(60, 100)
    assert stream.latest(after, 60, 0) is after
    assert left_in(broker.url, "orders") == []


def test_a_restart_reads_the_batch_again_that_was_under_way(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(100)))
    first = source(broker)
    end = first.latest(first.initial(), 60, 0)
    # The lease of the first run is in force: it is the same query's.
    second = source(broker)
    assert bodies(broker, second, end) == expected(60)
    assert bodies(broker, second, second.latest(end, 0, 0)) == expected(60, 100)
    with pytest.raises(DataLost, match="the lease is 'a-query/"):
        first.latest(end, 0, 0)


def test_another_query_waits_for_the_end_of_a_lease_that_nobody_renews(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(3)))
    first = source(broker, leaseMs="1000")
    first.initial()
    first.close()
    other = source(broker, "another")
    assert bodies(broker, other, other.latest(other.initial(), 0, 0)) == expected(3)


@pytest.mark.parametrize("limits", [(10, 0), (0, 1_000)])
def test_limits_hold_behind_a_restart_in_the_middle_of_a_batch(broker: ThreadedBroker, limits: tuple[int, int]) -> None:
    fill(broker.url, "orders", numbered("orders", range(100), size=60))
    first = source(broker)
    offset = first.latest(first.initial(), *limits)
    size = offset.ranges["orders"].rows
    assert 5 <= size <= 10
    second = source(broker)
    assert bodies(broker, second, offset) == expected(size)
    sizes = []
    while (end := second.latest(offset, *limits)) is not offset:
        sizes.append(end.ranges["orders"].rows)
        offset = end
    assert sizes[:3] == [size] * 3
    assert (max(sizes), sum(sizes)) == (size, 100 - size)


def test_another_query_is_refused_while_the_lease_is_renewed(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(3)))
    source(broker, leaseMs="1000").initial()
    with pytest.raises(ServiceRefused, match="cursor 'spark' of queue 'orders' is 'a-query/") as refused:
        source(broker, "another").initial()
    assert refused.value.status == "held"


def test_a_queue_with_consumers_is_refused(broker: ThreadedBroker) -> None:
    create(broker.url, "orders")
    with (
        ServerLocator(broker.url).create_session_factory() as factory,
        factory.create_session() as session,
        session.create_consumer("orders"),
        pytest.raises(ServiceRefused) as refused,
    ):
        source(broker).initial()
    assert refused.value.status == "in-use"


def test_a_range_is_split_into_partitions(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(1_000)))
    stream = source(broker, minPartitions="4")
    end = stream.latest(stream.initial(), 0, 0)
    parts = stream.partitions(end)
    assert [part.rows for part in parts] == [250] * 4
    assert bodies(broker, stream, end) == expected(1_000)


def test_queues_are_found_by_a_pattern_also_later(broker: ThreadedBroker) -> None:
    for queue in ("orders.a", "orders.b", "other"):
        fill(broker.url, queue, numbered(queue, range(5)))
    stream = source(broker, queue="orders.*")
    start = stream.initial()
    assert sorted(start.ranges) == ["orders.a", "orders.b"]
    end = stream.latest(start, 0, 0)
    assert sorted((part.queue, part.rows) for part in stream.partitions(end)) == [("orders.a", 5), ("orders.b", 5)]
    fill(broker.url, "orders.c", numbered("orders.c", range(7)))
    after = stream.latest(end, 0, 0)
    assert [(part.queue, part.rows) for part in stream.partitions(after)] == [("orders.c", 7)]
    assert left_in(broker.url, "orders.a") == []


def test_a_queue_that_appears_later_has_nothing_that_came_before_the_latest(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders.a", numbered("orders.a", range(5)))
    stream = source(broker, queue="orders.*", startingOffsets="latest", discardBacklog="true")
    start = stream.initial()
    assert stream.latest(start, 0, 0) is start
    fill(broker.url, "orders.b", numbered("orders.b", range(3)))
    end = stream.latest(start, 0, 0)
    assert [(part.queue, part.rows) for part in stream.partitions(end)] == [("orders.b", 3)]


def test_a_limit_is_shared_by_queues_and_none_waits_for_ever(broker: ThreadedBroker) -> None:
    for queue in ("orders.a", "orders.b", "orders.c"):
        fill(broker.url, queue, numbered(queue, range(10)))
    stream = source(broker, queue="orders.*")
    offset = stream.initial()
    sizes: list[int] = []
    read: dict[str, int] = {}
    while (end := stream.latest(offset, 2, 0)) is not offset:
        sizes.append(sum(each.rows for each in end.ranges.values()))
        for queue, each in end.ranges.items():
            read[queue] = read.get(queue, 0) + each.rows
        offset = end
    assert read == {"orders.a": 10, "orders.b": 10, "orders.c": 10}
    assert max(sizes) <= 2


def test_bytes_are_a_limit_of_which_one_message_is_always_taken(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(4), size=1_000))
    stream = source(broker)
    first = stream.latest(stream.initial(), 0, 10)
    second = stream.latest(first, 0, 2_500)
    assert [first.ranges["orders"].rows, second.ranges["orders"].rows] == [1, 2]


def test_what_comes_after_the_beginning_of_a_run_is_for_the_next(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    start = stream.initial()
    stream.fix_targets()
    fill(broker.url, "orders", numbered("orders", range(10, 15)))
    end = stream.latest(start, 0, 0)
    assert bodies(broker, stream, end) == expected(10)
    assert stream.latest(end, 0, 0) is end
    again = source(broker)
    assert bodies(broker, again, again.latest(end, 0, 0)) == expected(10, 15)


@pytest.mark.parametrize(("starting", "first"), [("earliest", 0), ("latest", 5)])
def test_a_new_query_begins_where_it_is_told(broker: ThreadedBroker, starting: str, first: int) -> None:
    fill(broker.url, "orders", numbered("orders", range(5)))
    stream = source(broker, startingOffsets=starting, **({"discardBacklog": "true"} if first else {}))
    start = stream.initial()
    fill(broker.url, "orders", numbered("orders", range(5, 8)))
    assert bodies(broker, stream, stream.latest(start, 0, 0)) == expected(first, 8)


def test_a_new_query_begins_at_a_position(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(5)))
    reader = source(broker)
    parts = reader.partitions(reader.latest(reader.initial(), 0, 0))
    (block,) = read_range(options_of(broker), parts[0])
    third = block.places()[2].position
    ask(broker, "cursor.remove", queue="orders", cursor=CURSOR, owner=reader.owner)
    stream = source(broker, startingOffsets=f'{{"orders": {third}}}', discardBacklog="true")
    assert bodies(broker, stream, stream.latest(stream.initial(), 0, 0)) == expected(3, 5)


@pytest.mark.parametrize("limit", [{"maxRowsPerTrigger": "10"}, {"maxBytesPerTrigger": "1000"}])
def test_limits_hold_for_a_new_query_at_a_position_behind_the_cursor_of_another(
    broker: ThreadedBroker, limit: dict[str, str]
) -> None:
    fill(broker.url, "orders", numbered("orders", range(100), size=60))
    other = source(broker, "another")
    tenth = other.latest(other.initial(), 10, 0).ranges["orders"].until
    expire(broker, other)
    # Positions of messages that were sent at once follow each other.
    starting = {"startingOffsets": f'{{"orders": {tenth + 24}}}', "discardBacklog": "true"}
    stream = source(broker, **starting, **limit)
    limits = [int(limit.get(name, "0")) for name in ("maxRowsPerTrigger", "maxBytesPerTrigger")]
    offset, sizes, found = stream.initial(), [], []
    while (end := stream.latest(offset, *limits)) is not offset:
        sizes.append(end.ranges["orders"].rows)
        found += bodies(broker, stream, end)
        offset = end
    assert found == expected(34, 100)
    assert max(sizes) <= 10


def first_position(broker: ThreadedBroker, queue: str = "orders") -> int:
    queues = ask(broker, "queue.list", pattern=queue)["queues"]
    assert isinstance(queues, list)
    return int(queues[0]["first"])


@pytest.mark.parametrize("is_behind_another", [False, True])
@pytest.mark.parametrize(
    ("starting", "count"), [("latest", 200), ('{{"orders": {last}}}', 200), ('{{"orders": {9th}}}', 10)]
)
def test_a_beginning_discards_no_backlog_unless_it_is_told_to(
    broker: ThreadedBroker, caplog: pytest.LogCaptureFixture, starting: str, count: int, is_behind_another: bool
) -> None:
    fill(broker.url, "orders", numbered("orders", range(200)))
    # Positions of messages that were sent at once follow each other.
    first = first_position(broker)
    starting = starting.replace("{last}", str(first + 199)).replace("{9th}", str(first + 9)).replace("{{", "{")
    starting = starting.replace("}}", "}")
    if is_behind_another:
        other = source(broker, "another")
        other.commit(other.latest(other.initial(), 4, 0))
        expire(broker, other)
        count -= 4
    there = expected(200 - len(left_in(broker.url, "orders")), 200)
    place = "latest" if starting == "latest" else r"position \d+"
    with pytest.raises(
        OptionError, match=rf"beginning at {place} would delete {count} messages of queue 'orders' at tcp://.* unread"
    ):
        source(broker, startingOffsets=starting).initial()
    assert left_in(broker.url, "orders") == there
    consume(broker, "orders", 1)  # no lease is left behind
    stream = source(broker, startingOffsets=starting, discardBacklog="true")
    offset = stream.initial()
    assert f"{count - 1} messages up to" in caplog.text and "are deleted unread" in caplog.text
    fill(broker.url, "orders", numbered("orders", range(200, 203)))
    end = stream.latest(offset, 0, 0)
    assert bodies(broker, stream, end) == expected(10 if "{" in starting and count < 20 else 200, 203)


def test_the_latest_of_an_empty_queue_discards_nothing(
    broker: ThreadedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    create(broker.url, "orders")
    fill(broker.url, "orders", numbered("orders", range(3)))
    consume(broker, "orders", 3)
    stream = source(broker, startingOffsets="latest")
    start = stream.initial()
    fill(broker.url, "orders", numbered("orders", range(3, 5)))
    assert bodies(broker, stream, stream.latest(start, 0, 0)) == expected(3, 5)
    assert "deleted" not in caplog.text


def test_a_pattern_is_refused_for_the_backlog_of_one_queue(broker: ThreadedBroker) -> None:
    create(broker.url, "orders.a", "orders.b")
    fill(broker.url, "orders.b", numbered("orders.b", range(2)))
    with pytest.raises(OptionError, match=r"would delete 2 messages of queue 'orders\.b' at tcp://.* unread"):
        source(broker, queue="orders.*", startingOffsets="latest").initial()
    fill(broker.url, "orders.a", numbered("orders.a", range(2)))
    consume(broker, "orders.a", 2)
    consume(broker, "orders.b", 2)


def expire(broker: ThreadedBroker, stream: CursorSource) -> None:
    """The lease is over at once, as if it had not been renewed: it is given back in its owner's name."""
    ask(broker, "cursor.release", queue="orders", cursor=CURSOR, owner=stream.owner)


def make_again(broker: ThreadedBroker, stream: CursorSource, messages: list[CoreMessage]) -> None:
    """The queue is deleted when no lease is in force any more, and made again."""
    expire(broker, stream)
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.delete_queue("orders")
        session.create_queue("orders")
    fill(broker.url, "orders", messages)


def test_messages_that_others_took_after_the_lease_are_lost_and_said_so(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 6, 0)
    expire(broker, stream)
    consume(broker, "orders", 4)
    with pytest.raises(DataLost, match=r"queue 'orders': .*failOnDataLoss=false goes on"):
        source(broker).partitions(end)
    tolerant = source(broker, failOnDataLoss="false")
    assert bodies(broker, tolerant, end) == expected(4, 6)
    assert bodies(broker, tolerant, tolerant.latest(end, 0, 0)) == expected(6, 10)


def test_messages_behind_a_finished_batch_that_others_took_after_the_lease_are_a_loss(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 6, 0)
    stream.commit(end)
    expire(broker, stream)
    consume(broker, "orders", 2)
    with pytest.raises(DataLost, match=r"queue 'orders': consumers were let in after the lease had run out"):
        source(broker).latest(end, 0, 0)
    # An error that has ended a run is not reported again.
    again = source(broker)
    assert bodies(broker, again, again.latest(end, 0, 0)) == expected(8, 10)


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_lease_that_another_query_had_is_a_loss(broker: ThreadedBroker, is_finished: bool) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 6, 0)
    expire(broker, stream)
    other = source(broker, "another")
    other.initial()
    ask(broker, "cursor.open", queue="orders", cursor=CURSOR, owner=other.owner, lease_ms=1)
    other.close()
    restarted = source(broker)
    with pytest.raises(DataLost, match=r"queue 'orders': another query had the lease in between: 'another/"):
        restarted.latest(end, 0, 0) if is_finished else restarted.partitions(end)


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize("count", [0, 3])
def test_a_queue_that_was_deleted_and_made_again_is_a_loss(
    broker: ThreadedBroker, count: int, is_finished: bool
) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 6, 0)
    make_again(broker, stream, numbered("orders", range(100, 100 + count)))
    restarted = source(broker)
    error = "the queue was deleted, and made again" if is_finished else "6 of 6 messages of a batch are gone"
    with pytest.raises(DataLost, match=error):
        restarted.latest(end, 0, 0) if is_finished else restarted.partitions(end)
    again = source(broker)
    after = again.latest(end, 0, 0)
    assert after is end if not count else bodies(broker, again, after) == expected(100, 100 + count)


def test_a_lease_that_was_lost_ends_the_query_or_is_taken_again(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 6, 0)
    expire(broker, stream)
    with pytest.raises(DataLost, match="the lease was given back"):
        stream.latest(end, 0, 0)
    tolerant = source(broker, failOnDataLoss="false")
    assert len(bodies(broker, tolerant, end)) == 6
    expire(broker, tolerant)
    assert bodies(broker, tolerant, tolerant.latest(end, 0, 0)) == expected(6, 10)


def test_a_lease_is_taken_again_from_a_query_that_acknowledged_more(broker: ThreadedBroker) -> None:
    """As after a driver that stood still beyond its lease."""
    fill(broker.url, "orders", numbered("orders", range(100)))
    stream, strict = source(broker, failOnDataLoss="false"), source(broker)
    end = stream.latest(stream.initial(), 40, 0)
    lease = {"queue": "orders", "cursor": CURSOR, "owner": "another"}
    ask(broker, "cursor.open", **lease, lease_ms=1_000, take_over=True)
    found = ask(broker, "cursor.pin", **lease, start=0, max_rows=50, max_bytes=0)
    ask(broker, "cursor.acknowledge", **lease, until=found["end"])
    ask(broker, "cursor.release", **lease)
    # What is in the sink already is behind that place, and acknowledging it is nothing more.
    stream.commit(end)
    after = stream.latest(end, 0, 0)
    assert bodies(broker, stream, after) == expected(50, 100)
    assert left_in(broker.url, "orders") == expected(50, 100)
    with pytest.raises(DataLost, match="messages were acknowledged up to"):
        strict.latest(end, 0, 0)


@pytest.mark.parametrize("taken", [10, 40, 50])
def test_a_batch_of_which_another_query_took_a_part_has_the_rest_after_a_restart(
    broker: ThreadedBroker, taken: int
) -> None:
    """The lease ran out when the batch was planned: 40 messages, of which others acknowledged some, or all and more."""
    fill(broker.url, "orders", numbered("orders", range(100)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 40, 0)
    lease = {"queue": "orders", "cursor": CURSOR, "owner": "another"}
    ask(broker, "cursor.open", **lease, lease_ms=1_000, take_over=True)
    found = ask(broker, "cursor.pin", **lease, start=0, max_rows=50, max_bytes=0)
    counts = {"after": 0, "until": found["end"], "parts": 5}
    bounds = ask(broker, "cursor.split", queue="orders", cursor=CURSOR, **counts)["bounds"]
    assert isinstance(bounds, list)
    ask(broker, "cursor.acknowledge", **lease, until=bounds[taken // 10])
    ask(broker, "cursor.release", **lease)
    with pytest.raises(DataLost, match="messages were acknowledged up to"):
        source(broker).partitions(end)
    tolerant = source(broker, failOnDataLoss="false")
    assert bodies(broker, tolerant, end) == expected(taken, 40)
    assert bodies(broker, tolerant, tolerant.latest(end, 0, 0)) == expected(max(taken, 40), 100)


@pytest.mark.parametrize("count", [0, 2, 30])
def test_a_batch_whose_queue_was_made_again_goes_on_with_what_is_there(broker: ThreadedBroker, count: int) -> None:
    fill(broker.url, "orders", numbered("orders", range(20)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 10, 0)
    make_again(broker, stream, numbered("orders", range(100, 100 + count)))
    tolerant = source(broker, failOnDataLoss="false")
    assert bodies(broker, tolerant, end) == []
    offset, found = end, []
    while (after := tolerant.latest(offset, 10, 0)) is not offset:
        assert after.ranges["orders"].rows <= 10
        found += bodies(broker, tolerant, after)
        offset = after
    assert found == expected(100, 100 + count)


def test_a_deleted_queue_is_a_loss(broker: ThreadedBroker) -> None:
    for queue in ("orders.a", "orders.b"):
        fill(broker.url, queue, numbered(queue, range(2)))
    stream = source(broker, queue="orders.*")
    end = stream.latest(stream.initial(), 0, 0)
    ask(broker, "cursor.release", queue="orders.a", cursor=CURSOR, owner=stream.owner)
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.delete_queue("orders.a")
    with pytest.raises(DataLost, match=r"queue 'orders.a': the queue was deleted"):
        stream.latest(end, 0, 0)


def test_a_checkpoint_that_is_behind_what_was_acknowledged_is_a_loss(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    start = stream.initial()
    end = stream.latest(start, 5, 0)
    stream.latest(end, 5, 0)
    with pytest.raises(DataLost, match="messages were acknowledged up to"):
        source(broker).latest(start, 0, 0)


def test_a_task_of_a_batch_that_is_over_reads_nothing(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 5, 0)
    (old,) = stream.partitions(end)
    stream.latest(end, 5, 0)
    with pytest.raises(ServiceRefused) as refused:
        list(read_range(options_of(broker), old))
    assert refused.value.status == "not-pinned"


def test_consumers_are_kept_out_while_the_query_runs(broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(3)))
    stream = source(broker)
    stream.latest(stream.initial(), 0, 0)
    with pytest.raises(JMSException, match="is read by cursor 'spark'"):
        consume(broker, "orders", 1)


def test_offsets_are_equal_as_texts_when_they_are_equal() -> None:
    one = Offset("cursor", "q", None, {"b": Range(1, 2, 1), "a": Range(3, 4, 1)})
    other = Offset("cursor", "q", None, {"a": Range(3, 4, 1), "b": Range(1, 2, 1)})
    assert repr(one.value) == repr(other.value)
    assert Offset.parse(one.value) == one
