"""Operations of management on queues and addresses, line by line of the checklist."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedbroker.config import AddressSettings
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import (
    CoreMessage,
    SessionAcknowledge,
    SessionCommit,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionRollback,
    SessionSend,
    SessionStart,
    decode_text,
)
from tests.embedbroker.node.managing import Manager, manager_of, request_of
from tests.embedbroker.node.scripted import Peer, Stage, letter
from tests.embedbroker.node.test_scheduled import timed

LONG = "*" * 2048


@pytest.fixture
def manager() -> Manager:
    return manager_of(Stage())


def listed(manager: Manager, queue: str = "q", operation: str = "listMessagesAsJSON") -> list[dict[str, Any]]:
    arguments = (None,) if operation == "listMessagesAsJSON" else ()
    found: list[dict[str, Any]] = json.loads(manager.call(f"queue.{queue}", operation, *arguments))
    return found


def consumer_of(stage: Stage, *, credit: int = -1, **options: Any) -> Peer:
    peer = stage.connect().open_session(f"consumer-{len(stage.peers)}", **options)
    peer.send(SessionCreateConsumer(3, "q", None, False, False), SessionConsumerFlowCredit(3, credit), SessionStart())
    stage.settle_disk()
    return peer


def last_id(peer: Peer) -> int:
    return peer.packets(SessionReceiveMessage)[-1].message.message_id


def test_message_attribute_limits(manager: Manager) -> None:
    """12.9.2: given properties of 2 kB, then each value of a list is cut, and shows how much is missing."""
    manager.peer.create_queue("q")
    values = Properties()
    values.set("short", "whole", PropertyType.STRING)
    values.set("bigString", LONG, PropertyType.STRING)
    values.set("bigBytes", LONG.encode(), PropertyType.BYTES)
    values.set("exact", "x" * 256, PropertyType.STRING)
    manager.peer.send(SessionSend(CoreMessage.build(address="q", properties=values, body=LONG.encode()), False, -1))
    (message,) = listed(manager)
    assert message["short"] == "whole" and message["exact"] == "x" * 256
    assert message["bigString"] == "*" * 256 + ", + 1792 more"
    assert message["bigBytes"] == [ord("*")] * 256
    (browsed,) = manager.call("queue.q", "browse")
    (first,) = json.loads(manager.read("queue.q", "FirstMessageAsJSON"))
    for each in (browsed, first):
        assert (each["bigString"], each["bigBytes"]) == (message["bigString"], message["bigBytes"])
    # The message itself is whole.
    peer = consumer_of(manager.peer.stage)
    assert peer.packets(SessionReceiveMessage)[0].message.property("bigString") == LONG


def test_list_delivering_messages_on_closed_consumer(manager: Manager) -> None:
    """12.9.3: given an acknowledgement in an open transaction, when its consumer closes, then it is in delivery."""
    stage = manager.peer.stage
    manager.peer.create_queue("q")
    manager.peer.post("a", "b")
    peer = consumer_of(stage, transacted=True, credit=1)
    peer.send(SessionAcknowledge(3, last_id(peer), False))
    assert manager.read("queue.q", "DeliveringCount") == 1
    ((holder, before),) = manager.call("queue.q", "listDeliveringMessages").items()
    peer.send(SessionConsumerClose(3))
    assert manager.read("queue.q", "DeliveringCount") == 1
    assert holder == f"ServerConsumer [id=3, session=consumer-{len(stage.peers)}]"
    ((holder, after),) = manager.call("queue.q", "listDeliveringMessages").items()
    assert holder.startswith("ServerSession [id=") and holder.endswith(f":consumer-{len(stage.peers)}]")
    assert [each["messageID"] for each in after] == [each["messageID"] for each in before]
    assert manager.call("queue.q", "countDeliveringMessages", "AMQPriority >= 0") == 1
    peer.send(SessionRollback(False))
    assert manager.read("queue.q", "DeliveringCount") == 0
    assert manager.call("queue.q", "listDeliveringMessages") == {}


def test_copied_message_properties(manager: Manager) -> None:
    """12.9.7: given a message that is moved through five queues, then its origin is the last hop."""
    for number in range(5):
        manager.peer.create_queue(f"q{number}")
    manager.peer.send(SessionSend(letter("m", "q0"), False, -1))
    for number in range(4):
        assert manager.call(f"queue.q{number}", "moveMessages", None, f"q{number + 1}") == 1
    (message,) = listed(manager, "q4")
    assert (message["address"], message["_AMQ_ORIG_ADDRESS"], message["_AMQ_ORIG_QUEUE"]) == ("q4", "q3", "q3")
    assert manager.read("queue.q4", "MessageCount") == 1


def test_retry_message_without_dlq(manager: Manager) -> None:
    """12.9.4: given an ordinary queue, when one message states its origin, then retryMessages moves that one alone."""
    for name in ("q", "other"):
        manager.peer.create_queue(name)
    values = Properties()
    values.set("_AMQ_ORIG_ADDRESS", "other", PropertyType.STRING)
    values.set("_AMQ_ORIG_QUEUE", "other", PropertyType.STRING)
    marked = CoreMessage.build(address="q", properties=values, body=b"marked")
    manager.peer.send(SessionSend(letter("plain"), False, -1), SessionSend(marked, False, -1))
    assert manager.call("queue.q", "retryMessages") == 1
    assert (manager.read("queue.q", "MessageCount"), manager.read("queue.other", "MessageCount")) == (1, 1)


def test_empty_address_settings(manager: Manager) -> None:
    """12.9.18: given settings without a value, when they are added, then everything is inherited."""
    manager.call("broker", "addAddressSettings", "a.#", '{"maxDeliveryAttempts":3}')
    assert json.loads(manager.call("broker", "addAddressSettings", "a.b", "{}")) == {}
    shown = json.loads(manager.call("broker", "getAddressSettingsAsJSON", "a.b"))
    assert shown["maxDeliveryAttempts"] == 3
    assert shown["deadLetterAddress"] == "DLQ"


@pytest.mark.parametrize("states_its_type", [False, True])
def test_retry_message_with_auto_created_resources_and_orig_routing_type(states_its_type: bool) -> None:
    """12.9.6: given a dead letter in an auto-created queue, when it is retried, then it is back with its type."""
    settings = AddressSettings(
        max_delivery_attempts=1, dead_letter_address="DLA", auto_create_dead_letter_resources=True
    )
    stage = Stage(address_settings={"q": settings})
    manager = manager_of(stage)
    manager.peer.create_queue("q")
    values = Properties()
    name = "_AMQ_ORIG_ROUTING_TYPE" if states_its_type else "_AMQ_ROUTING_TYPE"
    values.set(name, 1, PropertyType.BYTE)
    manager.peer.send(SessionSend(CoreMessage.build(address="q", properties=values, body=b"m"), False, -1))
    peer = consumer_of(stage, transacted=True)
    peer.send(SessionAcknowledge(3, last_id(peer), False), SessionRollback(False))
    (dead,) = listed(manager, "DLQ.q")
    assert dead["_AMQ_ORIG_ROUTING_TYPE"] == 1
    assert manager.call("queue.DLQ.q", "retryMessage", dead["messageID"]) is True
    assert manager.read("queue.DLQ.q", "MessageCount") == 0
    again = peer.packets(SessionReceiveMessage)[-1].message
    assert (again.property("_AMQ_ROUTING_TYPE"), bytes(again.body)) == (1, b"m")


def test_remove_scheduled_message_restart() -> None:
    """12.9.10: given two scheduled messages, when one is removed and the broker restarts, then it stays removed."""
    stage = Stage(durable=True)
    manager = manager_of(stage)
    manager.peer.create_queue("q")
    due_ms = stage.now.wall_ms + 5_000
    manager.peer.send(*[SessionSend(timed(text, due_ms), False, -1) for text in ("first", "second")])
    stage.settle_disk()
    removed, kept = listed(manager, operation="listScheduledMessagesAsJSON")
    assert manager.call("queue.q", "removeMessage", removed["messageID"]) is True
    assert manager.read("queue.q", "ScheduledCount") == 1
    stage.boot()
    manager = manager_of(stage)
    assert manager.read("queue.q", "ScheduledCount") == 1
    (left,) = listed(manager, operation="listScheduledMessagesAsJSON")
    assert left["messageID"] == kept["messageID"]
    peer = consumer_of(stage)
    stage.advance(6)
    stage.settle_disk()
    assert peer.texts == ["second"]


def test_get_messages_acknowledged_on_regular_rollback(manager: Manager) -> None:
    """12.9.11: given ten attempts, when nine are rolled back, then one acknowledgement is counted."""
    stage = manager.peer.stage
    manager.peer.create_queue("q")
    manager.peer.post("m")
    peer = consumer_of(stage, transacted=True)
    for attempt in range(1, 10):
        assert len(peer.packets(SessionReceiveMessage)) == attempt
        peer.send(SessionAcknowledge(3, last_id(peer), False))
        assert manager.read("queue.q", "MessagesAcknowledged") == 0
        assert manager.read("queue.q", "AcknowledgeAttempts") == attempt
        peer.send(SessionRollback(False) if attempt < 9 else SessionCommit())
    assert manager.read("queue.q", "MessagesAcknowledged") == 1
    assert manager.read("queue.q", "MessageCount") == 0
    manager.call("queue.q", "resetMessagesAcknowledged")
    assert manager.read("queue.q", "AcknowledgeAttempts") == 9


def test_get_routed_message_counts(manager: Manager) -> None:
    """12.9.14: given no, one and two ANYCAST queues, then routed and unrouted messages are counted exactly."""
    manager.call("broker", "createAddress", "a", "ANYCAST")

    def send() -> tuple[int, int]:
        manager.peer.send(SessionSend(CoreMessage.build(address="a", body=b"m"), False, -1))
        return manager.read("address.a", "RoutedMessageCount"), manager.read("address.a", "UnRoutedMessageCount")

    assert manager.read("address.a", "MessageCount") == 0
    assert send() == (0, 1)
    for count, name in enumerate(("a", "a2"), 1):
        manager.call("broker", "createQueue", json.dumps({"name": name, "address": "a", "routing-type": "ANYCAST"}))
        assert send() == (count, 1)
    for name in ("a", "a2"):
        manager.call("broker", "destroyQueue", name)
    assert send() == (2, 2)


def test_force_close_session_with_pending_store_operation() -> None:
    """12.9.19: given a session whose answer waits for the disk, when it is closed by force, then it is gone at once."""
    stage = Stage(durable=True)
    manager = manager_of(stage)
    manager.peer.create_queue("q")
    stuck = stage.connect().open_session("stuck")
    stuck.send(SessionSend(letter("m", durable=True), True, -1))
    assert stuck.clear() == [] and stage.work, "the send does not wait for the disk"
    (session,) = [each for each in stage.node.kernel.clients.sessions if each.name == "stuck"]
    assert session.connection is not None and session.connection.close_session("stuck")
    assert [each.name for each in stage.node.kernel.clients.sessions if each.name == "stuck"] == []
    stage.settle_disk()
    assert manager.read("queue.q", "MessageCount") == 1
    assert stuck.closed is None
    stuck.open_session("next", channel=11)


def test_addresses_of_management_and_notifications_are_configured() -> None:
    """Not on the checklist: given other addresses, then requests and notifications use these, and no others."""
    stage = Stage(management_address="ops", management_notification_address="news")
    peer = stage.connect().open_session()
    for name in ("replies", "news", "activemq.notifications", "activemq.management"):
        peer.create_queue(name, temporary=True)
    request = request_of("broker", attribute="ManagementAddress")
    peer.consume("replies", 1)
    # An ordinary address now.
    peer.send(SessionSend(request, False, -1))
    assert peer.packets(SessionReceiveMessage) == []
    for attribute, expected in (("ManagementAddress", "ops"), ("ManagementNotificationAddress", "news")):
        request = request_of("broker", attribute=attribute).copy_to("ops")
        peer.send(SessionSend(request, False, -1))
        assert decode_text(peer.packets(SessionReceiveMessage)[-1].message.body) == f'["{expected}"]'
    queues = stage.node.kernel.address_manager.queues
    before = queues["news"].message_count
    stage.connect().open_session("another")
    assert queues["news"].message_count == before + 1
    assert queues["activemq.notifications"].message_count == 0
    session = next(iter(queues["news"].backlog)).message
    assert isinstance(session, CoreMessage) and session.address == "news"
