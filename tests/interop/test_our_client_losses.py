"""`embedclient` against a real Artemis that counts packets otherwise than its client: what a cut behind that loses.

Artemis does not count a request that it refused, nor what a session gets while it is made again. A client that takes
that for what arrived would send too much again, or too little: so does Artemis' own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
import trio

from embedclient import Connection, ConnectionFactory, Message, MessageProducer, Queue
from embedclient.errors import InvalidSelectorException, JMSException
from tests.interop.artemis import ArtemisBroker
from tests.interop.frame_relay import NULL_RESPONSE, SESS_SEND, FrameRelay

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]

PARAMETERS = "reconnectAttempts=-1&retryInterval=50&confirmationWindowSize=1048576&callTimeout=5000"
ROUNDS = 3


@pytest.fixture
def queue() -> Queue:
    return Queue(f"losses-{uuid4().hex[:8]}")


@pytest.fixture
def relay(artemis: ArtemisBroker) -> Iterator[FrameRelay]:
    with FrameRelay(artemis.port) as running:
        yield running


@asynccontextmanager
async def connected(relay: FrameRelay) -> AsyncIterator[Connection]:
    async with ConnectionFactory(f"tcp://127.0.0.1:{relay.port}?{PARAMETERS}").connect() as connection:
        yield connection


async def tell(producer: MessageProducer, text: str, told: list[str]) -> None:
    """Send, and note it if the send is confirmed; otherwise it is there or not."""
    try:
        await producer.send(text)
    except JMSException:
        return
    told.append(text)


async def everything_in(artemis: ArtemisBroker, queue: Queue) -> list[object]:
    async with (
        ConnectionFactory(artemis.url).connect() as connection,
        connection.session() as session,
        session.create_consumer(queue) as consumer,
    ):
        found: list[object] = []
        message: Message | None = await consumer.receive(timeout=15)
        while message is not None:
            found.append(message.body)
            message = await consumer.receive(timeout=0.5)
        return found


async def test_what_is_lost_behind_a_refused_request_is_there_once(
    artemis: ArtemisBroker, relay: FrameRelay, queue: Queue
) -> None:
    told: list[str] = []
    async with connected(relay) as connection, connection.session() as session:
        producer = session.create_producer(queue)
        await producer.send("first")
        for number in range(ROUNDS):
            for packet_type, from_broker in ((NULL_RESPONSE, True), (SESS_SEND, False)):
                with pytest.raises(InvalidSelectorException):
                    await session.create_consumer(queue, "n = = 1")
                relay.lose(packet_type, from_broker=from_broker)
                await tell(producer, f"{packet_type} {number}", told)
    assert relay.lost == 2 * ROUNDS
    found = await everything_in(artemis, queue)
    assert len(found) == len({*found})
    assert [text for text in found if text in told] == told


@pytest.mark.parametrize("waits", [True, False], ids=["blocking", "asynchronous"])
async def test_what_is_lost_behind_a_session_that_was_made_again_is_not_told_to_be_there(
    artemis: ArtemisBroker, relay: FrameRelay, queue: Queue, waits: bool
) -> None:
    told: list[str] = []
    async with connected(relay) as connection, connection.session() as session:
        producer = session.create_producer(queue)
        await producer.send("before")
        async with session.create_consumer(Queue(f"{queue.name}-other")):
            await trio.to_thread.run_sync(artemis.kill)
            await trio.to_thread.run_sync(artemis.start)
            while not told:
                await tell(producer, "behind", told)
            relay.lose(SESS_SEND, from_broker=False)
            if waits:
                for text in ("lost", "next"):
                    await tell(producer, text, told)
            else:
                receipts = {str(number): producer.send_nowait(str(number)) for number in range(5)}
                for text, receipt in receipts.items():
                    try:
                        await receipt
                    except JMSException:
                        continue
                    told.append(text)
    assert relay.lost == 1
    found = await everything_in(artemis, queue)
    assert {*told} <= {*found}
