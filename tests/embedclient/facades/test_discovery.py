"""A client finds its broker by UDP multicast on the loopback, through every facade."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import embedclient.asyncio
from embedclient.engine.core._discovery import BroadcastGroup
from embedclient.errors import ConnectionLostException, ConnectionTimedOutException
from embedclient.model import TransportConfiguration
from embedclient.transport import DirectoryReader
from tests.embedclient.facades.conftest import Client, connected

LOOPBACK = "127.0.0.1"
ADDRESS = "231.7.7.9"
PERIOD_S = 0.02


@pytest.fixture
def group_port() -> int:
    """A port that is free, so that tests at the same time have groups of their own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def broadcasting(url: str, group_port: int) -> Iterator[None]:
    """Send the datagram of the broker at a URL to the group again and again, as a broadcast group does."""
    place = url.removeprefix("tcp://").split(":")
    connector = TransportConfiguration("netty", parameters={"host": place[0], "port": place[1]})
    group = BroadcastGroup("node", "start", [connector])
    group.start(0.0)
    data = group.on_time(0.0)
    assert data is not None
    stopped = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((LOOPBACK, 0))
            while not stopped.wait(PERIOD_S):
                sender.sendto(data, (ADDRESS, group_port))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


async def test_messages_pass_over_a_connection_to_a_discovered_broker(
    client: Client, url: str, group_port: int
) -> None:
    with broadcasting(url, group_port):
        discovering = f"udp://{ADDRESS}:{group_port}?localBindAddress={LOOPBACK}"
        async with connected(client, discovering) as connection, connection.session() as session:
            await session.create_producer("q").send("hello")
            async with session.create_consumer("q") as consumer:
                message: Any = await consumer.receive(timeout=60)
                assert message.text == "hello"


async def test_without_a_broadcast_the_error_names_group_port_and_interface(client: Client, group_port: int) -> None:
    url = f"udp://{ADDRESS}:{group_port}?localBindAddress={LOOPBACK}&discoveryInitialWaitTimeout=50"
    expected = f"multicast group {ADDRESS}:{group_port} on the interface of {LOOPBACK}: no datagram came within 0.05 s"
    with pytest.raises(ConnectionTimedOutException, match=expected):
        async with connected(client, url):
            pass


@pytest.mark.parametrize("interface", ["203.0.113.7", "a..b", "::1"])
async def test_an_interface_that_is_not_there_is_named(client: Client, group_port: int, interface: str) -> None:
    url = f"udp://{ADDRESS}:{group_port}?localBindAddress={interface}"
    expected = f"cannot join multicast group {ADDRESS}:{group_port} on the interface of {interface}: "
    with pytest.raises(ConnectionLostException, match=expected):
        async with connected(client, url):
            pass


async def test_a_broker_that_cannot_be_reached_is_searched_for_again_in_each_attempt(
    client: Client, group_port: int
) -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind((LOOPBACK, 0))
        place = f"{LOOPBACK}:{taken.getsockname()[1]}"
        with broadcasting(f"tcp://{place}", group_port):
            url = f"udp://{ADDRESS}:{group_port}?localBindAddress={LOOPBACK}&initialConnectAttempts=3&retryInterval=1"
            with pytest.raises(ConnectionLostException, match=f"cannot connect to {place}"):
                async with connected(client, url):
                    pass


@pytest.mark.parametrize("end", ["cancelled", "timed out"])
async def test_a_flood_of_datagrams_does_not_stop_the_loop(
    end: str, group_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of asyncio alone: its sockets return at once while datagrams wait."""

    async def search() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        received = 0

        async def sock_recv(_: object, size: int) -> bytes:
            nonlocal received
            received += 1
            assert received < 1_000_000, "the search goes on for ever"
            if received == 10 and end == "cancelled":
                task.cancel()
            assert received < 20 or end == "timed out", "a cancelled search goes on"
            return b"no datagram of a broker"

        monkeypatch.setattr(loop, "sock_recv", sock_recv)
        url = f"udp://{ADDRESS}:{group_port}?localBindAddress={LOOPBACK}&discoveryInitialWaitTimeout=50"
        async with embedclient.asyncio.ConnectionFactory(url).connect():
            pass

    expected = asyncio.CancelledError if end == "cancelled" else ConnectionTimedOutException
    with pytest.raises(expected):
        await trio.to_thread.run_sync(asyncio.run, search())


@pytest.mark.parametrize("ping", ["FILE_PING location='.'", "TCPPING initial_hosts='hangs.invalid[7800]'"])
def test_a_directory_or_a_name_that_hangs_does_not_keep_the_program(
    ping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of asyncio alone: its loop waits for its executor at the end."""
    (tmp_path / "stack.xml").write_text(f"<config><TCP bind_port='7800'/><{ping}/></config>")
    released, ended = threading.Event(), threading.Event()

    def hang(*_: object, **_options: object) -> list[bytes]:
        released.wait(10)
        ended.set()
        return []

    async def search() -> None:
        url = f"jgroups://c?file={tmp_path / 'stack.xml'}&discoveryInitialWaitTimeout=20"
        async with embedclient.asyncio.ConnectionFactory(url).connect():
            pass

    monkeypatch.setattr(DirectoryReader, "look", hang)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        with pytest.raises(ConnectionTimedOutException, match=r"no announcement (is there|came) within"):
            asyncio.run(search())
        assert not ended.is_set()
    finally:
        released.set()
