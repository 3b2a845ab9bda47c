"""What stands between a message's segment and the current one, and is needed although nothing lives beside it."""

from __future__ import annotations

from embedbroker.storage import Rename
from embedbroker.storage._segments import COMPACTING, segment_name
from tests.embedbroker.storage.journal_model import NOW, recover
from tests.embedbroker.storage.journal_traffic import Traffic, compacted, look_for_work


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
    recorded, background = traffic.recorded, traffic.journal._background
    background._stopped = True
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
    background._stopped = False
    of_message = traffic.journal._liveness.index[message.message_id].segment

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
