"""What a program gets that names a queue or topic which is not there and may not be made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from embedbroker import AddressSettings, EmbeddedBroker
from embedclient import ConnectionFactory, Queue, Topic
from embedclient.errors import ErrorCode, InvalidDestinationException

CLOSED = AddressSettings(auto_create_queues=False, auto_create_addresses=False)


@asynccontextmanager
async def session_of_closed_broker() -> AsyncIterator[Any]:
    async with (
        EmbeddedBroker(address_settings={"#": CLOSED}) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
    ):
        yield session


@pytest.mark.parametrize("destination", [Queue("nowhere"), Topic("nowhere")])
async def test_a_producer_of_a_missing_destination_is_refused_as_jms_says(destination: Queue | Topic) -> None:
    async with session_of_closed_broker() as session:
        with pytest.raises(InvalidDestinationException) as refused:
            await session.create_producer(destination).send("hello")
        assert refused.value.error_code == ErrorCode.ADDRESS_DOES_NOT_EXIST


@pytest.mark.parametrize("destination", [Queue("nowhere"), Topic("nowhere")])
async def test_a_consumer_of_a_missing_destination_is_refused_as_jms_says(destination: Queue | Topic) -> None:
    async with session_of_closed_broker() as session:
        with pytest.raises(InvalidDestinationException):
            await session.create_consumer(destination)


async def test_a_temporary_destination_is_deleted_once() -> None:
    with trio.fail_after(60):
        async with (
            EmbeddedBroker() as broker,
            ConnectionFactory(broker.vm_url).connect() as connection,
            connection.session() as session,
        ):
            queue = await session.create_temporary_queue()
            await session.delete_temporary(queue)
            with pytest.raises(InvalidDestinationException):
                await session.delete_temporary(queue)
