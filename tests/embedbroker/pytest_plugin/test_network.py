"""The networks that tests run on."""

from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from embedbroker import BrokerConfig
from embedbroker.pytest_plugin._network import Links, TcpFabric
from embedclient.model import TransportConfiguration
from embedclient.transport import TransportLost


def _note(text: str) -> None:
    """The trace has no reader here."""


def _connector(url: str) -> TransportConfiguration:
    return TransportConfiguration("other", parameters={"host": "127.0.0.1", "port": int(url.rpartition(":")[2])})


async def test_the_numbers_of_a_broker_are_nobody_elses_while_it_is_down() -> None:
    async with trio.open_nursery() as nursery:
        fabric = TcpFabric(nursery, _note)
        port = await fabric.place("primary")
        dialled = [int(url.rpartition(":")[2]) for url in (port.url, port.console_url)]
        for _ in range(2):
            for listener in await port.listen(BrokerConfig()):
                listener.close()
            for number in dialled:
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind(("127.0.0.1", number))
        with pytest.raises(TransportLost, match="refused"):
            await port.dial(_connector(port.url), 10.0)
        fabric.close()
        for number in dialled:
            with socket.socket() as other:
                other.bind(("127.0.0.1", number))


async def test_a_number_that_somebody_takes_all_the_same_is_told_and_leaves_nothing_open() -> None:
    async with trio.open_nursery() as nursery:
        fabric = TcpFabric(nursery, _note)
        port = await fabric.place("primary")
        with socket.socket() as robber:
            robber.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            robber.bind(("127.0.0.1", int(port.console_url.rpartition(":")[2])))
            robber.listen()
            with pytest.raises(OSError, match="in use"):
                await port.listen(BrokerConfig())
        assert not fabric.leftovers()
        fabric.close()


async def test_a_listener_that_stays_open_is_left_behind() -> None:
    async with trio.open_nursery() as nursery:
        fabric = TcpFabric(nursery, _note)
        port = await fabric.place("primary")
        clients, peers = await port.listen(BrokerConfig())
        peers.close()
        assert fabric.leftovers() == [f"the listener of primary, {clients.port}"]
        clients.close()
        assert not fabric.leftovers()
        fabric.close()


async def test_a_wait_for_a_closing_outlasts_a_machine_that_stands_still(autojump_clock: MockClock) -> None:
    links, closed, over = Links(_note), False, trio.Event()
    autojump_clock.autojump_threshold = float("inf")

    async def look() -> None:
        await links.until(lambda: closed)
        over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await wait_all_tasks_blocked()
        autojump_clock.jump(60)  # the time of every wait is over; the news is due
        await wait_all_tasks_blocked()
        assert not over.is_set()
        closed = True
        links.changed()
        await over.wait()


async def test_a_wait_for_a_closing_that_does_not_come_ends(autojump_clock: MockClock) -> None:
    begun = trio.current_time()
    await Links(_note).until(lambda: False)
    assert 1 < trio.current_time() - begun < 10
