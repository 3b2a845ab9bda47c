"""Tests in asyncio, async fixtures of users, and the plugins that run async tests, all installed."""

from __future__ import annotations

import inspect

import pytest

from embedbroker.pytest_plugin import BrokerCluster, BrokerPair, DiskSwitch, FaultPlan, Link, ManagedBroker
from tests.embedbroker.pytest_plugin.conftest import Inner

_ASYNCIO = """
import asyncio, embedclient.asyncio

def runner():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return "trio" if trio.lowlevel.in_trio_run() else "none"
    return "asyncio"

def connect(url):
    module = embedclient.asyncio if runner() == "asyncio" else embedclient
    return module.ConnectionFactory(url).connect()
"""
_FIXTURES = """
@pytest.fixture
async def connection(embedded_broker):
    async with connect(embedded_broker.url) as connection:
        yield connection
        await embedded_broker.wait_for(queue="orders", count=1)  # it still runs

@pytest.fixture
async def session(connection):
    async with connection.session() as session:
        yield session
"""
_OF_TESTS = """
@pytest.fixture
def producer(session):  # on top of an async one
    yield session.create_producer(ORDERS)
    print("producer ends in", runner())

class TestBoth:
    @pytest.fixture
    async def name(self):
        self.own = True
        return "of a class"

    async def test_trio(self, producer, name):
        assert self.own
        await producer.send(name)
        await trio.sleep(300)
        assert runner() == "trio"

    @pytest.mark.asyncio
    async def test_asyncio(self, producer, name):
        await producer.send(name)
        assert runner() == "asyncio"

@pytest.fixture
async def nursery():
    async with trio.open_nursery() as nursery:
        yield nursery
        nursery.cancel_scope.cancel()

async def test_nursery_of_a_fixture(session, nursery):
    nursery.start_soon(trio.sleep_forever)
    await session.create_producer(ORDERS).send("more")

async def fail():
    raise ValueError("in a task of the fixture")

async def test_that_fails(embedded_broker, nursery):
    nursery.start_soon(fail)
    await trio.sleep_forever()

@pytest.fixture
async def impatient():
    with trio.move_on_after(1):
        yield

async def test_that_is_cancelled(embedded_broker, impatient):
    await trio.sleep_forever()
"""
SLOW_START = pytest.mark.timeout(180)


def test_the_fixtures_work_in_asyncio(inner: Inner) -> None:
    result = inner(
        _ASYNCIO
        + """
@pytest.mark.asyncio
async def test_pair(broker_pair, fault_plan, broker_clock):
    pair = broker_pair
    async with connect(pair.url) as connection, connection.session() as session:
        producer = session.create_producer(ORDERS)
        await producer.send("before")
        took_over = asyncio.Event()

        async def fault():  # it runs in the loop of the test
            await pair.failover()
            took_over.set()

        fault_plan.at(0.01, fault)
        await took_over.wait()
        assert pair.live is pair.backup and broker_clock.seconds >= 0.01
        await producer.send("after")
        await pair.assert_message("orders", "before")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await pair.wait_for(queue="orders", count=3)
        with pytest.raises(WaitTimeout, match="TextMessage 'after'"):
            await pair.wait_for(queue="orders", count=3, timeout=0.01)
        pair.live.link.cut()
        pair.assert_nothing_lost()
        assert pair.live.queue("orders").message_count == 2

@pytest.mark.asyncio
async def test_cluster(broker_cluster):
    cluster = await broker_cluster(2).start()
    async with cluster.sessions() as sessions, cluster.consumers("orders") as consumers:
        for number in range(2):
            await sessions[0].create_producer(ORDERS).send(str(number))
        assert [await consumer.receive_body(str) for consumer in consumers] == ["0", "1"]
""",
        "--strict-markers",
    )
    result.assert_outcomes(passed=3)


def test_a_crash_in_asyncio_ends_when_clients_know_of_it(inner: Inner) -> None:
    result = inner(
        """
import asyncio

@pytest.mark.asyncio
@pytest.mark.parametrize("end", ["crash", "stop"])
async def test_crash(embedded_broker, end):
    host, _, port = embedded_broker.url.removeprefix("tcp://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    closed = asyncio.Event()

    async def client():
        assert await reader.read() == b""
        for _ in range(1000):
            await asyncio.sleep(0)  # slowly
        closed.set()
        writer.write(b"to a broker that has ended")
        writer.close()

    task = asyncio.create_task(client())
    await getattr(embedded_broker, end)()
    assert closed.is_set()
    await task

@pytest.mark.asyncio
async def test_that_no_client_can_know_of(embedded_broker):
    host, _, port = embedded_broker.url.removeprefix("tcp://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    embedded_broker.link.partition()
    async with asyncio.timeout(1):
        await embedded_broker.crash()
    writer.close()
""",
    )
    result.assert_outcomes(passed=3)


def test_faults_of_operations_in_asyncio(inner: Inner) -> None:
    """A worker that takes orders and sends bills in transactions, while requests fail and answers get lost."""
    result = inner(
        _ASYNCIO
        + """
from embedclient import BytesMessage
from embedclient.asyncio import ConnectionFactory
from embedclient.errors import (
    AddressFullException, ErrorCode, TransactionOutcomeUnknownException, TransactionRolledBackException,
)

@pytest.mark.asyncio
async def test_worker(embedded_broker):
    broker, outcomes, has_three = embedded_broker, [], asyncio.Event()
    broker.refuse("send", "archive", code=ErrorCode.ADDRESS_FULL)

    async def work(connection):
        async with connection.session(transacted=True) as session, session.create_consumer(ORDERS) as consumer:
            bills = session.create_producer(Queue("bills"))
            while len(outcomes) < 5:
                order = await consumer.receive()
                await bills.send(order.body)
                try:
                    await session.commit()
                    outcomes.append(order.body)
                except (TransactionRolledBackException, TransactionOutcomeUnknownException) as error:
                    outcomes.append(type(error).__name__)
                if len(outcomes) == 3:
                    has_three.set()

    async with ConnectionFactory(f"{broker.url}?reconnectAttempts=-1").connect() as connection:
        broker.fail_next("create_session")
        with pytest.raises(JMSException, match="create_session fails"):
            await connection.session()
        async with connection.session() as session:
            archive = session.create_producer(Queue("archive"))
            for body in ("small", BytesMessage(bytes(300_000))):
                with pytest.raises(AddressFullException):
                    await archive.send(body)
            broker.heal()
            await archive.send(BytesMessage(bytes(300_000)))
            broker.fail_next("commit", n=2)
            for number in range(3):
                await session.create_producer(ORDERS).send(str(number))
            factory = ConnectionFactory(f"{broker.url}?reconnectAttempts=-1")
            async with factory.connect() as own, asyncio.TaskGroup() as group:
                group.create_task(work(own))
                await has_three.wait()
                broker.drop_reply("commit")
                for number in range(3, 6):
                    await session.create_producer(ORDERS).send(str(number))
    assert outcomes.count("TransactionRolledBackException") == 2
    assert outcomes.count("TransactionOutcomeUnknownException") <= 1
    await broker.wait_for(queue="archive", count=1)
    broker.assert_nothing_lost()
""",
    )
    result.assert_outcomes(passed=1)


def test_what_a_test_in_asyncio_leaves_open_is_told(inner: Inner) -> None:
    test = (
        _ASYNCIO
        + """
from embedclient.asyncio import ConnectionFactory

kept = []

@pytest.fixture
async def connection(embedded_broker):
    task = asyncio.create_task(asyncio.sleep(1000))
    async with ConnectionFactory(embedded_broker.url).connect() as connection:
        yield connection
    task.cancel()

@pytest.mark.asyncio
class TestIt:
    async def test_connection(self, embedded_broker):
        kept.append(await ConnectionFactory(embedded_broker.url).connect())

    async def test_task(self, embedded_broker, connection):
        kept.append(asyncio.create_task(asyncio.sleep(1000)))

    async def test_that_leaves_nothing(self, connection, embedded_broker):
        own = await ConnectionFactory(embedded_broker.url).connect()
        session = await connection.session()
        consumer = await session.create_consumer(ORDERS)
        consumer.set_message_listener(kept.append)
        await own.close()
        asyncio.create_task(asyncio.sleep(1000)).cancel()
"""
    )
    # The client warns, too, and names the place.
    result = inner(test, "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines_random(
        [
            "E *LeftBehind: left behind by this test: a connection that it has opened by 'await' and not closed; *",
            "E *LeftBehind: left behind by this test: the task* of sleep",
        ]
    )
    # The frames of the plugin and of asyncio hide themselves.
    result.stdout.no_fnmatch_line("*pytest_plugin/*.py:*")
    result.stdout.no_fnmatch_line("*asyncio/runners.py*")


def test_a_fault_without_an_end_does_not_hold_the_end_of_its_test(inner: Inner) -> None:
    test = """
import asyncio, threading, time

class TestPlans:
    @pytest.fixture
    def until(self):
        begun = threading.Event()
        since = time.monotonic()
        yield begun
        assert time.monotonic() - since < 30

    async def beside(self, begun):
        begun.set()
        await asyncio.sleep(1000)

    def block(self, begun):
        begun.set()
        threading.Event().wait()

    @pytest.mark.asyncio
    async def test_in_the_loop_of_the_test(self, until, embedded_broker, fault_plan):
        await embedded_broker.restart()
        fault_plan.at(0.0, self.beside, until)
        await asyncio.to_thread(until.wait)

    @pytest.mark.asyncio
    async def test_in_a_loop_of_its_own(self, until, fault_plan):
        fault_plan.at(0.0, self.beside, until)
        await asyncio.to_thread(until.wait)

    @pytest.mark.asyncio
    async def test_blocked(self, until, fault_plan):
        fault_plan.at(0.0, self.block, until)
        await asyncio.to_thread(until.wait)

    def test_plain(self, until, fault_plan_blocking):
        fault_plan_blocking.at(0.0, self.block, until)
        until.wait()
"""
    result = inner(test)
    result.assert_outcomes(passed=4, errors=2)
    left = "E *LeftBehind: left behind by this test: the fault TestPlans.block, which does not end"
    result.stdout.fnmatch_lines([left, "*", left])


@pytest.mark.parametrize("kind", [ManagedBroker, BrokerPair, BrokerCluster, Link, DiskSwitch, FaultPlan])
def test_every_method_runs_where_its_broker_does(kind: type) -> None:
    waits = {name for name, each in vars(kind).items() if name[0] != "_" and inspect.iscoroutinefunction(each)}
    assert {name for name in waits if not hasattr(vars(kind)[name], "__wrapped__")} == set()
    assert waits or any(hasattr(each, "__wrapped__") for each in vars(kind).values())


def test_async_fixtures_need_no_other_plugin(inner: Inner) -> None:
    result = inner(
        _ASYNCIO + _FIXTURES + _OF_TESTS,
        "-s",
    )
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines_random(
        [
            "*producer ends in trio",
            "*producer ends in asyncio",
            "*ValueError: in a task of the fixture",
            "*a scope of the fixture impatient cancelled the test*",
        ]
    )
    result.stdout.no_fnmatch_line("*TrioInternalError*")


_OF_ALL_RUNNERS = """
async def works(session, broker):
    await session.create_producer(ORDERS).send("it works")
    await broker.wait_for(queue="orders", count=1)
    return runner()

async def test_automatic(session, embedded_broker):
    assert await works(session, embedded_broker) == "asyncio"

@pytest.mark.asyncio
async def test_asyncio(session, embedded_broker):
    assert await works(session, embedded_broker) == "asyncio"

@pytest.mark.trio
async def test_trio(session, embedded_broker, nursery):
    nursery.start_soon(trio.sleep, 3600)
    assert await works(session, embedded_broker) == "trio"

@pytest.mark.anyio
async def test_anyio(session, embedded_broker, anyio_backend_name):
    assert await works(session, embedded_broker) == anyio_backend_name

async def test_of_theirs():
    assert runner() == "asyncio"

kept = []

async def test_left_in_asyncio(embedded_broker):
    kept.append(asyncio.create_task(asyncio.sleep(1000)))

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_left_in_anyio(embedded_broker):
    kept.append(asyncio.create_task(asyncio.sleep(1000)))

class TestFixturesEndWhatTheyGave:
    @pytest.fixture
    async def opened(self):
        opened = self.opened = []
        yield opened
        for each in opened:
            await each.close()

    @pytest.fixture
    async def task(self, opened):
        async with asyncio.TaskGroup() as group:
            yield lambda: group.create_task(asyncio.sleep(0.01))

    async def use(self, embedded_broker, opened, task):
        opened.append(await embedclient.asyncio.ConnectionFactory(embedded_broker.url).create_connection())
        task()
        assert self.opened is opened

    async def test_ended_in_asyncio(self, embedded_broker, opened, task):
        await self.use(embedded_broker, opened, task)

    @pytest.mark.anyio
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_ended_in_anyio(self, embedded_broker, opened, task):
        await self.use(embedded_broker, opened, task)

    async def test_still_left(self, embedded_broker, opened):
        kept.append(await embedclient.asyncio.ConnectionFactory(embedded_broker.url).create_connection())
"""


@SLOW_START
def test_each_test_has_the_runner_that_it_requests(inner: Inner) -> None:
    for name in ("pytest_trio", "pytest_asyncio", "anyio"):
        pytest.importorskip(name)
    result = inner(
        _ASYNCIO + _FIXTURES + _OF_ALL_RUNNERS,
        *("-p", "pytest_trio.plugin", "-p", "pytest_asyncio.plugin", "-p", "anyio.pytest_plugin"),
        *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
        subprocess=True,
    )
    result.assert_outcomes(passed=9, failed=2, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "FAILED *::test_left_in_asyncio*",
            "FAILED *::test_left_in_anyio*",
            "E *LeftBehind: *task* of sleep",
            "ERROR *::test_still_left*",
            "E *LeftBehind: *: a connection that it has opened by 'await' *",
        ]
    )


_OF_A_MODE = """
async def test_automatic(session, embedded_broker, request):
    await session.create_producer(ORDERS).send("it works")
    await embedded_broker.wait_for(queue="orders", count=1)
    print(f"ran in {runner()}.")
"""


@pytest.mark.parametrize(
    ("plugin", "mode", "loops"),
    [
        ("pytest_trio.plugin", "trio_mode=true", ["trio"]),
        ("anyio.pytest_plugin", "anyio_mode=auto", ["asyncio", "trio"]),
    ],
)
def test_a_mode_of_a_plugin_chooses_the_event_loop(inner: Inner, plugin: str, mode: str, loops: list[str]) -> None:
    pytest.importorskip(plugin.partition(".")[0])
    result = inner(_ASYNCIO + _FIXTURES + _OF_A_MODE, "-s", "-p", plugin, "-o", mode)
    result.assert_outcomes(passed=len(loops))
    result.stdout.fnmatch_lines_random([f"*ran in {loop}.*" for loop in loops])


def test_a_fault_that_fails_after_the_body_of_its_test_fails_the_test(inner: Inner) -> None:
    test = """
import asyncio, threading

class TestPlans:
    @pytest.fixture
    def begun(self):
        return threading.Event()

    @pytest.fixture
    def ended(self):
        ended = threading.Event()
        yield ended
        ended.set()

    async def beside(self, begun):
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            raise ValueError("seen late, in asyncio")

    def block(self, begun, ended):
        begun.set()
        ended.wait()
        raise ValueError("seen late, in a thread")

    @pytest.mark.asyncio
    async def test_in_the_loop_of_the_test(self, begun, embedded_broker, fault_plan):
        await embedded_broker.restart()
        fault_plan.at(0.0, self.beside, begun)
        await asyncio.to_thread(begun.wait)

    @pytest.mark.asyncio
    async def test_in_a_loop_of_its_own(self, begun, fault_plan):
        fault_plan.at(0.0, self.beside, begun)
        await asyncio.to_thread(begun.wait)

    def test_plain(self, begun, fault_plan_blocking, ended):
        fault_plan_blocking.at(0.0, self.block, begun, ended)
        begun.wait()
"""
    result = inner(test)
    result.assert_outcomes(passed=3, errors=3)
    result.stdout.fnmatch_lines_random(
        ["E *ValueError: seen late, in asyncio", "E *ValueError: seen late, in a thread"]
    )
