"""Connectors that a peer announces may have any values: a program gets an error of JMS for them, on each loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
import trio

import embedclient
import embedclient.asyncio
from embedclient import TransportConfiguration, _client
from embedclient.errors import ConnectionLostException
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY

Parameters = Mapping[str, bool | int | str]
UNFIT = [
    ({"host": "h", "port": "http"}, r"cannot connect to h: the parameter port is 'http', not a number from 1 to 65535"),
    ({"host": "h", "port": "0"}, "the parameter port is '0', not a number from 1 to 65535"),
    ({"host": "h", "port": 70_000}, "the parameter port is 70000, not a number from 1 to 65535"),
    ({"host": "h", "port": "1" * 5_000}, r"the parameter port is '1{30}\.\.\., not a number from 1 to 65535"),
    ({"host": "h", "localPort": "any"}, "the parameter localPort is not a number from 0 to 65535"),
    ({"host": "h", "localPort": 1 << 40}, "the parameter localPort is not a number from 0 to 65535"),
    ({"host": "h", "tcpSendBufferSize": "large"}, "the parameter tcpSendBufferSize is not a number from -1 to 214748"),
    ({"host": "h", "tcpReceiveBufferSize": 1 << 31}, "the parameter tcpReceiveBufferSize is not a number from -1 to"),
]


async def connect(locator: _client.ServerLocator) -> None:
    async with locator.create_session_factory():
        raise AssertionError("connected")


@pytest.mark.parametrize(("parameters", "message"), UNFIT)
def test_a_number_that_does_not_fit_is_named(parameters: Parameters, message: str) -> None:
    connectors = [TransportConfiguration("a", TCP_CONNECTOR_FACTORY, parameters)]
    with pytest.raises(ConnectionLostException, match=message):
        trio.run(connect, embedclient.ServerLocator(connectors=connectors))
    with pytest.raises(ConnectionLostException, match=message):
        asyncio.run(connect(embedclient.asyncio.ServerLocator(connectors=connectors)))


def test_a_connector_of_one_process_without_a_name_is_an_error() -> None:
    locator = embedclient.ServerLocator(connectors=[TransportConfiguration("a", IN_VM_CONNECTOR_FACTORY)])
    with pytest.raises(ConnectionLostException, match="the connector 'a' has no serverId"):
        trio.run(connect, locator)
