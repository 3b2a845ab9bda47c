"""Java clients learn our live broker and its backup from us, and go from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker, HAPolicy, ThreadedBroker
from embedbroker.config import ClusterConnection, SharedStoreBackup, SharedStorePrimary
from tests.interop.jms_matrix import JVM_OPTIONS, JmsMatrix, cases_of
from tests.interop.our_pair import PairUnderTest, make_pair
from tests.interop.programs import Program
from tests.interop.registry import ARTEMIS_VERSION, CLIENT_VERSIONS, matrix_classpath

SECONDS_MAX = 90
pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

# What a client of this release does, old ones do too; that they follow at all is shown with plain sessions.
CASES = [(ARTEMIS_VERSION, case) for case in cases_of("PairCases")]
CASES += [(version, "pair-plain") for version in CLIENT_VERSIONS if version != ARTEMIS_VERSION]


def member(name: str, directory: Path, policy: HAPolicy, connectors: dict[str, str]) -> ThreadedBroker:
    return EmbeddedBroker.in_thread(
        name=name,
        data_directory=str(directory),
        ha_policy=policy,
        connectors=connectors,
        cluster_connections=ClusterConnection(static_connectors=tuple(connectors)),
        cluster_user="cluster",
        cluster_password="secret",
    )


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[ThreadedBroker]:
    with member("primary", tmp_path / "data", SharedStorePrimary(failover_on_shutdown=True), {}) as broker:
        yield broker


def backup_of(primary: ThreadedBroker) -> ThreadedBroker:
    assert primary.config.data_directory is not None
    return member("backup", Path(primary.config.data_directory), SharedStoreBackup(), {"primary": primary.url})


def client_of(url: str, *words: str) -> Program:
    return Program(["java", *JVM_OPTIONS, "-cp", matrix_classpath(ARTEMIS_VERSION), "interop.PairClient", url, *words])


def ha_url(broker: ThreadedBroker) -> str:
    return f"{broker.url}?ha=true&reconnectAttempts=-1&retryInterval=100"


def test_a_client_that_was_there_first_is_told_of_the_backup_and_a_later_one_at_once(primary: ThreadedBroker) -> None:
    with client_of(ha_url(primary)) as client:
        alone = client.wait_for(r"^up (\S+) (\S+) (\S+)$", seconds_max=SECONDS_MAX)
        assert alone.groups()[1:] == (str(primary.port), "-")
        client.wait_for("^connected", seconds_max=SECONDS_MAX)
        with backup_of(primary):
            pair = client.wait_for(r"^up (\S+) (\S+) (\d+)$", seconds_max=SECONDS_MAX)
            assert pair.group(1) == alone.group(1)
            with client_of(ha_url(primary)) as late:
                told = late.wait_for(r"^up (\S+) (\S+) (\S+)$", seconds_max=SECONDS_MAX)
                assert told.groups() == pair.groups()


@pytest.fixture(scope="module", params=["shared-store", "replication"])
def running_pair(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PairUnderTest]:
    directory = tmp_path_factory.mktemp("pair")
    kind = pytestconfig.getoption("--against")
    with make_pair(kind, directory, replicated=request.param == "replication") as pair:
        yield pair


@pytest.fixture
def pair(running_pair: PairUnderTest) -> Iterator[PairUnderTest]:
    """The primary is live when a test begins."""
    yield running_pair
    if not running_pair.primary.running:
        running_pair.fail_back()


@pytest.mark.parametrize(("version", "case"), CASES)
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_sessions_go_on_at_the_backup_and_again_at_the_primary(
    version: str, case: str, end: str, pair: PairUnderTest, matrices: dict[str, JmsMatrix]
) -> None:
    matrix = matrices.get(version)
    if matrix is None:
        matrix = matrices[version] = JmsMatrix(version)
    failure = matrix.run(case, pair.primary.url, {"fail": getattr(pair, end), "back": pair.fail_back})
    if failure:
        pytest.fail(failure, pytrace=False)
