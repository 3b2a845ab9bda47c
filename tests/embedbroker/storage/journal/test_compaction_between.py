"""What stands between a message's segment and the current one, and is needed although nothing lives beside it."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve

from embedbroker.kernel import AddressDefinition, DuplicateId, QueueDefinition
from embedbroker.storage import Lane, Rename
from embedbroker.storage.journal._batch import BATCH_HEADER_BYTES
from embedbroker.storage.journal._segments import COMPACTING, segment_name
from embedclient.model import Instant
from tests.embedbroker.storage.journal_model import NOW, SMALL, recover
from tests.embedbroker.storage.journal_traffic import Traffic, compacted, look_for_work

ADD_BYTES = 64 + 16  # a record of a message in one queue, without the message


def test_a_delivery_count_that_stands_behind_its_message_survives_the_compaction_of_that() -> None:
    """1. A count stands in a later segment, behind one that is full. 2. The message's segment is compacted, and what
    else is in the later one goes. 3. That stays as long as the message."""
    traffic = Traffic()
    stay = traffic.fill()  # the definitions are not compacted together with what follows
    gone = traffic.fill() + traffic.fill() + traffic.fill()
    counted = gone.pop(0)
    stay += traffic.fill()
    traffic.recorded.call("update_delivery_count", counted, 2, 1)
    gone += traffic.fill()
    for message_id in reversed(gone):
        traffic.recorded.call("acknowledge", message_id, 2, 0)
    traffic.flow(200)
    assert compacted(traffic.journal)
    journal = recover(traffic.recorded.disk)
    assert journal.recovered is not None
    found = {message.message_id: message.references[0][2] for message in journal.recovered.take_messages(200)}
    assert found == {counted: 1, **dict.fromkeys(stay, 0)}


def test_an_acknowledgement_that_is_committed_during_the_compaction_of_its_message_survives() -> None:
    """1. A message lies in two queues; one is acknowledged in a transaction, in a later segment. 2. While the message's
    segment is compacted, the transaction is committed. 3. The later segment stays: with it the queue would have the
    message back."""
    traffic = Traffic()
    recorded, background = traffic.recorded, traffic.journal.background
    background.stopped = True
    traffic.fill()  # the definitions are not compacted together with what follows
    message, transaction_id = traffic.message(), traffic.take_id()
    recorded.call("add_message", message, 0, [(1, traffic.take_id()), (2, traffic.take_id())])
    gone = traffic.fill()
    traffic.fill()
    recorded.call("acknowledge", message.message_id, 1, transaction_id)
    gone += traffic.fill()
    traffic.fill()
    for message_id in reversed(gone):
        recorded.call("acknowledge", message_id, 2, 0)
    recorded.settle()
    background.stopped = False
    of_message = background.live_index.index[message.message_id].segment

    def replaces_it() -> bool:
        operations = [each for work, _ in recorded.under_way.values() for each in work.operations]
        return Rename(COMPACTING, segment_name(of_message.first, of_message.last)) in operations

    while not replaces_it():
        background.choose(NOW.wall_ms, at_leisure=True)
        assert recorded.step()
    recorded.call("commit", transaction_id, [])
    look_for_work(recorded)
    journal = recover(recorded.disk)
    assert journal.recovered is not None
    recorded.check_recovered(journal.recovered)


def test_duplicate_ids_that_are_cleared_during_the_compaction_of_their_records_do_not_come_back() -> None:
    """1. While the segment of an id is compacted, the ids are cleared. 2. The result has the id. 3. The segment with
    the record of the clearing is compacted: without that record the id would be back."""
    traffic = Traffic()
    recorded, background = traffic.recorded, traffic.journal.background
    background.stopped = True
    recorded.call("add_address", AddressDefinition(3, "a", True, False))
    traffic.fill()  # the definitions are not compacted together with what follows
    entry = DuplicateId(traffic.take_id(), 3, b"id")
    recorded.call("add_duplicate_id", entry, 0)
    gone = traffic.fill()[2:]
    traffic.fill()
    gone += traffic.fill()[5:]  # less to gain than in the segment of the id
    traffic.fill()
    for message_id in reversed(gone):
        recorded.call("acknowledge", message_id, 2, 0)
    recorded.settle()
    background.stopped = False
    of_id = background.live_index.index[entry.number].segment

    def replaces_it() -> bool:
        operations = [each for work, _ in recorded.under_way.values() for each in work.operations]
        return Rename(COMPACTING, segment_name(of_id.first, of_id.last)) in operations

    while not replaces_it():
        background.choose(NOW.wall_ms, at_leisure=True)
        assert recorded.step()
    recorded.call("clear_duplicate_ids", 3, [entry.number])
    of_clearing = background.segments[-1]
    background.stopped = True
    gone = traffic.fill()
    traffic.fill()
    for message_id in reversed(gone):
        recorded.call("acknowledge", message_id, 2, 0)
    recorded.settle()
    background.stopped = False
    while not of_clearing.gone:
        background.choose(NOW.wall_ms, at_leisure=True)
        assert recorded.step()
    journal = recover(recorded.disk)
    assert journal.recovered is not None
    recorded.check_recovered(journal.recovered)


def test_what_a_compaction_leaves_out_is_durable_where_it_stands_again_although_a_seal_stands_there() -> None:
    """1. A segment is full to its end, and nothing happens for a second. 2. The seal opens the next one, with how
    far ids may have been used. 3. Compaction leaves that out of what it replaces, and has to wait for the seal."""
    traffic = Traffic()
    recorded, journal = traffic.recorded, traffic.journal
    recorded.call("reserve_ids", 1_000_000)
    journal.background.stopped = True
    sent = [traffic.fill() for _ in range(3)]
    stay = [stayed.pop() for stayed in sent]
    for message_id in [each for stayed in sent for each in stayed]:
        recorded.call("acknowledge", message_id, 2, 0)
    recorded.settle()
    current = journal.statistics().segments[-1]
    stay.append(traffic.add(2, current.size_bytes - current.end - ADD_BYTES - BATCH_HEADER_BYTES))
    recorded.settle()
    full = journal.statistics().segments[-1]
    assert full.end == full.size_bytes and full.name == current.name
    journal.background.stopped = False
    journal.on_tick(Instant(NOW.monotonic + 5, NOW.wall_ms))
    assert traffic.newest != current.name
    assert journal.statistics().has_background_work
    while recorded.step(held=Lane.JOURNAL):
        pass
    recorded.disk.crash(Random(1))
    recovered = recover(recorded.disk).recovered
    assert recovered is not None
    assert recovered.id_limit == 1_000_000
    assert set(stay) <= {message.message_id for message in recovered.take_messages(1_000)}


def test_delivery_counts_go_with_their_queue() -> None:
    traffic = Traffic()
    for queue_id in range(1_000_000, 1_000_050):
        traffic.recorded.call("add_queue", QueueDefinition(queue_id, f"q{queue_id}", "a", 1))
        for _ in range(3):
            message_id = traffic.add(queue_id)
            for count in (1, 2, 1):
                traffic.recorded.call("update_delivery_count", message_id, queue_id, count)
        traffic.recorded.call("remove_queue", queue_id)
        traffic.recorded.settle()
    assert traffic.journal.statistics().queues_with_counts == 0
    journal = recover(traffic.recorded.disk)
    assert journal.statistics().queues_with_counts == 0


@pytest.mark.parametrize("commit_at", range(3, 12))
def test_an_acknowledgement_that_is_committed_while_compaction_looks_at_its_slice_survives(commit_at: int) -> None:
    """1. A transaction acknowledges messages of an older segment. 2. Its records are in a slice that takes compaction
    several steps; between them the transaction is committed. 3. The messages must not come back."""
    settings = evolve(SMALL, compaction_slice_bytes=16 * 1024, compaction_step_records=10)
    traffic = Traffic(settings=settings)
    recorded, background = traffic.recorded, traffic.journal.background
    background.stopped = True
    traffic.fill()  # the definitions are not compacted together with what follows
    acknowledged, transaction_id = traffic.fill()[:10], traffic.take_id()
    traffic.fill()
    gone = [traffic.add(2) for _ in range(8)]
    recorded.settle()
    for message_id in acknowledged[:5]:
        recorded.call("acknowledge", message_id, 2, transaction_id)
    recorded.settle()
    gone += [traffic.add(2) for _ in range(8)]
    recorded.settle()
    for message_id in acknowledged[5:]:
        recorded.call("acknowledge", message_id, 2, transaction_id)
    recorded.settle()
    gone += traffic.fill()[1:] + traffic.fill()[1:]
    traffic.fill()
    for message_id in reversed(gone):
        recorded.call("acknowledge", message_id, 2, 0)
    recorded.settle()
    background.stopped = False
    # Each turn is one step of compaction, or one disk operation.
    for _ in range(commit_at):
        traffic.journal.on_tick(NOW)
        recorded.step()
    recorded.call("commit", transaction_id, [])
    look_for_work(recorded)
    assert compacted(traffic.journal)
    journal = recover(recorded.disk, settings)
    assert journal.recovered is not None
    found = {message.message_id for message in journal.recovered.take_messages(100_000)}
    assert found.isdisjoint(acknowledged)
