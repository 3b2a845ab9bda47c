"""`EmbeddedBroker` as its users meet it: scopes, restarts, several in one process, refusals, errors, threads."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from embedbroker import (
    AddressConfiguration,
    BrokerConfig,
    EmbeddedBroker,
    QueueConfiguration,
    Role,
    SharedStoreBackup,
    User,
)
from embedbroker.node import Input, Output
from embedbroker.runtime._disk import FileDisk
from embedbroker.runtime._embedded import life_of
from embedbroker.storage import DiskFault, DiskOperation, FaultKind
from embedclient import ConnectionFactory
from embedclient.errors import BrokerFailed, IllegalStateException, JMSException, ResourceAllocationException
from embedclient.model import Instant


async def put(url: str, *texts: str) -> None:
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        producer = session.create_producer("orders")
        for text in texts:
            await producer.send(text)


async def take(url: str, count: int) -> list[object]:
    found: list[object] = []
    async with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_consumer("orders") as consumer,
    ):
        for _ in range(count):
            message = await consumer.receive(timeout=60)
            assert message is not None
            found.append(message.body)
    return found


@pytest.mark.parametrize("vm", [False, True], ids=["tcp", "vm"])
async def test_messages_go_through(vm: bool) -> None:
    async with EmbeddedBroker() as broker:
        url = broker.vm_url if vm else broker.url
        await put(url, "one", "two")
        assert await take(url, 2) == ["one", "two"]


@pytest.mark.parametrize("name", ["/", "a b", "who? me=1", "a,vm://b", "(x)#y", "%41"])
async def test_a_broker_of_any_name_has_a_vm_url(name: str) -> None:
    async with EmbeddedBroker(name=name) as broker:
        await put(broker.vm_url, "a")
        assert await take(broker.url, 1) == ["a"]


async def test_a_port_is_taken_for_each_life_and_given_back() -> None:
    async with EmbeddedBroker() as broker:
        port = broker.port
        assert broker.url == f"tcp://127.0.0.1:{port}" and broker.is_running
    assert not broker.is_running
    with pytest.raises(IllegalStateException, match="not running"):
        broker.url  # noqa: B018  # the property raises
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_a_broker_with_a_directory_brings_its_messages_back(end: str, tmp_path: Path) -> None:
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        await put(broker.url, "kept")
        await (broker.stop() if end == "stop" else broker.crash())
        assert not broker.is_running
        await broker.start()
        assert await take(broker.url, 1) == ["kept"]


@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_a_broker_in_memory_begins_anew(end: str) -> None:
    async with EmbeddedBroker() as broker:
        await put(broker.url, "gone")
        await (broker.stop() if end == "stop" else broker.crash())
        await broker.start()
        await put(broker.url, "new")
        assert await take(broker.url, 1) == ["new"]


async def test_stopping_twice_is_fine_and_starting_twice_is_not() -> None:
    broker = EmbeddedBroker()
    async with broker:
        with pytest.raises(IllegalStateException, match="running already"):
            await broker.start()
        await broker.stop()
        await broker.stop()
        await broker.crash()


async def test_two_tasks_do_not_start_it_at_once() -> None:
    refused: list[str] = []

    async def start(broker: EmbeddedBroker) -> None:
        try:
            await broker.start()
        except IllegalStateException as error:
            refused.append(str(error))

    async with EmbeddedBroker() as broker:
        await broker.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(start, broker)
            nursery.start_soon(start, broker)
        assert refused == ["the broker is being started by another task"]
        assert broker.is_running


async def test_several_brokers_live_in_one_process() -> None:
    async with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.port != other.port and one.vm_url != other.vm_url
        await put(one.vm_url, "for one")
        await put(other.vm_url, "for the other")
        assert await take(one.url, 1) == ["for one"]
        await one.crash()
        assert await take(other.url, 1) == ["for the other"]


async def test_a_port_in_use_is_named_once_by_what_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ResourceAllocationException, match=str(port)):
            async with EmbeddedBroker(port=port):
                pass
        assert caplog.records == []


async def test_a_damaged_journal_is_named_once_and_in_a_backup_by_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        (tmp_path / f"segment-000000000{number}.journal").write_bytes(bytes(range(256)) * 256)
    with pytest.raises(BrokerFailed, match="the journal is damaged: segment-0000000001"):
        async with EmbeddedBroker(data_directory=tmp_path):
            pass
    assert caplog.records == []
    # Its start has returned by then.
    async with EmbeddedBroker(data_directory=tmp_path, ha_policy=SharedStoreBackup()) as backup:
        assert "the journal is damaged" in await backup.wait_failed()
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith("the broker stops: the journal is damaged: segment-0000000001")


async def test_a_directory_has_one_broker_at_a_time(tmp_path: Path) -> None:
    async with EmbeddedBroker(name="first", data_directory=str(tmp_path)):
        with pytest.raises(ResourceAllocationException, match="first"):
            async with EmbeddedBroker(name="second", data_directory=str(tmp_path)):
                pass
    async with EmbeddedBroker(name="second", data_directory=str(tmp_path)) as broker:
        assert broker.is_running


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ResourceAllocationException, match="file"):
        async with EmbeddedBroker(data_directory=str(tmp_path / "file" / "data")):
            pass


async def test_an_exception_of_the_user_leaves_as_it_is() -> None:
    mine = ValueError("mine")
    with pytest.raises(ValueError) as caught:
        async with EmbeddedBroker():
            raise mine
    assert caught.value is mine


async def test_a_cancellation_passes_and_the_broker_is_gone() -> None:
    with trio.CancelScope() as scope:
        async with EmbeddedBroker() as broker:
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught and not broker.is_running


async def test_a_bug_ends_its_broker_and_no_other() -> None:
    def failing(input: Input, now: Instant) -> list[Output]:
        raise AssertionError("a bug")

    async with EmbeddedBroker(name="healthy") as healthy:
        with trio.fail_after(60), pytest.raises(BrokerFailed, match="a bug"):
            async with EmbeddedBroker(name="sick") as sick:
                life_of(sick).host.node.step = failing  # type: ignore[method-assign]  # the bug
                socket.create_connection(("127.0.0.1", sick.port)).close()
                await trio.sleep_forever()
        await put(healthy.url, "still here")
        assert await take(healthy.url, 1) == ["still here"]


def test_a_config_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="BrokerConfig"):
        EmbeddedBroker({"port": 1})  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match=r"^a broker has no setting 'prot'; did you mean 'port'\?$"):
        EmbeddedBroker(BrokerConfig(), prot=1)  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(TypeError, match=r"^a broker has no setting 'colour'$"):
        EmbeddedBroker(colour="blue")  # type: ignore[call-arg]  # wrong on purpose


def test_a_broker_in_a_thread_blocks_and_ends_with_its_scope() -> None:
    before = threading.active_count()
    with EmbeddedBroker.in_thread() as broker:
        trio.run(put, broker.url, "one")
        assert trio.run(take, broker.url, 1) == ["one"]
        broker.stop()
        broker.start()
        assert broker.is_running
        broker.crash()
    assert threading.active_count() <= before + 1  # trio keeps a worker for a while


class FullDisk(FileDisk):
    full = False

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        if self.full:
            raise DiskFault(FaultKind.FULL, "segment", "no space left on device")
        return super().run(operations)


async def test_a_broker_starts_again_after_it_stopped_by_itself(tmp_path: Path) -> None:
    def failing(input: Input, now: Instant) -> list[Output]:
        raise AssertionError("a bug")

    async def fail_by(name: str) -> None:
        if name == "bug":
            life_of(broker).host.node.step = failing  # type: ignore[method-assign]  # the bug
            socket.create_connection(("127.0.0.1", broker.port)).close()
        else:
            disk.full = True
            with pytest.raises(JMSException):
                await put(broker.url, "lost")
            disk.full = False

    disk = FullDisk(tmp_path)
    broker = await EmbeddedBroker(disk=disk).start()
    for name in ("disk", "bug", "disk"):
        await put(broker.url, name)
        await fail_by(name)
        with trio.fail_after(60):
            await broker.wait_for_role(Role.STOPPED)
        assert await broker.start() is broker
        assert broker.role is Role.LIVE and broker.queue("orders").message_count == 1
        assert await take(broker.url, 1) == [name]
    await broker.close()
    async with broker:
        await fail_by("disk")
        await broker.start()
        assert broker.role is Role.LIVE
    disk.close()


def test_a_broker_in_a_thread_tells_why_it_failed(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
    with EmbeddedBroker.in_thread(disk=disk) as broker:
        assert broker.wait_failed(timeout=0) is None
        disk.full = True
        with pytest.raises(JMSException):
            trio.run(put, broker.url, "one")
        assert "no space left on device" in str(broker.wait_failed(timeout=60))
    disk.close()
    with pytest.raises(IllegalStateException, match="not started"):
        broker.wait_failed()


@pytest.mark.parametrize("when", ["before it begins", "after it has begun"])
def test_ctrl_c_while_a_thread_starts_leaves_no_broker_behind(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(threading.Event):
        was_interrupted = False

        def wait(self, timeout: float | None = None) -> bool:
            if self.was_interrupted or when == "after it has begun":
                super().wait(timeout)
            if self.was_interrupted:
                return True
            self.was_interrupted = True
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", Interrupted)
        broker = EmbeddedBroker.in_thread(data_directory=str(tmp_path), name="interrupted")
    with pytest.raises(KeyboardInterrupt):
        broker.__enter__()
    assert "embedbroker interrupted" not in [thread.name for thread in threading.enumerate()]
    with broker:
        assert broker.is_running
    with EmbeddedBroker.in_thread(data_directory=str(tmp_path)) as other:
        assert other.is_running


def test_a_thread_that_cannot_start_says_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ResourceAllocationException), EmbeddedBroker.in_thread(port=taken.getsockname()[1]):
            pass


def test_a_broker_in_a_thread_must_be_started() -> None:
    with pytest.raises(IllegalStateException, match=r"not started: .* call start\(\)"):
        EmbeddedBroker.in_thread().crash()


def test_an_exception_in_the_scope_of_a_thread_leaves_as_it_is() -> None:
    mine = KeyError("mine")
    with pytest.raises(KeyError) as caught, EmbeddedBroker.in_thread():
        raise mine
    assert caught.value is mine


@pytest.mark.parametrize("roles", [(), ("live",), (Role.LIVE, None)])
async def test_only_roles_can_be_waited_for(roles: tuple[Any, ...]) -> None:
    async with EmbeddedBroker() as broker:
        with pytest.raises(TypeError, match="wait_for_role takes one Role or several, not "):
            await broker.wait_for_role(*roles)


def test_a_filter_that_is_none_is_refused_with_its_queue_and_the_place() -> None:
    queues = {"red": QueueConfiguration(filter="colour = 'red'"), "wrong": QueueConfiguration(filter="colour =")}
    with pytest.raises(ValueError, match=r"address 'paints', queue 'wrong': filter: .* at position 8 of 'colour ='"):
        EmbeddedBroker(addresses={"paints": AddressConfiguration(multicast=queues)})


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("disk", "disk must be a Disk, not 'data': it has no method run"),
        ("locks", "locks must be a Locks, not 'data': it has no method open"),
        ("network", "network must be a Network, not 'data': it has no method listen"),
    ],
)
def test_a_part_that_is_none_is_refused_at_once(part: str, said: str) -> None:
    wrong: dict[str, Any] = {part: "data"}
    with pytest.raises(TypeError, match=said):
        EmbeddedBroker(**wrong)


def test_in_thread_of_an_instance_is_refused() -> None:
    """It would be another broker, open and in memory, whatever the settings of the instance."""
    broker = EmbeddedBroker(users=[User("app", "secret", roles=["amq"])])
    with pytest.raises(TypeError, match="in_thread is called on the class"):
        broker.in_thread()


async def test_a_broker_that_is_started_without_a_block_runs_until_it_is_closed() -> None:
    broker = await EmbeddedBroker().start()
    assert await take_what_was_sent(broker.vm_url) == "x"
    with pytest.raises(IllegalStateException, match="running already"):
        await broker.start()
    await broker.crash()
    await broker.start()
    await broker.close()
    await broker.close()
    assert not broker.is_running
    async with await broker.start() as same:
        assert same is broker and broker.is_running
    assert not broker.is_running
    with trio.move_on_after(0):
        await broker.start()
    assert not broker.is_running


def test_a_broker_that_is_never_closed_is_named_by_the_line_that_started_it(caplog: pytest.LogCaptureFixture) -> None:
    stopped: list[EmbeddedBroker] = []

    async def main() -> None:
        stopped.append(await EmbeddedBroker().start())

    with pytest.warns(ResourceWarning, match=r"a broker was not closed.*test_embedded_broker\.py"):
        trio.run(main)
    assert not stopped[0].is_running
    # The cancellation of its tasks by the end of the run is no failure.
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_start_that_fails_without_a_block_leaves_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = EmbeddedBroker(port=taken.getsockname()[1])
        with pytest.raises(ResourceAllocationException, match="in use"):
            await broker.start()
    assert await take_what_was_sent((await broker.start()).url) == "x"
    await broker.close()


async def take_what_was_sent(url: str) -> object:
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        await session.create_producer("q").send("x")
        return (await (await session.create_consumer("q")).receive()).body
