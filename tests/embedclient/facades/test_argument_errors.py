"""Errors that name what to do: arguments of sends, names of brokers, and ports without a broker."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory
from embedclient.errors import ConnectionLostException, JMSException

from .conftest import Client, connected


async def test_a_bad_argument_is_an_error_of_python_too(client: Client, url: str) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"priority": 10}, ValueError),
        ({"priority": "high"}, TypeError),
        ({"time_to_live": -1}, ValueError),
        ({"delivery_delay": "1 s"}, TypeError),
        ({"delivery_mode": 3}, ValueError),
    ]
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        for arguments, kind in wrong:
            with pytest.raises(kind) as caught:
                await producer.send("a", **arguments)
            assert isinstance(caught.value, JMSException)


async def test_a_refused_connection_names_the_command_that_starts_a_broker(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(ConnectionLostException) as caught:
        async with connected(client, free):
            pass
    assert "`embedbroker run`" in caught.value.__notes__[0]


def test_an_unknown_name_of_a_broker_lists_those_that_run() -> None:
    async def main() -> None:
        async with EmbeddedBroker(name="orders"), EmbeddedBroker(name="stock"):
            with pytest.raises(ConnectionLostException, match=r"those that do: vm://orders, vm://stock"):
                await ConnectionFactory("vm://order").connect()

    trio.run(main)
