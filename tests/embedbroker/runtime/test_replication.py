"""A primary and its backup with directories of their own, over real sockets and files."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import define

from embedbroker import BrokerConfig, EmbeddedBroker, MemoryLocks
from embedbroker.config import (
    ClusterConnection,
    LockManager,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
)
from embedbroker.locks import MemoryLockManager
from embedbroker.replication import ReplicatorOwner, ReplicatorState
from embedbroker.runtime._embedded import life_of
from embedclient import ConnectionFactory, Queue
from embedclient.errors import BrokerFailed, IllegalStateException

TIMEOUT_S = 60.0
PRIMARY, BACKUP = ReplicationPrimary(), ReplicationBackup()


def member(
    path: Path,
    name: str,
    policy: ReplicationPrimary | ReplicationBackup,
    manager: MemoryLockManager | None,
    *others: EmbeddedBroker,
    segment_size_bytes: int = 1024 * 1024,
    bodies: Path | None = None,
) -> EmbeddedBroker:
    connectors = {other.config.name: other.url for other in others}
    return EmbeddedBroker(
        name=name,
        connectors=connectors,
        cluster_connections=ClusterConnection(static_connectors=tuple(connectors), retry_interval_ms=50),
        cluster_user="cluster",
        cluster_password="secret",
        data_directory=str(path / name),
        large_messages_directory=bodies,
        ha_policy=policy,
        lock_manager=manager,
        segment_size_bytes=segment_size_bytes,
    )


@define
class SyncWatch:
    """Stands before a replicator's owner, and sets an event when a backup is in sync."""

    owner: ReplicatorOwner
    changed: trio.Event

    def may_hand_over(self) -> bool:
        return self.owner.may_hand_over()

    def on_synchronised(self) -> None:
        self.owner.on_synchronised()
        self.changed.set()

    def on_lost(self, reason: str, held: bool) -> None:
        self.owner.on_lost(reason, held)


async def until_in_sync(primary: EmbeddedBroker) -> None:
    """Wait until the live broker has a backup that is in sync, which it announces to the cluster."""
    node = life_of(primary).host.node
    disk = node.replica_disk
    assert disk is not None and disk.replicator is not None
    replicator, changed = disk.replicator, trio.Event()
    owner = replicator.owner
    assert owner is not None
    if replicator.state is not ReplicatorState.SYNCHRONISED:
        replicator.owner = SyncWatch(owner, changed)
        with trio.fail_after(TIMEOUT_S):
            await changed.wait()
        replicator.owner = owner


@asynccontextmanager
async def pair(path: Path) -> AsyncIterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    """Both under one lock manager; the backup is not in sync yet."""
    manager = MemoryLockManager()
    async with member(path, "p", PRIMARY, manager) as primary, member(path, "b", BACKUP, manager, primary) as backup:
        yield primary, backup


async def put(url: str, *texts: str) -> None:
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        producer = session.create_producer(Queue("orders"))
        for text in texts:
            await producer.send(text)


async def take(url: str, count: int) -> list[object]:
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        found = [await consumer.receive(timeout=TIMEOUT_S) for _ in range(count)]
        assert await consumer.receive_nowait() is None
    return [message.body for message in found if message is not None]


async def becomes(broker: EmbeddedBroker, role: Role) -> None:
    with trio.fail_after(TIMEOUT_S):
        await broker.wait_for_role(role)


async def test_a_backup_takes_over_with_everything_that_was_confirmed(tmp_path: Path) -> None:
    async with pair(tmp_path) as (primary, backup):
        assert (primary.role, backup.role) == (Role.LIVE, Role.BACKUP)
        node_id = primary.node_id
        await put(primary.url, *[f"before {number}" for number in range(50)])
        await until_in_sync(primary)
        await put(primary.url, *[f"after {number}" for number in range(50)])
        await primary.crash()
        await becomes(backup, Role.LIVE)
        assert backup.node_id == node_id
        expected = [f"before {number}" for number in range(50)] + [f"after {number}" for number in range(50)]
        assert await take(backup.url, 100) == expected


def bodies_in(directory: Path) -> dict[str, int]:
    """The files of large messages in a directory, with their sizes."""
    return {file.name: file.stat().st_size for file in directory.glob("*.body")}


@pytest.mark.parametrize("at", [("p", "b"), ("p",), ("b",)], ids=["both", "primary", "backup"])
async def test_each_broker_has_large_messages_in_its_own_directory(tmp_path: Path, at: tuple[str, ...]) -> None:
    """Those of the copy and those that come after it; a backup that takes over, and one that joins again, have all."""
    large = [f"{number} " + "large " * 50_000 for number in range(3)]
    places = {name: tmp_path / f"bodies of {name}" if name in at else None for name in ("p", "b")}
    where = {name: place or tmp_path / name for name, place in places.items()}
    manager = MemoryLockManager()
    async with member(tmp_path, "p", PRIMARY, manager, bodies=places["p"]) as primary:
        await put(primary.url, large[0])
        async with member(tmp_path, "b", BACKUP, manager, primary, bodies=places["b"]) as backup:
            await until_in_sync(primary)
            await put(primary.url, large[1])
            assert len(bodies_in(where["p"])) == 2 and bodies_in(where["p"]) == bodies_in(where["b"])
            await backup.crash()
            await put(primary.url, large[2])
            await backup.start()
            await until_in_sync(primary)
            assert len(bodies_in(where["p"])) == 3 and bodies_in(where["p"]) == bodies_in(where["b"])
            for name in at:
                assert bodies_in(tmp_path / name) == {}, "nothing of them is beside the journal"
            await primary.crash()
            await becomes(backup, Role.LIVE)
            assert await take(backup.url, 3) == large
    assert len(bodies_in(where["p"])) == 3, "the crashed primary keeps its own"


async def test_a_primary_that_stops_for_a_failover_hands_everything_over(tmp_path: Path) -> None:
    async with pair(tmp_path) as (primary, backup):
        await until_in_sync(primary)
        await put(primary.url, "one", "two")
        with trio.fail_after(TIMEOUT_S):
            await primary.stop(failover=True)
        await becomes(backup, Role.LIVE)
        assert await take(backup.url, 2) == ["one", "two"]


async def test_a_primary_without_its_backup_goes_on_and_the_backup_catches_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with pair(tmp_path) as (primary, backup):
        await until_in_sync(primary)
        await put(primary.url, "one")
        await backup.crash()
        with trio.fail_after(TIMEOUT_S):
            await put(primary.url, "two")
        await backup.start()
        await until_in_sync(primary)
        assert any(record.message.endswith("are there already") for record in caplog.records)
        await primary.crash()
        await becomes(backup, Role.LIVE)
        assert await take(backup.url, 2) == ["one", "two"]


async def test_what_replication_needs_is_asked_for_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a data_directory that no other broker has"):
        EmbeddedBroker(ha_policy=PRIMARY)
    with pytest.raises(ValueError, match="needs cluster_connections"):
        EmbeddedBroker(ha_policy=BACKUP, data_directory=str(tmp_path))
    cluster = BrokerConfig(data_directory=str(tmp_path), cluster_connections=ClusterConnection())
    with pytest.raises(ValueError, match="takes a lock_manager, not locks"):
        EmbeddedBroker(cluster, ha_policy=BACKUP, locks=MemoryLocks())
    with pytest.raises(ValueError, match=r"there is no class_name 'a\.B' here"):
        EmbeddedBroker(cluster, ha_policy=ReplicationPrimary(lock_manager=LockManager("a.B")))
    with pytest.raises(ValueError, match="a lock_manager is for replicating brokers"):
        EmbeddedBroker(ha_policy=PrimaryOnly(), lock_manager=MemoryLockManager())
    with pytest.raises(TypeError, match="belongs into the lock_manager of the ha_policy"):
        EmbeddedBroker(cluster, ha_policy=ReplicationPrimary(), lock_manager=LockManager("a.B"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has cluster_name 'other', and cluster_connections has 'cluster'"):
        EmbeddedBroker(cluster, ha_policy=ReplicationPrimary(cluster_name="other"))


async def test_whether_a_copy_is_whole_is_told_at_both_ends_and_waited_for(tmp_path: Path) -> None:
    async with pair(tmp_path) as (primary, backup):
        with trio.fail_after(TIMEOUT_S):
            await primary.wait_in_sync()
            await backup.wait_in_sync()
        assert [broker.is_in_sync for broker in (primary, backup)] == [True, True]
        await backup.stop()
        with trio.fail_after(TIMEOUT_S):
            await primary.wait_out_of_sync()
            await backup.wait_out_of_sync()
        assert [broker.is_in_sync for broker in (primary, backup)] == [False, False]
        with pytest.raises(IllegalStateException, match="there will be no copy of its data"):
            await backup.wait_in_sync()
        await backup.start()
        with trio.fail_after(TIMEOUT_S):
            await backup.wait_in_sync()
        await primary.crash()
        await becomes(backup, Role.LIVE)
        assert [broker.is_in_sync for broker in (primary, backup)] == [False, False]


def test_a_pair_in_threads_is_waited_for_as_well(tmp_path: Path) -> None:
    manager = MemoryLockManager()
    common = BrokerConfig(cluster_user="cluster", cluster_password="secret")
    with EmbeddedBroker.in_thread(
        common,
        name="p",
        data_directory=str(tmp_path / "p"),
        ha_policy=PRIMARY,
        cluster_connections=ClusterConnection(),
        lock_manager=manager,
    ) as primary:
        assert not primary.wait_in_sync(timeout=0.01) and not primary.is_in_sync
        with EmbeddedBroker.in_thread(
            common,
            name="b",
            data_directory=str(tmp_path / "b"),
            ha_policy=BACKUP,
            connectors={"p": primary.url},
            cluster_connections=ClusterConnection(static_connectors=("p",)),
            lock_manager=manager,
        ) as backup:
            assert backup.wait_in_sync(timeout=TIMEOUT_S) and primary.wait_in_sync(timeout=TIMEOUT_S)
            primary.crash()
            assert backup.wait_for_role(Role.LIVE, timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    ("everything", "error"),
    [
        (False, "ends with segment .*, but segment .* was on disk: its newest segments are missing"),
        (True, "there is no journal, but node .* has one: bring it back"),
    ],
    ids=["the newest segment", "all segments"],
)
async def test_a_copy_that_lost_segments_while_it_was_down_does_not_become_live_alone(
    tmp_path: Path, everything: bool, error: str
) -> None:
    manager = MemoryLockManager()
    texts = [f"{number} " + "x" * 2_000 for number in range(100)]
    async with member(tmp_path, "p", PRIMARY, manager, segment_size_bytes=64 * 1024) as primary:
        await put(primary.url, *texts[:20])
        async with member(tmp_path, "b", BACKUP, manager, primary, segment_size_bytes=64 * 1024) as backup:
            await until_in_sync(primary)
            await put(primary.url, *texts[20:])
            await primary.crash()
            await backup.crash()
    segments = sorted((tmp_path / "b").glob("segment-*"))
    written = [file for file in segments if b"x\0x\0" in file.read_bytes()]
    # A file that is prepared for the next batches goes with the newest one.
    lost = {file: file.read_bytes() for file in segments if everything or file >= written[-1]}
    for file in lost:
        file.unlink()
    alone = member(tmp_path, "b", BACKUP, manager, segment_size_bytes=64 * 1024)
    with pytest.raises(BrokerFailed, match=error):
        async with alone:
            await becomes(alone, Role.LIVE)
    for file, content in lost.items():
        file.write_bytes(content)
    async with member(tmp_path, "b", BACKUP, manager, segment_size_bytes=64 * 1024) as whole:
        await becomes(whole, Role.LIVE)
        assert await take(whole.url, 100) == texts
