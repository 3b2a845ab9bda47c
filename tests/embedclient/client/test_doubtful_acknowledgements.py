"""Blocking acknowledgements whose connection is lost: the caller of receive gets the message."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedclient import ConnectionFactory, MessageConsumer
from tests.embedclient.client.conftest import relayed_broker

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.mark.parametrize("by_body", [False, True], ids=["message", "body"])
async def test_a_message_whose_acknowledgement_lost_its_answer_is_received(by_body: bool) -> None:
    """1. The broker has processed the acknowledgement. 2. Its answer is lost, and the session with the connection.
    3. The broker has the message no more: if the program does not get it now, it is lost."""

    async def receive(consumer: MessageConsumer) -> object:
        if by_body:
            return await consumer.receive_body(str, timeout=5)
        message = await consumer.receive(timeout=5)
        return None if message is None else message.body

    async with relayed_broker() as relay:
        url = f"{relay.url}?blockOnAcknowledge=true&reconnectAttempts=-1&retryInterval=1"
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer("q") as consumer,
        ):
            producer = session.create_producer("q")
            for body in ("one", "two"):
                await producer.send(body)
            await trio.testing.wait_all_tasks_blocked()
            received = []
            async with trio.open_nursery() as nursery:
                relay.hold("down")

                async def receive_first() -> None:
                    received.append(await receive(consumer))

                nursery.start_soon(receive_first)
                await trio.testing.wait_all_tasks_blocked()
                relay.cut()
                relay.release()
            received.append(await receive(consumer))
            assert received == ["one", "two"]
            assert await consumer.receive_nowait() is None
