"""What the edge does when something around it goes wrong: a bug, Ctrl-C, busy threads, peers that do not read."""

from __future__ import annotations

import gc
import signal
import socket
import threading
from pathlib import Path

import pytest
import trio

from embedbroker import EmbeddedBroker
from embedbroker.node import Input, Node, Output
from embedbroker.runtime import _disk_lanes, journal_directory
from embedbroker.runtime._disk import FileDisk
from embedbroker.runtime._embedded import life_of
from embedbroker.storage import DiskFault, ListFiles, WriteAt, inspect_journal
from embedclient import ConnectionFactory
from embedclient.errors import BrokerFailed
from embedclient.model import Instant
from embedclient.wire.core import CreateSessionV2, SessionQueueQuery, encode_packet


async def test_a_low_high_water_mark_does_not_stop_deliveries() -> None:
    with trio.fail_after(60):
        async with (
            EmbeddedBroker(output_high_water_bytes=16 * 1024) as broker,
            ConnectionFactory(broker.url).connect() as connection,
            connection.session() as session,
        ):
            producer = session.create_producer("orders")
            for _ in range(60):
                await producer.send("x" * 1000)
            async with session.create_consumer("orders") as consumer:
                for _ in range(60):
                    await consumer.receive()


async def test_the_collector_is_off_in_each_slice_of_recovery_and_on_when_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Node.step
    recovering: list[bool] = []
    running: list[bool] = []

    def noted(node: Node, input: Input, now: Instant) -> list[Output]:
        (running if node.is_running else recovering).append(gc.isenabled())
        return step(node, input, now)

    async with EmbeddedBroker(data_directory=str(tmp_path), work_per_step_max=10) as broker:
        async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
            producer = session.create_producer("orders")
            for _ in range(50):
                await producer.send("one")
        await broker.crash()
        monkeypatch.setattr(Node, "step", noted)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.start)
            while not broker.is_running:
                await trio.lowlevel.checkpoint()
                assert gc.isenabled()
        async with ConnectionFactory(broker.url).connect():
            assert len(recovering) > 5 and not any(recovering)
            assert running and all(running)


async def test_a_broker_that_failed_is_not_waited_for(tmp_path: Path) -> None:
    def failing(input: Input, now: Instant) -> list[Output]:
        raise AssertionError("a bug")

    with trio.fail_after(60), pytest.raises(BrokerFailed, match="a bug"):
        async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
            life_of(broker).host.node.step = failing  # type: ignore[method-assign]  # the bug
            socket.create_connection(("127.0.0.1", broker.port)).close()
            await trio.sleep_forever()


async def test_the_journal_needs_no_thread_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_disk_lanes, "INLINE_SYNC_SECONDS_MAX", -1.0)
    limiter = trio.to_thread.current_default_thread_limiter()
    await limiter.acquire()
    borrowers = [object() for _ in range(int(limiter.available_tokens))]
    for borrower in borrowers:
        limiter.acquire_on_behalf_of_nowait(borrower)
    try:
        with trio.fail_after(60):
            async with (
                EmbeddedBroker(data_directory=str(tmp_path)) as broker,
                ConnectionFactory(broker.vm_url).connect() as connection,
                connection.session() as session,
            ):
                await session.create_producer("orders").send("one")
    finally:
        limiter.release()
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)


def test_ctrl_c_in_the_middle_of_a_step_ends_the_program_in_order(tmp_path: Path) -> None:
    async def program() -> None:
        async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
            async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                await session.create_producer("orders").send("one")
            node = life_of(broker).host.node
            step = node.step

            def interrupted(input: Input, now: Instant) -> list[Output]:
                signal.raise_signal(signal.SIGINT)
                node.step = step  # type: ignore[method-assign]
                return step(input, now)

            node.step = interrupted  # type: ignore[method-assign]
            socket.create_connection(("127.0.0.1", broker.port)).close()
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(program)
    with journal_directory(tmp_path) as disk:
        report = inspect_journal(disk)
    assert (report.sealed, report.sound, report.messages) == (True, True, 1)


async def test_a_peer_that_never_reads_leaves_no_socket_behind() -> None:
    with socket.socket() as peer:
        async with EmbeddedBroker() as broker:
            peer.connect(("127.0.0.1", broker.port))
            create = CreateSessionV2("one", 10, 136, None, None, 1, False, True, True, -1, False, None, None)
            peer.sendall(b"ARTEMIS" + encode_packet(create, 1, 136))
            peer.setblocking(False)
            query = encode_packet(SessionQueueQuery("q" * 20_000), 10, 136)
            host = life_of(broker).host
            with trio.fail_after(60):
                while not host.statistics().unsent:
                    try:
                        peer.send(query)
                    except BlockingIOError:
                        await trio.lowlevel.wait_writable(peer)
                    await trio.lowlevel.checkpoint()
    gc.collect()


def test_a_closed_disk_refuses_what_comes_late(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.close()
    with pytest.raises(DiskFault, match="closed"):
        disk.run((WriteAt("a", 0, (b"x",)),))
    assert not (tmp_path / "a").exists()


def test_closing_a_disk_waits_for_the_operation_under_way(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class SlowDisk(FileDisk):
        def _write(self, operation: WriteAt) -> None:
            begun.set()
            assert go_on.wait(60)
            super()._write(operation)

    disk = SlowDisk(tmp_path)
    faults: list[DiskFault] = []

    def run() -> None:
        try:
            disk.run((WriteAt("a", 0, (b"x",)), ListFiles()))
        except DiskFault as fault:
            faults.append(fault)

    writer = threading.Thread(target=run)
    closer = threading.Thread(target=disk.close)
    writer.start()
    assert begun.wait(60)
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    go_on.set()
    writer.join(60)
    closer.join(60)
    assert (tmp_path / "a").read_bytes() == b"x"
    assert len(faults) == 1
