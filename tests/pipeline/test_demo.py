"""`embedbroker pipeline demo` as a user types it: small, with its own brokers, producer, Spark and failover."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.embedbroker.cli.command_processes import CommandProcess, started
from tests.pipeline.conftest import spark_environment

# In the environment of every process of a demo, so that what is left of one can be found.
MARK = "EMBEDBROKER_TEST_MARK"
END_S = 20.0
# Java's quicker compiler: in a minute the better one does not pay.
QUICK = ("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "temporary").mkdir()
    for name, value in {**spark_environment(), "TMPDIR": str(tmp_path / "temporary"), MARK: str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return f"{MARK}={tmp_path}"


def processes(mark: str) -> Iterator[int]:
    """Those that were started with the mark, and are not this one."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (place / "environ").read_bytes() and int(place.name) != os.getpid():
                yield int(place.name)
        except OSError:
            pass  # it has ended, or belongs to another user


def are_over(mark: str) -> bool:
    """Whether all of them end by themselves: a Java takes a moment when its parent process has gone."""
    for number in list(processes(mark)):
        try:
            end = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        try:
            if not select.select([end], [], [], END_S)[0]:
                return False
        finally:
            os.close(end)
    return True


@pytest.mark.usefixtures("mark")
def test_a_day_of_orders_survives_a_failover_exactly(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with started("pipeline", "demo", "--messages", "20000", *QUICK, "--output", output) as demo:
        said, errors = demo.process.communicate()
    assert demo.exit_code() == 0, said + errors
    assert "PASSED nothing lost, nothing twice" in said
    assert "audit: nothing is lost, acknowledged twice or damaged" in said
    assert re.search(r"audit: orders: log: 0 present, .* 20,001 read by cursor", said), said
    assert re.search(r"100%  sent 20,000  read 20,000  totals [\d,]+  failover \d+\.\d s", errors)
    page = (output / "report.html").read_text()
    assert (page.count("<svg"), page.count('class="kill"')) == (2, 4)
    assert list((output / "totals").glob("*.parquet"))
    assert list((tmp_path / "temporary").glob("embedbroker-demo-*")) == []


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
    ids=["ctrl-c", "terminated with its Java"],
)
def test_a_signal_leaves_no_process_and_no_directory(number: signal.Signals, tmp_path: Path, mark: str) -> None:
    with started("pipeline", "demo", "--messages", "1000000", *QUICK) as demo:
        _wait_for(demo, "  sent ")
        there = list(processes(mark))
        assert len(there) >= 5  # itself, two brokers, the producer, Java
        for each in there:
            with suppress(ProcessLookupError):  # some obey at once, and others end with them
                # Ctrl-C goes to the group in front, so not to the brokers, nor to workers, whose daemons lead groups.
                if number is signal.SIGTERM or os.getpgid(each) == os.getpgid(0):
                    os.kill(each, number)
        rest = demo.rest_of_errors()
        assert demo.exit_code() == 128 + number
    assert are_over(mark)
    # A worker of Spark's own may say that its pipe broke, because Java ended first; nothing of ours has a traceback.
    assert not re.search(r'File ".*/(embedbroker|embedclient)/', rest), rest
    assert list((tmp_path / "temporary").glob("embedbroker-demo-*")) == []


def _wait_for(demo: CommandProcess, word: str) -> None:
    while word not in (line := demo.error_line()):
        assert line, "it ended"


@pytest.mark.usefixtures("mark")
def test_wrong_arguments_get_one_line(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "precious").touch()
    with started("pipeline", "demo", "--output", tmp_path / "output") as demo:
        assert demo.rest_of_errors() == f"embedbroker: {tmp_path / 'output'} is not empty\n"
        assert demo.exit_code() == 2
    with started("pipeline", "demo", "--messages", "20") as demo:
        assert demo.rest_of_errors().splitlines()[-1].startswith("Error: Invalid value for '--messages': 20 ")
        assert demo.exit_code() == 2
