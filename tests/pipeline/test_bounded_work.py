"""What a batch requests, receives and holds does not grow with the backlog behind it: counted, not timed."""

from __future__ import annotations

import weakref
from collections import Counter

import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline import _cursor_source
from embedbroker.pipeline._cursor_source import CursorSource, read_range
from embedbroker.pipeline._frames import Block
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._services import PendingRequest, Services
from tests.pipeline.queues import fill, numbered

BATCH_ROWS, BODY_BYTES = 200, 500
READ_BYTES = 16 * 1024
# In front of each message of a block; the limit is one of messages.
ROW_HEAD_BYTES = 36
BACKLOGS = (BATCH_ROWS, 20 * BATCH_ROWS)


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each operation was requested, and the bytes of blocks that came. Leases are renewed by time."""
    seen: Counter[str] = Counter()
    begin, received_bytes = Services.begin, Services.received_bytes

    def counted(self: Services, operation: str, **fields: object) -> PendingRequest:
        if operation != "cursor.renew":
            seen[operation] += 1
        return begin(self, operation, **fields)

    def measured(self: Services, asked: PendingRequest) -> bytes:
        data = received_bytes(self, asked)
        seen["bytes"] += len(data)
        return data

    monkeypatch.setattr(Services, "begin", counted)
    monkeypatch.setattr(Services, "received_bytes", measured)
    return seen


def options_of(broker: ThreadedBroker, queue: str, parts: int) -> SourceOptions:
    return SourceOptions.parse({"url": broker.url, "queue": queue, "minPartitions": str(parts)})


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_batch_costs_the_broker_and_the_net_the_same_whatever_waits_behind_it(
    broker: ThreadedBroker, traffic: Counter[str], parts: int
) -> None:
    found = []
    for backlog in BACKLOGS:
        queue = f"backlog-{backlog:05}"
        fill(broker.url, queue, numbered(queue, range(backlog), size=BODY_BYTES))
        options = options_of(broker, queue, parts)
        stream = CursorSource(options, f"query-{backlog}", None)
        start = stream.initial()
        traffic.clear()
        end = stream.latest(start, BATCH_ROWS, 0)
        partitions = stream.partitions(end)
        rows = [sum(block.count for block in read_range(options, each)) for each in partitions]
        assert (sum(rows), len(rows)) == (BATCH_ROWS, parts)
        assert max(rows) - min(rows) <= 1
        found.append(Counter(traffic))
        stream.close()
    assert found[0] == found[1]
    assert found[0]["cursor.read"] == parts
    assert BATCH_ROWS * BODY_BYTES < found[0]["bytes"] < 2 * BATCH_ROWS * BODY_BYTES


def test_a_task_holds_two_blocks_at_most_however_large_its_part_of_the_batch_is(
    broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cursor_source, "READ_BYTES", READ_BYTES)
    alive: weakref.WeakSet[Block] = weakref.WeakSet()
    for backlog in BACKLOGS:
        queue = f"backlog-{backlog:05}"
        fill(broker.url, queue, numbered(queue, range(backlog), size=BODY_BYTES))
        options = options_of(broker, queue, 1)
        stream = CursorSource(options, f"query-{backlog}", None)
        (partition,) = stream.partitions(stream.latest(stream.initial(), 0, 0))
        rows = blocks = 0
        for block in read_range(options, partition):
            alive.add(block)
            rows, blocks = rows + block.count, blocks + 1
            # The one that is worked on, and the one before it, whose place it takes.
            assert len(alive) <= 2
            assert len(block.data) < READ_BYTES + 2 * BODY_BYTES + ROW_HEAD_BYTES * block.count
        del block
        assert rows == backlog
        assert blocks > backlog * BODY_BYTES // READ_BYTES
        stream.close()
