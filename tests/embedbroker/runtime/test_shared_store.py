"""A live broker and its backups on one directory, or on one lock store in memory: which one serves when."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio
from attrs import evolve

from embedbroker import (
    AddressConfiguration,
    AddressSettings,
    BrokerConfig,
    DivertConfiguration,
    EmbeddedBroker,
    HAPolicy,
    MemoryLocks,
    PrimaryOnly,
    QueueConfiguration,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.config import ClusterConnection
from embedbroker.locks import CLAIM_TRANSITIONS, ClaimEvent, ClaimState, LockFault, Locks, LockSession
from embedbroker.storage import ListFiles, Stat
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedclient import ConnectionFactory, Queue
from embedclient.errors import BrokerFailed, IllegalStateException, JMSException, ResourceAllocationException
from embedclient.transport import connect_tcp
from embedclient.wire.core import HANDSHAKE, PacketType, Ping, encode_packet

PRIMARY, BACKUP = SharedStorePrimary(), SharedStoreBackup()
# Far above what any of this takes: a test that hangs shows where.
PATIENCE_S = 60.0


def on(directory: Path, name: str, policy: HAPolicy) -> EmbeddedBroker:
    return EmbeddedBroker(BrokerConfig(name=name, data_directory=str(directory), ha_policy=policy))


async def put(broker: EmbeddedBroker, *texts: str) -> None:
    async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        producer = session.create_producer(Queue("orders"))
        for text in texts:
            await producer.send(text)


async def take(broker: EmbeddedBroker, count: int) -> list[object]:
    async with (
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        found = [await consumer.receive(timeout=PATIENCE_S) for _ in range(count)]
    return [message.body for message in found if message is not None]


async def becomes(broker: EmbeddedBroker, role: Role) -> None:
    with trio.fail_after(PATIENCE_S):
        await broker.wait_for_role(role)


def empty(directory: Path) -> None:
    """The journal is gone, the lock files are not."""
    for file in directory.glob("*.journal"):
        file.unlink()


@asynccontextmanager
async def pair(
    directory: Path, primary: HAPolicy = PRIMARY, backup: HAPolicy = BACKUP
) -> AsyncIterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    async with on(directory, "p", primary) as live, on(directory, "b", backup) as standby:
        yield live, standby


async def test_a_move_that_is_not_in_the_table_stops_that_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Being live from a state that the table does not have is a bug: the broker must not go on."""
    monkeypatch.delitem(CLAIM_TRANSITIONS[ClaimState.GRANTED], ClaimEvent.RECOVERED)
    with trio.fail_after(PATIENCE_S), pytest.raises(BrokerFailed, match=r"no way out of ClaimState\.GRANTED by"):
        async with on(tmp_path, "p", PRIMARY):
            await trio.sleep_forever()


async def test_a_backup_does_not_delete_what_the_active_broker_adopted_after_its_own_start(tmp_path: Path) -> None:
    settings = AddressSettings(config_delete_queues=True, config_delete_addresses=True, config_delete_diverts=True)
    stale = BrokerConfig(name="p", data_directory=str(tmp_path), ha_policy=PRIMARY, address_settings={"#": settings})
    newer = evolve(
        stale,
        addresses={"stock": AddressConfiguration(anycast={"stock": QueueConfiguration()})},
        diverts={"copy": DivertConfiguration("stock", "audit")},
    )
    async with EmbeddedBroker(stale) as live, EmbeddedBroker(evolve(stale, name="b", ha_policy=BACKUP)) as backup:
        await live.management.reload_configuration(newer)
        await live.crash()
        await becomes(backup, Role.LIVE)
        assert "stock" in await backup.management.queue_names()
        assert await backup.management.divert_names() == ["copy"]
    # The first broker on the directory did not wait, and has just got its configuration.
    async with EmbeddedBroker(stale) as live:
        assert "stock" not in await live.management.queue_names()
        assert await live.management.divert_names() == []


async def test_a_backup_takes_over_when_the_live_broker_crashes_with_its_messages_and_its_node_id(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as (live, backup):
        assert (live.role, backup.role) == (Role.LIVE, Role.BACKUP)
        assert live.node_id == backup.node_id != ""
        with pytest.raises(IllegalStateException, match="not live, it has no address: its role is backup"):
            backup.url  # noqa: B018  # the property raises
        node_id = live.node_id
        await put(live, "one", "two")
        await live.crash()
        await becomes(backup, Role.LIVE)
        assert live.role is Role.STOPPED
        assert await take(backup, 2) == ["one", "two"]
        assert backup.node_id == node_id


async def test_failback_makes_the_returning_primary_live_and_the_other_a_backup_again(tmp_path: Path) -> None:
    async with pair(tmp_path) as (primary, backup):
        await put(primary, "before")
        for turn in ("first", "second"):
            await primary.crash()
            await becomes(backup, Role.LIVE)
            await put(backup, turn)
            with trio.fail_after(PATIENCE_S):
                await primary.start()
            assert primary.role is Role.LIVE
            await becomes(backup, Role.BACKUP)
            assert backup.is_running
        assert await take(primary, 3) == ["before", "first", "second"]


async def test_a_backup_that_announced_a_free_port_serves_there_in_each_of_its_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No connector names a free port: the primary that returns cannot be announced there, and is not to be waited for.
    monkeypatch.setattr("embedbroker.ha.shared_store._activation.ANNOUNCED_WITHIN_S", 0.0)
    member = BrokerConfig(
        name="p", data_directory=tmp_path, cluster_connections=ClusterConnection(), cluster_password="secret"
    )
    async with (
        EmbeddedBroker(member, ha_policy=PRIMARY) as primary,
        EmbeddedBroker(member, ha_policy=BACKUP, name="b") as backup,
    ):
        ports = set()
        for text in ("first", "second"):
            await primary.crash()
            await becomes(backup, Role.LIVE)
            ports.add(backup.port)
            await put(backup, text)
            with trio.fail_after(PATIENCE_S):
                await primary.start()
            await becomes(backup, Role.BACKUP)
            # No other program gets it meanwhile.
            with socket.socket() as other_program, pytest.raises(OSError, match="in use"):
                other_program.bind(("127.0.0.1", *ports))
        assert len(ports) == 1
        assert await take(primary, 2) == ["first", "second"]


async def test_who_is_told_that_a_backup_gives_way_finds_its_port_closed(tmp_path: Path) -> None:
    """An Artemis client that were let in there, and closed again, would wait for an answer for 30 s."""
    async with pair(tmp_path) as (primary, backup), trio.open_nursery() as nursery:
        await primary.crash()
        await becomes(backup, Role.LIVE)
        port = backup.port
        with closing(await connect_tcp("127.0.0.1", port)) as stream, trio.fail_after(PATIENCE_S):
            stream.send_nowait(HANDSHAKE + encode_packet(Ping(-1), 0, 136))
            nursery.start_soon(primary.start)
            said = await stream.receive(1000)
            while said[4] == PacketType.PING:
                said = await stream.receive(1000)
            with socket.socket() as again:
                assert again.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
        await becomes(primary, Role.LIVE)


async def test_a_backup_that_does_not_restart_stops_after_failback(tmp_path: Path) -> None:
    async with pair(tmp_path, backup=SharedStoreBackup(restart_backup=False)) as (primary, backup):
        await primary.crash()
        await becomes(backup, Role.LIVE)
        with trio.fail_after(PATIENCE_S):
            await primary.start()
        await becomes(backup, Role.STOPPED)
        assert not backup.is_running


async def test_with_no_auto_failback_the_backup_stays_live_until_it_is_stopped(tmp_path: Path) -> None:
    policy = SharedStorePrimary(wait_for_activation=False)
    async with pair(tmp_path, policy, SharedStoreBackup(allow_failback=False)) as (primary, backup):
        await primary.crash()
        await becomes(backup, Role.LIVE)
        await primary.start()  # returns at once: it does not wait for activation
        assert primary.role is Role.BACKUP
        await put(backup, "still here")
        await backup.stop()
        await becomes(primary, Role.LIVE)
        assert await take(primary, 1) == ["still here"]


async def test_an_orderly_stop_is_no_failover(tmp_path: Path) -> None:
    async with pair(tmp_path) as (primary, backup):
        await primary.stop()
        with trio.move_on_after(0.3):  # it polls every 0.05
            await backup.wait_for_role(Role.LIVE)
        assert backup.role is Role.BACKUP
        await primary.start()
        assert (primary.role, backup.role) == (Role.LIVE, Role.BACKUP)


@pytest.mark.parametrize("by_hand", [False, True], ids=["policy", "stop"])
async def test_failover_on_shutdown_or_a_stop_that_asks_for_it_makes_the_backup_take_over(
    tmp_path: Path, by_hand: bool
) -> None:
    async with pair(tmp_path, SharedStorePrimary(failover_on_shutdown=not by_hand)) as (primary, backup):
        await put(primary, "kept")
        await primary.stop(failover=by_hand)
        await becomes(backup, Role.LIVE)
        assert await take(backup, 1) == ["kept"]


async def test_several_backups_step_up_one_after_the_other(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY) as primary, on(tmp_path, "a", BACKUP) as a, on(tmp_path, "b", BACKUP) as b:
        await put(primary, "one")
        await primary.crash()
        await becomes(a, Role.LIVE)
        assert b.role is Role.BACKUP
        await put(a, "two")
        await a.crash()
        await becomes(b, Role.LIVE)
        assert await take(b, 2) == ["one", "two"]


async def test_a_backup_may_start_first(tmp_path: Path) -> None:
    async with on(tmp_path, "b", BACKUP) as backup:
        assert (backup.role, backup.node_id) == (Role.BACKUP, "")
        assert not (tmp_path / "broker.lock").exists(), "a backup touches no journal"
        async with on(tmp_path, "p", PRIMARY) as primary:
            assert (primary.role, backup.role) == (Role.LIVE, Role.BACKUP)


async def test_two_primaries_of_one_store_take_turns(tmp_path: Path) -> None:
    policy = SharedStorePrimary(wait_for_activation=False)
    async with pair(tmp_path, policy, policy) as (first, second):
        for stops, goes_on in ((first, second), (second, first)):
            await becomes(stops, Role.LIVE)
            assert goes_on.role is Role.BACKUP
            await stops.stop()
            await becomes(goes_on, Role.LIVE)
            await stops.start()


async def test_a_node_id_lasts_as_long_as_its_directory(tmp_path: Path) -> None:
    ids = set()
    for _ in range(3):
        async with on(tmp_path / "data", "alone", PrimaryOnly()) as broker:
            ids.add(broker.node_id)
            await broker.crash()
            await broker.start()
            ids.add(broker.node_id)
    assert len(ids) == 1
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    async with on(tmp_path / "copy", "alone", PrimaryOnly()) as broker:
        assert broker.node_id not in ids
    (tmp_path / "copy" / "node.state").unlink()


@pytest.mark.parametrize("policy", [PRIMARY, BACKUP], ids=["primary", "backup"])
async def test_a_copied_directory_is_refused_to_a_group_with_what_to_do(tmp_path: Path, policy: HAPolicy) -> None:
    async with on(tmp_path / "data", "p", PRIMARY):
        pass
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with pytest.raises(BrokerFailed, match=r"copy of that of node .* remove its record \(node.state\)"):
        async with on(tmp_path / "copy", "late", policy):
            pass
    (tmp_path / "copy" / "node.state").unlink()
    async with on(tmp_path / "copy", "p", PRIMARY) as broker:
        assert broker.role is Role.LIVE


async def test_the_journal_of_another_node_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        async with on(tmp_path / name, "p", PRIMARY) as broker:
            await put(broker, f"in {name}")
    empty(tmp_path / "mine")
    for file in (tmp_path / "other").glob("*.journal"):
        shutil.copy(file, tmp_path / "mine")
    with pytest.raises(BrokerFailed, match=r"the journal is not that of node .*: put that back, or remove the record"):
        async with on(tmp_path / "mine", "p", PRIMARY):
            pass


@pytest.mark.parametrize("policy", [PRIMARY, PrimaryOnly()], ids=["primary", "of its own"])
async def test_an_emptied_directory_is_refused_until_its_record_is_removed_too(
    tmp_path: Path, policy: HAPolicy
) -> None:
    async with on(tmp_path, "p", policy) as broker:
        node_id = broker.node_id
    empty(tmp_path)
    with pytest.raises(BrokerFailed, match=r"there is no journal, but node .* remove the record .*\(node.state\)"):
        async with on(tmp_path, "p", policy):
            pass
    (tmp_path / "node.state").unlink()
    async with on(tmp_path, "p", policy) as broker:
        assert broker.node_id != node_id


async def test_a_copied_directory_without_its_journal_is_refused(tmp_path: Path) -> None:
    """It is another node, and that does not bring its messages back."""
    async with on(tmp_path / "data", "alone", PrimaryOnly()):
        pass
    shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("*.journal"))
    with pytest.raises(BrokerFailed, match="there is no journal, but the node whose directory was copied has one"):
        async with on(tmp_path / "copy", "alone", PrimaryOnly()):
            pass


async def test_locks_may_lie_in_a_directory_of_their_own(tmp_path: Path) -> None:
    config = BrokerConfig(data_directory=str(tmp_path / "data"), node_manager_lock_directory=str(tmp_path / "locks"))
    async with (
        EmbeddedBroker(config, ha_policy=PRIMARY) as live,
        EmbeddedBroker(config, ha_policy=BACKUP) as backup,
    ):
        assert {file.name for file in (tmp_path / "locks").iterdir()} >= {"live.lock", "backup.lock", "node.state"}
        assert not (tmp_path / "data" / "live.lock").exists()
        await live.crash()
        await becomes(backup, Role.LIVE)


async def test_a_lock_directory_that_is_not_to_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = BrokerConfig(data_directory=str(tmp_path), node_manager_lock_directory=str(tmp_path / "file"))
    with pytest.raises(ResourceAllocationException, match=f"cannot make the lock directory {tmp_path / 'file'}"):
        async with EmbeddedBroker(config, ha_policy=PRIMARY):
            pass


async def test_a_primary_does_not_wait_longer_than_it_was_told(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY):
        late = EmbeddedBroker(
            name="q", data_directory=str(tmp_path), ha_policy=PRIMARY, journal_lock_acquisition_timeout_ms=100
        )
        with pytest.raises(BrokerFailed, match=r"not to be had within 0.1 s: waits to be live: primary 'p' in process"):
            async with late:
                pass


async def test_a_broker_of_its_own_is_kept_out_of_a_shared_directory_that_is_in_use(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY):
        with pytest.raises(ResourceAllocationException, match="is used by broker 'p'"):
            async with on(tmp_path, "alone", PrimaryOnly()):
                pass


async def test_a_backup_waits_for_a_broker_of_its_own_to_leave_the_directory(tmp_path: Path) -> None:
    """It took the live lock, too: what is one broker's is not another's, whatever their policies."""
    async with on(tmp_path, "alone", PrimaryOnly()) as alone, on(tmp_path, "b", BACKUP) as backup:
        assert backup.role is Role.BACKUP
        await put(alone, "kept")
        await alone.crash()
        await becomes(backup, Role.LIVE)
        assert await take(backup, 1) == ["kept"]


async def test_a_live_broker_whose_lock_is_taken_away_stops_by_itself(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY) as broker:
        (tmp_path / "live.lock").unlink()
        with trio.fail_after(PATIENCE_S):
            assert await broker.wait_failed() == "the live lock is lost: another broker may be live"
        with pytest.raises(BrokerFailed, match="the live lock is lost"):
            await broker.wait_for_role(Role.LIVE)


async def test_a_port_that_is_taken_when_a_backup_should_serve_leaves_it_to_the_next(tmp_path: Path) -> None:
    async with on(tmp_path, "p", PRIMARY) as primary, EmbeddedBroker() as other:
        config = BrokerConfig(name="a", data_directory=str(tmp_path), ha_policy=BACKUP, port=other.port)
        async with EmbeddedBroker(config) as first, on(tmp_path, "b", BACKUP) as second:
            await put(primary, "kept")
            await primary.crash()
            with trio.fail_after(PATIENCE_S), pytest.raises(BrokerFailed, match=f"cannot listen on .*{other.port}"):
                await first.wait_for_role(Role.LIVE)
            await becomes(second, Role.LIVE)
            assert await take(second, 1) == ["kept"]


# -- one process, no files -------------------------------------------------------------------------------------------


def in_memory(name: str, policy: HAPolicy, disk: SimulatedDisk, locks: Locks) -> EmbeddedBroker:
    return EmbeddedBroker(BrokerConfig(name=name, ha_policy=policy), disk=disk, locks=locks)


@pytest.mark.parametrize("locks", [MemoryLocks(), SimulatedLocks()], ids=["memory", "simulated"])
async def test_brokers_of_one_process_share_a_lock_store_in_memory(locks: Locks) -> None:
    disk = SimulatedDisk()
    async with in_memory("p", PRIMARY, disk, locks) as live, in_memory("b", BACKUP, disk, locks) as backup:
        await put(live, "kept")
        await live.crash()
        await becomes(backup, Role.LIVE)
        assert await take(backup, 1) == ["kept"]


class Door:
    """A lock store that lets in only so many more."""

    def __init__(self) -> None:
        self.store = SimulatedLocks()
        self.places = 100

    def open(self, holder: str) -> LockSession:
        self.places -= 1
        if self.places < 0:
            raise LockFault("the door is shut")
        return self.store.open(holder)


async def test_a_backup_that_gave_way_and_finds_no_lock_store_has_stopped_and_says_why() -> None:
    disk, door = SimulatedDisk(), Door()
    async with in_memory("p", PRIMARY, disk, door) as primary, in_memory("b", BACKUP, disk, door) as backup:
        await primary.crash()
        await becomes(backup, Role.LIVE)
        door.places = 1
        with trio.fail_after(PATIENCE_S):
            await primary.start()
            assert await backup.wait_failed() == "the door is shut"
        assert (primary.role, backup.role, backup.is_running) == (Role.LIVE, Role.STOPPED, False)
        door.places = 1
        await backup.stop()
        await backup.start()
        assert backup.role is Role.BACKUP


async def test_a_group_without_anything_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="ha_policy SharedStoreBackup needs the data_directory that its group shares"):
        EmbeddedBroker(ha_policy=BACKUP)


async def test_waiting_for_a_role_of_a_broker_that_does_not_run_says_so(tmp_path: Path) -> None:
    broker = on(tmp_path, "b", BACKUP)
    await broker.wait_for_role(Role.STOPPED)
    with pytest.raises(IllegalStateException, match="the broker is not running, it cannot become live"):
        await broker.wait_for_role(Role.LIVE)
    async with broker, trio.open_nursery() as nursery:

        async def wait_in_vain() -> None:
            with pytest.raises(IllegalStateException, match="not running"):
                await broker.wait_for_role(Role.LIVE)

        nursery.start_soon(wait_in_vain)
        await trio.testing.wait_all_tasks_blocked()
        await broker.stop()


def test_the_blocking_twin_tells_and_waits_for_roles(tmp_path: Path) -> None:
    def threaded(name: str, policy: HAPolicy) -> BrokerConfig:
        return BrokerConfig(name=name, data_directory=str(tmp_path), ha_policy=policy)

    with (
        EmbeddedBroker.in_thread(threaded("p", PRIMARY)) as live,
        EmbeddedBroker.in_thread(threaded("b", BACKUP)) as backup,
    ):
        assert (live.role, backup.role) == (Role.LIVE, Role.BACKUP)
        assert backup.wait_for_role(Role.LIVE, timeout=0) is False
        assert live.node_id == backup.node_id
        live.stop(failover=True)
        assert backup.wait_for_role(Role.LIVE, timeout=PATIENCE_S) is True


# -- two processes ---------------------------------------------------------------------------------------------------

LIVE = """
import sys, trio
from embedbroker import EmbeddedBroker, SharedStorePrimary
from embedclient import ConnectionFactory, Queue

async def main():
    async with EmbeddedBroker(data_directory=sys.argv[1], ha_policy=SharedStorePrimary()) as broker:
        async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
            for number in range(100):
                await session.create_producer(Queue("orders")).send(f"{number}")
            print(broker.node_id, flush=True)
            await trio.sleep_forever()

trio.run(main)
"""


@asynccontextmanager
async def live_process(directory: Path) -> AsyncIterator[tuple[trio.Process, str]]:
    """A live broker in a separate process, when it has confirmed a hundred messages; and its node id."""
    process = await trio.lowlevel.open_process([sys.executable, "-c", LIVE, str(directory)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        with trio.fail_after(60):
            line = await process.stdout.receive_some()
        yield process, line.decode().strip()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


async def test_simple_failover_from_a_killed_process_has_everything_it_confirmed(tmp_path: Path) -> None:
    async with live_process(tmp_path) as (process, node_id), on(tmp_path, "b", BACKUP) as backup:
        assert backup.role is Role.BACKUP and backup.node_id == node_id
        process.kill()
        await becomes(backup, Role.LIVE)
        assert await take(backup, 100) == [f"{number}" for number in range(100)]
        assert backup.node_id == node_id


async def test_a_frozen_process_stays_live_nothing_is_lost_and_it_goes_on(tmp_path: Path) -> None:
    async with live_process(tmp_path) as (process, _), on(tmp_path, "b", BACKUP) as backup:
        process.send_signal(signal.SIGSTOP)
        await trio.to_thread.run_sync(os.waitid, os.P_PID, process.pid, os.WSTOPPED)
        with trio.move_on_after(1.0):
            await backup.wait_for_role(Role.LIVE)
        assert backup.role is Role.BACKUP, "a frozen broker keeps the right to be live"
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGKILL)
        await becomes(backup, Role.LIVE)
        assert len(await take(backup, 100)) == 100


# -- a full disk -----------------------------------------------------------------------------------------------------

SEGMENT_BYTES = 64 * 1024


def used_bytes(disk: SimulatedDisk) -> int:
    """What its files take now."""
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return sum(int(str(size)) for size in disk.run(tuple(Stat(name) for name in names)))


async def fill(broker: EmbeddedBroker, disk: SimulatedDisk) -> list[str]:
    """Let the disk be full, and send until the broker cannot write any more; returns what was confirmed."""
    disk.capacity_bytes = used_bytes(disk)
    sent: list[str] = []
    with pytest.raises(JMSException):
        async with (
            ConnectionFactory(f"{broker.vm_url}?reconnectAttempts=0").connect() as connection,
            connection.session() as session,
        ):
            producer = session.create_producer(Queue("orders"))
            while True:
                text = f"{len(sent)} ".ljust(2000)
                await producer.send(text)
                sent.append(text)
    return sent


@pytest.mark.parametrize("who", ["primary", "backup"])
async def test_a_backup_waits_for_room_whoever_found_the_disk_full(
    who: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The live broker has stopped; no operator has to start the backup, too."""
    disk, locks = SimulatedDisk(), SimulatedLocks()
    config = BrokerConfig(segment_size_bytes=SEGMENT_BYTES)
    async with (
        EmbeddedBroker(config, name="p", ha_policy=PRIMARY, disk=disk, locks=locks) as primary,
        EmbeddedBroker(config, name="b", ha_policy=BACKUP, disk=disk, locks=locks) as backup,
    ):
        if who == "backup":
            await primary.crash()
            await backup.wait_for_role(Role.LIVE)
        sent = await fill(backup if who == "backup" else primary, disk)
        await backup.wait_for_role(Role.BACKUP)
        with trio.move_on_after(100):
            await backup.wait_for_role(Role.LIVE, Role.STOPPED)
            raise AssertionError(f"it is {backup.role.value} without room")
        assert backup.is_running
        disk.capacity_bytes = None
        await backup.wait_for_role(Role.LIVE)
        found = await take(backup, len(sent))
        assert found == sent
        await put(backup, "there is room")


async def test_a_backup_that_is_not_to_restart_stops_on_a_full_disk(autojump_clock: trio.testing.MockClock) -> None:
    disk, locks = SimulatedDisk(), SimulatedLocks()
    config = BrokerConfig(segment_size_bytes=SEGMENT_BYTES)
    policy = SharedStoreBackup(restart_backup=False)
    async with (
        EmbeddedBroker(config, name="p", ha_policy=PRIMARY, disk=disk, locks=locks) as primary,
        EmbeddedBroker(config, name="b", ha_policy=policy, disk=disk, locks=locks) as backup,
    ):
        await primary.crash()
        await backup.wait_for_role(Role.LIVE)
        await fill(backup, disk)
        assert "no space left" in await backup.wait_failed()


async def test_a_backup_takes_over_a_full_disk_while_there_is_a_segment_to_go_on_in(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, locks = SimulatedDisk(), SimulatedLocks()
    config = BrokerConfig(segment_size_bytes=SEGMENT_BYTES)
    async with (
        EmbeddedBroker(config, name="p", ha_policy=PRIMARY, disk=disk, locks=locks) as primary,
        EmbeddedBroker(config, name="b", ha_policy=BACKUP, disk=disk, locks=locks) as backup,
    ):
        await put(primary, "one")
        disk.capacity_bytes = used_bytes(disk)
        await primary.crash()
        await backup.wait_for_role(Role.LIVE)
        await put(backup, "two")
        assert await take(backup, 2) == ["one", "two"]
