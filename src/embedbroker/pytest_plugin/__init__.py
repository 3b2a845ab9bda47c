"""The pytest plugin: brokers as fixtures, in virtual time or on real sockets.

Pytest loads this module in every session where embedbroker is installed, so it imports pytest and lazy names only.
Other modules are imported with the first test that uses a fixture. Responsible for fixtures, options and reports;
``_bench`` has the rest.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import SystemRandom
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from embedclient._lazy import lazy_names

try:
    import pytest
except ModuleNotFoundError as error:
    text = "pytest is missing; install the extra: pip install 'embedbroker[testing]'"
    raise ModuleNotFoundError(text, name=error.name) from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ._async_fixtures import AsyncFixtures
    from ._bench import Bench, LeftBehind, Surface
    from ._bindings import BindingState
    from ._blocking import (
        BlockingBroker,
        BlockingClock,
        BlockingCluster,
        BlockingFaultPlan,
        BlockingPair,
    )
    from ._broker import ManagedBroker
    from ._clock import BrokerClock
    from ._cluster import BrokerCluster
    from ._disk import DiskSwitch
    from ._faults import FaultPlan
    from ._left_tasks import LeftTasks
    from ._link import Link
    from ._pair import BrokerPair
    from ._thread import BenchThread
    from ._waiting import WaitTimeout

__all__ = [
    "BindingState",
    "BlockingBroker",
    "BlockingClock",
    "BlockingCluster",
    "BlockingFaultPlan",
    "BlockingPair",
    "BrokerClock",
    "BrokerCluster",
    "BrokerPair",
    "DiskSwitch",
    "FaultPlan",
    "LeftBehind",
    "Link",
    "ManagedBroker",
    "WaitTimeout",
]

#: The kinds of pair that the two brokers of `broker_pair` can be: a test that uses it runs once for each.
PAIR_MODES = ("shared-store", "replication")
# A test that waits for an event that never happens costs real time, because of what brokers do by themselves meanwhile.
_VIRTUAL_TIMEOUT_S = 600.0
_REAL_TIMEOUT_S = 60.0
_BENCH = pytest.StashKey["Bench"]()
_THREAD = pytest.StashKey["BenchThread"]()
_ASYNC_FIXTURES = pytest.StashKey["AsyncFixtures"]()
_LEFT_TASKS = pytest.StashKey["LeftTasks"]()
# What is left when pytest has let go of a test.
_AROUND = pytest.StashKey[ExitStack]()
#: The fixtures of async tests: the tests that use one of them are this plugin's.
_OWN = frozenset({"embedded_broker", "broker_factory", "broker_pair", "broker_cluster", "fault_plan", "broker_clock"})


__getattr__ = lazy_names(
    __name__,
    {
        "._blocking": "BlockingBroker BlockingClock BlockingCluster BlockingFaultPlan BlockingPair",
        "._bindings": "BindingState",
        "._clock": "BrokerClock",
        "._cluster": "BrokerCluster",
        "._pair": "BrokerPair",
        "._disk": "DiskSwitch",
        "._faults": "FaultPlan",
        "._bench": "LeftBehind",
        "._link": "Link",
        "._broker": "ManagedBroker",
        "._waiting": "WaitTimeout",
    },
)


# -- options -------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; called by pytest."""
    group = parser.getgroup("embedbroker", "brokers in tests")
    group.addoption(
        "--embedbroker-real",
        action="store_true",
        help="run brokers on real sockets and files, in real time, instead of in memory and in virtual time",
    )
    group.addoption(
        "--embedbroker-seed",
        metavar="N",
        help="draw faults from this number, or from a new one each time with 'random'; "
        "otherwise each test has its own, which stays the same",
    )
    group.addoption(
        "--broker-url",
        metavar="URL",
        help="use the broker at this URL for embedded_broker; tests that need one of their own are skipped",
    )
    parser.addini(
        "embedbroker_timeout",
        "seconds after which a test with brokers is given up: "
        f"{_VIRTUAL_TIMEOUT_S:g} of virtual time, {_REAL_TIMEOUT_S:g} of real time",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks by which a test with our fixtures requests an event loop; called by pytest."""
    config.addinivalue_line("markers", "asyncio: run the test in asyncio")
    config.addinivalue_line("markers", "trio: run the test in trio")


def _seed(item: pytest.Item) -> int:
    given = item.config.getoption("--embedbroker-seed")
    if given == "random":
        return SystemRandom().randrange(1 << 32)
    if given is None:
        return zlib.crc32(item.nodeid.encode())
    try:
        return int(given)
    except ValueError:
        raise pytest.UsageError(f"--embedbroker-seed takes a number or 'random', not {given!r}") from None


def _timeout_s(config: pytest.Config, *, virtual: bool) -> float:
    text = config.getini("embedbroker_timeout")
    if not text:
        return _VIRTUAL_TIMEOUT_S if virtual else _REAL_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise pytest.UsageError(f"embedbroker_timeout must be a number of seconds above zero, not {text!r}")
    return seconds


# -- fixtures ------------------------------------------------------------------------------------------------------


def bench_of(request: pytest.FixtureRequest, otherwise: Surface | None = None) -> Bench:
    """Return the bench of an async test, made when its first fixture is.

    ``otherwise`` is the kind of surroundings without an option of the command line; None: virtual time.
    """
    item = request.node
    if _BENCH not in item.stash:
        _refuse_other_tests(request)
        from ._bench import Surface
        from ._runner import claim, runner_of

        runner = runner_of(item)
        if runner.loop == "asyncio":
            bench = _make_asyncio_bench(request)
        else:
            bench = _make_bench(request, otherwise or Surface.VIRTUAL)
        item.stash[_BENCH] = bench
        if bench.surface is Surface.VIRTUAL and _AROUND not in item.stash:
            from ._collector import CollectedSeldom

            item.stash[_AROUND] = around = ExitStack()
            around.enter_context(CollectedSeldom())
        claim(item, bench, runner, _async_fixtures_of(item), _left_tasks_of(item))
    found: Bench = item.stash[_BENCH]
    return found


def _refuse_other_tests(request: pytest.FixtureRequest) -> None:
    """Fail for a test that is not run by awaiting it once, and report why."""
    test, name, reason = inspect.unwrap(request.node.obj), request.fixturename, ""
    if _is_of_unittest(request):
        reason = ", and unittest runs its own"
    elif hasattr(request.node.obj, "hypothesis"):
        reason = ", and hypothesis makes a plain one of this"
    elif inspect.isasyncgenfunction(test):
        reason = ", which do not yield"
    elif inspect.iscoroutinefunction(test):
        return
    pytest.fail(f"{name} is for 'async def' tests{reason}; a plain one takes {name}_blocking", pytrace=False)


def _is_of_unittest(request: pytest.FixtureRequest) -> bool:
    from unittest import TestCase

    return request.cls is not None and issubclass(request.cls, TestCase)


def _async_fixtures_of(item: pytest.Item) -> AsyncFixtures:
    from ._async_fixtures import AsyncFixtures

    return item.stash.setdefault(_ASYNC_FIXTURES, AsyncFixtures())


def _left_tasks_of(item: pytest.Item) -> LeftTasks:
    from ._left_tasks import LeftTasks

    return item.stash.setdefault(_LEFT_TASKS, LeftTasks())


def _make_asyncio_bench(request: pytest.FixtureRequest) -> Bench:
    """Return the bench of a test in asyncio, which runs in another thread."""
    from ._bench import Surface
    from ._thread import BenchThread

    thread = request.node.stash[_THREAD] = BenchThread(_make_bench(request, Surface.SOCKETS), carries=True)
    thread.open()
    request.addfinalizer(thread.close)
    return thread.bench


def _make_bench(request: pytest.FixtureRequest, otherwise: Surface) -> Bench:
    from ._bench import Bench, Surface

    config = request.config
    surface = otherwise
    if config.getoption("--broker-url") is not None:
        surface = Surface.FOREIGN
    elif config.getoption("--embedbroker-real"):
        surface = Surface.REAL
    make_directory: Callable[[], Path] = lambda: request.getfixturevalue("tmp_path_factory").mktemp("broker")  # noqa: E731
    timeout_s = _timeout_s(config, virtual=surface is Surface.VIRTUAL)
    return Bench(surface, _seed(request.node), timeout_s, make_directory)


def _only_own(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--broker-url") is not None:
        from ._foreign import skip_foreign

        skip_foreign(str(request.fixturename))


def _name(bench: Bench, name: str | None) -> str:
    return f"broker-{len(bench.brokers) + 1}" if name is None else name


@pytest.fixture
def embedded_broker(request: pytest.FixtureRequest) -> ManagedBroker:
    """A broker, which runs when the test begins. It keeps durable messages over `crash` and `restart`."""
    url = request.config.getoption("--broker-url")
    bench = bench_of(request)
    broker = bench.foreign(url) if url is not None else bench.broker("broker", {}, starts=bench.carrier is None)
    if bench.carrier is not None:
        bench.carrier.call(broker.start)
    return broker


@pytest.fixture
def broker_factory(request: pytest.FixtureRequest) -> Callable[..., ManagedBroker]:
    """Make brokers: ``broker = await broker_factory("orders", id_cache_size=100).start()``.

    The name and the settings are those of a `BrokerConfig`. The test's end stops them.
    """
    _only_own(request)
    bench = bench_of(request)

    def make(name: str | None = None, **settings: Any) -> ManagedBroker:
        return bench.broker(_name(bench, name), settings, starts=False)

    return make


@pytest.fixture(params=PAIR_MODES)
def broker_pair(request: pytest.FixtureRequest) -> BrokerPair:
    """A live broker and its backup, which run when the test begins; the test runs once for each kind of pair."""
    _only_own(request)
    bench = bench_of(request)
    pair = bench.pair(request.param)
    if bench.carrier is not None:
        bench.carrier.call(pair.start)
    return pair


@pytest.fixture
def broker_cluster(request: pytest.FixtureRequest) -> Callable[..., BrokerCluster]:
    """Make clusters: ``cluster = await broker_cluster(4, message_load_balancing="STRICT").start()``.

    The settings are those of a `ClusterConnection`. ``connections=[{"name": "a", "addresses": ["a"]}, ...]`` gives each
    node several, with what is different in each. The test's end stops all brokers.
    """
    _only_own(request)
    return partial(_make_cluster, bench_of(request))


def _make_cluster(
    bench: Bench,
    count: int,
    *,
    pairs: bool | str = False,
    colocated: bool | str = False,
    topology: str | Mapping[int, Sequence[int]] = "symmetric",
    brokers: Mapping[str, Any] | Sequence[Mapping[str, Any]] = MappingProxyType({}),
    connections: Sequence[Mapping[str, Any]] = ({},),
    discovery: bool = False,
    **connection: Any,
) -> BrokerCluster:
    from ._topologies import make_cluster

    each = [{**connection, **one} for one in connections]
    return make_cluster(
        bench,
        count,
        pairs=pairs,
        colocated=colocated,
        topology=topology,
        brokers=brokers,
        connections=each,
        discovery=discovery,
    )


@pytest.fixture
def fault_plan(request: pytest.FixtureRequest) -> FaultPlan:
    """Faults beside the test, at given times or at times drawn from its seed."""
    _only_own(request)
    return bench_of(request).faults


@pytest.fixture
def broker_clock(request: pytest.FixtureRequest) -> BrokerClock:
    """The clock of the test."""
    return bench_of(request).clock


# -- fixtures of plain tests ---------------------------------------------------------------------------------------


@pytest.fixture
def _bench_thread(request: pytest.FixtureRequest) -> Generator[BenchThread, None, None]:
    """The thread in which the brokers of a plain test run."""
    if inspect.iscoroutinefunction(inspect.unwrap(request.node.obj)):
        pytest.fail("fixtures that end with _blocking are for plain tests, which are no 'async def'", pytrace=False)
    from ._bench import Surface
    from ._thread import BenchThread

    thread = BenchThread(_make_bench(request, Surface.SOCKETS), carries=False)
    request.node.stash[_THREAD] = thread
    thread.open()
    yield thread
    thread.close()


@pytest.fixture
def embedded_broker_blocking(request: pytest.FixtureRequest, _bench_thread: BenchThread) -> BlockingBroker:
    """`embedded_broker` for plain tests."""
    from ._blocking import BlockingBroker

    url = request.config.getoption("--broker-url")
    bench = _bench_thread.bench
    broker = bench.foreign(url) if url is not None else bench.broker("broker", {}, starts=False)
    _bench_thread.call(broker.start)
    return BlockingBroker(_bench_thread, broker)


@pytest.fixture
def broker_factory_blocking(
    request: pytest.FixtureRequest, _bench_thread: BenchThread
) -> Callable[..., BlockingBroker]:
    """`broker_factory` for plain tests: ``broker = broker_factory_blocking("orders").start()``."""
    _only_own(request)
    from ._blocking import BlockingBroker

    bench = _bench_thread.bench

    def make(name: str | None = None, **settings: Any) -> BlockingBroker:
        return BlockingBroker(_bench_thread, bench.broker(_name(bench, name), settings, starts=False))

    return make


@pytest.fixture(params=PAIR_MODES)
def broker_pair_blocking(request: pytest.FixtureRequest, _bench_thread: BenchThread) -> BlockingPair:
    """`broker_pair` for plain tests."""
    _only_own(request)
    from ._blocking import BlockingPair

    pair = _bench_thread.bench.pair(request.param)
    _bench_thread.call(pair.start)
    return BlockingPair(_bench_thread, pair)


@pytest.fixture
def broker_cluster_blocking(
    request: pytest.FixtureRequest, _bench_thread: BenchThread
) -> Callable[..., BlockingCluster]:
    """`broker_cluster` for plain tests: ``cluster = broker_cluster_blocking(4).start()``."""
    _only_own(request)
    from ._blocking import BlockingCluster

    def make(count: int, **settings: Any) -> BlockingCluster:
        return BlockingCluster(_bench_thread, _make_cluster(_bench_thread.bench, count, **settings))

    return make


@pytest.fixture
def fault_plan_blocking(request: pytest.FixtureRequest, _bench_thread: BenchThread) -> BlockingFaultPlan:
    """`fault_plan` for plain tests."""
    _only_own(request)
    from ._blocking import BlockingFaultPlan

    return BlockingFaultPlan(_bench_thread, _bench_thread.bench.faults)


@pytest.fixture
def broker_clock_blocking(_bench_thread: BenchThread) -> BlockingClock:
    """`broker_clock` for plain tests: real time."""
    from ._blocking import BlockingClock

    return BlockingClock(_bench_thread.begun_at)


# -- running -------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let the garbage collector run as before once pytest has let go of the brokers of a test.

    A collection before that would find them alive, and a later one would look at all of them again.
    """
    try:
        return (yield)
    finally:
        around = item.stash.get(_AROUND, None)
        if around is not None:
            del item.stash[_AROUND]
            around.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Make pytest-trio, where it runs a test, run it on our bench and our clock. Fixtures must not wait for ever."""
    __tracebackhide__ = True
    if item.get_closest_marker("trio") is not None and _has_pytest_trio(item.config):

        def run(test: Callable[[], Any], **options: Any) -> Any:
            bench = item.stash.get(_BENCH, None)
            if bench is None:
                import trio

                return trio.run(test, **options)
            from ._run import run_test

            return run_test(bench, test, **options)

        item.add_marker(pytest.mark.trio(run=run), append=False)
    with _in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Let the async fixtures of a test that this plugin runs wait for the event loop of the test."""
    if fixturedef.scope != "function" or not _waits_for_loop(fixturedef, request):
        with _plugin_of_test(fixturedef, request):
            return (yield)
    from ._async_fixtures import bound

    function = fixturedef.func
    here = bound(function, request.instance)
    # Neither other plugins nor pytest take this one for an async one.
    vars(fixturedef)["func"] = _async_fixtures_of(request._pyfuncitem).deferred(fixturedef.argname, here)
    try:
        return (yield)
    finally:
        vars(fixturedef)["func"] = function


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _is_own(item: pytest.Function) -> bool:
    """Return True for an async test that uses one of the fixtures."""
    return bool(_OWN & set(item.fixturenames)) and inspect.iscoroutinefunction(inspect.unwrap(item.obj))


@contextmanager
def _plugin_of_test(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Let the plugin that runs a test run its async fixture. Otherwise pytest-asyncio takes all of them in one mode."""
    options = request.config.option
    before, function, around = getattr(options, "asyncio_mode", None), fixturedef.func, None
    if fixturedef.scope == "function" and _is_async(function) and _is_own(request._pyfuncitem):
        from ._async_fixtures import bound
        from ._runner import runner_of

        runner = runner_of(request._pyfuncitem)
        options.asyncio_mode = "auto" if runner.plugin == "asyncio" else "strict"
        if runner.loop == "asyncio" and inspect.isasyncgenfunction(function):
            here = bound(function, request.instance)
            around = vars(fixturedef)["func"] = _left_tasks_of(request._pyfuncitem).around(here)
    try:
        yield
    finally:
        if around is not None:
            vars(fixturedef)["func"] = function
        if hasattr(options, "asyncio_mode"):
            options.asyncio_mode = before


def _waits_for_loop(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> bool:
    """Return True for an async fixture of a test that this plugin runs, and for a fixture on top of one."""
    item = request._pyfuncitem
    function = fixturedef.func
    if _is_async(function):
        if not _is_own(item):
            return False
        from ._runner import runner_of

        return runner_of(item).plugin is None and not hasattr(function, "_force_asyncio_fixture")
    if _ASYNC_FIXTURES not in item.stash:
        return False
    from ._async_fixtures import Later

    return any(isinstance(request.getfixturevalue(name), Later) for name in fixturedef.argnames if name != "request")


def _has_pytest_trio(config: pytest.Config) -> bool:
    from ._plugins import has_plugin

    return has_plugin(config, "trio")


@contextmanager
def _in_time(item: pytest.Item) -> Generator[None, None, None]:
    """Apply the deadline to a part of a test.

    That of the set-up begins with the brokers' thread, which the set-up makes.
    """
    thread = item.stash.get(_THREAD, None)
    if thread is not None:
        thread.begin_deadline()
    try:
        yield
    finally:
        thread = item.stash.get(_THREAD, None)
        if thread is not None:
            thread.end_deadline()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """End a plain test that waits for ever in the middle of it."""
    __tracebackhide__ = True
    with _in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """End the test's own fixtures, too, if they wait for ever at its end."""
    __tracebackhide__ = True
    with _in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the brokers' reports into the report of a test that failed."""
    report = yield
    thread = item.stash.get(_THREAD, None)
    if thread is not None and report.when == "call" and report.failed:
        thread.failed()
    bench = item.stash.get(_BENCH, None) if thread is None else thread.bench
    if bench is not None and report.failed and bench.report:
        report.sections.append(("brokers", bench.report))
    if call.when == "teardown":
        _forget(item)
    return report


def _forget(item: pytest.Item) -> None:
    """Remove the bench from an item. The session keeps every item to its end, and each would keep its brokers.

    A test that runs again is given new brokers.
    """
    if _BENCH in item.stash:
        del item.stash[_BENCH]
    if _THREAD in item.stash:
        del item.stash[_THREAD]
    if _ASYNC_FIXTURES in item.stash:
        del item.stash[_ASYNC_FIXTURES]
    if _LEFT_TASKS in item.stash:
        del item.stash[_LEFT_TASKS]
    vars(item).pop("runtest", None)
