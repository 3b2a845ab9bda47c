"""The lock manager over a real ZooKeeper: the suite of all lock managers, and what only a server far away can do."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio

from embedbroker import (
    ClusterConnection,
    EmbeddedBroker,
    HAPolicy,
    LockManager,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
)
from embedbroker.cli._failure import BrokerStopped
from embedbroker.locks import KeepLease, Lease, LockFault, LockManagers, ReadSequence, SwapSequence, TakeLease
from embedbroker.runtime._zookeeper import ZooKeeperLockManager, ZooKeeperSettings
from embedclient import ConnectionFactory, Queue
from embedclient.errors import JMSException
from tests.embedbroker.locks.lease_suite import FILES_AND_NODES, KEY, SUITE

from .our_pair import EmbeddedPair
from .registry import missing
from .zookeeper import ZooKeeper, zookeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]
NAMESPACES = (f"test-{number}" for number in count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    if shutil.which("java") is None:
        missing("a Java of 17 or later")
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def manager_of(server: ZooKeeper, **changes: str) -> ZooKeeperLockManager:
    """A manager whose names no other test uses."""
    said = {"connect-string": server.connect_string, "namespace": next(NAMESPACES), "session-ms": "1000"}
    properties = {**said, "connection-ms": "5000", **{name.replace("_", "-"): text for name, text in changes.items()}}
    return ZooKeeperLockManager(ZooKeeperSettings.of(properties))


@pytest.mark.parametrize("case", [*SUITE, *FILES_AND_NODES], ids=lambda case: case.__name__)
def test_a_lock_manager(case: Callable[[LockManagers], None], server: ZooKeeper) -> None:
    case(manager_of(server))


def test_a_lease_lasts_a_share_of_the_session(server: ZooKeeper) -> None:
    session = manager_of(server, session_ms="4000", session_percent="50").open("mine")
    assert session.run((TakeLease(KEY), KeepLease(KEY))) == (Lease(2.0), Lease(2.0))
    session.close()


def test_a_lease_lasts_a_share_of_what_the_server_grants_when_that_is_less_than_was_wanted(server: ZooKeeper) -> None:
    session = manager_of(server, session_ms="60000", session_percent="50").open("mine")
    assert session.run((TakeLease(KEY),)) == (Lease(server.session_ms_max / 2000),)
    session.close()


HOLD = """
import sys
from embedbroker.locks import TakeLease
from embedbroker.runtime._zookeeper import ZooKeeperLockManager, ZooKeeperSettings
settings = ZooKeeperSettings(sys.argv[1], sys.argv[2], session_ms=1000)
session = ZooKeeperLockManager(settings).open("primary 'other'")
print(session.run((TakeLease(sys.argv[3]),)) != (None,), flush=True)
sys.stdin.read()
"""


def test_the_lease_of_a_killed_process_runs_out_with_its_session(server: ZooKeeper) -> None:
    manager = manager_of(server)
    mine = manager.open("mine")
    command = [sys.executable, "-c", HOLD, server.connect_string, manager.settings.namespace, KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        assert mine.run((TakeLease(KEY),)) == (None,)
        process.kill()
        process.wait()
    pause = threading.Event()
    for _attempt in range(100):
        if mine.run((TakeLease(KEY),)) != (None,):
            break
        pause.wait(0.1)
    else:
        pytest.fail("its lease does not run out")
    mine.close()


def test_an_ensemble_that_does_not_answer_is_a_fault_and_is_used_again_when_it_does(server: ZooKeeper) -> None:
    session = manager_of(server, connection_ms="500", retries="0").open("mine")
    session.run((SwapSequence(KEY, 0, 4),))
    server.freeze()
    try:
        with pytest.raises(LockFault, match="ZooKeeper at"):
            session.run((ReadSequence(KEY),))
    finally:
        server.thaw()
    pause = threading.Event()
    for _attempt in range(100):
        try:
            assert session.run((ReadSequence(KEY),)) == (4,)
            break
        except LockFault:
            pause.wait(0.1)
    else:
        pytest.fail("it was not used again")
    session.close()


def test_a_lease_is_lost_with_the_session_that_took_it(server: ZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    from kazoo.client import KazooClient

    start, clients = KazooClient.start_async, list[Any]()

    def noted(client: Any) -> object:
        clients.append(client)
        return start(client)

    monkeypatch.setattr(KazooClient, "start_async", noted)
    manager = manager_of(server, connection_ms="500", retries="0")
    first, second = manager.open("first"), manager.open("second")
    assert first.run((TakeLease(KEY),)) != (None,)
    # Another program ends the session, as the ensemble does when it gets nothing: a second connection closes it.
    double = KazooClient(hosts=server.connect_string, client_id=clients[0].client_id, timeout=1.0)
    double.start()
    double.stop()
    double.close()
    pause = threading.Event()
    for _attempt in range(100):
        try:
            assert first.run((KeepLease(KEY),)) == (None,)
            break
        except LockFault:
            pause.wait(0.1)
    else:
        pytest.fail("it does not know that its lease is lost")
    assert second.run((TakeLease(KEY),)) != (None,)
    first.close()
    second.close()


def test_what_was_swapped_survives_the_server(server: ZooKeeper) -> None:
    manager = manager_of(server)
    session = manager.open("first")
    session.run((SwapSequence(KEY, 0, -7),))
    session.close()
    server.kill()
    server.start()
    session = manager.open("second")
    assert session.run((ReadSequence(KEY),)) == (-7,)
    session.close()


def test_numbers_lie_where_artemis_keeps_them(server: ZooKeeper, tmp_path: Path) -> None:
    manager = manager_of(server)
    session = manager.open("mine")
    session.run((SwapSequence(KEY, 0, 5),))
    session.close()
    from kazoo.client import KazooClient

    client = KazooClient(hosts=server.connect_string)
    client.start()
    data, _stat = client.get(f"/{manager.settings.namespace}/{KEY}/activation-sequence")
    client.stop()
    client.close()
    assert data == (5).to_bytes(8, "big")


async def test_a_replicating_pair_changes_places_under_zookeeper(server: ZooKeeper, tmp_path: Path) -> None:
    manager = LockManager(
        "org.apache.activemq.artemis.lockmanager.zookeeper.CuratorDistributedLockManager",
        {"connect-string": server.connect_string, "namespace": next(NAMESPACES), "session-ms": "4000"},
    )

    def broker(name: str, policy: HAPolicy, **places: str) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            data_directory=str(tmp_path / name),
            ha_policy=policy,
            connectors=places,
            cluster_connections=ClusterConnection(static_connectors=tuple(places), retry_interval_ms=100),
            cluster_user="cluster",
            cluster_password="secret",
        )

    async with (
        broker("p", ReplicationPrimary(lock_manager=manager)) as primary,
        broker("q", ReplicationBackup(lock_manager=manager), p=primary.url) as backup,
    ):
        await backup.wait_in_sync()
        async with ConnectionFactory(primary.url).connect() as connection, connection.session() as session:
            await session.create_producer(Queue("orders")).send("hello")
        await primary.stop()
        await backup.wait_for_role(Role.LIVE)
        async with (
            ConnectionFactory(backup.url).connect() as connection,
            connection.session() as session,
            session.create_consumer(Queue("orders")) as consumer,
        ):
            assert await consumer.receive_body(str) == "hello"


def pair_under(server: ZooKeeper, directory: Path) -> EmbeddedPair:
    """Two processes: one takes over when neither it nor the ensemble received anything from the other for 3 seconds."""
    session = {"session-ms": "3000", "session-percent": "66"}
    said = {"connect-string": server.connect_string, "namespace": next(NAMESPACES), **session}
    changes = {
        "file.FileBasedLockManager": "zookeeper.CuratorDistributedLockManager",
        f'<property key="locks-folder" value="{directory / "locks"}"/>': "".join(
            f'<property key="{key}" value="{value}"/>' for key, value in said.items()
        ),
        "<max-hops>": "<check-period>500</check-period><connection-ttl>3000</connection-ttl><max-hops>",
    }
    return EmbeddedPair(directory, replicated=True, changes=changes)


async def texts_at(url: str, count: int) -> list[str | None]:
    """What is in the queue, and that it is no more than `count`."""
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session(transacted=True) as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        texts = [await consumer.receive_body(str, timeout=20.0) for _ in range(count)]
        assert await consumer.receive_nowait() is None
        return texts


async def test_a_live_broker_that_was_frozen_too_long_confirms_nothing_and_steps_down(
    server: ZooKeeper, tmp_path: Path
) -> None:
    with pair_under(server, tmp_path) as pair:
        async with ConnectionFactory(pair.primary.url).connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue("orders"))
            await producer.send("confirmed by the first")

            async def send_in_vain() -> None:
                with pytest.raises(JMSException):
                    await producer.send("confirmed by nobody")

            pair.primary.freeze()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_in_vain)
                await trio.to_thread.run_sync(pair.backup.wait_for, "ready")
                async with ConnectionFactory(pair.backup.url).connect() as other, other.session() as there:
                    await there.create_producer(Queue("orders")).send("confirmed by the second")
                pair.primary.thaw()
        assert await trio.to_thread.run_sync(pair.primary.exit_code) == BrokerStopped.exit_code
        assert await texts_at(pair.backup.url, 2) == ["confirmed by the first", "confirmed by the second"]
        # What it wrote and did not confirm is gone when it comes back.
        await trio.to_thread.run_sync(pair.fail_back)
        assert await texts_at(pair.primary.url, 2) == ["confirmed by the first", "confirmed by the second"]
