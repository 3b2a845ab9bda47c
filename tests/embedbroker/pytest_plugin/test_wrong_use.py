"""A wrong use of the fixtures fails at once, and nothing waits for ever."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.conftest import Inner


def test_a_broker_that_was_not_started_says_so(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_factory):
            broker = broker_factory("mine")
            for use in (lambda: broker.url, lambda: broker.link, lambda: broker.broker):
                with pytest.raises(IllegalStateException, match="'mine' was never started: await broker.start()"):
                    use()
            for use in (broker.crash, broker.stop, lambda: broker.wait_for(queue="q", count=0)):
                with pytest.raises(IllegalStateException, match="'mine' was never started"):
                    await use()
            await broker.start()
            with pytest.raises(IllegalStateException, match="'mine' is running already"):
                await broker.start()
        """
    )
    result.assert_outcomes(passed=1)


def test_a_fixture_before_or_after_the_test_is_told_that_it_is(inner: Inner) -> None:
    result = inner(
        """
        @pytest.fixture
        def around(embedded_broker, broker_clock, fault_plan):
            not_yet = "'broker' starts when the test begins; a fixture that is no 'async def' comes before that"
            with pytest.raises(IllegalStateException, match=not_yet):
                embedded_broker.url
            with pytest.raises(IllegalStateException, match="the clock of a test runs while the test does"):
                broker_clock.seconds
            fault_plan.at(1.5, embedded_broker.crash)
            yield
            with pytest.raises(IllegalStateException, match="'broker' ended with its test"):
                embedded_broker.queues()
            with pytest.raises(IllegalStateException, match="nothing happens beside a test that is over"):
                fault_plan.at(1.5, embedded_broker.crash)
            assert fault_plan.pending == 0

        async def test_it(around, embedded_broker, fault_plan):
            assert fault_plan.pending == 1
            await trio.sleep(1)
            assert embedded_broker.is_running
            await trio.sleep(1)
            assert not embedded_broker.is_running
        """
    )
    result.assert_outcomes(passed=1)


def test_waiting_at_a_broker_that_crashed_or_crashes_says_so_at_once(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker, fault_plan):
            begun = trio.current_time()
            await embedded_broker.crash()
            with pytest.raises(IllegalStateException, match="cannot look at its queues: broker 'broker' crashed"):
                await embedded_broker.wait_for(queue="orders", count=1)
            with pytest.raises(IllegalStateException, match="broker 'broker' crashed"):
                await embedded_broker.assert_message("orders")
            with pytest.raises(IllegalStateException, match="cannot wait for it to be live: broker 'broker' crashed"):
                await embedded_broker.wait_for_role(Role.LIVE)
            await embedded_broker.restart()
            fault_plan.at(0.5, embedded_broker.stop)
            with pytest.raises(IllegalStateException, match="broker 'broker' was stopped"):
                await embedded_broker.wait_for(queue="orders", count=1)
            assert trio.current_time() - begun == 0.5
        """
    )
    result.assert_outcomes(passed=1)


def test_a_pair_says_which_of_its_brokers_is_what(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            pair = broker_pair
            with pytest.raises(IllegalStateException, match="the primary has not ended: broker 'primary' is live, "):
                await pair.failback()
            with pytest.raises(IllegalStateException, match="'backup' is backup, not live.*or ask the pair"):
                await pair.backup.wait_for(queue="orders", count=0)
            await pair.live.crash()
            with pytest.raises(IllegalStateException, match="no broker of the pair is live: broker 'primary' crashed"):
                pair.live
            await pair.wait_live()
            with pytest.raises(IllegalStateException, match="no broker would take over: broker 'primary' crashed"):
                await pair.failover()
            with pytest.raises(IllegalStateException, match="no broker of the pair stands by"):
                pair.standby
            await pair.live.crash()
            with pytest.raises(IllegalStateException, match="cannot wait for a live broker: broker 'primary' crashed"):
                await pair.wait_live()
            with pytest.raises(IllegalStateException, match="cannot wait for queue orders with 1 messages"):
                await pair.wait_for(queue="orders", count=1)
        """
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_wait_ends_with_a_reason(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker):
            await put(embedded_broker.url, "found")
            begun = trio.current_time()
            with pytest.raises(WaitTimeout) as caught:
                await embedded_broker.wait_for(queue="orders", count=3, consumers=1)
            assert trio.current_time() - begun >= 10
            text = str(caught.value)
            assert text.startswith(
                "broker 'broker': queue orders with 3 messages and 1 consumers: not within 10 s\\n"
                "queue orders: 1 messages, 0 in delivery, 0 consumers\\n  TextMessage 'found' id=ID:"
            )
            with pytest.raises(TypeError, match="needs a count of messages, or of consumers"):
                await embedded_broker.wait_for(queue="orders")
        """
    )
    result.assert_outcomes(passed=1)


def test_a_broker_that_does_not_come_up_does_not_hold_the_test(inner: Inner) -> None:
    result = inner(
        """
        from embedbroker.pytest_plugin._broker import prepare

        async def test_late(broker_pair):
            pair = broker_pair
            await pair.failover()
            pair.disk.slow_down(1000)
            with pytest.raises(WaitTimeout, match="'primary' did not start within 10 s: it waits for its disk"):
                await pair.primary.start()
            pair.disk.heal()

        async def test_never(broker_factory):
            broker = broker_factory("slow")
            await prepare(broker)
            broker.disk.slow_down(1000)
            begun = trio.current_time()
            with pytest.raises(WaitTimeout, match="'slow' did not start within 10 s"):
                await broker.start()
            assert trio.current_time() - begun < 30
            broker.disk.heal()
            await broker.start()
            assert broker.is_live
        """
    )
    result.assert_outcomes(passed=1 + len(PAIR_MODES))


def test_a_broker_that_does_not_stop_is_ended_and_does_not_hold_the_test(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            pair = broker_pair
            await put(pair.url, "safe")
            for broker in pair.brokers:
                broker.disk.slow_down(1000)
            with pytest.raises(WaitTimeout, match="'primary' did not stop within 10 s, and was ended: it waited for"):
                await pair.primary.stop()
            with pytest.raises(IllegalStateException, match="'primary' did not stop within 10 s"):
                await pair.primary.assert_message("orders")
            for broker in pair.brokers:
                broker.disk.heal()
            if pair.backup.is_running:
                await pair.backup.stop()
            await pair.start()
            await pair.assert_message("orders", "safe")
            pair.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_failed_wait_points_at_the_line_of_the_test(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            await broker_pair.wait_for(queue="orders", count=1)
        """
    )
    result.assert_outcomes(failed=len(PAIR_MODES))
    result.stdout.fnmatch_lines(
        [">*await broker_pair.wait_for(queue=*", "E*WaitTimeout: queue orders with 1 messages*"]
    )
    result.stdout.no_fnmatch_line("*_waiting.py:*: WaitTimeout")


def test_a_test_that_waits_for_what_never_comes_ends_with_a_reason(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker):
            async with ConnectionFactory(embedded_broker.url).connect() as connection, connection.session() as session:
                async with session.create_consumer(ORDERS) as consumer:
                    await consumer.receive()
        """,
        "-o",
        "embedbroker_timeout=30",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">  *await consumer.receive()",
            "*WaitTimeout: the test did not end within 30 s, virtual time: something*broker 'broker' is live*",
        ]
    )


@pytest.mark.parametrize(
    ("test", "count", "text"),
    [
        (
            "def test_it(embedded_broker): pass",
            1,
            "*embedded_broker is for 'async def' tests; *embedded_broker_blocking",
        ),
        (
            "async def test_it(broker_pair_blocking): pass",
            len(PAIR_MODES),
            "*_blocking are for plain tests, which are no 'async def'",
        ),
        (
            "async def test_it(embedded_broker): yield",
            1,
            "*embedded_broker is for 'async def' tests, which do not yield; *",
        ),
        (
            """
            from hypothesis import given, strategies

            @given(number=strategies.integers())
            async def test_it(embedded_broker, number): pass
            """,
            1,
            "*embedded_broker is for 'async def' tests, and hypothesis makes a plain one of this; *",
        ),
        (
            """
            import unittest

            @pytest.mark.usefixtures("embedded_broker")
            class TestIt(unittest.IsolatedAsyncioTestCase):
                async def test_it(self): pass
            """,
            1,
            "*embedded_broker is for 'async def' tests, and unittest runs its own; *",
        ),
    ],
)
def test_a_fixture_of_the_wrong_kind_names_the_right_one(inner: Inner, test: str, count: int, text: str) -> None:
    result = inner(test)
    result.assert_outcomes(errors=count)
    result.stdout.fnmatch_lines([text])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--embedbroker-seed=tuesday",), "*takes a number or 'random', not 'tuesday'*"),
        (("-o", "embedbroker_timeout=soon"), "*must be a number of seconds above zero, not 'soon'*"),
    ],
)
def test_options_are_checked(inner: Inner, options: tuple[str, ...], text: str) -> None:
    result = inner("async def test_it(embedded_broker): pass", *options)
    assert result.ret != 0
    result.stdout.fnmatch_lines([text])


def test_an_argument_that_makes_no_sense_is_refused_before_anything_waits(inner: Inner) -> None:
    result = inner(
        """
        async def refused(kind, said, call, *arguments, **options):
            with pytest.raises(kind) as raised:
                await call(*arguments, **options)
            assert str(raised.value) == said

        async def test_waits(embedded_broker, broker_clock):
            broker = embedded_broker
            await refused(TypeError, "a count of messages is an int, not '1'", broker.wait_for, queue="q", count="1")
            said = "a count of messages is zero or more, not -1"
            await refused(ValueError, said, broker.wait_for, queue="q", count=-1)
            await refused(TypeError, "a queue is named by a str, not 5", broker.wait_for, queue=5, count=0)
            await refused(TypeError, "a queue is named by a str, not None", broker.messages, None)
            said = "a time-out is a number of seconds, not '5'"
            await refused(TypeError, said, broker.wait_for, queue="q", count=1, timeout="5")
            await refused(TypeError, said, broker.assert_message, "q", "x", timeout="5")
            said = "a time-out is zero seconds or more, not nan"
            await refused(ValueError, said, broker.wait_in_sync, timeout=float("nan"))
            said = "wait_for_role takes one Role or several, not ('live',)"
            await refused(TypeError, said, broker.wait_for_role, "live")
            await refused(TypeError, "wait_for_role takes one Role or several, not ()", broker.wait_for_role)
            await refused(ValueError, "the time to pass is zero seconds or more, not -1", broker_clock.advance, -1)
            assert broker_clock.seconds == 0

        async def test_switches(embedded_broker):
            with pytest.raises(TypeError, match="a delay is a number of seconds, not '1'"):
                embedded_broker.link.delay("1")
            with pytest.raises(TypeError, match="the number of bytes that still pass is an int, not 1.5"):
                embedded_broker.link.drop_after(1.5)
            with pytest.raises(TypeError, match="what a disk takes longer is a number of seconds, not '1'"):
                embedded_broker.disk.slow_down("1")

        def test_faults(fault_plan_blocking):
            with pytest.raises(TypeError, match="the time until a fault is a number of seconds, not '1'"):
                fault_plan_blocking.at("1", print)
            with pytest.raises(ValueError, match="the time until a fault is zero seconds or more, not -1"):
                fault_plan_blocking.within(-1, print)
            with pytest.raises(TypeError, match="a fault is something to call, such as broker.crash, not 'crash'"):
                fault_plan_blocking.at(1, "crash")
            assert fault_plan_blocking.pending == 0

        async def test_brokers(broker_factory):
            with pytest.raises(TypeError, match="named by a str, not a dict; its settings are keywords"):
                broker_factory({"id_cache_size": 100})
            for setting, value in (("port", 61616), ("host", "0.0.0.0"), ("data_directory", "data")):
                with pytest.raises(TypeError, match=f"a broker of a test takes no {setting}: "):
                    broker_factory("orders", **{setting: value})
        """
    )
    result.assert_outcomes(passed=4)


_LEFT = """
from contextlib import asynccontextmanager

async def test_connection(embedded_broker):
    await ConnectionFactory(embedded_broker.url).connect().__aenter__()

async def test_nursery(embedded_broker):
    (await trio.open_nursery().__aenter__()).start_soon(trio.sleep_forever)

async def test_scope(embedded_broker):
    trio.move_on_after(5).__enter__()

async def test_that_fails_before(embedded_broker):
    await ConnectionFactory(embedded_broker.url).connect().__aenter__()
    raise ValueError("of the test")

async def test_held(embedded_broker):
    scope = ConnectionFactory(embedded_broker.url).connect()
    connection = await scope.__aenter__()
    raise ValueError("of the test")

async def test_several(embedded_broker):
    factory = ConnectionFactory(embedded_broker.url)
    held = factory.connect()
    session = await (await held.__aenter__()).session().__aenter__()
    await (await factory.connect().__aenter__()).session().__aenter__()
    async with factory.connect() as connection, connection.session() as left:
        await left.create_producer(ORDERS).send("1")
    await factory.connect(auto_start=False).__aenter__()

async def test_within_another_scope(embedded_broker):
    async with trio.open_nursery():
        await ConnectionFactory(embedded_broker.url).connect().__aenter__()

@asynccontextmanager
async def work():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        yield nursery

async def test_own_scope(embedded_broker):
    held = work()
    await held.__aenter__()

async def test_own_scope_that_fails(embedded_broker):
    await work().__aenter__()
    await ConnectionFactory(embedded_broker.url).connect().__aenter__()
    raise ValueError("of the test")

@pytest.fixture
async def connection(embedded_broker):
    async with ConnectionFactory(embedded_broker.url).connect() as connection:
        yield connection

async def test_within_a_fixture(embedded_broker, connection):
    await connection.session().__aenter__()
    await ConnectionFactory(embedded_broker.url).connect().__aenter__()

async def numbers(ended):
    try:
        while True:
            yield 1
    finally:
        ended.append(1)

async def test_nothing_left(embedded_broker, connection):
    ended = []
    async with ConnectionFactory(embedded_broker.url).connect():
        async for _ in numbers(ended):
            break
        await trio.testing.wait_all_tasks_blocked()
        assert ended
"""


@pytest.mark.parametrize("surface", [[], ["--embedbroker-real"]])
def test_what_a_test_has_not_left_is_left_behind(inner: Inner, surface: list[str]) -> None:
    result = inner(
        _LEFT,
        *surface,
        subprocess=True,  # trio leaves coroutines, of which Python warns when it collects them
    )
    result.assert_outcomes(failed=10, passed=1)
    result.stdout.fnmatch_lines(
        ["E *LeftBehind: left behind by this test: a connection, *", "E *ValueError: of the test"]
    )
    for text in ("*TrioInternalError*", "*misnesting*", "*ExceptionGroup*"):
        result.stdout.no_fnmatch_line(text)
    assert result.stdout.str().count('raise ValueError("of the test")') == 3
