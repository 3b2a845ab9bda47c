"""A disk that was handed in outlives the broker, and others go on with it: no write may come after a life's end."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from embedbroker import BrokerConfig, EmbeddedBroker, MemoryLocks, SharedStorePrimary
from embedbroker.locks import LockOperation, LockSession
from embedbroker.runtime._directory import OpenDirectory, open_directory
from embedbroker.storage import DiskFault, DiskOperation, Read, WriteAt
from embedbroker.testing._disk import SimulatedDisk
from embedclient import ConnectionFactory
from embedclient.errors import JMSException

# Far above what any of this takes: a test that hangs shows where.
PATIENCE_S = 60.0


async def put(broker: EmbeddedBroker, text: str) -> None:
    async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        await session.create_producer("orders").send(text)


def test_a_life_that_is_over_has_no_way_to_a_disk_that_was_handed_in() -> None:
    given = SimulatedDisk()
    over, next_one = (open_directory(BrokerConfig(), given, late=False) for _ in range(2))
    over.disk.run((WriteAt("a", 0, (b"x",)),))
    over.close()
    with pytest.raises(DiskFault, match="closed"):
        over.disk.run((WriteAt("a", 0, (b"late",)),))
    assert next_one.disk.run((Read("a", 0, 10),)) == (b"x",)


class LingeringDisk:
    """Once armed, a batch on a thread lingers to see whether its broker gives its locks back before it is over."""

    def __init__(self, begun: trio.Event) -> None:
        self.disk = SimulatedDisk()
        self.begun = begun
        self.armed = False
        self.given_back = threading.Event()
        self.overtaken: list[bool] = []

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        if self.armed and threading.current_thread() is not threading.main_thread():
            self.armed = False
            trio.from_thread.run_sync(self.begun.set)
            self.overtaken.append(self.given_back.wait(0.2))
        return self.disk.run(operations)


class WatchedSession:
    immediate = True

    def __init__(self, session: LockSession, closed: threading.Event) -> None:
        self.session, self.closed = session, closed

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        return self.session.run(operations)

    def close(self) -> None:
        self.closed.set()
        self.session.close()


class WatchedLocks:
    def __init__(self, closed: threading.Event) -> None:
        self.store, self.closed = MemoryLocks(), closed

    def open(self, holder: str) -> LockSession:
        return WatchedSession(self.store.open(holder), self.closed)


async def test_a_crashed_broker_gives_its_locks_back_behind_its_last_batch_on_a_disk_that_others_go_on_with() -> None:
    begun = trio.Event()
    disk = LingeringDisk(begun)
    config = BrokerConfig(name="p", ha_policy=SharedStorePrimary())

    async def put_too_late(broker: EmbeddedBroker) -> None:
        with pytest.raises(JMSException):
            await put(broker, "x" * 90_000)

    async with EmbeddedBroker(config, disk=disk, locks=WatchedLocks(disk.given_back)) as live:
        await put(live, "kept")
        async with trio.open_nursery() as nursery:
            disk.armed = True
            nursery.start_soon(put_too_late, live)
            with trio.fail_after(PATIENCE_S):
                await begun.wait()
            await live.crash()
    assert disk.overtaken == [False]


async def test_what_cannot_be_given_back_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = OpenDirectory.close

    def close_and_refuse(opened: OpenDirectory) -> None:
        close(opened)
        raise OSError("refused")

    (tmp_path / "file").touch()
    monkeypatch.setattr(OpenDirectory, "close", close_and_refuse)
    config = BrokerConfig(data_directory=str(tmp_path / "data"), audit_directory=str(tmp_path / "file"))
    locks = WatchedLocks(threading.Event())
    with pytest.raises(OSError, match="refused"):
        async with EmbeddedBroker(config, locks=locks):
            pass
    assert locks.closed.is_set()
