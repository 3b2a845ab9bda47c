"""The pytest plugin: brokers as fixtures, in virtual time or on real sockets.

Pytest loads this module in every session where embedbroker is installed, so it imports pytest and lazy names only.
Other modules are imported with the first test that uses a fixture. Responsible for fixtures, options and reports;
``_bench`` has the rest.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from random import SystemRandom
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ._bench import Bench, LeftBehind, Surface
    from ._bindings import BindingState
    from ._blocking import (
        BenchThread,
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
    from ._link import Link
    from ._pair import BrokerPair
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
        _refuse_other_loops(request)
        from ._bench import Surface

        bench = item.stash[_BENCH] = _make_bench(request, otherwise or Surface.VIRTUAL)
        if item.get_closest_marker("trio") is None:
            _claim(item, bench)
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


def _refuse_other_loops(request: pytest.FixtureRequest) -> None:
    """Fail for a mark that requests asyncio. A plugin that takes every async test for its own is no reason to fail."""
    item = request.node
    parents = [*getattr(item.function, "pytestmark", []), *item.parent.iter_markers()]
    marks = {mark.name for mark in parents}
    wants = "asyncio" if "asyncio" in marks else None
    # Where anyio takes every async test, each has a backend that it did not request.
    wants_anyio = "anyio" in marks or "anyio_backend" in inspect.signature(item.function).parameters
    if wants_anyio and "anyio_backend" in item.fixturenames:
        backend = request.getfixturevalue("anyio_backend")
        name = backend if isinstance(backend, str) else backend[0]
        wants = name if name != "trio" else wants
    if wants is not None:
        pytest.fail(
            f"{request.fixturename} runs its test in trio, and this one is marked to run in {wants}: "
            f"remove the mark, or make it a plain test with {request.fixturename}_blocking",
            pytrace=False,
        )


def _claim(item: pytest.Function, bench: Bench) -> None:
    """Make an async test run on its bench, whatever other plugin takes async tests and however it does it."""

    def runtest() -> None:
        test = item.obj

        def plain(**fixtures: Any) -> None:
            import trio.abc

            from ._run import run_test

            clocks = [value for value in item.funcargs.values() if isinstance(value, trio.abc.Clock)]
            if len(clocks) > 1:
                raise pytest.UsageError("a test has one clock")
            run_test(bench, lambda: test(**fixtures), clock=clocks[0] if clocks else None)

        item.obj = plain
        try:
            pytest.Function.runtest(item)
        finally:
            item.obj = test

    # In automatic mode pytest-asyncio has put its mark on the test, and would warn of a test that is not async.
    item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "asyncio"]
    vars(item)["runtest"] = runtest


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
    return bench.foreign(url) if url is not None else bench.broker("broker", {}, starts=True)


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
    return bench_of(request).pair(request.param)


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
    from ._blocking import BenchThread

    thread = BenchThread(_make_bench(request, Surface.SOCKETS))
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
    return _bench_thread.clock


# -- running -------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Make pytest-trio, where it runs a test, run it on our bench and our clock. Fixtures must not wait for ever."""
    if item.get_closest_marker("trio") is not None:

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
    with _in_time(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """End the test's own fixtures, too, if they wait for ever at its end."""
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
    vars(item).pop("runtest", None)
