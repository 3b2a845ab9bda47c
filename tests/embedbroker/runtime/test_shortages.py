"""What the operating system is short of for a moment: work on the disk is held up by it, and nothing fails."""

from __future__ import annotations

import errno
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from embedbroker import BrokerConfig, EmbeddedBroker, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.config import User
from embedbroker.locks import LockFault, LockSession
from embedbroker.runtime._audit_lane import AuditLane
from embedbroker.runtime._disk import FileDisk
from embedbroker.runtime._threads import Threads, run_at_most
from embedbroker.security._passwords import StoredPassword, hash_password
from embedbroker.storage import (
    Allocate,
    AuditWork,
    DiskFault,
    DiskOperation,
    FaultKind,
    ListFiles,
    Read,
    Remove,
    Rename,
    Stat,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
)
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedclient import ConnectionFactory, Queue
from embedclient.errors import JMSException, JMSSecurityException, ResourceAllocationException
from embedclient.model import TransportConfiguration
from embedclient.transport import ByteStream, Listener, TransportLost, listen_tcp

PASSING = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN]
PATIENCE_S = 60.0
SECRET = hash_password("secret", b"salt" * 4)


class Refusing:
    """A call of ``os`` that fails so many times; what it is asked about first is its first argument."""

    def __init__(self, name: str, code: int, times: int, monkeypatch: pytest.MonkeyPatch, path: str = "") -> None:
        self.left = times
        self._call, self._code, self._path = getattr(os, name), code, path
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments: object, **options: object) -> object:
        if self.left and self._path in str(arguments[0]):
            self.left -= 1
            name = (str(arguments[0]),) if not isinstance(arguments[0], int) else ()
            raise OSError(self._code, os.strerror(self._code), *name)
        return self._call(*arguments, **options)


# -- the driver ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [*PASSING, errno.ESTALE])
@pytest.mark.parametrize("operation", [WriteAt("new", 0, (b"b",)), Read("a", 0, 1), Sync("a"), Allocate("new", 512)])
def test_a_file_that_cannot_be_opened_for_the_moment_is_no_fault_of_the_disk(
    operation: DiskOperation, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FileDisk(tmp_path)
    first.run((WriteAt("a", 0, (b"a",)), Sync("a")))
    first.close()
    disk = FileDisk(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(DiskFault) as caught:
        Refusing("open", code, 2, patched)
        disk.run((Stat("a"), operation))
    assert (caught.value.kind, caught.value.done) == (FaultKind.SHORT, (1,))
    disk.run((operation,))
    disk.close()


@pytest.mark.parametrize("code", PASSING)
@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("pwritev", WriteAt("a", 0, (b"b",))),
        ("pread", Read("a", 0, 1)),
        ("ftruncate", Truncate("a", 0)),
        ("posix_fallocate", Allocate("a", 512)),
        ("rename", Rename("a", "b")),
        ("unlink", Remove("a")),
        ("stat", Stat("a")),
        ("scandir", ListFiles()),
    ],
)
def test_a_call_that_may_be_made_again_is_no_fault_of_the_disk(
    call: str, operation: DiskOperation, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    disk.run((WriteAt("a", 0, (b"a",)), Sync("a")))
    with monkeypatch.context() as patched, pytest.raises(DiskFault) as caught:
        Refusing(call, code, 1, patched)
        disk.run((operation,))
    assert caught.value.kind is FaultKind.SHORT
    disk.run((operation,))
    disk.close()


@pytest.mark.parametrize("code", [*PASSING, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize(("call", "operation"), [("fdatasync", Sync("a")), ("fsync", SyncDirectory())])
def test_a_sync_that_failed_leaves_the_disk_in_doubt_whatever_the_reason(
    call: str, operation: DiskOperation, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    disk.run((WriteAt("a", 0, (b"a",)),))
    with monkeypatch.context() as patched, pytest.raises(DiskFault) as caught:
        Refusing(call, code, 1, patched)
        disk.run((operation,))
    assert caught.value.kind is FaultKind.FAILED
    disk.close()


def test_a_file_that_is_stale_is_not_written_again_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    disk.run((WriteAt("a", 0, (b"a",)), Sync("a")))
    with monkeypatch.context() as patched, pytest.raises(DiskFault) as caught:
        Refusing("pwritev", errno.ESTALE, 1, patched)
        disk.run((WriteAt("a", 0, (b"b",)),))
    assert caught.value.kind is FaultKind.FAILED
    disk.close()


def test_a_disk_has_a_descriptor_for_a_file_when_the_process_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    for name in ("first", "second"):  # it is there again when the shortage has passed
        with monkeypatch.context() as patched:
            Refusing("open", errno.EMFILE, 1, patched)
            disk.run((WriteAt(name, 0, (b"a",)), Sync(name)))
    disk.close()


def test_a_disk_gives_the_descriptor_of_an_idle_file_to_the_next_one_while_a_shortage_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path)
    disk.run((WriteAt("synced", 0, (b"a",)), Sync("synced"), WriteAt("unsynced", 0, (b"b",))))
    with monkeypatch.context() as patched:
        Refusing("dup", errno.EMFILE, 100, patched)
        for name in ("first", "second"):  # the first takes the reserve
            Refusing("open", errno.EMFILE, 1, patched)
            disk.run((WriteAt(name, 0, (b"c",)),))
        assert set(disk.open_files) == {"unsynced", "first", "second"}
        Refusing("open", errno.EMFILE, 1, patched)
        with pytest.raises(DiskFault) as caught:  # all files have unsynced bytes
            disk.run((WriteAt("third", 0, (b"d",)),))
    assert caught.value.kind is FaultKind.SHORT
    assert disk.run((Read("synced", 0, 1), Read("second", 0, 1))) == (b"a", b"c")
    disk.close()


# -- the broker ------------------------------------------------------------------------------------------------------


class Short(SimulatedDisk):
    """A disk that is short of descriptors so many times, at operations of one kind."""

    kind: type[object] = WriteAt
    times = 0

    def __init__(self) -> None:
        super().__init__()
        self.refused = trio.Event()

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        for index, operation in enumerate(operations):
            if self.times and isinstance(operation, self.kind):
                self.times -= 1
                self.refused.set()
                done = super().run(operations[:index])
                raise DiskFault(FaultKind.SHORT, "segment", "Too many open files", done)
        return super().run(operations)


async def put(broker: EmbeddedBroker, *texts: str) -> None:
    async with ConnectionFactory(broker.vm_url).connect() as connection, connection.session() as session:
        producer = session.create_producer(Queue("orders"))
        for text in texts:
            await producer.send(text)


async def take(broker: EmbeddedBroker, count: int) -> list[object]:
    async with (
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as consumer,
    ):
        found = [await consumer.receive(timeout=PATIENCE_S) for _ in range(count)]
    return [message.body for message in found if message is not None]


@pytest.mark.parametrize("kind", [WriteAt, Sync])
@pytest.mark.parametrize("latency_s", [0.0, 0.01], ids=["on the loop", "beside it"])
async def test_sends_wait_for_a_shortage_and_are_confirmed_when_it_has_passed(
    kind: type[object], latency_s: float, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Short()
    disk.loop_latency_s = latency_s
    disk.kind = kind
    async with EmbeddedBroker(disk=disk) as broker:
        await put(
            broker, *[str(number) for number in range(20)]
        )  # a client that is alone has its batches written at once
        with caplog.at_level(logging.WARNING):
            disk.times = 40
            began = trio.current_time()
            await put(broker, "during", "after")
        assert trio.current_time() - began >= 3.9, "tried again at a bounded pace"
        await broker.crash()
        await broker.start()
        assert (await take(broker, 22))[20:] == ["during", "after"]
    assert [record.message for record in caplog.records] == [
        "the disk waits for what this process is short of, and goes on by itself: segment: Too many open files"
    ]


async def test_a_start_and_background_work_wait_for_a_shortage(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Short()
    disk.kind, disk.times = ListFiles, 3
    async with EmbeddedBroker(disk=disk, segment_size_bytes=64 * 1024) as broker:
        disk.kind, disk.times = Rename, 3
        await put(broker, *["x" * 1000] * 200)
        assert len(await take(broker, 200)) == 200
    assert disk.times == 0
    assert not [record.message for record in caplog.records if "failed" in record.message]


async def test_a_stop_ends_what_waits_for_a_shortage(autojump_clock: object) -> None:
    disk = Short()
    async with EmbeddedBroker(disk=disk) as broker, trio.open_nursery() as nursery:
        disk.times = 1_000_000

        async def put_in_vain() -> None:
            factory = ConnectionFactory(f"{broker.vm_url}?reconnectAttempts=0")
            with pytest.raises(JMSException):
                async with factory.connect() as connection, connection.session() as session:
                    await session.create_producer(Queue("orders")).send("in vain")

        nursery.start_soon(put_in_vain)
        await disk.refused.wait()
        await broker.crash()


async def test_a_backup_takes_over_a_directory_that_it_cannot_open_for_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on(name: str, policy: SharedStorePrimary | SharedStoreBackup) -> EmbeddedBroker:
        return EmbeddedBroker(BrokerConfig(name=name, data_directory=str(tmp_path), ha_policy=policy))

    async with on("p", SharedStorePrimary()) as primary, on("b", SharedStoreBackup()) as backup:
        await put(primary, "kept")
        refusing = Refusing("open", errno.EMFILE, 0, monkeypatch, path="broker.lock")
        refusing.left = 3
        await primary.crash()
        with trio.fail_after(PATIENCE_S):
            await backup.wait_for_role(Role.LIVE)
        assert refusing.left == 0 and await take(backup, 1) == ["kept"]


async def test_what_the_audit_log_has_to_do_later_waits_for_a_shortage(autojump_clock: object) -> None:
    disk = Short()
    disk.kind, disk.times = Allocate, 3
    failures: list[object] = []
    async with trio.open_nursery() as nursery:
        lane = AuditLane(disk, nursery, Threads(1), failures.append)
        later = (Allocate("audit-2", 4096), WriteAt("audit-2", 0, (b"first",)), WriteAt("audit-2", 0, (b"last",)))
        assert lane.write(AuditWork((WriteAt("audit-1", 0, (b"now",)),), later)) is None
    assert disk.run((Read("audit-2", 0, 5),)) == (b"lastt",) and failures == []


@pytest.mark.parametrize(("times", "fails"), [(2, False), (3, True)])
async def test_what_the_audit_log_has_to_do_now_is_tried_again_at_once(times: int, fails: bool) -> None:
    disk = Short()
    disk.times = times
    async with trio.open_nursery() as nursery:
        lane = AuditLane(disk, nursery, Threads(1), lambda failed: None)
        work = AuditWork((ListFiles(), WriteAt("audit-1", 0, (b"one",)), WriteAt("audit-1", 3, (b"two",))))
        failed = lane.write(work)
        again = lane.write(work)
    assert (failed is not None) == fails and again is None
    assert disk.run((Read("audit-1", 0, 6),)) == (b"onetwo",)


# -- where it listens, and the next life -----------------------------------------------------------------------------


class ShortNetwork:
    """A network in which listening fails this many times."""

    def __init__(self, code: int, times: int) -> None:
        self.left = times
        self._code = code

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        if self.left:
            self.left -= 1
            raise OSError(self._code, os.strerror(self._code))
        return [*await listen_tcp(config.host, config.port)]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        raise TransportLost("there is nobody")


async def test_a_broker_listens_when_a_shortage_has_passed(autojump_clock: object) -> None:
    network = ShortNetwork(errno.EMFILE, 5)
    async with EmbeddedBroker(network=network) as broker:
        assert network.left == 0 and broker.port


@pytest.mark.parametrize(("code", "tries"), [(errno.EMFILE, 150), (errno.EADDRNOTAVAIL, 1)])
async def test_a_broker_that_cannot_listen_says_so_in_the_end(code: int, tries: int, autojump_clock: object) -> None:
    network = ShortNetwork(code, 1_000)
    with pytest.raises(ResourceAllocationException, match=os.strerror(code)):
        async with EmbeddedBroker(network=network):
            pass
    assert tries <= 1_000 - network.left <= tries + 2


class ShortStore(SimulatedLocks):
    """A lock store in which no session of a backup begins so many times."""

    left = 0

    def open(self, holder: str) -> LockSession:
        if self.left and holder.startswith("backup"):
            self.left -= 1
            raise LockFault("no descriptor") from OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().open(holder)


async def test_a_backup_that_gave_way_waits_again_when_a_shortage_has_passed(autojump_clock: object) -> None:
    disk, store = SimulatedDisk(), ShortStore()

    def named(name: str, policy: SharedStorePrimary | SharedStoreBackup) -> EmbeddedBroker:
        return EmbeddedBroker(BrokerConfig(name=name, ha_policy=policy), disk=disk, locks=store)

    async with named("p", SharedStorePrimary()) as primary, named("b", SharedStoreBackup()) as backup:
        await primary.crash()
        await backup.wait_for_role(Role.LIVE)
        store.left = 3
        await primary.start()
        await primary.crash()
        await backup.wait_for_role(Role.LIVE)
        assert store.left == 0


# -- threads ---------------------------------------------------------------------------------------------------------


class NoThreads:
    """trio's call that runs work in a thread, when the system starts none for so many times."""

    def __init__(self, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = times
        self._call = trio.to_thread.run_sync
        monkeypatch.setattr(trio.to_thread, "run_sync", self)

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.left:
            self.left -= 1
            raise RuntimeError("can't start new thread")
        return await self._call(*arguments, **options)


async def test_a_login_waits_for_a_thread_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    users = [User("app", SECRET, roles=["amq"]), User("plain", "p", roles=["amq"])]
    async with EmbeddedBroker(users=users) as broker:
        shortage = NoThreads(3, monkeypatch)
        with trio.fail_after(PATIENCE_S), caplog.at_level(logging.WARNING):
            with pytest.raises(JMSSecurityException, match="AMQ229031"):
                async with ConnectionFactory(broker.url, user="app", password="wrong").connect():
                    pass
            assert shortage.left == 0
            shortage.left = 3
            for user, password in (("plain", "p"), ("app", "secret")):
                factory = ConnectionFactory(broker.url, user=user, password=password)
                async with factory.connect() as connection, connection.session() as session:
                    await session.create_producer(Queue("orders")).send("sent")
        assert shortage.left == 0
    lines = [record.message for record in caplog.records if "waits for what" in record.message]
    assert lines == [
        "work waits for what this process is short of, and goes on by itself: can't start new thread",
    ]


async def test_a_login_waits_for_the_memory_of_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    matches, left = StoredPassword.matches, 2

    def without_memory(stored: StoredPassword, password: str) -> bool:
        nonlocal left
        if left:
            left -= 1
            raise MemoryError
        return matches(stored, password)

    monkeypatch.setattr(StoredPassword, "matches", without_memory)
    async with EmbeddedBroker(users=[User("app", SECRET, roles=["amq"])]) as broker:
        with trio.fail_after(PATIENCE_S):
            async with ConnectionFactory(broker.url, user="app", password="secret").connect():
                pass
    assert left == 0


async def test_records_and_locks_wait_for_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shortage = NoThreads(10, monkeypatch)
    config = BrokerConfig(data_directory=str(tmp_path), ha_policy=SharedStorePrimary())
    with trio.fail_after(PATIENCE_S):
        async with EmbeddedBroker(config) as broker:
            await put(broker, "kept")
        assert shortage.left == 0
        async with EmbeddedBroker(config) as broker:
            assert await take(broker, 1) == ["kept"]


async def test_another_error_of_the_work_is_not_tried_again(autojump_clock: object) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise RuntimeError("of the work")

    with pytest.raises(RuntimeError, match="of the work"):
        await Threads(1).run(work)
    assert calls == [1]


def test_locks_are_given_back_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[str] = []
    run_at_most(1.0, lambda: done.append("done"), "test")
    assert done == ["done"]
