"""`embedbroker pipeline ...` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.cli import _pipeline
from embedbroker.cli._commands import commands
from embedbroker.cli._failure import Refused
from embedbroker.pipeline._repair import PLAN_TYPES
from embedclient.blocking import ConnectionFactory
from tests.pipeline.journals import received, running, send, take


@pytest.fixture
def at_hand(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session of the tests and leave it running."""

    @contextmanager
    def session(_master: str, _settings: tuple[str, ...]) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(_pipeline, "spark_session", session)


def pipeline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, ["pipeline", *map(str, arguments)])


@pytest.mark.usefixtures("at_hand")
def test_an_audit_is_printed_and_written(tmp_path: Path) -> None:
    with running(tmp_path / "live", segment_size_bytes=256 * 1024) as (_, connection):
        send(connection, "orders", 9)
        take(connection, "orders", 4)
    report = tmp_path / "report"
    result = pipeline("audit", tmp_path / "live", "--output", report, "--producer", "producer", "--sequence", "number")
    assert result.exit_code == 0, result.output
    assert "orders: 5 present, 9 stored, 4 acknowledged" in result.stdout
    assert "orders, producer a: 5 present, 9 stored, 4 acknowledged, 0 out of order, 0 repeated\n" in result.stdout
    assert (report / "report.html").exists()
    again = pipeline("audit", tmp_path / "live", "--output", report)
    assert (again.exit_code, again.stderr) == (2, f"embedbroker: {report} is not empty\n")


@pytest.mark.usefixtures("at_hand")
def test_an_audit_takes_logs_that_stand_elsewhere(tmp_path: Path) -> None:
    config = BrokerConfig(data_directory=str(tmp_path / "journal"), audit_directory=str(tmp_path / "logs" / "live"))
    with (
        EmbeddedBroker.in_thread(config) as broker,
        ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
    ):
        send(connection, "orders", 9)
        take(connection, "orders", 4)
    places = (tmp_path / "journal", tmp_path / "logs" / "live")
    result = pipeline("audit", *places, "--producer", "producer", "--sequence", "number")
    assert result.exit_code == 0, result.output
    assert "orders, producer a: 5 present, 9 stored, 4 acknowledged, 0 out of order, 0 repeated\n" in result.stdout
    assert "orders: 5 present, 9 stored, 4 acknowledged" in result.stdout
    assert "orders: log: 5 present, 9 sent, 9 confirmed" in result.stdout
    assert " delivered, 4 acknowledged; send to acknowledge" in result.stdout
    alone = pipeline("audit", places[1])
    assert alone.exit_code == 0, alone.output
    assert "orders: log: 5 outstanding, 9 sent, 9 confirmed" in alone.stdout and "was not read" in alone.stdout


@pytest.mark.usefixtures("at_hand")
def test_a_damaged_journal_ends_with_a_verdict(tmp_path: Path) -> None:
    with running(tmp_path, segment_size_bytes=256 * 1024) as (_, connection):
        send(connection, "orders", 9)
        send(connection, "orders", 9)
    [segment] = tmp_path.glob("segment-*.journal")
    with segment.open("r+b") as file:
        file.seek(file.read().index("orders".encode("utf-16-le")))
        file.write(b"\xff")
    result = pipeline("audit", tmp_path)
    assert result.exit_code == 1
    assert "DAMAGED" in result.stdout and "SOMETHING IS WRONG" in result.stdout
    verdict = json.loads(pipeline("audit", tmp_path, "--json").stdout)
    assert not verdict["sound"] and any(not finding["torn"] for finding in verdict["findings"])
    assert {row["queue"] for row in verdict["queues"]} >= {"orders"} and verdict["limits"]


@pytest.mark.usefixtures("at_hand")
def test_a_queue_travels_and_sites_are_compared(broker: ThreadedBroker, tmp_path: Path) -> None:
    with running(tmp_path / "live") as (source, connection):
        send(connection, "orders", 6)
        exported = pipeline("export", tmp_path / "export", "--queue", "orders", "--url", source.url, "--parallel")
        assert exported.stdout == "orders: 6 messages written, 0 were there\n"
        plan = tmp_path / "plan"
        with ConnectionFactory(broker.url).connect() as target:
            send(target, "orders", 1)
        compared = pipeline("reconcile", source.url, broker.url, "--queue", "orders", "--plan", plan)
        assert (compared.exit_code, compared.stdout) == (
            1,
            f"orders: 1 extra\norders: 6 missing\nplan: {plan}, 7 steps\n",
        )
        dry = pipeline("repair", plan, "--url", broker.url)
        assert (dry.stdout.count("would be sent"), dry.stdout.count("would be removed (1)")) == (6, 1)
        applied = pipeline("repair", plan, "--url", broker.url, "--apply", "--json")
        steps = [json.loads(line) for line in applied.stdout.splitlines()]
        assert sorted({(step["action"], step["outcome"]) for step in steps}) == [
            ("remove", "removed (1)"),
            ("resend", "sent (1)"),
        ]
        same = pipeline("reconcile", source.url, broker.url, "--queue", "orders", "--json")
        assert (same.exit_code, json.loads(same.stdout)) == (0, {"event": "same"})
    imported = pipeline("import", tmp_path / "export", "--url", broker.url, "--parallel")
    assert imported.stdout == "orders: 6 messages sent, 0 were there\n"


def test_a_comparison_says_where_messages_may_be_in_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker does not show them to a browser."""

    def refused(_master: str, _settings: tuple[str, ...]) -> None:
        raise Refused("far enough")

    monkeypatch.setattr(_pipeline, "spark_session", refused)
    with running(tmp_path / "live") as (source, connection):
        send(connection, "orders", 3)
        send(connection, "prices", 3)
        url = source.url
        with connection.session() as session, session.create_consumer("orders") as consumer:
            assert received(consumer) is not None
            compared = pipeline("reconcile", url, tmp_path / "live")
    assert compared.stdout == (f"orders at {url}: 1 consumers; what is being delivered to them is not seen\n")


@pytest.mark.usefixtures("at_hand")
def test_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    result = pipeline("audit", tmp_path / "missing")
    assert (result.exit_code, result.stderr) == (
        3, f"embedbroker: cannot open directory {tmp_path / 'missing'}: No such file or directory\n",
    )  # fmt: skip
    result = pipeline("audit", tmp_path, "--producer", "p")
    assert (result.exit_code, result.stderr) == (2, "embedbroker: --producer and --sequence belong together\n")


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a Spark fails."""

    def session(_master: str, _settings: tuple[str, ...]) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(_pipeline, "spark_session", session)


NOBODY = "tcp://127.0.0.1:1?initialConnectAttempts=2&retryInterval=1"
REFUSED = {
    "audit of nothing": (["audit", "missing"], 3, "No such file or directory"),
    "audit of a folder without a journal": (["audit", "empty"], 3, "there is no journal in"),
    "audit of another file": (["audit", "file"], 3, "neither a directory nor an archive"),
    "audit of the same twice": (["audit", "empty", "empty"], 2, "is given twice"),
    "comparison with nothing": (["reconcile", "missing", NOBODY], 3, "No such file or directory"),
    "comparison with nobody": (["reconcile", NOBODY, "missing"], 5, "127.0.0.1:1"),
    "comparison with no broker's URL": (["reconcile", "nowhere://x", NOBODY], 5, "nowhere"),
    "plan in a place that is taken": (["reconcile", NOBODY, NOBODY, "--plan", "empty"], 2, "is there already"),
    "export from nobody": (["export", "new", "--queue", "q", "--url", NOBODY], 5, "127.0.0.1:1"),
    "export from no URL": (["export", "new", "--queue", "q", "--url", "here"], 5, "the URL has no scheme"),
    "import of no export": (["import", "empty", "--url", NOBODY], 2, "there is no export in"),
    "import of another JSON": (["import", "foreign", "--url", NOBODY], 2, "foreign/q/queue.json is not of an export"),
    "import of a torn JSON": (["import", "torn", "--url", NOBODY], 2, "torn/q/queue.json is damaged"),
    "import of a torn note": (["import", "noted", "--url", NOBODY], 2, "noted/q/imported-1.json is damaged"),
    "repair with a text": (["repair", "file", "--url", NOBODY], 2, "file is no plan of reconcile"),
    "repair with other columns": (["repair", "other.parquet", "--url", NOBODY], 2, "no column action, queue"),
    "repair with other actions": (["repair", "steps.parquet", "--url", NOBODY], 2, "it has the action 'keep'"),
    "repair with an empty folder": (["repair", "empty", "--url", NOBODY], 2, "written to its end"),
    "repair with half of a plan": (["repair", "half", "--url", NOBODY], 2, "written to its end"),
}
FILES = {
    "foreign/q/queue.json": "{}",
    "torn/q/queue.json": '{"queue": "q", "addr',
    "noted/q/queue.json": '{"queue": "q", "address": "q", "routing": "ANYCAST"}',
    "noted/q/complete.json": '{"messages": 1}',
    "noted/q/imported-1.json": '{"mess',
    "half/_temporary/0/part-0.parquet": "",
}


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("name", REFUSED)
def test_wrong_places_and_urls_are_refused_before_spark_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no journal")
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    steps = {column: pa.array([None], kind) for column, kind in PLAN_TYPES.items()} | {"action": pa.array(["keep"])}
    pq.write_table(pa.table(steps), tmp_path / "steps.parquet")
    arguments, code, reason = REFUSED[name]
    result = pipeline(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("embedbroker: ") and reason in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("library", ["pyspark", "pyarrow"])
def test_without_the_extra_one_line_says_so(library: str, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.modules[{library!r}] = None; sys.argv[1:] = ['pipeline', 'audit', {str(tmp_path)!r}]\n"
        "from embedbroker.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == (
        f"embedbroker: {library} is missing; install the extra: pip install 'embedbroker[spark]'"
    )


def test_the_help_needs_no_spark() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None; sys.argv[1:] = ['pipeline', '--help']\n"
        "from embedbroker.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0
    assert all(name in result.stdout for name in ("audit", "reconcile", "repair", "export", "import"))
