"""The report of a test that fails, and what one leaves behind."""

from __future__ import annotations

import logging

import pytest
import trio

from embedbroker.pytest_plugin import PAIR_MODES
from embedbroker.pytest_plugin._trace import Trace
from tests.embedbroker.pytest_plugin.conftest import Inner


def test_a_failure_comes_with_seed_trace_ledger_and_the_messages_still_queued(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            await put(broker_pair.url, "one", "two")
            await broker_pair.failover()
            broker_pair.link.partition()
            assert not broker_pair.live
        """,
        "--embedbroker-seed=42",
    )
    result.assert_outcomes(failed=len(PAIR_MODES))
    result.stdout.fnmatch_lines(
        [
            "* brokers *",
            "seed 42, virtual time; again with --embedbroker-seed=42",
            "-- trace",
            "*primary: live",
            "*primary: crash",
            "*backup: live",
            "*link between backup and primary: partition, both",
            "-- ledger of the pair",
            "2 sent, 2 confirmed, 0 in doubt, 0 acknowledged, 0 dead or expired, 1 ends of a broker",
            "-- broker 'primary' crashed",
            "-- broker 'backup' is live",
            "queue orders: 2 messages, 0 in delivery, 0 consumers",
            "  TextMessage 'one' id=ID:*",
            "  TextMessage 'two' id=ID:*",
        ]
    )


def test_what_a_blocking_client_logs_has_the_time_of_the_test() -> None:
    trace = Trace()
    record = logging.makeLogRecord({"name": "embedclient", "msg": "connection lost"})

    async def log() -> None:
        trace.emit(record)

    async def test() -> None:
        trace.begin()
        await trio.to_thread.run_sync(trio.run, log)
        await trio.to_thread.run_sync(trace.emit, record)

    trio.run(test)
    times = [float(line.split()[0]) for line in trace.tail().splitlines()]
    assert 0 < times[0] <= times[1] < 60


def test_a_passing_test_says_nothing(inner: Inner) -> None:
    result = inner("async def test_it(broker_pair): pass")
    result.assert_outcomes(passed=len(PAIR_MODES))
    result.stdout.no_fnmatch_line("*seed*")


def test_the_ledger_knows_what_was_lost(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker):
            broker = embedded_broker
            await put(broker.url, "one", "two")
            async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                async with session.create_consumer(ORDERS) as consumer:
                    assert (await consumer.receive()).body == "one"
            await broker.wait_for(queue="orders", count=1)
            broker.assert_nothing_lost()
            kernel = broker._following.live_kernel()
            kernel.address_manager.queues["orders"].backlog.pop()  # a bug, as far as the ledger can tell
            with pytest.raises(AssertionError, match=r"lost: orders \\d+\\n2 sent, 2 confirmed, .* 1 acknowledged"):
                broker.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=1)


def test_an_exception_of_the_test_leaves_it_as_the_same_object(inner: Inner) -> None:
    result = inner(
        """
        class Mine(Exception):
            pass

        async def test_it(broker_pair):
            async with ConnectionFactory(broker_pair.url).connect():
                raise Mine("in words")

        async def test_skipped(embedded_broker):
            pytest.skip("for a reason")

        @pytest.mark.xfail(raises=Mine, strict=True)
        async def test_expected(embedded_broker):
            raise Mine
        """,
        "-rs",
    )
    result.assert_outcomes(failed=len(PAIR_MODES), skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["E *Mine: in words", "SKIPPED*for a reason"])
    result.stdout.no_fnmatch_line("*ExceptionGroup*")


def test_a_broker_that_fails_of_a_bug_ends_the_test_with_it(inner: Inner) -> None:
    result = inner(
        """
        class Bug:
            def send(self, *_arguments):
                raise AssertionError("as a bug would")

        async def test_it(embedded_broker):
            embedded_broker._following.live_kernel().router = Bug()
            async with ConnectionFactory(embedded_broker.url).connect() as connection, connection.session() as session:
                await session.create_producer(ORDERS).send("x")
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BrokerFailed: broker 'broker' failed: AssertionError('as a bug would')*"])


@pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["virtual", "real"])
def test_a_client_that_stays_connected_is_told(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        from embedclient.transport import connect_tcp, vm_connect

        @pytest.fixture(autouse=True)
        def closed_in_the_end():
            yield
            for stream in kept:
                stream._socket.close()

        async def test_it(embedded_broker):
            if embedded_broker.url.startswith("vm:"):
                vm_connect("broker")
            else:
                kept.append(await connect_tcp("127.0.0.1", int(embedded_broker.url.rpartition(":")[2])))

        kept = []
        """,
        *options,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*LeftBehind: left behind by this test: *the connection *"])


def test_tasks_files_and_locks_that_are_left_are_told(inner: Inner) -> None:
    result = inner(
        """
        async def test_task(embedded_broker):
            trio.lowlevel.spawn_system_task(trio.sleep_forever)

        async def test_file(embedded_broker, tmp_path_factory):
            directory = max(tmp_path_factory.getbasetemp().glob("broker*"), key=lambda path: path.stat().st_mtime)
            kept.append(open(directory / "left", "w"))

        def test_that_cleans_up():
            kept.pop().close()

        async def test_lock(broker_pair):
            bench = broker_pair._around
            bench._groups[0].locks.open("somebody").run((Acquire(Lock.FAILBACK),))

        async def test_socket(embedded_broker):
            port = embedded_broker._following.placed().port
            await embedded_broker.stop()
            kept.extend(await port.listen(None))

        async def close_what_is_kept():
            while kept:
                kept.pop().close()

        def test_that_closes_it():
            trio.run(close_what_is_kept)

        kept = []
        from embedbroker.locks import Acquire, Lock
        """,
        "--embedbroker-real",
    )
    result.assert_outcomes(failed=3 + len(PAIR_MODES), passed=2)
    result.stdout.fnmatch_lines(
        [
            "*LeftBehind: left behind by this test: 1 tasks",
            "*LeftBehind: left behind by this test: the open file */left",
            "*LeftBehind: left behind by this test: the lock FAILBACK of somebody",
            "*LeftBehind: left behind by this test: the listener of broker, *, the listener of broker, *",
        ]
    )


@pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["virtual", "real"])
def test_a_test_leaves_nothing_of_its_brokers_to_the_next(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        @pytest.mark.parametrize("turn", range(3))
        async def test_it(broker_pair, turn):
            await put(broker_pair.url, "x")
            await broker_pair.wait_for(queue="orders", count=1)
            if turn == 1:
                await broker_pair.failover()
            if turn == 2:
                await broker_pair.live.stop()
        """,
        *options,
    )
    result.assert_outcomes(passed=3 * len(PAIR_MODES))


def test_tasks_and_locks_that_are_left_in_virtual_time_are_told(inner: Inner) -> None:
    result = inner(
        """
        from embedbroker.locks import Acquire, Lock

        async def test_task(embedded_broker):
            trio.lowlevel.spawn_system_task(trio.sleep_forever)

        async def test_lock(broker_pair):
            await broker_pair.backup.stop()
            await broker_pair.primary.stop()
            session = broker_pair._around._groups[0].locks.open("somebody")
            session.run((Acquire(Lock.FAILBACK),))
        """,
        "-k",
        "not replication",
    )
    result.assert_outcomes(failed=2, deselected=1)
    result.stdout.fnmatch_lines(
        [
            "*LeftBehind: left behind by this test: 1 tasks",
            "*LeftBehind: left behind by this test: the lock FAILBACK of somebody",
        ]
    )


def test_a_lease_that_is_left_is_told(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            manager = broker_pair._around._groups[0].leases
            node_id = broker_pair.live.broker.node_id
            await broker_pair.backup.stop()
            await broker_pair.primary.stop()
            assert manager.take(node_id, manager.open("somebody"))
        """,
        "-k",
        "replication",
    )
    result.assert_outcomes(failed=1, deselected=len(PAIR_MODES) - 1)
    result.stdout.fnmatch_lines(["*LeftBehind: left behind by this test: the lease of somebody"])
