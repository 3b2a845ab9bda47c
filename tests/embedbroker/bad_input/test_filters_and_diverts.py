"""Loops of diverts, transformers that fail, and filters that would take exponential time elsewhere.

The sender gets an error, the log one line, and other clients nothing of it.
"""

from __future__ import annotations

from time import process_time

import pytest

from embedbroker import DivertConfiguration
from embedbroker.kernel import DivertedMessage
from embedclient.errors import ErrorCode
from embedclient.model import Properties
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    ExceptionResponse,
    MessageType,
    NullResponse,
    Packet,
    SessionCommit,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionQueueQuery,
    SessionQueueQueryResponseV3,
    SessionRollback,
    SessionSend,
    SessionStart,
)
from tests.embedbroker.node.scripted import letter

from .guarded import GuardedBroker, Intruder, guarded_broker

LOOP = {"there": DivertConfiguration("orders", "audit"), "back": DivertConfiguration("audit", "orders")}
LOOP_TEXT = "the diverts of address 'orders' form a loop or are too many: orders -> audit -> orders -> "


def fail(message: DivertedMessage) -> None:
    raise ValueError(f"no room for {message.property('color')!r}")


async def intruder_with_queues(guarded: GuardedBroker, *names: str) -> Intruder:
    intruder = await guarded.connect()
    await intruder.open_session()
    for name in names:
        await intruder.send_packets(CreateQueueV2(name, name, None, False, True, True, False, 1))
        assert await intruder.next_packet() == NullResponse(-1)
    return intruder


async def answer_to(intruder: Intruder, packet: Packet) -> Packet:
    await intruder.send_packets(packet)
    return await intruder.next_packet()


async def counts(intruder: Intruder, *names: str) -> list[int]:
    found = []
    for name in names:
        reply = await answer_to(intruder, SessionQueueQuery(name))
        assert isinstance(reply, SessionQueueQueryResponseV3)
        found.append(reply.message_count)
    return found


def colored(address: str, color: str) -> CoreMessage:
    properties = Properties()
    properties["color"] = color
    return CoreMessage.build(type=MessageType.BYTES, address=address, durable=True, properties=properties)


async def test_a_loop_of_diverts(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded_broker(caplog, diverts=LOOP) as guarded:
        intruder = await intruder_with_queues(guarded, "orders", "audit")
        for number in range(3):
            reply = await answer_to(intruder, SessionSend(letter("m", "orders"), True, number))
            assert isinstance(reply, ExceptionResponse)
            assert (reply.code, reply.correlation_id) == (ErrorCode.ILLEGAL_STATE, number)
            assert reply.message is not None and reply.message.startswith(LOOP_TEXT)
        assert await counts(intruder, "orders", "audit") == [0, 0]
        # One line for its cause, however often the producer repeats the send.
        (line,) = guarded.lines()
        assert LOOP_TEXT in line
        await guarded.look()
        intruder.stream.close()


async def test_a_transformer_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """As in Artemis, the error of the transformer refuses the send, and the message is nowhere."""
    diverts = {"fails": DivertConfiguration("orders", "audit", transformer=fail)}
    async with guarded_broker(caplog, diverts=diverts) as guarded:
        intruder = await intruder_with_queues(guarded, "orders", "audit")
        for number in range(3):
            reply = await answer_to(intruder, SessionSend(colored("orders", "red"), True, number))
            assert isinstance(reply, ExceptionResponse)
            assert (reply.code, reply.correlation_id) == (ErrorCode.INTERNAL_ERROR, number)
            assert reply.message == "the transformer of divert 'fails' failed: ValueError: no room for 'red'"
        assert await counts(intruder, "orders", "audit") == [0, 0]
        (line,) = guarded.lines()
        assert line.endswith("the transformer of divert 'fails' failed: ValueError: no room for 'red'")
        await guarded.look()
        intruder.stream.close()


async def test_a_transformer_that_raises_in_a_transaction(caplog: pytest.LogCaptureFixture) -> None:
    diverts = {"fails": DivertConfiguration("orders", "audit", filter="color = 'red'", transformer=fail)}
    async with guarded_broker(caplog, diverts=diverts) as guarded:
        intruder = await intruder_with_queues(guarded, "orders", "audit")
        transacted = CreateSession("second", 11, 136, None, None, 1, False, False, True, -1, False, None)
        await intruder.send_packets(transacted, channel=1)
        assert isinstance(await intruder.next_packet(), CreateSessionResponse)
        for number, color in enumerate(("blue", "red")):
            await intruder.send_packets(SessionSend(colored("orders", color), True, number), channel=11)
            reply = await intruder.next_packet()
            assert isinstance(reply, NullResponse if color == "blue" else ExceptionResponse)
        await intruder.send_packets(SessionCommit(7), channel=11)
        reply = await intruder.next_packet()
        assert isinstance(reply, ExceptionResponse) and reply.code == ErrorCode.TRANSACTION_ROLLED_BACK
        await intruder.send_packets(SessionRollback(False), channel=11)
        await intruder.next_packet()
        assert await counts(intruder, "orders", "audit") == [0, 0]
        assert sum("the transformer of divert 'fails' failed" in line for line in guarded.lines()) == 1
        await guarded.look()
        intruder.stream.close()


# A matcher that goes back over the text would try each way to place 2,000 letters.
HOSTILE = f"color LIKE '{'%a' * 2_000}%b'"
ALTERNATIVES = " OR ".join(f"color LIKE '{'%a' * 500}%{end}'" for end in "bcdefghijklm")
NESTED = f"{'NOT (' * 70}color LIKE '%a%a%b'{')' * 70}"


@pytest.mark.parametrize("selector", [HOSTILE, ALTERNATIVES, NESTED], ids=["percents", "alternatives", "nested"])
async def test_filters_that_take_exponential_time_elsewhere(selector: str, caplog: pytest.LogCaptureFixture) -> None:
    """Through each door: the filter of a divert, of a queue, of a consumer and of a browser."""
    diverts = {"copy": DivertConfiguration("orders", "audit", filter=selector)}
    async with guarded_broker(caplog, diverts=diverts) as guarded:
        intruder = await intruder_with_queues(guarded, "orders", "audit")
        filtered = CreateQueueV2("orders", "filtered", selector, False, True, True, False, 0)
        assert await answer_to(intruder, filtered) == NullResponse(-1)
        started = process_time()
        for number in range(5):
            reply = await answer_to(intruder, SessionSend(colored("orders", "a" * 20_000), True, number))
            assert reply == NullResponse(number)
        for number, browses in enumerate((False, True)):
            consumer = SessionCreateConsumer(number, "orders", selector, browses, False)
            await intruder.send_packets(consumer, SessionConsumerFlowCredit(number, 10_000_000))
        await intruder.send_packets(SessionStart())
        assert await counts(intruder, "orders", "audit", "filtered") == [5, 0, 0]
        await guarded.look()
        # A hundred times what it takes; a matcher that goes back never ends.
        assert process_time() - started < 5.0
        assert guarded.lines() == []
        intruder.stream.close()
