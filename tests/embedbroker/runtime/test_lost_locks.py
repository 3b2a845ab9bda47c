"""What becomes of a live broker, or of one that is about to be, when its locks, its record or its journal are not what
they were: operators' hands, frozen processes, stores that do not answer."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from embedbroker import BrokerConfig, EmbeddedBroker, HAPolicy, PrimaryOnly, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.ha.shared_store._activation import SharedStoreActivation
from embedbroker.locks import Acquire, Lock, LockOperation, LockSession, MemoryLocks, Verify
from embedbroker.node import Tick
from embedbroker.runtime import _directory
from embedbroker.runtime._embedded import life_of
from embedbroker.runtime._endpoint import Endpoint
from embedbroker.runtime._file_locks import FileLocks
from embedbroker.runtime._lock import DirectoryLock
from embedbroker.testing._disk import SimulatedDisk
from embedclient import ConnectionFactory, Queue
from embedclient.errors import BrokerFailed
from embedclient.transport import Listener, TransportLost

PRIMARY, BACKUP = SharedStorePrimary(), SharedStoreBackup()
# Far above what any of this takes: a test that hangs shows where.
PATIENCE_S = 60.0


def on(directory: Path, name: str, policy: HAPolicy) -> EmbeddedBroker:
    """Its locks lie beside its data."""
    config = BrokerConfig(
        name=name,
        data_directory=str(directory / "data"),
        node_manager_lock_directory=str(directory / "locks"),
        ha_policy=policy,
    )
    return EmbeddedBroker(config)


async def put(broker: EmbeddedBroker, text: str) -> None:
    async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        await session.create_producer(Queue("orders")).send(text)


async def becomes(broker: EmbeddedBroker, role: Role) -> None:
    with trio.fail_after(PATIENCE_S):
        await broker.wait_for_role(role)


@contextmanager
def heard(text: str) -> Iterator[trio.Event]:
    """Set when the broker's log contains this, in any thread."""
    event, token = trio.Event(), trio.lowlevel.current_trio_token()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if text in record.getMessage():
                token.run_sync_soon(event.set)

    logger, ear = logging.getLogger("embedbroker.broker"), Ear()
    logger.addHandler(ear)
    try:
        yield event
    finally:
        logger.removeHandler(ear)


# -- the lock on the data directory ----------------------------------------------------------------------------------


async def test_a_live_broker_whose_directory_lock_somebody_removed_stops_by_itself(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY) as broker:
        (tmp_path / "data" / "broker.lock").unlink()
        with trio.fail_after(PATIENCE_S):
            reason = await broker.wait_failed()
    assert reason == f"{tmp_path}/data/broker.lock was removed or replaced: another broker may use the journal"


async def test_of_two_brokers_on_one_journal_with_locks_of_their_own_the_first_ends(tmp_path: Path) -> None:
    """Only the lock of the data directory keeps them apart, and it was removed."""
    async with on(tmp_path, "first", PRIMARY) as first:
        (tmp_path / "data" / "broker.lock").unlink()
        other = BrokerConfig(
            name="other", data_directory=str(tmp_path / "data"), node_manager_lock_directory=str(tmp_path / "mine")
        )
        async with EmbeddedBroker(other) as second:
            with trio.fail_after(PATIENCE_S):
                assert "broker.lock was removed or replaced" in await first.wait_failed()
            assert second.role is Role.LIVE


async def test_who_takes_over_waits_until_the_directory_is_free_however_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that gave up would be gone when the directory is free, and the next one after it."""
    monkeypatch.setattr(_directory, "GIVEN_BACK_WITHIN_S", 0.01)
    async with on(tmp_path, "p", PRIMARY) as primary:
        await put(primary, "kept")
        await primary.crash()
        reader = DirectoryLock.acquire_to_read(tmp_path / "data")
        with heard("waits to be live: directory") as waits:
            async with on(tmp_path, "b", BACKUP) as backup:
                with trio.fail_after(PATIENCE_S):
                    await waits.wait()
                assert backup.role is Role.ACTIVATING
                reader.release()
                await becomes(backup, Role.LIVE)


async def test_a_broker_that_waits_for_the_directory_can_be_stopped(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY) as primary:
        await primary.crash()
    reader = DirectoryLock.acquire_to_read(tmp_path / "data")
    with trio.fail_after(PATIENCE_S):
        async with on(tmp_path, "b", BACKUP) as backup:
            await backup.wait_for_role(Role.ACTIVATING)
            await backup.stop()
    reader.release()


# -- the journal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [PRIMARY, PrimaryOnly()], ids=["primary", "of its own"])
@pytest.mark.parametrize("used", [True, False], ids=["used", "never used"])
async def test_a_data_directory_that_was_emptied_is_not_served_in_the_name_of_its_node(
    tmp_path: Path, policy: HAPolicy, used: bool
) -> None:
    """A file system that is not mounted looks like this."""
    async with on(tmp_path, "p", policy) as broker:
        if used:
            await put(broker, "kept")
        await broker.crash()
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(BrokerFailed, match=r"there is no journal, but node .* is its data directory mounted\?"):
        async with on(tmp_path, "p", policy):
            pass
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    async with on(tmp_path, "p", policy) as broker:
        node_id = broker.node_id
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "locks" / "node.state").unlink()
    async with on(tmp_path, "p", policy) as broker:
        assert broker.node_id != node_id


# -- the right to be live --------------------------------------------------------------------------------------------


async def test_a_lock_that_is_lost_while_the_broker_begins_to_listen_leaves_nobody_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listen, bound = Endpoint.listen, list[list[Listener]]()

    async def lose_meanwhile(self: Endpoint) -> list[list[Listener]]:
        bound.extend(await listen(self))
        monkeypatch.setattr(SharedStoreActivation, "failure", "the live lock is lost")
        monkeypatch.setattr(SharedStoreActivation, "role_after", lambda self, now: Role.STOPPED)
        life_of(broker).host.feed(Tick())
        return bound

    monkeypatch.setattr(Endpoint, "listen", lose_meanwhile)
    broker = EmbeddedBroker(ha_policy=SharedStorePrimary(wait_for_activation=False), disk=SimulatedDisk(), locks=Held())
    async with broker:
        assert broker.role is Role.BACKUP
        HELD.close()
        with trio.fail_after(PATIENCE_S):
            assert await broker.wait_failed() == "the live lock is lost"
        await trio.testing.wait_all_tasks_blocked()
        assert (broker.role, broker.is_running) == (Role.STOPPED, False)
        for listener in bound[0]:
            with pytest.raises(TransportLost):
                await listener.accept()


STORE = MemoryLocks()
HELD = STORE.open("primary 'other'")


class Held:
    """A store with a live broker."""

    def open(self, holder: str) -> LockSession:
        HELD.run((Acquire(Lock.LIVE),))
        return STORE.open(holder)


async def test_a_backup_behind_a_frozen_one_takes_over_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedbroker.locks._frozen.LEFT_FREE_S", 0.3)
    frozen = FileLocks(tmp_path / "locks").open("backup 'frozen'")
    frozen.run((Acquire(Lock.BACKUP),))
    async with on(tmp_path, "p", PRIMARY) as primary, on(tmp_path, "b", BACKUP) as backup:
        await primary.crash()
        await becomes(backup, Role.LIVE)
    frozen.close()


# -- stores that do not answer ---------------------------------------------------------------------------------------


class Hanging:
    """A lock store that does not answer when it is asked for the lock of a live broker, until it is let go."""

    def __init__(self) -> None:
        self.store = MemoryLocks()
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def open(self, holder: str) -> LockSession:
        return _HangingSession(self, self.store.open(holder))


class _HangingSession:
    immediate = False

    def __init__(self, locks: Hanging, session: LockSession) -> None:
        self._locks = locks
        self._session = session

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        if Verify(Lock.LIVE) in operations:
            self._locks.asked.set()
            self._locks.let_go.wait()
        return self._session.run(operations)

    def close(self) -> None:
        self._session.close()


async def test_a_store_that_does_not_answer_ends_the_live_broker_and_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("embedbroker.locks._claim.ANSWERED_WITHIN_S", 0.1)
    monkeypatch.setattr("embedbroker.locks._claim.RECEIVED_WITHIN_S", 0.1)
    locks = Hanging()
    with trio.fail_after(PATIENCE_S):
        async with EmbeddedBroker(ha_policy=PRIMARY, disk=SimulatedDisk(), locks=locks) as broker:
            assert "the lock store has not answered for" in await broker.wait_failed()
    assert locks.asked.is_set()
    locks.let_go.set()
