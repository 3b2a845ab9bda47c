"""What Artemis' own tests of a producer's flow control expect, each as a test of its name."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedbroker.config import AddressSettings
from embedclient import ConnectionFactory, Queue, Topic
from embedclient.errors import IllegalStateException


async def test_closing_session_unblocks_blocked_producer() -> None:
    """The address is full and blocks; another task closes the session; the send ends with an error."""
    ends: list[Exception] = []
    with trio.fail_after(30):
        async with (
            EmbeddedBroker(address_settings={"full": AddressSettings(max_size_bytes=2000)}) as broker,
            ConnectionFactory(f"{broker.vm_url}?producerWindowSize=1000").connect() as connection,
            connection.session() as witness,
        ):
            session = await connection.session()
            producer = session.create_producer(Queue("full"))

            async def send() -> None:
                try:
                    while True:
                        await producer.send("x" * 500)
                except IllegalStateException as error:
                    ends.append(error)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                await trio.testing.wait_all_tasks_blocked()
                assert not ends
                await session.close()
            await witness.create_producer(Queue("other")).send("still served")
    assert len(ends) == 1


@pytest.mark.parametrize("window", [-1, 1024])
async def test_flow_control_message_not_routed(window: int) -> None:
    """The address blocks at a tiny limit, but no queue takes its messages: a thousand sends never block."""
    with trio.fail_after(30):
        async with (
            EmbeddedBroker(address_settings={"nobody": AddressSettings(max_size_bytes=1)}) as broker,
            ConnectionFactory(f"{broker.vm_url}?producerWindowSize={window}").connect() as connection,
            connection.session() as session,
        ):
            producer = session.create_producer(Topic("nobody"))
            for number in range(1000):
                await producer.send(f"message {number}")
