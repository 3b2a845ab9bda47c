"""A cursor as programs use it: a blocking client over TCP, a broker with a directory, and a restart between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import Any

import pytest
from attrs import define

from embedbroker import BrokerConfig, EmbeddedBroker
from embedbroker.kernel.cursors import _cursors
from embedclient.blocking import ClientConsumer, ClientProducer, ClientSession, ServerLocator
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType, decode_text, encode_text

HEAD, ROW = Struct("<Iq"), Struct("<IqqqIB3x")
REPLIES = "replies"
COUNT = 2_000
MINE = {"queue": "orders", "cursor": "c", "owner": "job"}
ONE = {"queue": "orders", "cursor": "c"}


@define
class Asker:
    """Requests over one session, one after the other."""

    session: ClientSession
    producer: ClientProducer
    consumer: ClientConsumer
    asked: int = 0

    def ask(self, operation: str, **fields: object) -> Any:
        self.asked += 1
        properties = Properties()
        properties["JMSReplyTo"], properties["JMSCorrelationID"] = REPLIES, str(self.asked)
        body = encode_text(json.dumps({"operation": operation, **fields}))
        self.producer.send(
            self.session.create_message(body, durable=False, type=MessageType.TEXT, properties=properties)
        )
        reply = self.consumer.receive(timeout=60)
        assert reply is not None
        reply.acknowledge()
        assert reply.properties.get("JMSCorrelationID") == str(self.asked)
        assert reply.properties.get("embedbroker_status") == "ok", reply.body
        return json.loads(decode_text(reply.body) or "") if reply.type == MessageType.TEXT else reply.body


@contextmanager
def asking(broker: Any) -> Iterator[Asker]:
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        assert session.query_address("embedbroker.services").exists
        session.create_queue(REPLIES, durable=False, temporary=True)
        yield Asker(session, session.create_producer("embedbroker.services"), session.create_consumer(REPLIES))


def send(broker: Any, texts: list[bytes], priority: int) -> None:
    """All of them in one transaction; every seventh has another priority."""
    with (
        ServerLocator(broker.url).create_session_factory() as factory,
        factory.create_session(auto_commit_sends=False) as session,
    ):
        producer = session.create_producer("orders")
        for number, text in enumerate(texts):
            message = session.create_message(text)
            message.priority = priority if number % 7 == 0 else 4
            producer.send(message)
        session.commit()


def bodies(body: bytes) -> tuple[list[bytes], int]:
    count, reached = HEAD.unpack_from(body)
    found, at = [], HEAD.size
    for _ in range(count):
        size = ROW.unpack_from(body, at)[0]
        found.append(bytes(CoreMessage.parse(bytearray(body[at + ROW.size : at + 4 + size])).body))
        at += 4 + size
    return found, reached


def read_all(asker: Asker, after: int, until: int) -> list[bytes]:
    found: list[bytes] = []
    while after < until:
        some, after = bodies(asker.ask("cursor.read", **ONE, after=after, until=until))
        found += some
    return found


@pytest.mark.parametrize("priority", [4, 9])
def test_a_queue_is_read_in_ranges_over_a_restart(tmp_path: Path, priority: int) -> None:
    config = BrokerConfig(data_directory=str(tmp_path))
    sent = [b"%d" % number for number in range(COUNT)]
    with EmbeddedBroker.in_thread(config) as broker, asking(broker) as asker:
        asker.session.create_queue("orders")
        send(broker, sent, priority)
        asker.ask("cursor.open", **MINE, lease_ms=60_000)
        first = asker.ask("cursor.pin", **MINE, start=0, max_rows=1000, max_bytes=0)
        assert first["rows"] == 1000
        seen = read_all(asker, 0, first["end"])
        assert seen == read_all(asker, 0, first["end"]) == sent[:1000]
        split = asker.ask("cursor.split", **ONE, after=0, until=first["end"], parts=3)
        parts = [read_all(asker, *bounds) for bounds in zip(split["bounds"], split["bounds"][1:], strict=False)]
        assert ([len(part) for part in parts], list(chain(*parts))) == (split["rows"], seen)
        asker.ask("cursor.acknowledge", **MINE, until=first["end"])
    with EmbeddedBroker.in_thread(config) as broker, asking(broker) as asker:
        standing = asker.ask("cursor.open", **MINE, lease_ms=60_000)
        assert standing["position"] == standing["end"] == first["end"]
        rest = asker.ask("cursor.pin", **MINE, start=first["end"], max_rows=0, max_bytes=0)
        assert (rest["rows"], rest["lost"]) == (COUNT - 1000, 0)
        assert read_all(asker, first["end"], rest["end"]) == sent[1000:]
        assert asker.ask("cursor.remove", **MINE) == {"position": first["end"]}
        (queue,) = asker.ask("queue.list", pattern="orders")["queues"]
        assert queue["messages"] == COUNT - 1000


def test_large_messages_are_read_whole_each_in_a_reply_of_its_own(tmp_path: Path) -> None:
    config = BrokerConfig(data_directory=str(tmp_path))
    sent = [b"one", b"x" * 300_000, b"y" * 2_000_000, b"two", b"three"]
    with EmbeddedBroker.in_thread(config) as broker, asking(broker) as asker:
        asker.session.create_queue("orders")
        send(broker, sent, 4)
        asker.ask("cursor.open", **MINE, lease_ms=60_000)
        end = asker.ask("cursor.pin", **MINE, start=0, max_rows=0, max_bytes=0)["end"]
        assert read_all(asker, 0, end) == sent
    with EmbeddedBroker.in_thread(config) as broker, asking(broker) as asker:
        asker.ask("cursor.open", **MINE, lease_ms=60_000)
        replies, after = [], 0
        while after < end:
            some, after = bodies(asker.ask("cursor.read", **ONE, after=after, until=end))
            replies.append(some)
        assert replies == [sent[:1], sent[1:2], sent[2:3], sent[3:]]
        asker.ask("cursor.acknowledge", **MINE, until=end)
        asker.ask("cursor.remove", **MINE)
    assert list(tmp_path.rglob("*.body")) == []


def test_body_whose_bytes_changed_is_refused(tmp_path: Path) -> None:
    with EmbeddedBroker.in_thread(BrokerConfig(data_directory=str(tmp_path))) as broker, asking(broker) as asker:
        asker.session.create_queue("orders")
        send(broker, [b"x" * 300_000], 4)
        (file,) = tmp_path.glob("*.body")
        with file.open("r+b") as body:
            body.seek(200_000)
            body.write(b"y")
        asker.ask("cursor.open", **MINE, lease_ms=60_000)
        end = asker.ask("cursor.pin", **MINE, start=0, max_rows=0, max_bytes=0)["end"]
        with pytest.raises(AssertionError, match="unreadable"):
            asker.ask("cursor.read", **ONE, after=0, until=end)


def test_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cursors, "LARGE_BODY_BYTES_MAX", 200_000)
    with EmbeddedBroker.in_thread() as broker, asking(broker) as asker:
        asker.session.create_queue("orders")
        send(broker, [b"x" * 300_000], 4)
        asker.ask("cursor.open", **MINE, lease_ms=60_000)
        end = asker.ask("cursor.pin", **MINE, start=0, max_rows=0, max_bytes=0)["end"]
        with pytest.raises(AssertionError, match="too-large"):
            asker.ask("cursor.read", **ONE, after=0, until=end)
