"""The brokers and Java clients of the interop tests, started once per run and shared by the tests.

What a module starts for its tests is started once, too: with several processes, all tests of such a module are in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.interop.artemis import ArtemisBroker
from tests.interop.brokers import BrokerUnderTest, make_broker
from tests.interop.frame_relay import FrameRelay
from tests.interop.jms_matrix import JmsMatrix
from tests.interop.jvm import QUICK_START


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--against artemis` proves the tests themselves: the same cases against the real broker."""
    parser.addoption("--against", default="ours", help="the broker the Java clients use: ours, artemis, or a URL")


# Modules that start brokers for all their tests, and those that do so for each kind of pair.
_SHARING = frozenset(
    {
        "test_applications",
        "test_cluster_of_three",
        "test_discovered_cluster",
        "test_discovery",
        "test_management_of_both",
        "test_security",
        "test_tls",
        "test_users_of_both",
        "test_zookeeper",
    }
)
_SHARING_PAIRS = frozenset({"test_java_client_of_a_pair", "test_our_client_failover"})


class _SharedStarts(LoadScopeScheduling):  # type: ignore[misc,no-any-unimported]  # xdist has no types
    """Give each process all tests that share a broker, or one test; large units begin first.

    The marks `xdist_group` have no effect with pytest 9.2: xdist 3.8 appends them to names in a way that ended there.
    """

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        module = PurePath(path).stem
        if module in _SHARING:
            return module
        if module in _SHARING_PAIRS:
            return f"{module} {'replication' if '[replication' in test else 'shared-store'}"
        return nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Decide which process runs which test."""
    return _SharedStarts(config, log)


@pytest.fixture(scope="session", autouse=True)
def _quick_start() -> Iterator[None]:
    """Artemis' scripts, brokers and commands alike: no time for optimising what runs for seconds. Half of a start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_ARGS_APPEND", " ".join(QUICK_START))
        yield


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    """The broker the Java clients and command lines are driven against."""
    under_test = make_broker(pytestconfig.getoption("--against"), tmp_path_factory.mktemp("broker") / "instance")
    try:
        under_test.start()
        yield under_test
    finally:
        under_test.kill()


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisBroker]:
    """A real Artemis for our client."""
    with ArtemisBroker(tmp_path_factory.mktemp("artemis") / "instance") as running:
        yield running


@pytest.fixture(scope="session")
def matrices() -> Iterator[dict[str, JmsMatrix]]:
    """The JVMs by client version, filled by the tests that need one."""
    with ExitStack() as running:
        found: dict[str, JmsMatrix] = {}
        yield found
        for matrix in found.values():
            running.enter_context(matrix)


@pytest.fixture
def relay(broker: BrokerUnderTest) -> Iterator[FrameRelay]:
    """A relay in front of the broker under test."""
    with FrameRelay(broker.port) as running:
        yield running
