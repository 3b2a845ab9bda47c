"""The port of a broker that announces its address: no other process gets it while the broker accepts no peers."""

from __future__ import annotations

import socket

import pytest

from embedbroker import BrokerConfig
from embedbroker.config import ClusterConnection
from embedbroker.runtime._endpoint import open_endpoint
from embedclient.errors import ResourceAllocationException
from embedclient.model import TransportConfiguration
from embedclient.transport import TransportLost, listen_tcp

MEMBER = BrokerConfig(port=0, cluster_connections=ClusterConnection(), cluster_password="secret")


async def test_a_free_port_that_was_announced_stays_taken_before_it_listens_and_between_times() -> None:
    place = await open_endpoint(MEMBER)
    port = place.config.port
    for _ in range(3):
        with socket.socket() as other_program, pytest.raises(OSError, match="in use"):
            other_program.bind(("127.0.0.1", port))
        ((listener,),) = await place.listen()
        assert listener.port == port
        listener.close()
        place.acceptors[0].keep()
    place.give_back()
    (other,) = await listen_tcp("127.0.0.1", port)
    with pytest.raises(ResourceAllocationException, match=f"cannot listen on 127.0.0.1:{port}: "):
        await place.listen()
    other.close()


async def test_a_port_that_was_lost_is_named_and_tried_once_more_when_it_is_needed() -> None:
    place = await open_endpoint(MEMBER)
    ((listener,),) = await place.listen()
    listener.close()
    (other,) = await listen_tcp("127.0.0.1", place.config.port)
    with pytest.raises(ResourceAllocationException, match=f"cannot listen on 127.0.0.1:{place.config.port}: "):
        place.acceptors[0].keep()
    other.close()
    ((again,),) = await place.listen()
    assert again.port == place.config.port
    again.close()


async def test_the_near_end_of_an_own_connector_is_used_and_that_of_an_announced_one_is_not() -> None:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    elsewhere: dict[str, bool | int | str] = {"host": "127.0.0.1", "port": listener.port, "localAddress": "203.0.113.7"}
    connector = TransportConfiguration("c", parameters=elsewhere)
    (await (await open_endpoint(BrokerConfig(port=0))).dial(connector, 5)).close()
    with pytest.raises(TransportLost, match="cannot connect to 127"):
        await (await open_endpoint(BrokerConfig(port=0, connectors={"c": connector}))).dial(connector, 5)
    listener.close()
