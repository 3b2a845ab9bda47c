"""Management of a queue that a cursor reads: what is pinned stays, and the answer states what left."""

from __future__ import annotations

import json

import pytest

from .managing import Manager
from .scripted import Stage
from .test_cursors import MINE, ask, asker_on, opened, pinned, post, texts


class Reader:
    """A reader that pinned the first two messages of a queue, and a manager of the broker."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.asker = asker_on(stage)
        post(self.asker, "one", "two", "three")
        opened(self.asker)
        self.end = pinned(self.asker, 0, 2)["end"]
        self.queue = stage.node.kernel.address_manager.queues["q"]
        self.ids = [reference.message.message_id for reference in self.queue.backlog]
        self.manager = Manager(stage.connect().open_session("manager"))
        self.manager.call("broker", "createQueue", "other", "other", True, "ANYCAST")


@pytest.fixture
def reader() -> Reader:
    return Reader(Stage(durable=True))


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("removeAllMessages", []),
        ("removeMessages", [""]),
        ("removeMessages", [100, "AMQPriority = 4"]),
        ("expireMessages", [""]),
        ("sendMessagesToDeadLetterAddress", [""]),
        ("moveMessages", ["", "other"]),
        ("moveMessages", [100, "", "other", False, 1]),
    ],
)
def test_pinned_messages_stay_when_all_are_removed(reader: Reader, operation: str, arguments: list[object]) -> None:
    assert reader.manager.call("queue.q", operation, *arguments) == 1
    assert texts(reader.asker, 0, reader.end) == ["one", "two"]
    assert reader.queue.message_count == 2
    assert pinned(reader.asker, 0)["lost"] == 0


def test_pinned_messages_stay_when_their_address_is_purged(reader: Reader) -> None:
    assert reader.manager.call("address.q", "purge") == 1
    assert texts(reader.asker, 0, reader.end) == ["one", "two"]


def test_pinned_messages_keep_their_priority(reader: Reader) -> None:
    assert reader.manager.call("queue.q", "changeMessagesPriority", "", 9) == 1
    assert texts(reader.asker, 0, reader.end) == ["one", "two"]


def test_pinned_dead_letters_stay_where_they_are(reader: Reader) -> None:
    manager = reader.manager
    ask(reader.asker, "cursor.remove", **MINE)
    assert manager.call("queue.q", "moveMessages", "", "other") == 3
    ask(reader.asker, "cursor.open", queue="other", cursor="c", owner="job", lease_ms=10_000)
    ask(reader.asker, "cursor.pin", queue="other", cursor="c", owner="job", start=0, max_rows=2, max_bytes=0)
    assert manager.call("queue.other", "retryMessages") == 1
    assert manager.read("queue.other", "MessageCount") == 2
    pinned_id = next(iter(reader.stage.node.kernel.address_manager.queues["other"].backlog)).message.message_id
    assert "is pinned" in manager.failure("queue.other", operation="retryMessage", body=f"[{pinned_id}]")


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("removeMessage", []),
        ("expireMessage", []),
        ("sendMessageToDeadLetterAddress", []),
        ("moveMessage", ["other"]),
        ("moveMessage", ["other", False]),
        ("changeMessagePriority", [9]),
    ],
)
def test_an_operation_on_a_pinned_message_is_refused(reader: Reader, operation: str, arguments: list[object]) -> None:
    text = reader.manager.failure("queue.q", operation=operation, body=json.dumps([reader.ids[1], *arguments]))
    assert text.startswith(f"message {reader.ids[1]} is pinned: queue 'q' is read by cursor 'c' of 'job'"), text
    assert texts(reader.asker, 0, reader.end) == ["one", "two"]
    assert reader.manager.call("queue.q", operation, reader.ids[2], *arguments) is True
    assert reader.manager.call("queue.q", operation, 999_999, *arguments) is False
    reader.stage.advance(11)
    assert reader.manager.call("queue.q", operation, reader.ids[1], *arguments) is True


def test_a_queue_with_pinned_messages_is_not_deleted(reader: Reader) -> None:
    for resource, body in (("destroyQueue", '["q", true, true]'), ("deleteAddress", '["q", true]')):
        text = reader.manager.failure("broker", operation=resource, body=body)
        assert "is read by cursor 'c' of 'job'" in text
    assert texts(reader.asker, 0, reader.end) == ["one", "two"]
