"""Messages with a time, and delayed redeliveries: never early, in order, over restarts, and counted meanwhile."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings
from embedclient.model import Properties, PropertyType, XaCode
from embedclient.wire.core import (
    CoreMessage,
    NullResponse,
    SessionCommit,
    SessionConsumerClose,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionXaEnd,
    SessionXaStart,
)

from .branches import another, answer, committed, prepared, xid
from .managing import manager_of
from .scripted import Peer, Stage

SCHEDULED = "_AMQ_SCHED_DELIVERY"


@pytest.fixture
def stage() -> Stage:
    stage = Stage(durable=True)
    stage.connect().open_session("first").create_queue()
    stage.settle_disk()
    return stage


def timed(text: str, due_ms: int, *, durable: bool = True, expiration: int = 0) -> CoreMessage:
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set(SCHEDULED, due_ms, PropertyType.LONG)
    return CoreMessage.build(
        address="q", durable=durable, expiration=expiration, properties=properties, body=text.encode()
    )


def send(stage: Stage, peer: Peer, text: str, seconds: float, **fields: object) -> None:
    """Send a message that is due after some seconds."""
    due_ms = stage.now.wall_ms + round(seconds * 1000)
    peer.send(SessionSend(timed(text, due_ms, **fields), False, -1))  # type: ignore[arg-type]  # fields of `timed`
    if stage.disk is not None:
        stage.settle_disk()


def counts(stage: Stage) -> tuple[int, int]:
    queue = stage.node.kernel.address_manager.queues["q"]
    return queue.message_count, queue.scheduled_count


def consumer_of(stage: Stage, name: str = "consumer", **options: object) -> Peer:
    peer = stage.connect().open_session(name, **options)  # type: ignore[arg-type]  # options of `open_session`
    peer.consume()
    stage.settle_disk()
    return peer


def test_a_message_comes_when_it_is_due_and_not_before(stage: Stage) -> None:
    """Artemis' ScheduledMessageTest.testScheduledAndNormalMessagesDeliveredCorrectly."""
    producer, consumer = stage.connect().open_session("p"), consumer_of(stage)
    send(stage, producer, "later", 10)
    producer.post("now")
    stage.settle_disk()
    assert consumer.texts == ["now"]
    assert counts(stage) == (2, 1)
    stage.advance(9.998)
    assert consumer.texts == ["now"]
    stage.advance(0.002)
    assert consumer.texts == ["now", "later"]
    received = consumer.packets(SessionReceiveMessage)[-1].message
    # The time stays on the message, as in Artemis.
    assert isinstance(received.property(SCHEDULED), int)
    assert counts(stage) == (2, 0)


def test_messages_come_in_order_of_their_times_and_those_of_one_time_in_order_of_their_sends(stage: Stage) -> None:
    """Artemis' ScheduledMessageTest.testScheduledMessagesDeliveredCorrectlyDifferentOrder."""
    producer, consumer = stage.connect().open_session("p"), consumer_of(stage)
    for text, seconds in (("third", 25), ("first", 24), ("second", 24)):
        send(stage, producer, text, seconds)
    stage.advance(30)
    assert consumer.texts == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, PropertyType.LONG),
        (-5, PropertyType.LONG),
        ("soon", PropertyType.STRING),
        (True, PropertyType.BOOLEAN),
        (float("nan"), PropertyType.DOUBLE),
        (float("-inf"), PropertyType.DOUBLE),
    ],
)
def test_a_time_that_has_passed_or_is_no_number_has_no_effect(stage: Stage, value: object, kind: PropertyType) -> None:
    producer, consumer = stage.connect().open_session("p"), consumer_of(stage)
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set(SCHEDULED, value, kind)  # type: ignore[arg-type]  # values of property types
    producer.send(SessionSend(CoreMessage.build(address="q", properties=properties, body=b"now"), False, -1))
    stage.settle_disk()
    assert consumer.texts == ["now"]


@pytest.mark.parametrize("value", [float("inf"), 1e30])
def test_a_time_beyond_all_times_waits_for_ever(stage: Stage, value: float) -> None:
    producer, consumer = stage.connect().open_session("p"), consumer_of(stage)
    properties = Properties()
    properties.set("_AMQ_ROUTING_TYPE", 1, PropertyType.BYTE)
    properties.set(SCHEDULED, value, PropertyType.DOUBLE)
    producer.send(SessionSend(CoreMessage.build(address="q", properties=properties, body=b"never"), False, -1))
    stage.settle_disk()
    stage.advance(50)
    assert (consumer.texts, counts(stage)) == ([], (1, 1))


def test_the_time_survives_a_restart(stage: Stage) -> None:
    producer = stage.connect().open_session("p")
    send(stage, producer, "later", 10)
    send(stage, producer, "lost", 10, durable=False)
    producer.post("now", durable=True)
    stage.settle_disk()
    stage.boot()
    assert counts(stage) == (2, 1)
    consumer = consumer_of(stage)
    assert consumer.texts == ["now"]
    stage.advance(9)
    assert consumer.texts == ["now"]
    stage.advance(1)
    assert consumer.texts == ["now", "later"]
    stage.node.kernel.check()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_scheduled_message_that_is_moved_keeps_its_time(stage: Stage, restarts: bool) -> None:
    send(stage, stage.connect().open_session("p"), "later", 10)
    if restarts:
        stage.boot()
    manager = manager_of(stage)
    manager.peer.create_queue("other")
    assert manager.call("queue.q", "moveMessages", 100, None, "other", False, -1) == 1
    stage.settle_disk()
    if restarts:
        stage.boot()
    other = stage.node.kernel.address_manager.queues["other"]
    assert (other.message_count, other.scheduled_count) == (1, 1)
    stage.advance(10)
    assert (other.message_count, other.scheduled_count) == (1, 0)


def test_what_is_due_during_a_restart_comes_at_once(stage: Stage) -> None:
    send(stage, stage.connect().open_session("p"), "due", 10)
    stage.seconds += 20
    stage.boot()
    assert counts(stage) == (1, 0)
    assert consumer_of(stage).texts == ["due"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_commit_shows_scheduled_messages_when_they_are_due(stage: Stage, restarts: bool) -> None:
    producer = stage.connect().open_session("p", transacted=True)
    send(stage, producer, "later", 10)
    assert counts(stage) == (0, 0)
    producer.send(SessionCommit())
    stage.settle_disk()
    if restarts:
        stage.boot()
    consumer = consumer_of(stage)
    stage.advance(9)
    assert consumer.texts == []
    stage.advance(1)
    assert consumer.texts == ["later"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_prepared_branch_keeps_the_times_of_what_it_sent(stage: Stage, restarts: bool) -> None:
    worker = another(stage, "worker")
    assert answer(worker, SessionXaStart(xid(1))) == XaCode.XA_OK
    send(stage, worker, "later", 10)
    assert answer(worker, SessionXaEnd(xid(1), False)) == XaCode.XA_OK
    prepared(worker, 1)
    if restarts:
        stage.boot()
        worker = another(stage, "worker")
    committed(worker, 1)
    stage.settle_disk()
    consumer = consumer_of(stage)
    stage.advance(9)
    assert (consumer.texts, counts(stage)) == ([], (1, 1))
    stage.advance(1)
    assert consumer.texts == ["later"]


def test_a_scheduled_message_is_not_browsed_and_leaves_with_its_queue(stage: Stage) -> None:
    send(stage, stage.connect().open_session("p"), "later", 10)
    browser = stage.connect().open_session("b")
    browser.consume(browse=True)
    stage.settle_disk()
    assert browser.texts == []
    kernel = stage.node.kernel
    kernel.teardown.delete_queue(kernel.address_manager.queues["q"])
    stage.settle_disk()
    assert kernel.memory.used_bytes == 0
    stage.advance(20)
    stage.settle_disk()
    stage.boot()
    assert "q" not in stage.node.kernel.address_manager.queues


def test_many_messages_of_one_time_come_in_their_order_over_bounded_steps() -> None:
    """Artemis' ScheduledMessageTest.testManyMessagesSameTime."""
    stage = Stage(durable=True, work_per_step_max=7)
    stage.connect().open_session("first").create_queue()
    producer = stage.connect().open_session("p")
    due_ms = stage.now.wall_ms + 10_000
    producer.send(*[SessionSend(timed(str(number), due_ms), False, -1) for number in range(100)])
    stage.settle_disk()
    consumer = consumer_of(stage)
    stage.advance(10)
    stage.settle_disk()
    assert consumer.texts == [str(number) for number in range(100)]


def test_an_expired_message_is_not_delivered_when_it_is_due(stage: Stage) -> None:
    send(stage, stage.connect().open_session("p"), "old", 10, expiration=stage.now.wall_ms + 5_000)
    consumer = consumer_of(stage)
    stage.advance(60)
    stage.settle_disk()
    assert (consumer.texts, counts(stage)) == ([], (0, 0))


# -- redelivery delays -----------------------------------------------------------------------------------------------


def delayed_stage(**settings: object) -> Stage:
    values = {"redelivery_delay_ms": 1000, **settings}
    stage = Stage(durable=True, address_settings={"#": AddressSettings(**values)})  # type: ignore[arg-type]
    peer = stage.connect().open_session("first")
    peer.create_queue()
    peer.post("a", durable=True)
    stage.settle_disk()
    return stage


def roll_back(stage: Stage, consumer: Peer, *, last_delivered: bool = True) -> None:
    consumer.send(SessionRollback(last_delivered))
    stage.settle_disk()


def assert_comes_after(stage: Stage, consumer: Peer, seconds: float) -> None:
    """The next delivery comes after these seconds, and not earlier."""
    before = len(consumer.texts)
    stage.advance(seconds - 0.01)
    assert len(consumer.texts) == before
    stage.advance(0.011)
    stage.settle_disk()
    assert len(consumer.texts) == before + 1


def test_a_rolled_back_message_waits_longer_each_time_up_to_the_maximum() -> None:
    stage = delayed_stage(redelivery_delay_multiplier=2.0, max_redelivery_delay_ms=3000)
    consumer = consumer_of(stage, transacted=True)
    for seconds in (1, 2, 3, 3):
        roll_back(stage, consumer)
        assert counts(stage) == (1, 1)
        assert_comes_after(stage, consumer, seconds)
    assert [packet.delivery_count for packet in consumer.packets(SessionReceiveMessage)] == [1, 2, 3, 4, 5]


def test_the_longest_delay_is_ten_times_the_first_by_default() -> None:
    stage = delayed_stage(redelivery_delay_multiplier=100.0)
    consumer = consumer_of(stage, transacted=True)
    for seconds in (1, 10):
        roll_back(stage, consumer)
        assert_comes_after(stage, consumer, seconds)


def test_prefetched_messages_wait_with_the_one_that_failed() -> None:
    stage = delayed_stage()
    stage.connect().open_session("p").post("b", "c", durable=True)
    stage.settle_disk()
    consumer = consumer_of(stage, transacted=True)
    roll_back(stage, consumer)
    assert counts(stage) == (3, 3)
    stage.advance(0.999)
    assert consumer.texts == ["a", "b", "c"]
    stage.advance(0.001)
    assert consumer.texts == ["a", "b", "c"] * 2
    assert [packet.delivery_count for packet in consumer.packets(SessionReceiveMessage)[3:]] == [2, 1, 1]


def test_a_delay_survives_a_restart_with_the_delivery_count() -> None:
    stage = delayed_stage()
    roll_back(stage, consumer_of(stage, transacted=True))
    stage.boot()
    assert counts(stage) == (1, 1)
    consumer = consumer_of(stage)
    stage.advance(0.9)
    assert consumer.texts == []
    stage.advance(0.1)
    assert [packet.delivery_count for packet in consumer.packets(SessionReceiveMessage)] == [2]


def test_a_closed_consumer_gives_its_messages_back_at_once() -> None:
    stage = delayed_stage()
    consumer = consumer_of(stage)
    consumer.send(SessionConsumerClose(0))
    stage.settle_disk()
    assert consumer.received[-1][1] == NullResponse(-1)
    assert consumer_of(stage, "another").texts == ["a"]


def test_a_message_with_too_many_deliveries_is_dead_without_a_delay() -> None:
    stage = delayed_stage(max_delivery_attempts=1, dead_letter_address="DLQ")
    roll_back(stage, consumer_of(stage, transacted=True))
    assert counts(stage) == (0, 0)
    assert stage.node.kernel.address_manager.queues["DLQ"].message_count == 1
