"""Headers, write protection and acknowledgement of JMS messages, whatever their body."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from embedclient.errors import (
    IllegalStateException,
    InvalidDestinationException,
    InvalidTypeException,
    InvalidValueException,
    JMSException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from embedclient.model import (
    BodyValue,
    BytesMessage,
    DeliveryMode,
    Headers,
    JMSMessage,
    MapMessage,
    ObjectMessage,
    Properties,
    Queue,
    StreamMessage,
    TemporaryTopic,
    TextMessage,
    Topic,
    TypedValue,
)
from embedclient.model import PropertyType as Type


class Source:
    """What a message was received from; counts what is decoded."""

    def __init__(self, body: BodyValue = None, properties: dict[str, str | int] | None = None) -> None:
        self.body_value = body
        self.property_values = Properties(properties or {})
        self.asked: list[str] = []

    def headers(self) -> Headers:
        self.asked.append("headers")
        return Headers(message_id="ID:1", destination=Queue("q"), priority=7)

    def properties(self) -> Properties:
        self.asked.append("properties")
        return self.property_values

    def body(self) -> BodyValue:
        self.asked.append("body")
        return self.body_value


def test_a_new_message_has_the_headers_of_one_that_was_not_sent() -> None:
    message = JMSMessage()
    assert (message.message_id, message.destination, message.reply_to) == (None, None, None)
    assert (message.correlation_id, message.type, message.delivery_mode) == (None, None, DeliveryMode.PERSISTENT)
    assert (message.priority, message.timestamp, message.expiration, message.delivery_time) == (4, 0, 0, 0)
    assert (message.redelivered, message.delivery_count, message.body) == (False, 0, None)
    assert repr(message) == "<JMSMessage not sent to None>"


def test_headers_can_be_written() -> None:
    message = JMSMessage(correlation_id="c", reply_to=TemporaryTopic("t"), type="kind")
    assert (message.correlation_id, message.reply_to, message.type) == ("c", TemporaryTopic("t"), "kind")
    message.correlation_id, message.reply_to, message.type = b"\1", Topic("a"), None
    assert (message.correlation_id, message.reply_to, message.type) == (b"\1", Topic("a"), None)
    message.correlation_id = message.reply_to = None
    assert (message.correlation_id, message.reply_to) == (None, None)
    message.message_id, message.destination, message.priority = "ID:x", Queue("q"), 9
    message.delivery_mode = 1
    message.timestamp, message.expiration, message.delivery_time = 1, 2, 3
    assert (message.message_id, message.destination, message.priority) == ("ID:x", Queue("q"), 9)
    assert message.delivery_mode is DeliveryMode.NON_PERSISTENT
    assert (message.timestamp, message.expiration, message.delivery_time) == (1, 2, 3)
    assert dict(message.properties) == {}


def test_setting_redelivered_moves_the_delivery_count() -> None:
    message = JMSMessage()
    for value, count in [(False, 1), (True, 2), (False, 1)]:
        message.redelivered = value
        assert (message.redelivered, message.delivery_count) == (value, count)
    message.delivery_count = 5
    message.redelivered = True
    assert message.delivery_count == 5


WRONG: list[tuple[Callable[[JMSMessage], None], type[JMSException]]] = [
    (lambda message: setattr(message, "message_id", "1"), MessageFormatException),
    (lambda message: setattr(message, "priority", 10), InvalidValueException),
    (lambda message: setattr(message, "priority", -1), InvalidValueException),
    (lambda message: setattr(message, "delivery_mode", 3), InvalidValueException),
    (lambda message: setattr(message, "reply_to", "queue://a"), InvalidDestinationException),
    (lambda message: setattr(message, "destination", "a"), InvalidDestinationException),
    (lambda message: setattr(message, "correlation_id", b""), MessageFormatException),
    (lambda message: setattr(message, "correlation_id", 1), MessageFormatException),
    (lambda message: setattr(message, "type", 1), MessageFormatException),
    (lambda message: setattr(message, "message_id", 5), MessageFormatException),
    (lambda message: setattr(message, "priority", "x"), InvalidTypeException),
    (lambda message: setattr(message, "priority", True), InvalidTypeException),
    (lambda message: setattr(message, "priority", 4.0), InvalidTypeException),
    (lambda message: setattr(message, "delivery_mode", 2.0), InvalidTypeException),
    (lambda message: setattr(message, "delivery_mode", True), InvalidTypeException),
    (lambda message: setattr(message, "delivery_mode", None), JMSException),
    (lambda message: setattr(message, "timestamp", "x"), JMSException),
    (lambda message: setattr(message, "timestamp", True), JMSException),
    (lambda message: setattr(message, "expiration", 1.5), JMSException),
    (lambda message: setattr(message, "expiration", 2**63), JMSException),
    (lambda message: setattr(message, "delivery_time", None), JMSException),
]


@pytest.mark.parametrize(("write", "error"), WRONG)
def test_a_header_refuses_what_it_cannot_hold(write: Callable[[JMSMessage], None], error: type[JMSException]) -> None:
    message = JMSMessage()
    with pytest.raises(error):
        write(message)
    assert (message.priority, message.delivery_mode, message.message_id) == (4, DeliveryMode.PERSISTENT, None)
    assert (message.timestamp, message.expiration, message.delivery_time) == (0, 0, 0)


def test_a_received_message_decodes_each_part_once_and_on_demand() -> None:
    source = Source("hi", {"n": 1, "JMSType": "kind"})
    message = TextMessage.received(source, 2)
    assert (message.redelivered, source.asked) == (True, [])
    assert (message.text, message.body) == ("hi", "hi")
    assert source.asked == ["body"]
    assert (message.priority, message.destination, repr(message)) == (7, Queue("q"), "<TextMessage ID:1 to queue://q>")
    assert source.asked == ["body", "headers"]
    assert (message.properties["n"], message.type) == (1, "kind")
    assert source.asked == ["body", "headers", "properties"]


def test_received_properties_are_written_only_after_they_are_cleared() -> None:
    source = Source("hi", {"n": 1, "JMSType": "kind", "_AMQ_ROUTING_TYPE": 1})
    message = TextMessage.received(source, 1)
    writes: list[Callable[[], object]] = [
        lambda: message.set_int_property("n", 2),
        lambda: message.properties.update({"n": 2}),
        lambda: message.properties.pop("n"),
        lambda: message.properties.clear(),
    ]
    for write in writes:
        with pytest.raises(MessageNotWriteableException):
            write()
    assert message.properties["n"] == 1
    message.clear_properties()
    message.properties["m"] = 2
    assert dict(message.properties) == {"m": 2, "JMSXDeliveryCount": 1}
    assert (message.type, message.priority, message.text) == ("kind", 7, "hi")
    assert "_AMQ_ROUTING_TYPE" in message.stored()
    assert dict(source.property_values.items()) == {"n": 1, "JMSType": "kind", "_AMQ_ROUTING_TYPE": 1}


def test_headers_of_a_received_message_are_written_into_a_copy() -> None:
    source = Source("hi", {"n": 1, "JMSType": "kind"})
    message = TextMessage.received(source, 1)
    message.type = "other"
    message.correlation_id = "c"
    assert (message.type, message.properties["n"]) == ("other", 1)
    assert dict(source.property_values.items()) == {"n": 1, "JMSType": "kind"}


BODIES: list[tuple[type[JMSMessage], BodyValue, object, object]] = [
    (TextMessage, "hi", "hi", None),
    (ObjectMessage, b"data", b"data", None),
    (BytesMessage, b"data", b"data", b""),
    (MapMessage, Properties({"a": 1}), {"a": 1}, {}),
    (StreamMessage, [TypedValue(1, Type.INT)], [1], []),
]


@pytest.mark.parametrize(("kind", "decoded", "body", "empty"), BODIES)
def test_a_received_body_is_written_only_after_it_is_cleared(
    kind: type[JMSMessage], decoded: BodyValue, body: object, empty: object
) -> None:
    message = kind.received(Source(decoded, {"n": 1}), 1)
    with pytest.raises(MessageNotWriteableException):
        setattr(message, "body", body)  # noqa: B010 - the base class has no setter
    assert message.body == body
    message.clear_body()
    assert message.body == empty
    setattr(message, "body", body)  # noqa: B010
    assert message.body == body
    assert (message.properties["n"], message.priority) == (1, 7)


@pytest.mark.parametrize(("kind", "decoded", "body", "empty"), BODIES)
def test_a_body_that_was_cleared_unread_is_never_decoded(
    kind: type[JMSMessage], decoded: BodyValue, body: object, empty: object
) -> None:
    source = Source(decoded)
    message = kind.received(source, 1)
    sources = [message.untouched_body]
    message.clear_body()
    sources.append(message.untouched_body)
    assert sources == [source, None]
    assert (message.body, source.asked) == (empty, [])


def test_a_body_is_read_only_while_it_is_not_written() -> None:
    for message in (BytesMessage(b"\1"), StreamMessage([True])):
        with pytest.raises(MessageNotReadableException):
            message.read_boolean()
        message.reset()
        assert message.read_boolean() is True
        with pytest.raises(MessageNotWriteableException):
            message.write_boolean(True)
        message.clear_body()
        message.write_boolean(False)
        with pytest.raises(MessageNotReadableException):
            message.read_boolean()


def test_get_body_gives_the_body_of_the_type_asked_for() -> None:
    message = TextMessage("hi")
    assert message.get_body(str) == "hi"
    assert message.is_body_assignable_to(str)
    assert not message.is_body_assignable_to(bytes)
    with pytest.raises(MessageFormatException, match="str, not bytes"):
        message.get_body(bytes)
    with pytest.raises(MessageFormatException, match=r"str, not int \| bytes"):
        message.get_body(int | bytes)  # type: ignore[arg-type]  # a union is no type to mypy, but isinstance takes it
    assert JMSMessage().get_body(bytes) is None
    assert MapMessage({"a": 1}).get_body(dict) == {"a": 1}


async def test_acknowledging_is_left_to_the_session() -> None:
    calls: list[str] = []

    async def acknowledge() -> None:
        await trio.lowlevel.checkpoint()
        calls.append("acknowledged")

    message = TextMessage.received(Source("hi"), 1)
    message.on_acknowledge = acknowledge
    await message.acknowledge()
    assert calls == ["acknowledged"]
    with pytest.raises(IllegalStateException):
        TextMessage("new").acknowledge()
