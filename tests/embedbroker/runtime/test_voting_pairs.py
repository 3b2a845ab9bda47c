"""Pairs that vote, over real sockets and files: a cluster that was stopped as a whole starts by itself."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from attrs import evolve

from embedbroker import BrokerConfig, EmbeddedBroker
from embedbroker.config import ClusterConnection, HAPolicy, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.runtime._endpoint import Endpoint
from embedclient.errors import JMSException
from embedclient.transport import Listener, TcpListener

from .test_replication import TIMEOUT_S, becomes, put, take, until_in_sync

VOTING = {"vote_on_replication_failure": True, "group_name": "g"}


def ports(count: int) -> list[int]:
    """Free ports. They are the same in each life of a broker, so no other process may have listened there meanwhile."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def configs(path: Path) -> dict[str, BrokerConfig]:
    """p and its backup q, and x, which has none."""
    places = dict(zip("pqx", ports(3), strict=True))
    connectors = {name: f"tcp://127.0.0.1:{port}" for name, port in places.items()}
    primary = ReplicationPrimary(check_for_active_server=True, **VOTING)  # type: ignore[arg-type]  # real fields
    policies: dict[str, HAPolicy] = {
        "p": primary,
        "q": ReplicationBackup(allow_failback=True, **VOTING),  # type: ignore[arg-type]  # real fields
        "x": evolve(primary, group_name="x"),
    }
    return {
        name: BrokerConfig(
            name=name,
            host="127.0.0.1",
            port=port,
            connectors=connectors,
            cluster_connections=ClusterConnection(
                connector=name,
                static_connectors=tuple(other for other in places if other != name),
                retry_interval_ms=50,
            ),
            cluster_user="cluster",
            cluster_password="secret",
            data_directory=str(path / name),
            ha_policy=policies[name],
        )
        for name, port in places.items()
    }


@asynccontextmanager
async def started(*these: BrokerConfig) -> AsyncIterator[list[EmbeddedBroker]]:
    """One after the other: each waits until it has found that none is live, and which brokers that leaves."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(EmbeddedBroker(each)) for each in these]


class Doors:
    """Which of the brokers listen, by port."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: dict[int, trio.Event] = defaultdict(trio.Event)
        self.shut: dict[int, trio.Event] = defaultdict(trio.Event)
        listen, close = Endpoint.listen, TcpListener.close

        async def opening(place: Endpoint) -> list[list[Listener]]:
            listeners = await listen(place)
            self.opened[place.config.port].set()
            return listeners

        def closing(listener: TcpListener) -> None:
            port = listener.port
            close(listener)
            self.shut[port].set()

        monkeypatch.setattr(Endpoint, "listen", opening)
        monkeypatch.setattr(TcpListener, "close", closing)


async def lost_power(path: Path) -> dict[str, BrokerConfig]:
    """What is left of a pair in sync and its voter when all of them have lost their power."""
    found = configs(path)
    async with started(found["x"], found["p"], found["q"]) as (x, p, q):
        for broker in (x, p):
            await becomes(broker, Role.LIVE)
        await until_in_sync(p)
        await put(p.url, "one", "two")
        for broker in (x, p, q):
            await broker.crash()
    return found


async def test_a_pair_that_was_stopped_with_its_voters_starts_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = await lost_power(tmp_path)
    doors = Doors(monkeypatch)
    with trio.fail_after(TIMEOUT_S):
        async with started(stopped["p"]) as (p,):
            await doors.opened[stopped["p"].port].wait()
            assert p.role is Role.BACKUP
            async with started(stopped["q"]):
                await becomes(p, Role.LIVE)
                await until_in_sync(p)
                assert await take(p.url, 2) == ["one", "two"]
                assert not doors.shut[stopped["p"].port].is_set()
                if doors.opened[stopped["q"].port].is_set():
                    await doors.shut[stopped["q"].port].wait()


async def test_a_broker_that_waits_lets_brokers_in_and_no_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = await lost_power(tmp_path)
    doors = Doors(monkeypatch)
    with trio.fail_after(TIMEOUT_S):
        async with started(stopped["p"]):
            await doors.opened[stopped["p"].port].wait()
            with pytest.raises(JMSException, match="closed by the peer"):
                await put(f"tcp://127.0.0.1:{stopped['p'].port}", "in vain")


async def test_a_port_that_is_taken_keeps_a_broker_from_being_found_and_not_from_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = await lost_power(tmp_path)
    with trio.fail_after(TIMEOUT_S), closing(socket.create_server(("127.0.0.1", stopped["q"].port))):
        async with started(stopped["p"], stopped["q"]) as (p, q):
            # q finds p all the same.
            await becomes(p, Role.LIVE)
            assert q.role is Role.BACKUP
    assert "other brokers that wait do not find this one: " in caplog.text
