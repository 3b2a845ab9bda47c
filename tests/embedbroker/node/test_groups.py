"""Message groups: all messages of a group go to one consumer, in order, over rollbacks, losses and restarts."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionRollback,
    SessionSend,
)

from .scripted import Peer, Stage

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


def test_a_busy_consumer_keeps_its_group_and_all_behind_it_wait(stage: Stage) -> None:
    holder = consumer_of(stage, credit=1)
    send(stage, grouped("a1", "a"))
    assert holder.texts == ["a1"]
    other = consumer_of(stage)
    send(stage, grouped("a2", "a"), grouped("b1", "b"))
    assert (holder.texts, other.texts) == (["a1"], [])
    holder.send(SessionConsumerFlowCredit(0, 1_000_000))
    stage.settle_disk()
    assert holder.texts[:2] == ["a1", "a2"]
    assert holder.texts[2:] + other.texts == ["b1"]


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


def test_a_queue_without_groups_is_ordinary_again_once_it_is_empty_after_a_restart(stage: Stage) -> None:
    send(stage, *[grouped(str(number), None) for number in range(5)])
    stage.boot()
    dispatcher = stage.node.kernel.address_manager.queues["q"].dispatcher
    assert dispatcher.groups is not None
    assert consumer_of(stage).texts == ["0", "1", "2", "3", "4"]
    assert dispatcher.groups is None


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
