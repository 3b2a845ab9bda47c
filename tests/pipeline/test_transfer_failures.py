"""Exports and imports in whose middle a broker is killed, an answer is lost, or their driver is killed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline import export_queues, import_queues
from embedbroker.pipeline._export import TransferResult, export_queue
from embedbroker.pipeline._export_folder import ExportFolder
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._transfer import import_parts
from embedclient.blocking import ConnectionFactory
from tests.interop.frame_relay import NULL_RESPONSE, SESS_COMMIT, SESS_RECEIVE_MSG, SESS_SEND, FrameRelay
from tests.interop.our_pair import EmbeddedPair
from tests.interop.programs import Program
from tests.pipeline.conftest import ROOT, spark_environment
from tests.pipeline.test_transfer import contents, fill, moved

MESSAGES = 300
PER_PART = 30
PROGRAM = f"""
import sys
from embedbroker.pipeline import export_queues, import_queues
from tests.pipeline.conftest import make_spark

job, url, folder = sys.argv[1:]
spark = make_spark()
if job == "export":
    export_queues(spark, ["orders"], folder, url=url, messages_per_part={PER_PART})
else:
    import_queues(spark, folder, url=url)
"""


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPair]:
    """A primary and its backup, in processes of their own."""
    with EmbeddedPair(tmp_path_factory.mktemp("pair"), replicated=False) as running:
        yield running


@pytest.fixture
def relay_to_primary(pair: EmbeddedPair) -> Iterator[FrameRelay]:
    with FrameRelay(int(pair.primary.url.rpartition(":")[2])) as running:
        yield running


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ThreadedBroker]:
    """Where exports go to, or come from."""
    with EmbeddedBroker.in_thread(BrokerConfig(data_directory=str(tmp_path / "other"))) as running:
        yield running


@pytest.fixture
def relay(other: ThreadedBroker) -> Iterator[FrameRelay]:
    with FrameRelay(int(other.url.rpartition(":")[2])) as running:
        yield running


def through(relay: FrameRelay, parameters: str = "", backup: str = "") -> ConnectionOptions:
    """A broker that is killed early may not have announced its backup to clients, so they get it here."""
    servers = ",".join(filter(None, (f"tcp://127.0.0.1:{relay.port}", backup)))
    return ConnectionOptions(f"({servers}){parameters}")


def exported(url: str, folder: Path) -> Path:
    """The folder of the queue's export."""
    assert export_queue(ConnectionOptions(url), "orders", str(folder), PER_PART).messages == MESSAGES
    return folder / "orders"


def imported(connection: ConnectionOptions, queue: str, folder: Path) -> TransferResult:
    """All parts, in one task."""
    return import_parts(connection, queue, folder, ExportFolder(folder).parts())


def test_an_export_goes_on_at_the_backup_when_the_primary_is_killed(
    pair: EmbeddedPair, relay_to_primary: FrameRelay, other: ThreadedBroker, tmp_path: Path
) -> None:
    """Behind some parts, and with more in the client's hands: in one task, whole, once, in order."""
    fill(pair.primary.url, MESSAGES)
    before = contents(pair.primary.url)
    relay_to_primary.when(SESS_RECEIVE_MSG, from_broker=True, number=4 * PER_PART + 7, act=pair.kill)
    # Small, so that a part is written before all of the queue is under way.
    source = through(relay_to_primary, "?consumerWindowSize=3000", backup=pair.backup.url)
    result = export_queue(source, "orders", str(tmp_path / "export"), PER_PART)
    assert (result.messages, result.before) == (MESSAGES, 0)
    assert not pair.primary.running
    assert imported(ConnectionOptions(other.url), "orders", tmp_path / "export" / "orders").messages == MESSAGES
    assert contents(other.url) == before == contents(pair.backup.url)


@pytest.mark.parametrize(("kind", "number"), [(SESS_SEND, 4 * PER_PART + 7), (SESS_COMMIT, 4)], ids=["send", "commit"])
def test_an_import_goes_on_at_the_backup_when_the_primary_is_killed(
    pair: EmbeddedPair, relay_to_primary: FrameRelay, other: ThreadedBroker, tmp_path: Path, kind: int, number: int
) -> None:
    fill(other.url, MESSAGES)
    folder = exported(other.url, tmp_path / "export")
    relay_to_primary.when(kind, from_broker=False, number=number, act=pair.kill)
    result = imported(through(relay_to_primary, backup=pair.backup.url), "orders", folder)
    assert (result.messages, result.before) == (MESSAGES, 0)
    assert not pair.primary.running
    assert contents(pair.backup.url) == contents(other.url)


def test_an_import_that_does_not_hear_of_a_commit_sends_nothing_twice(
    broker: ThreadedBroker, other: ThreadedBroker, relay: FrameRelay, tmp_path: Path
) -> None:
    fill(broker.url, MESSAGES)
    folder = exported(broker.url, tmp_path / "export")
    relay.when(SESS_COMMIT, from_broker=False, number=4, act=lambda: relay.lose(NULL_RESPONSE, from_broker=True))
    assert imported(through(relay), "orders", folder).messages == MESSAGES
    assert relay.lost == 1
    assert contents(other.url) == contents(broker.url)


def killed(command: Sequence[str | Path], relay: FrameRelay, kind: int, *, from_broker: bool, number: int) -> None:
    """Run a driver, and kill it with all that it started when the broker is about to get, or sent, such a frame."""
    with Program(command, environment=spark_environment(), directory=ROOT) as driver:
        relay.when(kind, from_broker=from_broker, number=number, act=driver.kill_at_once)
        assert driver.ended(seconds_max=300) == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.timeout(600)  # a Spark starts three times
def test_a_driver_that_is_killed_in_its_middle_is_started_again_and_goes_on(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, relay: FrameRelay, tmp_path: Path
) -> None:
    """While it exports, and then while it imports."""
    fill(other.url, MESSAGES)
    before = contents(other.url)
    folder, url = tmp_path / "export", through(relay, "?consumerWindowSize=3000").url
    program = [sys.executable, "-c", PROGRAM]
    killed([*program, "export", url, folder], relay, SESS_RECEIVE_MSG, from_broker=True, number=4 * PER_PART + 7)
    written = PER_PART * len(list((folder / "orders").glob("part-*.parquet")))
    assert 0 < written < MESSAGES
    assert moved(export_queues(spark, ["orders"], folder, url=other.url, messages_per_part=PER_PART)) == (
        MESSAGES - written,
        written,
    )
    with (
        ConnectionFactory(other.url).connect() as connection,
        connection.session() as session,
        session.create_consumer("orders") as consumer,
    ):
        for _ in before:
            assert consumer.receive(timeout=5) is not None
    killed([*program, "import", url, folder], relay, SESS_COMMIT, from_broker=False, number=4)
    sent = len(contents(other.url))
    assert 0 < sent < MESSAGES
    assert moved(import_queues(spark, folder, url=other.url)) == (MESSAGES - sent, sent)
    assert contents(other.url) == before
