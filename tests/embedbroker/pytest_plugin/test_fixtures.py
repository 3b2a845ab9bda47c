"""What the fixtures give a test."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import PAIR_MODES
from embedbroker.pytest_plugin._pair import PAIR_KINDS
from tests.embedbroker.pytest_plugin.conftest import Inner

SURFACES = pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["virtual", "real"])


def test_every_kind_of_pair_that_is_shown_works() -> None:
    assert tuple(PAIR_KINDS) == PAIR_MODES


@SURFACES
def test_a_failover_test_is_five_lines(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_my_failover(broker_pair):
            async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
                await session.create_producer(ORDERS).send("before")
                await broker_pair.failover()
                await session.create_producer(ORDERS).send("after")
                await broker_pair.wait_for(queue="orders", count=2)
        """,
        *options,
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


@SURFACES
def test_a_pair_goes_back_and_forth_and_loses_nothing(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_back_and_forth(broker_pair):
            pair = broker_pair
            assert (pair.live, pair.standby) == (pair.primary, pair.backup)
            assert pair.url.endswith("?ha=true&reconnectAttempts=-1&retryInterval=100")
            await put(pair.url, "one")
            assert await pair.failover() is pair.live is pair.backup
            assert pair.primary.role is Role.STOPPED
            await put(pair.url, "two")
            assert await pair.failback() is pair.live is pair.primary
            await put(pair.url, "three")
            await pair.live.stop(failover=True)
            assert await pair.wait_live() is pair.backup
            assert (await pair.assert_message("orders", "two")).body == "two"
            assert [message.body for message in await pair.live.messages("orders")] == ["one", "two", "three"]
            pair.assert_nothing_lost()
        """,
        *options,
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


@SURFACES
def test_a_broker_keeps_durable_messages_over_crashes_and_restarts(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(embedded_broker):
            broker, url = embedded_broker, embedded_broker.url
            await put(url, "one")
            await broker.crash()
            assert not broker.is_running and broker.url == url
            await broker.restart()
            await put(url, "two")
            await broker.restart()
            await broker.wait_for(queue="orders", count=2, consumers=0)
            (only,) = [queue for queue in broker.queues() if queue.message_count]
            assert (only.name, only.delivering_count) == ("orders", 0)
            broker.assert_nothing_lost()
            await broker.create_queue("bills")
            assert await broker.purge("orders") == 2 and broker.queue("orders").message_count == 0
            await broker.delete_queue("bills")
            assert "bills" not in [each.name for each in broker.queues()]
            await put(url, "three")
            with pytest.raises(WaitTimeout):
                await broker.assert_empty("orders", timeout=0.05)
        """,
        *options,
    )
    result.assert_outcomes(passed=1)


@SURFACES
def test_a_factory_makes_any_number_of_brokers(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(broker_factory):
            one = await broker_factory("one", id_cache_size=7).start()
            two = await broker_factory().start()
            assert (one.broker.config.id_cache_size, two.name) == (7, "broker-2")
            await put(one.url, "here")
            await one.wait_for(queue="orders", count=1)
            await two.assert_empty("orders")
            with pytest.raises(ValueError, match="has a broker 'one' already"):
                broker_factory("one")
            with pytest.raises(TypeError, match="no setting 'id_cach_size'"):
                await broker_factory("three", id_cach_size=7).start()
        """,
        *options,
    )
    result.assert_outcomes(passed=1)


def test_waits_and_assertions_see_what_comes_while_they_wait(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker, broker_clock):
            async def later():
                await broker_clock.advance(3)
                async with ConnectionFactory(embedded_broker.url).connect() as connection:
                    async with connection.session() as session, session.create_consumer(ORDERS):
                        await session.create_producer(Queue("other")).send("noise")
                        await session.create_producer(Queue("answers")).send(TextMessage("no", properties={"n": 1}))
                        await session.create_producer(Queue("answers")).send(TextMessage("yes", properties={"n": 2}))
                        await trio.sleep(5)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(later)
                await embedded_broker.wait_for(queue="orders", consumers=1)
                assert broker_clock.seconds == 3
                assert (await embedded_broker.assert_message("answers", n=2)).body == "yes"
                assert (await embedded_broker.assert_message("answers", "no")).properties["n"] == 1
                with pytest.raises(WaitTimeout, match="body 'maybe' and properties {'n': 2}.*not within"):
                    await embedded_broker.assert_message("answers", "maybe", timeout=0.5, n=2)
        """
    )
    result.assert_outcomes(passed=1)


def test_virtual_time_passes_at_once_for_broker_and_client(inner: Inner) -> None:
    result = inner(
        """
        import time

        async def test_it(embedded_broker, broker_clock):
            begun = time.monotonic()
            async with ConnectionFactory(embedded_broker.url).connect() as connection, connection.session() as session:
                await session.create_producer(ORDERS).send("short-lived", time_to_live=60)
                await broker_clock.advance(59)
                await embedded_broker.assert_message("orders")
                await broker_clock.advance(60)
                await embedded_broker.wait_for(queue="ExpiryQueue", count=1)
            assert broker_clock.is_virtual and broker_clock.seconds == 119
            assert time.monotonic() - begun < 30
        """
    )
    result.assert_outcomes(passed=1)


@pytest.mark.timeout(600)
def test_virtual_time_needs_no_thread_and_no_socket(inner: Inner) -> None:
    result = inner(
        """
        import os, threading

        def sockets():
            links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
            return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)

        async def test_it(broker_pair):
            before = sockets()
            async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
                for n in range(20):
                    await session.create_producer(ORDERS).send("x" * 50_000)
                await broker_pair.failover()
                await broker_pair.wait_for(queue="orders", count=20)
                assert (threading.active_count(), sockets()) == (1, before)
        """,
        subprocess=True,
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_test_that_asks_for_the_clock_in_real_time_is_skipped_with_the_reason(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker, broker_clock):
            assert not broker_clock.is_virtual
            await broker_clock.advance(1)
        """,
        "--embedbroker-real",
        "-rs",
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*advance() needs virtual time"])


@SURFACES
def test_a_restart_waits_until_either_may_be_lost(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            pair = broker_pair
            assert pair.is_in_sync
            for turn in range(3):
                await pair.live.crash()
                gone = pair.primary if not pair.primary.is_running else pair.backup
                await put((await pair.wait_live()).url, "on one disk, or on the only one")
                assert not pair.is_in_sync
                await gone.restart(in_sync=True)
                await pair.wait_in_sync()
                assert pair.is_in_sync
            await pair.failover()
            await pair.wait_for(queue="orders", count=3)
            pair.assert_nothing_lost()
        """,
        *options,
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_failover_right_after_a_restart_crashes_whoever_is_live_then(inner: Inner) -> None:
    result = inner(
        """
        @pytest.mark.parametrize("pause", [0.0, 0.01, 0.1, 1.0])
        async def test_it(broker_pair, pause):
            pair = broker_pair
            await pair.failover()
            await put(pair.url, "kept")
            await pair.primary.restart()
            await trio.sleep(pause)
            taken_over = await pair.failover()
            assert taken_over.is_live and [broker.is_running for broker in pair.brokers].count(True) == 1
            await pair.wait_for(queue="orders", count=1)
            pair.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=4 * len(PAIR_MODES))


def test_a_wait_for_a_copy_says_why_it_is_not_there(inner: Inner) -> None:
    result = inner(
        """
        async def test_pair(broker_pair):
            pair = broker_pair
            await pair.failover()
            with pytest.raises(WaitTimeout, match="in sync: not within 1 s\\nbroker 'primary' crashed"):
                await pair.wait_in_sync(timeout=1)
            with pytest.raises(IllegalStateException, match="cannot wait for a whole copy: broker 'primary' crashed"):
                await pair.primary.wait_in_sync()

        async def test_copy(broker_pair):
            if broker_pair.kind == "replication":
                await broker_pair.failover()
                broker_pair.link.partition()
                with pytest.raises(WaitTimeout, match="broker 'primary' in sync: not within 10 s"):
                    await broker_pair.primary.restart(in_sync=True)
                broker_pair.link.heal()

        async def test_alone(embedded_broker):
            await embedded_broker.restart(in_sync=True)
        """
    )
    result.assert_outcomes(passed=2 * len(PAIR_MODES) + 1)


def test_a_session_keeps_no_broker_of_a_test_that_is_over(inner: Inner) -> None:
    """Or each collection of garbage would walk the brokers of all tests before."""
    result = inner(
        """
        import gc, weakref

        KEPT = []

        async def test_pair(broker_pair):
            KEPT.append(weakref.ref(broker_pair))

        def test_blocking(embedded_broker_blocking):
            KEPT.append(weakref.ref(embedded_broker_blocking))

        def test_nothing_of_them_is_left():
            gc.collect()
            assert [each() for each in KEPT] == [None] * 3
        """,
        "-p",
        "no:randomly",
    )
    result.assert_outcomes(passed=4)
