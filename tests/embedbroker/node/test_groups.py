"""Message groups: all messages of a group go to one consumer, in order, over rollbacks, losses and restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import Bookmark, Message, Queue, QueueUpdate
from embedbroker.kernel.queueing._dispatcher import Dispatcher
from embedbroker.kernel.queueing._priority_list import PriorityList
from embedclient.model import Properties, PropertyType, XaCode
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    SessionAcknowledge,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionForceConsumerDelivery,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionXaEnd,
)

from .branches import another, answer, prepared, taken_in, xid
from .managing import Manager
from .scripted import Peer, Stage, letter, text_of

COUNT = 12


@pytest.fixture
def stage() -> Stage:
    stage = Stage(durable=True)
    stage.connect().open_session("first").create_queue()
    stage.settle_disk()
    return stage


def grouped(text: str, group: str | None, sequence: int | None = None, **properties: int) -> CoreMessage:
    values = Properties()
    values.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    if group is not None:
        values.set("_AMQ_GROUP_ID", group, PropertyType.STRING)
    if sequence is not None:
        values.set("_AMQ_GROUP_SEQUENCE", sequence, PropertyType.INT)
    for name, value in properties.items():
        values.set(name, value, PropertyType.INT)
    return CoreMessage.build(address="q", durable=True, properties=values, body=text.encode())


def send(stage: Stage, *messages: CoreMessage, transacted: bool = False) -> None:
    producer = stage.connect().open_session(f"p{len(stage.peers)}", transacted=transacted)
    producer.send(*[SessionSend(message, False, -1) for message in messages])
    if transacted:
        producer.send(SessionCommit())
    stage.settle_disk()


def consumer_of(stage: Stage, *, credit: int = -1, **options: object) -> Peer:
    peer = stage.connect().open_session(f"c{len(stage.peers)}", **options)  # type: ignore[arg-type]  # real options
    peer.consume(credit=credit)
    stage.settle_disk()
    return peer


def mixed(count: int = COUNT) -> list[CoreMessage]:
    """Messages of the groups a, b and c in turn: a0, b1, c2, a3 ..."""
    return [grouped(f"{'abc'[number % 3]}{number}", "abc"[number % 3]) for number in range(count)]


def assert_whole_groups(*consumers: Peer, count: int = COUNT) -> None:
    """Each group went to one consumer, in order."""
    texts = [text for consumer in consumers for text in consumer.texts]
    assert sorted(texts) == sorted(f"{'abc'[number % 3]}{number}" for number in range(count))
    for group in "abc":
        holders = [peer for peer in consumers if any(text.startswith(group) for text in peer.texts)]
        assert len(holders) == 1, group
        of_group = [text for text in holders[0].texts if text.startswith(group)]
        assert of_group == sorted(of_group, key=lambda text: int(text[1:]))


@pytest.mark.parametrize("transacted", [False, True])
def test_a_group_goes_to_one_consumer_and_groups_are_shared_out(stage: Stage, transacted: bool) -> None:
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, *mixed(), transacted=transacted)
    assert_whole_groups(first, second)
    assert first.texts and second.texts


def test_messages_that_wait_are_shared_out_by_group(stage: Stage) -> None:
    send(stage, *mixed())
    first, second = consumer_of(stage, credit=0), consumer_of(stage, credit=0)
    for peer in (first, second):
        peer.send(SessionConsumerFlowCredit(0, 1_000_000))
    stage.settle_disk()
    assert_whole_groups(first, second)


def test_messages_without_a_group_go_to_all_consumers(stage: Stage) -> None:
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, grouped("a", "a"), *[grouped(str(number), None) for number in range(4)])
    assert sorted([len(first.texts), len(second.texts)]) == [2, 3]


def test_a_busy_consumer_keeps_its_group_and_other_groups_go_on(stage: Stage) -> None:
    holder = consumer_of(stage, credit=1)
    send(stage, grouped("a1", "a"))
    assert holder.texts == ["a1"]
    other = consumer_of(stage)
    send(stage, grouped("a2", "a"), grouped("b1", "b"), grouped("a3", "a"))
    assert (holder.texts, other.texts) == (["a1"], ["b1"])
    holder.send(SessionConsumerFlowCredit(0, 1_000_000))
    stage.settle_disk()
    assert (holder.texts, other.texts) == (["a1", "a2", "a3"], ["b1"])


def test_a_closed_consumer_gives_its_groups_to_others(stage: Stage) -> None:
    first = consumer_of(stage)
    send(stage, grouped("a1", "a"), grouped("a2", "a"))
    second = consumer_of(stage)
    send(stage, grouped("a3", "a"))
    assert (first.texts, second.texts) == (["a1", "a2", "a3"], [])
    first.send(SessionConsumerClose(0))
    stage.settle_disk()
    assert second.texts == ["a1", "a2", "a3"]
    send(stage, grouped("a4", "a"))
    assert second.texts[-1] == "a4"


def test_the_sequence_minus_one_ends_the_group_with_its_message(stage: Stage) -> None:
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, grouped("a1", "a", 1), grouped("a2", "a", 2), grouped("a3", "a", -1))
    assert [first.texts, second.texts] == [["a1", "a2", "a3"], []]
    send(stage, grouped("b", "b"), grouped("a4", "a", 1))
    assert sorted([len(first.texts), len(second.texts)]) == [1, 4]


def test_a_rollback_brings_a_group_back_to_its_consumer_in_order(stage: Stage) -> None:
    """Artemis' MessageGroupingTest.testMultipleGroupingTXRollback."""
    first, second = consumer_of(stage, transacted=True), consumer_of(stage, transacted=True)
    send(stage, *mixed())
    before = [list(first.texts), list(second.texts)]
    for peer in (first, second):
        peer.send(SessionRollback(True))
        stage.settle_disk()
    assert [first.texts, second.texts] == [before[0] * 2, before[1] * 2]


def test_groups_are_kept_together_after_a_restart(stage: Stage) -> None:
    send(stage, *mixed())
    stage.boot()
    first, second = consumer_of(stage, credit=1), consumer_of(stage, credit=1)
    for peer in (first, second, first, second):
        peer.send(SessionConsumerFlowCredit(0, 1_000_000))
        stage.settle_disk()
    assert_whole_groups(first, second)


def test_a_queue_without_groups_has_the_ordinary_dispatcher_also_after_a_restart(stage: Stage) -> None:
    send(stage, *[grouped(str(number), None) for number in range(5)])
    for _ in range(2):
        assert type(stage.node.kernel.address_manager.queues["q"].dispatcher) is Dispatcher
        stage.boot()
    assert consumer_of(stage).texts == ["0", "1", "2", "3", "4"]


def test_filters_hold_within_groups(stage: Stage) -> None:
    low = stage.connect().open_session("low")
    low.send(SessionCreateConsumer(0, "q", "size < 5", False, False), SessionConsumerFlowCredit(0, -1))
    high = stage.connect().open_session("high")
    high.send(SessionCreateConsumer(0, "q", "size >= 5", False, False), SessionConsumerFlowCredit(0, -1))
    stage.settle_disk()
    send(stage, grouped("a1", "a", size=1), grouped("a9", "a", size=9), grouped("b9", "b", size=9))
    # The second message of the group waits: its consumer does not want it, and no other may get it.
    assert (low.texts, high.texts) == (["a1"], ["b9"])
    low.lose()
    stage.settle_disk()
    assert high.texts == ["b9", "a9"]


def test_dead_letters_of_a_group_go_to_one_consumer() -> None:
    settings = AddressSettings(max_delivery_attempts=1, dead_letter_address="DLQ")
    stage = Stage(durable=True, address_settings={"#": settings})
    stage.connect().open_session("first").create_queue()
    send(stage, *mixed())
    stage.boot()
    failing = consumer_of(stage, transacted=True)
    readers = [stage.connect().open_session(name) for name in ("one", "two")]
    for reader in readers:
        reader.consume("DLQ")
    failing.lose()
    stage.settle_disk()
    assert_whole_groups(*readers)


def test_an_exclusive_queue_ignores_groups() -> None:
    stage = Stage(address_settings={"#": AddressSettings(default_exclusive_queue=True)})
    stage.connect().open_session("first").create_queue()
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, *mixed())
    assert sorted([len(first.texts), len(second.texts)]) == [0, COUNT]


# -- settings of queues ------------------------------------------------------------------------------------------------


def update(stage: Stage, change: QueueUpdate) -> None:
    queue = stage.node.kernel.address_manager.queues["q"]
    assert stage.node.kernel.address_manager.update_queue(queue, change) is None
    stage.settle_disk()


def test_a_queue_that_becomes_exclusive_ignores_its_groups(stage: Stage) -> None:
    one, two = consumer_of(stage), consumer_of(stage)
    send(stage, *mixed())
    assert one.texts and two.texts
    before = [len(one.texts), len(two.texts)]
    update(stage, QueueUpdate(exclusive=True))
    send(stage, *mixed())
    later = [len(one.texts) - before[0], len(two.texts) - before[1]]
    assert sorted(later) == [0, COUNT]


def test_a_queue_that_is_no_longer_exclusive_keeps_groups_together(stage: Stage) -> None:
    update(stage, QueueUpdate(exclusive=True))
    send(stage, *mixed())
    update(stage, QueueUpdate(exclusive=False))
    one, two = consumer_of(stage, credit=0), consumer_of(stage, credit=0)
    for peer in (one, two):
        peer.send(SessionConsumerFlowCredit(0, -1))
    stage.settle_disk()
    assert_whole_groups(one, two)


@pytest.mark.parametrize(("buckets", "kept"), [(0, False), (-1, True)])
def test_groups_are_switched_while_consumers_are_there(buckets: int, kept: bool) -> None:
    stage = stage_with(default_group_buckets=-1 if buckets == 0 else 0)
    one, two = consumer_of(stage), consumer_of(stage)
    update(stage, QueueUpdate(group_buckets=buckets))
    send(stage, *[grouped(str(number), "a") for number in range(COUNT)])
    assert ([] in (one.texts, two.texts)) is kept


def stage_with(**settings: object) -> Stage:
    stage = Stage(durable=True, address_settings={"#": AddressSettings(**settings)})  # type: ignore[arg-type]  # fields
    stage.connect().open_session("first").create_queue()
    stage.settle_disk()
    return stage


def test_buckets_put_several_groups_together() -> None:
    stage = stage_with(default_group_buckets=1)
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, *mixed())
    assert sorted([len(first.texts), len(second.texts)]) == [0, COUNT]


def test_a_client_chooses_buckets_by_number() -> None:
    stage = stage_with(default_group_buckets=2)
    first, second = consumer_of(stage), consumer_of(stage)
    prefix = "_AMQ_GROUP_BUCKET_INT_KEY_"
    send(stage, *[grouped(str(number), f"{prefix}{number}") for number in range(6)])
    assert sorted([first.texts, second.texts]) == [["0", "2", "4"], ["1", "3", "5"]]


def test_a_bucket_number_of_thousands_of_digits_is_a_name_also_after_a_restart() -> None:
    stage = stage_with(default_group_buckets=2)
    send(stage, grouped("one", "_AMQ_GROUP_BUCKET_INT_KEY_" + "7" * 5_000))
    stage.boot()
    assert consumer_of(stage).texts == ["one"]


def test_no_buckets_switch_groups_off() -> None:
    """Artemis' GroupingTest.testGroupDisable."""
    stage = stage_with(default_group_buckets=0)
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, *[grouped(str(number), "a") for number in range(6)])
    assert [len(first.texts), len(second.texts)] == [3, 3]


@pytest.mark.parametrize("rebalances", [False, True])
def test_a_new_consumer_gets_groups_where_they_are_balanced_again(rebalances: bool) -> None:
    stage = stage_with(default_group_rebalance=rebalances)
    first = consumer_of(stage)
    send(stage, *mixed(6))
    second = consumer_of(stage)
    send(stage, *mixed(6))
    assert len(first.texts + second.texts) == 12
    assert bool(second.texts) == rebalances
    later = [text[0] for text in first.texts[6:]]
    assert not set(later) & {text[0] for text in second.texts}


def test_the_largest_delays_of_settings_end_at_the_largest_time() -> None:
    largest = 2**63 - 1
    stage = stage_with(expiry_delay_ms=largest, redelivery_delay_ms=largest, max_redelivery_delay_ms=largest)
    send(stage, grouped("one", "a"))
    consumer = consumer_of(stage, transacted=True)
    assert consumer.packets(SessionReceiveMessage)[0].message.expiration == largest
    consumer.send(SessionRollback(False))
    stage.settle_disk()
    stage.boot()
    queue = stage.node.kernel.address_manager.queues["q"]
    assert (queue.scheduled_count, queue.message_count) == (1, 1)


def first_marks(peer: Peer, key: str = "begins") -> list[str]:
    return [
        text_of(packet.message)
        for packet in peer.packets(SessionReceiveMessage)
        if packet.message.property(key) is True
    ]


def test_the_first_message_of_a_group_for_a_consumer_is_marked() -> None:
    """Artemis' GroupingTest.testGroupFirstKey."""
    stage = stage_with(default_group_first_key="begins")
    first = consumer_of(stage, transacted=True)
    send(stage, *mixed(6))
    assert first_marks(first) == ["a0", "b1", "c2"]
    # Closed: another consumer gets the groups, and the message itself was not changed.
    first.lose()
    stage.settle_disk()
    second = consumer_of(stage)
    assert second.texts == ["a0", "b1", "c2", "a3", "b4", "c5"]
    assert first_marks(second) == ["a0", "b1", "c2"]


def test_the_first_message_for_the_consumer_of_an_exclusive_queue_is_marked() -> None:
    stage = stage_with(default_group_first_key="begins", default_exclusive_queue=True)
    first = consumer_of(stage)
    send(stage, *mixed(6))
    assert first_marks(first) == ["a0"]


def test_a_queue_keeps_its_settings_over_a_restart() -> None:
    stage = stage_with(default_group_buckets=4, default_group_rebalance=True, default_group_first_key="begins")
    for _ in range(2):
        definition = stage.node.kernel.address_manager.queues["q"].definition
        assert (definition.group_buckets, definition.group_rebalance, definition.group_first_key) == (4, True, "begins")
        stage.boot()


# -- a rebalance waits for what is in flight ---------------------------------------------------------------------------


@pytest.fixture
def waiting() -> Stage:
    return stage_with(default_group_rebalance=True, default_group_rebalance_pause_dispatch=True)


def is_rebalancing(stage: Stage) -> bool:
    return stage.node.kernel.address_manager.queues["q"].is_rebalancing


def acknowledge(peer: Peer, *, through: int = -1) -> None:
    """Acknowledge what the peer got, up to one of its deliveries."""
    message = peer.packets(SessionReceiveMessage)[through].message
    peer.send(SessionAcknowledge(0, message.message_id, False))
    peer.stage.settle_disk()


def test_nothing_is_delivered_after_a_rebalance_until_what_is_in_flight_is_settled(waiting: Stage) -> None:
    """Artemis' GroupingTest.testGroupRebalancePauseDispatch."""
    first = consumer_of(waiting)
    send(waiting, *mixed(6))
    second = consumer_of(waiting)
    send(waiting, *mixed(6))
    assert (len(first.texts), second.texts) == (6, [])
    acknowledge(first, through=4)
    assert (len(first.texts), second.texts) == (6, []) and is_rebalancing(waiting)
    acknowledge(first)
    assert not is_rebalancing(waiting)
    assert len(first.texts + second.texts) == 12 and second.texts
    assert not {text[0] for text in first.texts[6:]} & {text[0] for text in second.texts}


@pytest.mark.parametrize("rebalances", [False, True])
def test_a_rebalance_with_nothing_in_flight_delivers_at_once(rebalances: bool) -> None:
    stage = stage_with(default_group_rebalance=rebalances, default_group_rebalance_pause_dispatch=True)
    first = consumer_of(stage)
    if not rebalances:
        send(stage, grouped("a0", "a"))
    second = consumer_of(stage)
    assert not is_rebalancing(stage)
    send(stage, grouped("a1", "a"), grouped("b2", "b"))
    assert len(first.texts + second.texts) == (2 if rebalances else 3)


@pytest.mark.parametrize("commits", [False, True])
def test_what_an_open_transaction_acknowledged_is_in_flight(waiting: Stage, commits: bool) -> None:
    first = consumer_of(waiting, transacted=True)
    send(waiting, grouped("a1", "a"), grouped("a2", "a"))
    acknowledge(first)
    second = consumer_of(waiting)
    send(waiting, grouped("a3", "a"))
    assert (first.texts, second.texts) == (["a1", "a2"], [])
    first.send(SessionCommit() if commits else SessionRollback(False))
    waiting.settle_disk()
    later = [first.texts[2:], second.texts]
    assert [] in later and ["a3"] if commits else ["a1", "a2", "a3"] in later


@pytest.mark.parametrize("lost", [False, True])
def test_messages_of_a_consumer_that_goes_are_in_flight_no_more(waiting: Stage, lost: bool) -> None:
    first = consumer_of(waiting)
    send(waiting, grouped("a1", "a"), grouped("a2", "a"))
    second = consumer_of(waiting)
    assert is_rebalancing(waiting)
    if lost:
        first.lose()
    else:
        first.send(SessionConsumerClose(0))
    waiting.settle_disk()
    assert second.texts == ["a1", "a2"]


def test_a_new_consumer_with_messages_of_no_group_waits_too(waiting: Stage) -> None:
    first = consumer_of(waiting)
    send(waiting, grouped("one", None))
    second, third = consumer_of(waiting), consumer_of(waiting)
    send(waiting, grouped("two", None), grouped("three", None))
    assert [second.texts, third.texts] == [[], []]
    acknowledge(first)
    assert len(first.texts + second.texts + third.texts) == 3


def test_a_large_acknowledgement_ends_the_pause(waiting: Stage) -> None:
    first = consumer_of(waiting)
    send(waiting, *mixed(300))
    second = consumer_of(waiting)
    acknowledge(first)
    send(waiting, *mixed(300))
    assert len(first.texts + second.texts) == 600 and second.texts


def test_browsers_and_markers_go_on_during_the_pause(waiting: Stage) -> None:
    first = consumer_of(waiting)
    send(waiting, grouped("a1", "a"))
    second = consumer_of(waiting)
    send(waiting, grouped("a2", "a"))
    browser = waiting.connect().open_session("browser")
    browser.consume(browse=True)
    second.send(SessionForceConsumerDelivery(0, 7))
    waiting.settle_disk()
    assert (first.texts, browser.texts) == (["a1"], ["a2"])
    (marker,) = second.packets(SessionReceiveMessage)
    assert marker.message.property("_hornetq.forced.delivery.seq") == 7


def test_an_update_decides_about_later_consumers_only(waiting: Stage) -> None:
    first = consumer_of(waiting)
    send(waiting, grouped("a1", "a"))
    second = consumer_of(waiting)
    update(waiting, QueueUpdate(group_rebalance_pause_dispatch=False))
    consumer_of(waiting)
    assert is_rebalancing(waiting)
    acknowledge(first)
    send(waiting, grouped("a2", "a"))
    consumer_of(waiting)
    assert not is_rebalancing(waiting) and len(first.texts + second.texts) >= 2


@pytest.mark.parametrize("commits", [False, True])
def test_a_commit_behind_a_large_acknowledgement_ends_the_pause(waiting: Stage, commits: bool) -> None:
    first = consumer_of(waiting, transacted=True)
    send(waiting, *mixed(300))
    second = consumer_of(waiting)
    acknowledge(first)
    assert is_rebalancing(waiting)
    first.send(SessionCommit() if commits else SessionRollback(False))
    waiting.settle_disk()
    waiting.node.kernel.check()
    assert not is_rebalancing(waiting)
    send(waiting, *mixed(30))
    assert len(first.texts + second.texts) == (330 if commits else 630)


def test_a_branch_that_is_left_ends_the_pause(waiting: Stage) -> None:
    send(waiting, grouped("a1", "a"))
    manager = another(waiting)
    manager.consume()
    waiting.settle_disk()
    taken_in(manager, 1, end=False)
    second = consumer_of(waiting)
    send(waiting, grouped("a2", "a"))
    assert is_rebalancing(waiting) and second.texts == []
    assert answer(manager, SessionXaEnd(xid(), False)) is XaCode.XA_OK
    assert not is_rebalancing(waiting) and second.texts + manager.texts == ["a2"]


def test_a_step_does_not_examine_each_queue_that_waits(waiting: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = [waiting.connect().open_session(f"many{number}") for number in range(2)]
    for number in range(20):
        peers[0].create_queue(f"q{number}")
        peers[0].consume(f"q{number}", number)
        peers[0].send(SessionSend(letter("m", f"q{number}"), False, -1))
        peers[1].consume(f"q{number}", number)
    waiting.settle_disk()
    queues = waiting.node.kernel.address_manager.queues
    assert all(queues[f"q{number}"].is_rebalancing for number in range(20))
    examined, has_in_flight = [], Queue.has_in_flight.fget  # type: ignore[attr-defined]  # a property

    def observed(queue: Queue) -> bool:
        examined.append(queue.name)
        found: bool = has_in_flight(queue)
        return found

    monkeypatch.setattr(Queue, "has_in_flight", property(observed))
    send(waiting, grouped("other", None))
    assert examined == []
    message = peers[0].packets(SessionReceiveMessage)[7].message
    peers[0].send(SessionAcknowledge(7, message.message_id, False))
    waiting.settle_disk()
    assert examined == ["q7"]
    assert [name for name in queues if queues[name].is_rebalancing] == [f"q{n}" for n in range(20) if n != 7]


def test_a_queue_is_deleted_during_the_pause(waiting: Stage) -> None:
    first = consumer_of(waiting)
    send(waiting, grouped("a1", "a"))
    consumer_of(waiting)
    waiting.node.kernel.teardown.delete_queue(waiting.node.kernel.address_manager.queues["q"])
    waiting.settle_disk()
    first.create_queue("q")
    send(waiting, grouped("a2", "a"))
    assert consumer_of(waiting).texts == ["a2"]


def test_what_a_prepared_branch_acknowledged_is_not_awaited(waiting: Stage) -> None:
    send(waiting, grouped("a1", "a"))
    manager = another(waiting)
    manager.consume()
    waiting.settle_disk()
    taken_in(manager, 1)
    prepared(manager, 1)
    second = consumer_of(waiting)
    send(waiting, grouped("a2", "a"))
    assert second.texts + manager.texts == ["a2"]


def test_clients_create_queues_that_pause_and_are_told_of_it() -> None:
    stage = Stage(durable=True)
    peer = stage.connect().open_session("first")
    create = CreateQueueV2(
        "q", "q", None, True, False, True, False, 1, group_rebalance=True, group_rebalance_pause_dispatch=True
    )
    peer.send(create)
    stage.settle_disk()
    for _ in range(2):
        definition = stage.node.kernel.address_manager.queues["q"].definition
        assert (definition.group_rebalance, definition.group_rebalance_pause_dispatch) == (True, True)
        asking = stage.connect().open_session("asking")
        asking.send(SessionQueueQuery("q"))
        assert asking.last(SessionQueueQueryResponseV3).group_rebalance_pause_dispatch is True
        stage.boot()


# -- management --------------------------------------------------------------------------------------------------------


def manager_of(stage: Stage) -> Manager:
    return Manager(stage.connect().open_session("manager"))


def group_rows(manager: Manager) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(manager.call("queue.q", "listGroupsAsJSON"))
    return rows


def test_groups_are_listed_with_their_consumers(stage: Stage) -> None:
    manager = manager_of(stage)
    assert (group_rows(manager), manager.read("queue.q", "GroupCount")) == ([], 0)
    send(stage, grouped("none", None), grouped("a", "a"), grouped("b", "b"))
    assert (group_rows(manager), manager.read("queue.q", "GroupCount")) == ([], 0)
    consumer = consumer_of(stage)
    assert consumer.texts == ["none", "a", "b"]
    rows = group_rows(manager)
    (consumers,) = json.loads(manager.call("queue.q", "listConsumersAsJSON"))
    shared = ("consumerID", "connectionID", "sessionID", "browseOnly", "creationTime")
    assert rows == [{"groupID": group, **{name: consumers[name] for name in shared}} for group in "ab"]
    assert list(rows[0]) == ["groupID", *shared]
    assert manager.read("queue.q", "GroupCount") == 2


def test_buckets_are_listed_under_the_names_with_which_clients_choose_them() -> None:
    stage = stage_with(default_group_buckets=3)
    manager, _consumer = manager_of(stage), consumer_of(stage)
    send(stage, *[grouped("x", f"_AMQ_GROUP_BUCKET_INT_KEY_{number}") for number in (2, 4, 5)])
    assert [row["groupID"] for row in group_rows(manager)] == [
        "_AMQ_GROUP_BUCKET_INT_KEY_2",
        "_AMQ_GROUP_BUCKET_INT_KEY_1",
    ]
    assert [manager.read("queue.q", name) for name in ("GroupBuckets", "GroupCount")] == [3, 2]


@pytest.mark.parametrize("operation", ["resetGroup", "resetAllGroups"])
def test_the_next_message_of_a_group_that_is_reset_chooses_a_consumer(stage: Stage, operation: str) -> None:
    manager, busy = manager_of(stage), consumer_of(stage, credit=1)
    send(stage, grouped("a1", "a"))
    other = consumer_of(stage)
    send(stage, grouped("a2", "a"), grouped("b1", "b"))
    assert (busy.texts, other.texts) == (["a1"], ["b1"])
    assert manager.call("queue.q", "resetGroup", "nothing") is None
    assert manager.call("queue.q", "resetGroup", None) is None
    assert other.texts == ["b1"]
    assert manager.call("queue.q", operation, *(["a"] if operation == "resetGroup" else [])) is None
    stage.settle_disk()
    assert (busy.texts, other.texts) == (["a1"], ["b1", "a2"])
    # The group b was reset, too, if all were.
    assert [row["groupID"] for row in group_rows(manager)] == (["b", "a"] if operation == "resetGroup" else ["a"])


def test_a_bucket_is_reset_by_any_of_its_groups() -> None:
    stage = stage_with(default_group_buckets=1)
    manager, _consumer = manager_of(stage), consumer_of(stage)
    send(stage, grouped("a", "a"))
    manager.call("queue.q", "resetGroup", "b")
    assert manager.read("queue.q", "GroupCount") == 0


def test_a_queue_without_groups_is_reset_without_effect(stage: Stage) -> None:
    manager = manager_of(stage)
    manager.call("queue.q", "resetAllGroups")
    manager.call("queue.q", "resetGroup", "a")
    assert type(stage.node.kernel.address_manager.queues["q"].dispatcher) is Dispatcher
    failure = manager.failure("queue.nope", operation="resetAllGroups")
    assert failure == "AMQ229067: Cannot find resource with name queue.nope"


# -- bookmarks ---------------------------------------------------------------------------------------------------------


def grant_one(stage: Stage, peer: Peer) -> None:
    """Grant the first consumer of the queue, which is that of the peer, credit for one message."""
    consumer = next(iter(stage.node.kernel.address_manager.queues["q"].consumers))
    peer.send(SessionConsumerFlowCredit(0, 1 - consumer.credit.left))
    stage.settle_disk()


def test_others_get_messages_that_they_passed_over_when_the_group_ends(stage: Stage) -> None:
    holder = consumer_of(stage, credit=1)
    send(stage, grouped("a1", "a"))
    other = consumer_of(stage)
    # The last message of the group waits for its consumer, and so do the first ones of its successor.
    send(stage, grouped("a2", "a", -1), grouped("a3", "a"), grouped("a4", "a"))
    assert (holder.texts, other.texts) == (["a1"], [])
    grant_one(stage, holder)
    assert holder.texts == ["a1", "a2"]
    assert other.texts == ["a3", "a4"]


def test_a_consumer_of_a_higher_priority_gets_them_too(stage: Stage) -> None:
    low = stage.connect().open_session("low")
    low.send(SessionCreateConsumer(0, "q", None, False, False, 0), SessionConsumerFlowCredit(0, 1))
    send(stage, grouped("a1", "a"))
    high = stage.connect().open_session("high")
    high.send(SessionCreateConsumer(0, "q", None, False, False, 5), SessionConsumerFlowCredit(0, -1))
    send(stage, grouped("a2", "a", -1), grouped("a3", "a"))
    grant_one(stage, low)
    assert (low.texts, high.texts) == (["a1", "a2"], ["a3"])


def test_messages_that_no_consumer_may_get_take_a_bounded_number_of_steps() -> None:
    stage = Stage(durable=True, work_per_step_max=2)
    stage.connect().open_session("first").create_queue()
    stage.settle_disk()
    holder = stage.connect().open_session("low")
    holder.send(SessionCreateConsumer(0, "q", "size < 5", False, False), SessionConsumerFlowCredit(0, -1))
    send(stage, grouped("a0", "a", size=0))
    other = consumer_of(stage)
    send(stage, *[grouped(f"a{number}", "a", size=9) for number in range(1, 40)])
    deadline = stage.node.next_deadline()
    assert deadline is None or deadline > stage.seconds
    send(stage, grouped("b", "b", size=9))
    assert (holder.texts, other.texts) == (["a0"], ["b"])


# -- how often messages are examined -----------------------------------------------------------------------------------


def blocked_and_short_groups(stage: Stage, count: int) -> tuple[Peer, Peer]:
    """Two consumers behind the busy consumer of a long group, and short groups that end: a backlog of 4 x ``count``."""
    consumer_of(stage, credit=1)
    send(stage, grouped("first", "blocked"))
    manager = stage.node.kernel.address_manager
    manager.pause_queue(manager.queues["q"], persist=False)
    one, two = consumer_of(stage), consumer_of(stage)
    send(stage, *[grouped(f"blocked{number}", "blocked") for number in range(count)])
    for number in range(count):
        send(stage, *[grouped(f"{number}.{part}", f"g{number}", -1 if part == 2 else part) for part in range(3)])
    manager.resume_queue(manager.queues["q"])
    stage.settle_disk()
    return one, two


def examined(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    looks = 0
    take = PriorityList.scan

    def counted(self: PriorityList, priority: int, cursor: Bookmark, matches: Any, *others: Any) -> Any:
        def noted(message: Message) -> bool:
            nonlocal looks
            looks += 1
            return bool(matches(message))

        return take(self, priority, cursor, noted, *others)

    with monkeypatch.context() as patch:
        patch.setattr(PriorityList, "scan", counted)
        stage = stage_with()
        one, two = blocked_and_short_groups(stage, count)
    assert len(one.texts) + len(two.texts) == 3 * count and one.texts and two.texts
    for number in range(count):
        parts = [f"{number}.{part}" for part in range(3)]
        assert parts in [[text for text in peer.texts if text in parts] for peer in (one, two)]
    return looks


def test_the_end_of_a_group_costs_no_look_at_the_messages_in_front_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = examined(monkeypatch, 20), examined(monkeypatch, 80)
    # Two consumers examine each message about once: four times the messages are four times the work.
    assert large <= 3 * 4 * 80
    assert large <= 4.5 * small


def test_the_end_of_a_group_that_its_consumer_had_left_in_part(stage: Stage) -> None:
    """The consumer does not want the first message: it waits for the end of the group, and then goes to another one."""
    holder = stage.connect().open_session("low")
    holder.send(SessionCreateConsumer(0, "q", "size < 5", False, False), SessionConsumerFlowCredit(0, 1))
    send(stage, grouped("a0", "a", size=1))
    other = consumer_of(stage)
    send(stage, grouped("a1", "a", size=9), grouped("a2", "a", -1, size=1), grouped("a3", "a", size=9))
    assert (holder.texts, other.texts) == (["a0"], [])
    grant_one(stage, holder)
    assert (holder.texts, other.texts) == (["a0", "a2"], ["a1", "a3"])


def test_groups_of_several_priorities_are_looked_at_again(stage: Stage) -> None:
    def important(text: str, priority: int, sequence: int | None = None) -> CoreMessage:
        message = grouped(text, "a", sequence)
        return CoreMessage.build(
            address="q", durable=True, priority=priority, properties=message.properties, body=text.encode()
        )

    holder = consumer_of(stage, credit=1)
    send(stage, important("a0", 4))
    other = consumer_of(stage)
    send(stage, important("low", 1), important("end", 4, -1), important("later", 4), important("next", 1))
    grant_one(stage, holder)
    assert (holder.texts, other.texts) == (["a0", "end"], ["later", "low", "next"])


# -- messages that expire before they are delivered --------------------------------------------------------------------


def short_lived(message: CoreMessage, stage: Stage, milliseconds: int) -> CoreMessage:
    return CoreMessage.build(
        address="q",
        durable=True,
        expiration=stage.now.wall_ms + milliseconds,
        properties=message.properties,
        body=bytes(message.body),
    )


def test_the_mark_of_a_first_message_that_expires_goes_to_the_next_one() -> None:
    stage = stage_with(default_group_first_key="begins")
    send(stage, short_lived(grouped("a0", "a"), stage, 50), grouped("a1", "a"), grouped("a2", "a"))
    stage.seconds += 1
    consumer = consumer_of(stage)
    assert (consumer.texts, first_marks(consumer)) == (["a1", "a2"], ["a1"])


def test_the_mark_of_a_first_message_that_has_expired_when_it_arrives_goes_to_the_next_one() -> None:
    stage = stage_with(default_group_first_key="begins")
    consumer = consumer_of(stage)
    send(stage, short_lived(grouped("a0", "a"), stage, -50), grouped("a1", "a"))
    assert (consumer.texts, first_marks(consumer)) == (["a1"], ["a1"])


def test_the_first_message_of_an_exclusive_queue_that_expires_leaves_the_mark_to_the_next_one() -> None:
    stage = stage_with(default_group_first_key="begins", default_exclusive_queue=True)
    send(stage, short_lived(grouped("a0", "a"), stage, 50), grouped("a1", "a"))
    stage.seconds += 1
    consumer = consumer_of(stage)
    assert first_marks(consumer) == ["a1"]


def test_a_message_that_expires_neither_begins_nor_ends_a_group(stage: Stage) -> None:
    manager = manager_of(stage)
    send(stage, short_lived(grouped("a0", "a"), stage, 50))
    stage.seconds += 1
    first = consumer_of(stage)
    assert (first.texts, manager.read("queue.q", "GroupCount")) == ([], 0)
    send(stage, grouped("a1", "a"))
    second = consumer_of(stage)
    send(stage, short_lived(grouped("a2", "a", -1), stage, -50), grouped("a3", "a"), grouped("a4", "a"))
    assert sorted([first.texts, second.texts]) == [[], ["a1", "a3", "a4"]]


def test_expired_messages_in_the_queue_of_the_expiry_address_keep_their_groups() -> None:
    # The broker makes the queue of the expiry address.
    settings = AddressSettings(expiry_address="q", default_group_first_key="begins")
    stage = Stage(durable=True, address_settings={"#": settings})
    first, second = consumer_of(stage), consumer_of(stage)
    send(stage, *[short_lived(grouped(f"a{number}", "a"), stage, -50) for number in range(4)])
    texts = sorted([first.texts, second.texts])
    assert texts == [[], ["a0", "a1", "a2", "a3"]]
    assert first_marks(first) + first_marks(second) == ["a0"]
