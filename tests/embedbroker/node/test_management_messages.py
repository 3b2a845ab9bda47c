"""Management of single messages and of clients: browse, copy, move, priorities, sends, producers, sessions."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from embedbroker.config import SecuritySetting, User
from embedbroker.kernel import Reference, Session
from embedbroker.management import _lists
from embedbroker.management._paging import Column, page_of
from embedbroker.management._queue_figures import CONTENT_ATTRIBUTES, HELD_ATTRIBUTES
from embedbroker.management._registry import BrokerView, Call, ManagementRefused
from embedbroker.management._rows import RESULT_CHARS_MAX, ROWS_MAX
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateProducer,
    CreateQueueV2,
    DeleteQueue,
    RemoveProducer,
    SessionAcknowledge,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
    SessionStart,
    decode_text,
)

from . import test_large_messages as large
from .branches import prepared, taken_in
from .managing import Manager, manager_of, request_of
from .scripted import Peer, Stage, letter


@pytest.fixture
def manager() -> Manager:
    return Manager(Stage().connect().open_session())


def fill(manager: Manager, count: int, queue: str = "q", **properties: object) -> None:
    if queue not in manager.peer.stage.node.kernel.address_manager.queues:
        manager.peer.create_queue(queue)
    for number in range(count):
        values = Properties()
        values.set("number", number, PropertyType.INT)
        for name, value in properties.items():
            values.set(name, value, PropertyType.STRING)  # type: ignore[arg-type]  # texts
        message = CoreMessage.build(address=queue, durable=True, properties=values, expiration=1 << 50)
        manager.peer.send(SessionSend(message, False, -1))


def listed(manager: Manager, queue: str = "q") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(manager.call(f"queue.{queue}", "listMessagesAsJSON", None))
    return found


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["number"] for row in rows]


# -- browsing and counting -------------------------------------------------------------------------------------------


def test_browse_returns_what_lists_show(manager: Manager) -> None:
    fill(manager, 300)
    assert manager.call("queue.q", "browse") == listed(manager)
    assert numbers(manager.call("queue.q", "browse", "number > 197")) == [198, 199]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, 3), [0, 1, 2]),
        ((2, 3), [3, 4, 5]),
        ((100, 3), [297, 298, 299]),
        ((101, 3), []),
        # The skipped ones match, too, and there is no limit of examined messages.
        ((2, 2, "number >= 250"), [252, 253]),
        ((1, 0), []),
        ((0, 2), [0, 1]),
        ((-1, -1), []),
    ],
)
def test_browse_returns_a_page_of_what_matches(
    manager: Manager, arguments: tuple[object, ...], expected: list[int]
) -> None:
    fill(manager, 300)
    assert numbers(manager.call("queue.q", "browse", *arguments)) == expected


def test_messages_are_counted_by_the_value_of_a_property(manager: Manager) -> None:
    fill(manager, 2, color="red")
    fill(manager, 1, color="blue")
    fill(manager, 1)
    assert json.loads(manager.call("queue.q", "countMessages", None, "color")) == {"red": 2, "blue": 1, "null": 1}
    assert json.loads(manager.call("queue.q", "countMessages", "color = 'red'", "color")) == {"red": 2}
    assert json.loads(manager.call("queue.q", "countMessages", "number = 0", None)) == {"null": 3}
    assert json.loads(manager.call("queue.q", "countMessages", None, None)) == {"null": 4}


def test_messages_in_delivery_are_listed_and_counted(manager: Manager) -> None:
    fill(manager, 300)
    consumer = manager.peer.stage.connect().open_session("other")
    consumer.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerFlowCredit(3, -1), SessionStart())
    manager.peer.stage.run()
    assert manager.call("queue.q", "countDeliveringMessages") == 300
    assert manager.call("queue.q", "countDeliveringMessages", "number < 10") == 10
    counted = json.loads(manager.call("queue.q", "countDeliveringMessages", "number < 3", "number"))
    assert counted == {"0": 1, "1": 1, "2": 1}
    ((name, shown),) = manager.call("queue.q", "listDeliveringMessages").items()
    assert name == "ServerConsumer [id=3, session=other]"
    # As for all lists of messages, 200 are shown.
    assert numbers(shown) == list(range(200))
    ((entry),) = json.loads(manager.call("queue.q", "listDeliveringMessagesAsJSON"))
    assert entry == {"consumerName": name, "elements": shown}
    assert manager.call("queue.q", "browse") == []


# -- copies, moves and priorities ------------------------------------------------------------------------------------


def test_a_copy_has_a_new_id_and_no_origin_and_does_not_expire(manager: Manager) -> None:
    fill(manager, 2)
    manager.peer.create_queue("other")
    first = listed(manager)[0]
    assert manager.call("queue.q", "copyMessage", first["messageID"], "other") is True
    assert manager.call("queue.q", "copyMessage", 1, "other") is False
    (copy,) = listed(manager, "other")
    assert copy["messageID"] not in (0, first["messageID"])
    assert copy == first | {"address": "other", "messageID": copy["messageID"], "expiration": 0}
    assert listed(manager)[0] == first
    manager.peer.stage.node.kernel.check()


def test_a_copy_is_as_durable_as_its_message(manager: Manager) -> None:
    fill(manager, 1)
    manager.peer.create_queue("other")
    manager.call("queue.q", "copyMessage", listed(manager)[0]["messageID"], "other")
    (copy,) = listed(manager, "other")
    assert copy["durable"] is True


def test_a_copy_to_a_queue_that_does_not_exist_is_refused(manager: Manager) -> None:
    fill(manager, 1)
    text = manager.failure("queue.q", operation="copyMessage", body='[1,"nope"]')
    assert text == "AMQ229049: No queue found for nope"


@pytest.mark.parametrize(("limit", "moved"), [(2, 2), (0, 0), (-1, 5), (9, 5)])
def test_a_move_may_have_a_limit(manager: Manager, limit: int, moved: int) -> None:
    fill(manager, 5)
    manager.peer.create_queue("other")
    assert manager.call("queue.q", "moveMessages", 100, None, "other", False, limit) == moved
    assert numbers(listed(manager, "other")) == list(range(moved))


def send_with_id(manager: Manager, address: str, duplicate_id: str, number: int) -> None:
    values = Properties()
    values.set("number", number, PropertyType.INT)
    values.set("_AMQ_DUPL_ID", duplicate_id, PropertyType.STRING)
    message = CoreMessage.build(address=address, durable=True, properties=values)
    manager.peer.send(SessionSend(message, False, -1))
    manager.peer.stage.settle_disk()


def test_a_move_drops_or_refuses_duplicates(manager: Manager) -> None:
    """Artemis' QueueControlTest.testMoveMessagesWithDuplicateIDSet and testMoveIndividualMessagesWithDuplicateIDSet."""
    for queue in ("q", "other"):
        manager.peer.create_queue(queue)
    send_with_id(manager, "other", "one", 0)
    for number, duplicate_id in enumerate(("one", "two", "three"), 1):
        send_with_id(manager, "q", duplicate_id, number)
    first, second, _third = listed(manager)
    body = json.dumps([first["messageID"], "other", True])
    text = manager.failure("queue.q", operation="moveMessage", body=body)
    assert text.startswith("Duplicate message detected - message will not be routed.")
    assert numbers(listed(manager)) == [1, 2, 3]
    assert manager.call("queue.q", "moveMessage", second["messageID"], "other", True) is True
    assert manager.call("queue.q", "moveMessages", "", "other", True) == 2
    assert (numbers(listed(manager)), numbers(listed(manager, "other"))) == ([], [0, 2, 3])
    # Without the check, it is moved, as any message.
    send_with_id(manager, "q", "late", 4)
    send_with_id(manager, "other", "late", 5)
    assert manager.call("queue.q", "moveMessages", 100, None, "other", False, -1) == 1
    assert numbers(listed(manager, "other")) == [0, 2, 3, 5, 4]
    manager.peer.stage.node.kernel.check()


def test_a_move_finds_what_it_moved_itself(manager: Manager) -> None:
    for queue in ("q", "copies", "other"):
        manager.peer.create_queue(queue)
    send_with_id(manager, "q", "one", 1)
    send_with_id(manager, "copies", "one", 2)
    assert manager.call("queue.q", "moveMessages", 100, None, "other", True) == 1
    assert manager.call("queue.copies", "moveMessages", 100, None, "other", True, 5) == 1
    assert numbers(listed(manager, "other")) == [1]


def test_duplicate_ids_are_cleared_for_good() -> None:
    stage = Stage(durable=True)
    manager = manager_of(stage)
    manager.peer.create_queue("q")
    for number in range(3):
        send_with_id(manager, "q", f"id {number}", number)
    send_with_id(manager, "q", "id 1", 4)
    assert manager.read("address.q", "CurrentDuplicateIdCacheSize") == 3
    for address in ("q", "replies"):
        assert manager.call(f"address.{address}", "clearDuplicateIdCache") is True
        assert manager.read(f"address.{address}", "CurrentDuplicateIdCacheSize") == 0
    send_with_id(manager, "q", "id 1", 5)
    assert numbers(listed(manager)) == [0, 1, 2, 5]
    stage.settle_disk()
    stage.boot()
    manager = manager_of(stage)
    assert manager.read("address.q", "CurrentDuplicateIdCacheSize") == 1
    send_with_id(manager, "q", "id 1", 6)
    send_with_id(manager, "q", "id 2", 7)
    assert numbers(listed(manager)) == [0, 1, 2, 5, 7]


def test_figures_of_messages_in_delivery(manager: Manager) -> None:
    stage = manager.peer.stage
    manager.peer.create_queue("q")
    manager.peer.post("durable", durable=True)
    manager.peer.post("not", "neither")
    other = stage.connect().open_session("other", transacted=True, xa=True)
    other.consume()
    assert stage.node.kernel.address_manager.queues["q"].delivering_count == 3
    counts = [manager.read("queue.q", name) for name in ("DeliveringCount", "DurableDeliveringCount")]
    sizes = [manager.read("queue.q", name) for name in ("DeliveringSize", "DurableDeliveringSize")]
    assert counts == [3, 1] and sizes[0] > sizes[1] > 0
    taken_in(other, 1)
    assert manager.read("queue.q", "DeliveringSize") == sizes[0]
    assert manager.read("queue.q", "PreparedTransactionMessageCount") == 0
    prepared(other, 1)
    assert manager.read("queue.q", "PreparedTransactionMessageCount") == 3
    assert manager.read("queue.q", "DurableDeliveringCount") == 1


def test_a_message_with_another_priority_goes_behind_those_that_have_it(manager: Manager) -> None:
    fill(manager, 4)
    rows = listed(manager)
    assert manager.call("queue.q", "changeMessagePriority", rows[3]["messageID"], 9) is True
    assert manager.call("queue.q", "changeMessagePriority", rows[1]["messageID"], 9) is True
    assert manager.call("queue.q", "changeMessagePriority", 1, 9) is False
    changed = listed(manager)
    assert [(row["number"], row["priority"]) for row in changed] == [(3, 9), (1, 9), (0, 4), (2, 4)]
    # All but the id stays, the expiration, too.
    assert changed[0] == rows[3] | {"priority": 9, "messageID": changed[0]["messageID"]}
    assert manager.call("queue.q", "changeMessagesPriority", "number < 3 AND number <> 1", 0) == 2
    assert [(row["number"], row["priority"]) for row in listed(manager)] == [(3, 9), (1, 9), (0, 0), (2, 0)]
    manager.peer.stage.node.kernel.check()


def test_a_scheduled_message_keeps_its_time_with_another_priority(manager: Manager) -> None:
    manager.peer.create_queue("q")
    due_ms = manager.peer.stage.now.wall_ms + 5_000
    values = Properties()
    values.set("_AMQ_SCHED_DELIVERY", due_ms, PropertyType.LONG)
    message = CoreMessage.build(address="q", durable=True, properties=values)
    manager.peer.send(SessionSend(message, False, -1))
    assert manager.read("queue.q", "ScheduledCount") == 1
    assert manager.call("queue.q", "changeMessagesPriority", "", 7) == 1
    assert (manager.read("queue.q", "ScheduledCount"), listed(manager)) == (1, [])
    manager.peer.stage.advance(6)
    (row,) = listed(manager)
    assert (row["priority"], row["_AMQ_SCHED_DELIVERY"]) == (7, due_ms)
    manager.peer.stage.node.kernel.check()


def schedule(manager: Manager, number: int, delay_s: int, *, durable: bool = True, timestamp: int = 0) -> None:
    values = Properties()
    values.set("number", number, PropertyType.INT)
    values.set("_AMQ_SCHED_DELIVERY", manager.peer.stage.now.wall_ms + 1000 * delay_s, PropertyType.LONG)
    message = CoreMessage.build(address="q", durable=durable, properties=values, timestamp=timestamp)
    manager.peer.send(SessionSend(message, False, -1))


def scheduled(manager: Manager) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(manager.call("queue.q", "listScheduledMessagesAsJSON"))
    return found


def test_scheduled_messages_are_listed_in_order_of_time_and_counted(manager: Manager) -> None:
    fill(manager, 1)
    assert (scheduled(manager), manager.call("queue.q", "peekFirstScheduledMessageAsJSON")) == ([], "null")
    for number, delay_s, durable in ((1, 25, True), (2, 24, False), (3, 24, True)):
        schedule(manager, number, delay_s, durable=durable, timestamp=100 - number)
    assert numbers(scheduled(manager)) == [2, 3, 1]
    assert manager.call("queue.q", "listScheduledMessages") == scheduled(manager)
    # Artemis shows the oldest by its time of sending, and not the one that is due first.
    assert json.loads(manager.call("queue.q", "peekFirstScheduledMessageAsJSON"))["number"] == 3
    kept = manager.peer.stage.node.kernel.address_manager.queues["q"].scheduled
    assert kept is not None
    sizes = [reference.message.encoded_size for reference in kept]
    names = ("ScheduledCount", "ScheduledSize", "DurableScheduledCount", "DurableScheduledSize", "MessageCount")
    expected = [3, sum(sizes), 2, sizes[1] + sizes[2], 4]
    assert [manager.read("queue.q", name) for name in names] == expected


def test_a_list_of_scheduled_messages_has_the_200_that_are_due_first(manager: Manager) -> None:
    manager.peer.create_queue("q")
    for number in range(250):
        schedule(manager, number, 1000 - number)
    assert numbers(scheduled(manager)) == list(range(249, 49, -1))


def test_a_long_schedule_is_examined_in_portions(manager: Manager) -> None:
    stage = manager.peer.stage
    manager.peer.create_queue("q")
    for number in range(5_000):
        schedule(manager, number, 20)
    for operation, expected in (("getScheduledSize", 5_000), ("deliverScheduledMessages", None)):
        body = "[null]" if expected is None else None
        manager.peer.clear()
        manager.peer.send(SessionSend(request_of("queue.q", operation=operation, body=body), False))
        assert manager.peer.clear() == [], "the answer came in the step of the request"
        stage.run()
        replies = [packet for packet in manager.peer.clear() if isinstance(packet, SessionReceiveMessage)]
        assert len(replies) == 1 and replies[0].message.property("_AMQ_OperationSucceeded") is True
    assert manager.read("queue.q", "ScheduledCount") == 0
    assert numbers(listed(manager)) == list(range(200))


def test_scheduled_messages_are_delivered_early(manager: Manager) -> None:
    """Artemis' ScheduledMessageTest.testManagementDeliveryByFilter."""
    fill(manager, 1)
    for number in (1, 2, 3, 4):
        schedule(manager, number, 20 - number)
    second = next(row["messageID"] for row in scheduled(manager) if row["number"] == 2)
    assert manager.call("queue.q", "deliverScheduledMessage", second) is None
    assert (numbers(scheduled(manager)), numbers(listed(manager))) == ([4, 3, 1], [0, 2])
    # What is not scheduled is not found.
    assert manager.call("queue.q", "deliverScheduledMessage", second) is None
    assert manager.failure("queue.q", operation="deliverScheduledMessages", body='["a ="]').startswith("AMQ229020")
    assert manager.call("queue.q", "deliverScheduledMessages", "number = 4") is None
    assert (numbers(scheduled(manager)), numbers(listed(manager))) == ([3, 1], [0, 2, 4])
    assert manager.call("queue.q", "deliverScheduledMessages", None) is None
    assert (numbers(scheduled(manager)), numbers(listed(manager))) == ([], [0, 1, 2, 3, 4])
    manager.peer.stage.advance(25)
    assert numbers(listed(manager)) == [0, 1, 2, 3, 4]
    manager.peer.stage.node.kernel.check()


def test_the_rest_of_a_schedule_is_due_at_its_time_after_an_early_delivery(manager: Manager) -> None:
    manager.peer.create_queue("q")
    for number, delay_s in ((1, 10), (2, 20)):
        schedule(manager, number, delay_s)
    assert manager.call("queue.q", "deliverScheduledMessages", "number = 1") is None
    manager.peer.stage.advance(15)
    assert (numbers(scheduled(manager)), numbers(listed(manager))) == ([2], [1])
    schedule(manager, 3, 3)
    manager.peer.stage.advance(6)
    assert (numbers(scheduled(manager)), numbers(listed(manager))) == ([], [1, 2, 3])


@pytest.mark.parametrize("kind", ["memory", "journal"])
def test_a_large_message_is_copied_and_gets_another_priority_with_its_body(kind: str) -> None:
    stage, producer = large.a_stage(kind)
    producer.create_queue("other")
    body = large.body_of(300_000)
    large.upload(producer, body)
    large.run(stage)
    manager = Manager(stage.connect().open_session("manager"))
    (row,) = listed(manager, "q")
    assert manager.call("queue.q", "copyMessage", row["messageID"], "other") is True
    assert manager.call("queue.q", "changeMessagesPriority", "", 9) == 1
    # All of them share one body.
    assert len(large.files(stage)) == 1
    reader = stage.connect().open_session("reader")
    for consumer, queue in enumerate(("q", "other")):
        reader.send(SessionCreateConsumer(consumer, queue, None, False, False), SessionConsumerFlowCredit(consumer, -1))
    large.run(stage)
    ((first, first_body),) = large.received(reader, 0)
    ((second, second_body),) = large.received(reader, 1)
    assert (first.message.priority, first_body) == (9, body)
    assert (second.message.priority, second.message.address, second_body) == (4, "other", body)
    for consumer, packet in ((0, first), (1, second)):
        reader.send(SessionAcknowledge(consumer, packet.message.message_id, True))
    large.run(stage)
    assert large.files(stage) == []
    stage.node.kernel.check()


@pytest.mark.parametrize("priority", ["-1", "10", "null"])
def test_a_priority_out_of_range_is_refused(manager: Manager, priority: str) -> None:
    fill(manager, 1)
    text = manager.failure("queue.q", operation="changeMessagesPriority", body=f'["",{priority}]')
    shown = "None" if priority == "null" else priority
    assert text == f"AMQ229048: invalid new Priority value: {shown}. It must be between 0 and 9 (both included)"


# -- sends -----------------------------------------------------------------------------------------------------------


def received(peer: Peer, queue: str = "q") -> list[CoreMessage]:
    reader = peer.stage.connect().open_session("reader")
    reader.send(SessionCreateConsumer(8, queue, None, False, False), SessionConsumerFlowCredit(8, -1), SessionStart())
    peer.stage.settle_disk()
    return [packet.message for packet in reader.packets(SessionReceiveMessage)]


def test_a_text_is_sent_with_its_headers(manager: Manager) -> None:
    manager.peer.create_queue("q")
    headers = {"color": "red", "size": 3, "gone": None}
    identifier = manager.call("address.q", "sendMessage", headers, 3, "two coffees", True, None, None, True)
    (message,) = received(manager.peer)
    assert (message.type, message.durable, str(message.message_id)) == (3, True, identifier)
    assert decode_text(message.body) == "two coffees"
    assert dict(message.properties) == {"color": "red", "size": "3"}
    assert message.user_id is not None and message.timestamp == manager.peer.stage.now.wall_ms


def test_other_types_have_a_body_in_base64(manager: Manager) -> None:
    manager.peer.create_queue("q")
    body = b64encode(b"\0\1\2").decode()
    manager.call("queue.q", "sendMessage", {}, 4, body, False, None, None)
    manager.call("queue.q", "sendMessage", None, 0, None, False, None, None)
    first, second = received(manager.peer)
    assert (first.type, bytes(first.body), first.durable, first.user_id) == (4, b"\0\1\2", False, None)
    assert (second.type, bytes(second.body)) == (0, b"")


def test_a_send_of_a_queue_goes_to_it_alone_and_its_filter_applies(manager: Manager) -> None:
    """Artemis' QueueControlTest.testSendMessageToQueueWithFilter."""
    for name, selector in (("one", None), ("two", "color = 'red'")):
        manager.call("broker", "createQueue", "t", "MULTICAST", name, selector, True, -1, False, True)
    manager.call("queue.two", "sendMessage", {"color": "red"}, 3, "a", True, None, None)
    manager.call("queue.two", "sendMessage", {"color": "blue"}, 3, "b", True, None, None)
    assert (manager.read("queue.one", "MessageCount"), manager.read("queue.two", "MessageCount")) == (0, 1)
    manager.call("address.t", "sendMessage", {"color": "red"}, 3, "c", True, None, None)
    assert (manager.read("queue.one", "MessageCount"), manager.read("queue.two", "MessageCount")) == (1, 2)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('[{},0,"?",true,null,null]', "the body of a message of type 0 must be Base64"),
        ('[{},300,null,true,null,null]', "type 300 is no number of a message type"),
        ('[[],0,null,true,null,null]', "AMQ229069: no operation sendMessage/6"),
        ('[{},"3",null,true,null,null]', "AMQ229069: no operation sendMessage/6"),
        ('[{},3,7,true,null,null]', "AMQ229069: no operation sendMessage/6"),
        ('[{},3]', "AMQ229069: no operation sendMessage/2"),
    ],
)  # fmt: skip
def test_a_send_with_wrong_arguments_is_refused(manager: Manager, body: str, text: str) -> None:
    manager.peer.create_queue("q")
    assert manager.failure("queue.q", operation="sendMessage", body=body).startswith(text)
    assert manager.read("queue.q", "MessageCount") == 0


def test_a_send_of_a_transacted_session_is_at_once(manager: Manager) -> None:
    manager.peer.create_queue("q")
    transacted = manager.peer.stage.connect().open_session("transacted", transacted=True)
    body = '[{},3,"a",true,null,null]'
    request = request_of("queue.q", operation="sendMessage", body=body, reply_to=None)
    transacted.send(SessionSend(letter("mine"), False, -1), SessionSend(request, False, -1))
    assert [message.type for message in received(manager.peer)] == [3]


def test_a_full_broker_takes_no_message_of_management(manager: Manager) -> None:
    fill(manager, 1, text="x" * 200_000)
    memory = manager.peer.stage.node.kernel.memory
    memory.limit_bytes = memory.used_bytes
    text = manager.failure("queue.q", operation="sendMessage", body='[{},3,"a",true,null,null]')
    assert text == "the broker is full: there is no room for a message"


def secured() -> Manager:
    settings = {
        "#": SecuritySetting(send=["senders"], manage=["admins"], consume=["admins"], browse=["admins"]),
        "replies": SecuritySetting.all("admins"),
        "q": SecuritySetting(
            send=["senders"], create_durable_queue=["admins"], create_address=["admins"], consume=["admins"]
        ),
    }
    users = [User("admin", "a", roles=["admins"]), User("sender", "s", roles=["senders"])]
    stage = Stage(users=users, security_settings=settings, populate_validated_user=True, failed_login_delay_ms=0)
    manager = Manager(stage.connect().open_session(user="admin", password="a"))
    manager.call("broker", "createQueue", "q", "ANYCAST", "q", None, True, -1, False, True)
    return manager


def test_a_send_is_that_of_the_caller_or_of_a_user_with_its_password() -> None:
    manager = secured()
    own = manager.failure("queue.q", operation="sendMessage", body='[{},3,"a",true,null,null]')
    assert "User: admin does not have permission='SEND'" in own
    wrong = manager.failure("queue.q", operation="sendMessage", body='[{},3,"a",true,"sender","x"]')
    assert wrong.startswith("AMQ229031: Unable to validate user from ") and "Username: sender;" in wrong
    assert manager.call("queue.q", "sendMessage", {"_AMQ_VALIDATED_USER": "me"}, 3, "a", True, "sender", "s")
    reader = manager.peer
    reader.send(SessionCreateConsumer(8, "q", None, False, False), SessionConsumerFlowCredit(8, -1))
    reader.stage.settle_disk()
    (message,) = [packet.message for packet in reader.packets(SessionReceiveMessage)]
    assert message.property("_AMQ_VALIDATED_USER") == "sender"


def test_a_send_leaves_no_session(manager: Manager) -> None:
    manager.peer.create_queue("q")
    before = len(manager.peer.stage.node.kernel.clients.sessions)
    manager.call("queue.q", "sendMessage", {}, 3, "a", True, "anyone", "x")
    assert len(manager.peer.stage.node.kernel.clients.sessions) == before


# -- clients ---------------------------------------------------------------------------------------------------------


def test_producers_are_listed_while_they_exist(manager: Manager) -> None:
    other = manager.peer.stage.connect().open_session("other")
    other.send(CreateProducer(5, "q"), CreateProducer(6, None))
    page = json.loads(manager.call("broker", "listProducers", "", 1, 10))
    assert [(row["id"], row["session"], row["address"]) for row in page["data"]] == [
        ("5", "other", "q"), ("6", "other", "ANONYMOUS"),
    ]  # fmt: skip
    (first, second) = json.loads(manager.call("broker", "listProducersInfoAsJSON"))
    assert (first["id"], first["sessionID"], first["destination"]) == ("5", "other", "q")
    assert second["destination"] == "ANONYMOUS" and first["creationTime"].isdigit()
    counts = {
        row["id"]: row["producerCount"] for row in json.loads(manager.call("broker", "listSessions", "", 1, 10))["data"]
    }
    assert counts["other"] == 2
    other.send(RemoveProducer(5), RemoveProducer(7))
    assert json.loads(manager.call("broker", "listProducers", "", 1, 10))["count"] == 1
    other.lose()
    assert json.loads(manager.call("broker", "listProducers", "", 1, 10))["count"] == 0


def test_a_session_is_closed_by_its_name(manager: Manager) -> None:
    stage = manager.peer.stage
    fill(manager, 3)
    other = stage.connect().open_session("other")
    other.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerFlowCredit(3, -1), SessionStart())
    stage.run()
    connection = next(each for each in stage.node.kernel.clients.sessions if each.name == "other").connection
    assert connection is not None
    identifier = connection.connection_id
    assert manager.call("broker", "closeSessionWithID", identifier, "nope") is False
    assert manager.call("broker", "closeSessionWithID", "nope", "other") is False
    assert manager.call("broker", "closeSessionWithID", identifier, "other", True) is True
    assert manager.read("queue.q", "DeliveringCount") == 0
    assert identifier in manager.call("broker", "listConnectionIDs")
    assert manager.call("broker", "listSessions", identifier) == []
    # Later frames of the client for it are dropped, and harm nothing.
    other.send(SessionSend(letter("late"), False, -1))
    assert manager.read("queue.q", "MessageCount") == 3


def test_connections_are_closed_by_the_address_of_their_consumers(manager: Manager) -> None:
    stage = manager.peer.stage
    manager.peer.create_queue("orders.new")
    other = stage.connect().open_session("other")
    other.send(SessionCreateConsumer(3, "orders.new", None, False, False))
    assert manager.call("broker", "closeConsumerConnectionsForAddress", "prices.#") is False
    assert manager.call("broker", "closeConsumerConnectionsForAddress", "orders.*") is True
    assert [each.name for each in stage.node.kernel.clients.sessions if each.name == "other"] == []


# -- a million elements ----------------------------------------------------------------------------------------------

COLUMNS = {"id": Column(lambda item: item, is_number=True), "name": Column(lambda item: f"element {item:08}")}


def result_of(work: Generator[None, None, object]) -> tuple[dict[str, Any], int, int]:
    """The result of a list, how many portions it had, and the most memory that it took."""
    portions = 0
    tracemalloc.start()
    try:
        while True:
            next(work)
            portions += 1
    except StopIteration as end:
        return json.loads(end.value), portions, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("count", "options", "first"),
    [
        pytest.param(300_000, "", 0, marks=pytest.mark.search),
        (50_000, '{"field":"","operation":"","value":"","sortField":"id","sortOrder":"desc"}', 49_999),
        (50_000, '{"field":"name","operation":"CONTAINS","value":"7","sortField":"name","sortOrder":"desc"}', 49_997),
    ],
)
def test_a_page_of_many_elements_takes_little_memory(count: int, options: str, first: int) -> None:
    result, portions, peak = result_of(page_of(range(count), COLUMNS, options, 1, 100, "id"))
    assert len(result["data"]) == 100 and result["data"][0]["id"] == str(first)
    # Each portion is a few elements, so that other work goes on.
    assert portions > count / 5
    assert peak < 2 * 1024 * 1024, peak


@pytest.mark.search
def test_a_million_elements_at_once_are_refused_and_take_little_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ManagementRefused, match=f"more than {ROWS_MAX} elements: request it in pages"):
            for _ in page_of(range(1_000_000), COLUMNS, "", -1, -1, "id"):
                pass
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.search
@pytest.mark.parametrize("pages", ['["",1,100]', '["",-1,-1]'], ids=["a page", "all"])
def test_a_call_over_a_million_elements_leaves_others_served(
    pages: str, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(
        _items: object, _columns: object, options: str | None, number: int, size: int, _key: str
    ) -> Generator[None, None, object]:
        return page_of(range(1_000_000), COLUMNS, options, number, size, "id")

    monkeypatch.setattr(_lists, "page_of", page)
    stage = manager.peer.stage
    witness = stage.connect().open_session()
    witness.create_queue("witness")
    witness.consume("witness")
    witness.clear()
    lines = len(stage.notices)
    manager.peer.send(SessionSend(request_of("broker", operation="listQueues", body=pages), False))
    served = 0
    while not (replies := manager.peer.packets(SessionReceiveMessage)):
        witness.send(SessionSend(letter(str(served), "witness"), True, -1))
        assert witness.texts[-1] == str(served), "the witness waits for the call"
        witness.clear()
        served += 1
    text = decode_text(replies[0].message.body) or ""
    if pages.endswith("-1]"):
        assert f"more than {ROWS_MAX} elements: request it in pages" in text
        assert len(stage.notices) == lines + 1
    else:
        assert len(json.loads(json.loads(text)[0])["data"]) == 100
        assert len(stage.notices) == lines
    assert served > 3


def test_rows_that_are_large_are_refused_before_they_take_memory() -> None:
    columns = {"id": Column(lambda item: item, is_number=True), "text": Column(lambda item: "x" * 1_000_000)}
    tracemalloc.start()
    try:
        with pytest.raises(ManagementRefused, match=f"more than {RESULT_CHARS_MAX} characters"):
            for _ in page_of(range(1000), columns, "", 1, 1000, "id"):
                pass
        assert tracemalloc.get_traced_memory()[1] < 4 * RESULT_CHARS_MAX
    finally:
        tracemalloc.stop()


def test_a_page_keeps_the_order_of_equal_elements() -> None:
    columns = {"id": Column(lambda item: item, is_number=True), "tens": Column(lambda item: item // 10, is_number=True)}
    for order, expected in (("asc", [0, 1, 2]), ("desc", [990, 991, 992])):
        options = json.dumps({"field": "", "operation": "", "value": "", "sortField": "tens", "sortOrder": order})
        result, _portions, _peak = result_of(page_of(range(1000), columns, options, 1, 3, "id"))
        assert [int(row["id"]) for row in result["data"]] == expected


# -- changes between two portions ------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> Manager:
    """Management of a broker that does little in a step."""
    return Manager(Stage(work_per_step_max=16).connect().open_session())


def begin(manager: Manager, queue: str, operation: str, *arguments: object) -> None:
    """Send a request that takes more than one step, and take the first."""
    request = request_of(f"queue.{queue}", operation=operation, body=json.dumps(arguments) if arguments else None)
    manager.peer.send(SessionSend(request, False, -1))


def outcome(manager: Manager) -> object:
    """Let the request go on to its end, and return its result or the text of its failure."""
    stage = manager.peer.stage
    stage.settle_disk()
    stage.run()
    stage.settle_disk()
    replies = [each.message for each in manager.peer.clear() if isinstance(each, SessionReceiveMessage)]
    return json.loads(decode_text(replies[-1].body) or "")[0]


def counts(manager: Manager, *names: str) -> list[int]:
    return [manager.peer.stage.node.kernel.address_manager.queues[name].message_count for name in names]


@pytest.mark.parametrize("rejects_duplicates", [False, True])
@pytest.mark.parametrize("is_new", [False, True])
def test_move_ends_when_its_target_is_deleted(slow: Manager, rejects_duplicates: bool, is_new: bool) -> None:
    """The other messages stay, also if another queue has the name now."""
    fill(slow, 900)
    slow.peer.create_queue("other")
    begin(slow, "q", "moveMessages", 100, None, "other", rejects_duplicates)
    slow.peer.send(DeleteQueue("other"))
    slow.peer.stage.node.kernel.check()
    (left,) = counts(slow, "q")
    assert 0 < left < 900
    if is_new:
        slow.peer.send(CreateQueueV2("other", "other", None, True, False, False, False, 1))
    assert outcome(slow) == "queue 'other' was deleted meanwhile: messages that were not moved stay"
    assert counts(slow, "q") == [left]


def test_move_ends_when_its_target_is_disabled(slow: Manager) -> None:
    fill(slow, 900)
    slow.peer.create_queue("other")
    begin(slow, "q", "moveMessages", None, "other")
    begin(slow, "other", "disable")
    assert outcome(slow) == "queue 'other' is disabled and takes no messages: enable it first"
    moved, left = counts(slow, "other", "q")
    assert moved + left == 900 and left


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("changeMessagesPriority", (None, 7)), ("removeMessages", (None,)), ("expireMessages", (None,))],
)
def test_work_on_a_queue_ends_when_it_is_deleted(slow: Manager, operation: str, arguments: tuple[object, ...]) -> None:
    fill(slow, 300)
    begin(slow, "q", operation, *arguments)
    slow.peer.send(DeleteQueue("q"))
    assert outcome(slow) == "queue 'q' was deleted meanwhile"
    slow.peer.stage.node.kernel.check()


def test_figures_of_what_is_in_delivery_take_portions(manager: Manager) -> None:
    fill(manager, 1500)
    consumer = manager.peer.stage.connect().open_session()
    consumer.consume()
    sizes = [manager.read("queue.q", f"{kind}Size") for kind in ("Delivering", "DurableDelivering")]
    assert sizes[0] == sizes[1] > 1500 * 50
    assert manager.read("queue.q", "DurableDeliveringCount") == 1500
    assert manager.read("queue.q", "PreparedTransactionMessageCount") == 0


FIGURES = ("DurableMessageCount", "PersistentSize", "DurablePersistentSize")


def test_figures_of_all_messages_of_a_queue(manager: Manager) -> None:
    fill(manager, 3000)
    stage = manager.peer.stage
    manager.peer.post("not durable")
    schedule(manager, 1, 60)
    schedule(manager, 2, 60, durable=False)
    queue = stage.node.kernel.address_manager.queues["q"]
    messages = [reference.message for reference in queue.undelivered()]
    durable = [message.encoded_size for message in messages if message.durable]
    expected = [3001, sum(message.encoded_size for message in messages), sum(durable)]
    sealed = queue.backlog.statistics().sealed_chunks
    assert len(messages) == queue.message_count == 3003 and sealed > 0
    assert [manager.read("queue.q", name) for name in FIGURES] == expected
    # What is deep in the queue stays packed: a look must not take memory.
    assert queue.backlog.statistics().sealed_chunks == sealed
    other = stage.connect().open_session("other", transacted=True)
    other.consume()
    stage.run()
    other.send(SessionAcknowledge(0, other.packets(SessionReceiveMessage)[1500].message.message_id, False))
    stage.run()
    assert queue.delivering_count == 3001
    assert [manager.read("queue.q", name) for name in FIGURES] == expected
    other.lose()
    stage.run()
    assert queue.delivering_count == 0 and queue.backlog.statistics().returned == 3001
    assert [manager.read("queue.q", name) for name in FIGURES] == expected


def test_nothing_survives_in_a_queue_that_is_not_durable(manager: Manager) -> None:
    manager.peer.create_queue("q", temporary=True)
    fill(manager, 2)
    assert [manager.read("queue.q", name) > 0 for name in FIGURES] == [False, True, False]


def consumer_held(slow: Manager) -> Peer:
    """A client whose consumer has 3000 messages of ``q`` in delivery."""
    fill(slow, 3000)
    other = slow.peer.stage.connect().open_session("other")
    other.consume()
    slow.peer.stage.run()
    assert len(other.packets(SessionReceiveMessage)) == 3000
    slow.peer.clear()
    return other


@pytest.mark.parametrize(
    ("resource", "operation", "arguments"),
    [
        ("broker", "listAllConsumersAsJSON", ()),
        ("queue.q", "listConsumersAsJSON", ()),
        ("broker", "listConsumers", ("", 1, 10)),
    ],
)
def test_lists_of_consumers_take_portions(
    slow: Manager, resource: str, operation: str, arguments: tuple[object, ...]
) -> None:
    other = consumer_held(slow)
    body = json.dumps(arguments) if arguments else None
    slow.peer.send(SessionSend(request_of(resource, operation=operation, body=body), False, -1))
    assert not slow.peer.packets(SessionReceiveMessage)
    # What is settled between two portions does no harm.
    last = other.packets(SessionReceiveMessage)[-1].message.message_id
    other.send(SessionAcknowledge(0, last, False))
    found = json.loads(str(outcome(slow)))
    sizes = [int(row["messagesInTransitSize"]) for row in (found["data"] if isinstance(found, dict) else found)]
    assert max(sizes) > 1000 * 50


def test_a_filter_of_consumers_by_size_takes_portions(slow: Manager) -> None:
    consumer_held(slow)
    options = {"field": "messagesInTransitSize", "operation": "GREATER_THAN", "value": str(3000 * 50)}
    for wanted in (options, {**options, "sortField": "messagesInTransitSize"}):
        body = json.dumps([json.dumps(wanted), 1, 10])
        slow.peer.send(SessionSend(request_of("broker", operation="listConsumers", body=body), False, -1))
        assert not slow.peer.packets(SessionReceiveMessage)
        (row,) = json.loads(str(outcome(slow)))["data"]
        assert int(row["messagesInTransitSize"]) > 3000 * 50 and row["queue"] == "q"


def test_lists_of_consumers_count_what_a_transaction_acknowledged_in_portions(slow: Manager) -> None:
    fill(slow, 6000)
    stage = slow.peer.stage
    other = stage.connect().open_session("other", transacted=True)
    other.consume()
    stage.run()
    for delivery in other.packets(SessionReceiveMessage):
        other.send(SessionAcknowledge(0, delivery.message.message_id, False))
    slow.peer.clear()
    begin(slow, "q", "listConsumersAsJSON")
    assert not slow.peer.packets(SessionReceiveMessage)
    (row,) = json.loads(str(outcome(slow)))
    assert row["messagesAcknowledgedAwaitingCommit"] == 6000


def test_the_body_of_a_large_message_counts() -> None:
    stage, producer = large.a_stage("memory")
    large.upload(producer, large.body_of(300_000))
    large.run(stage)
    manager = Manager(stage.connect().open_session("manager"))
    (reference,) = stage.node.kernel.address_manager.queues["q"].undelivered()
    size = reference.message.encoded_size
    assert size > 300_000 and [manager.read("queue.q", name) for name in FIGURES] == [1, size, size]


def sum_with(stage: Stage, attribute: str, portions: int, change: Callable[[], None]) -> int:
    """Return a sum over the messages of ``q`` during which a change happens behind some portions."""
    call = Call(cast(BrokerView, SimpleNamespace(kernel=stage.node.kernel)), cast(Session, None), "q")
    (found,) = [each for each in (*CONTENT_ATTRIBUTES, *HELD_ATTRIBUTES) if each.name == attribute]
    work = cast(Generator[None, None, int], found.read(call))
    try:
        for _ in range(portions):
            next(work)
        change()
        while True:
            next(work)
    except StopIteration as end:
        return int(end.value)


def taken_by(stage: Stage) -> tuple[Peer, Callable[[], None]]:
    """A client that has everything in delivery, and what acknowledges it in a transaction."""
    other = stage.connect().open_session("other", transacted=True)
    other.consume()
    stage.run()
    last = other.packets(SessionReceiveMessage)[-1].message.message_id
    return other, lambda: other.send(SessionAcknowledge(0, last, False))


@pytest.mark.parametrize("portions", [1, 2, 3, 4, 5, 6, 7])
def test_a_message_that_moves_meanwhile_counts_once_at_most(manager: Manager, portions: int) -> None:
    """Each sum is interrupted behind a portion of 16 messages, of 64."""
    stage = manager.peer.stage
    fill(manager, 64)
    queue = stage.node.kernel.address_manager.queues["q"]

    def figure(change: Callable[[], None], attribute: str = "DurableMessageCount") -> int:
        return sum_with(stage, attribute, portions, change)

    # Waiting ones are delivered.
    peers: list[Peer] = []
    assert figure(lambda: peers.append(taken_by(stage)[0])) <= 64
    assert queue.delivering_count == (64 if peers else 0)
    for peer in peers:
        peer.lose()
        stage.run()
    # Those in delivery return, and are delivered again to another consumer.
    for again in (False, True):
        peer, _acknowledge = taken_by(stage)
        peers = [peer]

        def returns(peers: list[Peer] = peers, again: bool = again) -> None:
            peers.pop().lose()
            stage.run()
            if again:
                peers.append(taken_by(stage)[0])

        assert figure(returns) == 64
        for peer in peers:
            peer.lose()
            stage.run()
    # A transaction acknowledges them.
    for attribute in ("DurableMessageCount", "DurableDeliveringCount"):
        peer, acknowledge = taken_by(stage)
        assert figure(acknowledge, attribute) == 64
        peer.lose()
        stage.run()
    assert figure(lambda: None) == 64


@pytest.mark.parametrize("portions", [1, 2, 3, 4])
@pytest.mark.parametrize("is_consumed", [False, True])
def test_a_message_that_is_due_meanwhile_counts_once(manager: Manager, portions: int, is_consumed: bool) -> None:
    manager.peer.create_queue("q")
    for number in range(64):
        schedule(manager, number, 20)
    stage = manager.peer.stage
    other = stage.connect().open_session("other")
    if is_consumed:
        other.consume()

    def release() -> None:
        stage.advance(20)
        assert len(other.packets(SessionReceiveMessage)) == (64 if is_consumed else 0)

    assert sum_with(stage, "DurableMessageCount", portions, release) == 64
    assert manager.read("queue.q", "ScheduledCount") == 0


def test_a_sum_over_a_long_schedule_takes_portions(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.peer.create_queue("q")
    for number in range(200):
        schedule(manager, number, 60)
    queue = manager.peer.stage.node.kernel.address_manager.queues["q"]
    seen: list[int] = []

    class Entries:
        """The schedule, with a note of each entry that is examined."""

        def entries(self) -> Iterator[tuple[int, Reference]]:
            for number, reference in enumerate(references):
                seen.append(number)
                yield 0, reference

    references = list(queue.scheduled or ())
    monkeypatch.setattr(queue, "scheduled", Entries())
    assert sum_with(manager.peer.stage, "DurableMessageCount", 3, lambda: seen.append(-1)) == 200
    assert seen.index(-1) <= 3 * 16


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_a_long_queue_take_portions(slow: Manager, name: str) -> None:
    fill(slow, 3000)
    slow.peer.clear()
    slow.peer.send(SessionSend(request_of("queue.q", attribute=name), False, -1))
    assert not slow.peer.packets(SessionReceiveMessage)
    # What leaves meanwhile does no harm.
    assert slow.call("queue.q", "removeMessages", None) == 3000
    (reply,) = slow.replies
    (figure,) = json.loads(decode_text(reply.body) or "")
    assert reply.property("_AMQ_OperationSucceeded") is True and figure > 1000
