"""Commands with an output that has no reader, that is closed, or that cannot show every character."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from click.testing import CliRunner

from embedbroker import EmbeddedBroker
from embedbroker.cli._commands import commands
from embedbroker.cli.drill import _command
from embedbroker.cli.drill._plan import DrillPlan, Findings
from embedbroker.cli.drill._run import Run
from embedclient.blocking import ConnectionFactory
from tests.embedbroker.cli.test_drill_verdicts import GOOD

NOBODY_READS = 128 + signal.SIGPIPE


@contextmanager
def without_reader() -> Iterator[TextIO]:
    """A stream such as that of `| head -1` when it has its line."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        yield stream


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """Of a command whose stdout and stderr have no reader."""
    with without_reader() as output, without_reader() as errors:
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setattr(sys, "stderr", errors)
        with pytest.raises(SystemExit) as ended:
            commands.main([*arguments], prog_name="embedbroker")
        # What Python does with both when the process ends.
        output.flush()
        errors.flush()
    return ended.value.code


def test_the_report_of_a_drill_is_written_although_nobody_reads_its_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def found(*_drill: object) -> Findings:
        return GOOD

    monkeypatch.setattr(_command, "conduct", found)
    report = tmp_path / "report.html"
    assert exit_code(monkeypatch, "drill", "--report", str(report)) == NOBODY_READS
    assert "PASSED" in report.read_text()


def test_a_drill_goes_on_when_nobody_reads_its_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan, report = DrillPlan(seconds=1, producers=1, consumers=1, size_bytes=10, rounds=0, seed=1), tmp_path / "a.html"

    async def conduct(_plan: object, _nodes: object, watch: Callable[..., object], _dead: object) -> Findings:
        watching = watch(Run(plan))
        await watching  # type: ignore[misc]  # ends, instead of with an error
        goes_on.append(True)
        return GOOD

    goes_on: list[bool] = []
    monkeypatch.setattr(_command, "conduct", conduct)
    exit_code(monkeypatch, "drill", "--report", str(report))
    assert goes_on and "PASSED" in report.read_text()


@pytest.fixture
def url() -> Iterator[str]:
    with EmbeddedBroker.in_thread() as broker:
        with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
            session.create_producer("q").send("1 €, \ud800")
        yield broker.url


def test_a_character_that_the_output_does_not_have_is_escaped(url: str) -> None:
    result = CliRunner(charset="latin-1").invoke(commands, ["receive", "--url", url, "q"])
    assert (result.exit_code, result.stdout) == (0, "1 \\u20ac, \\ud800\n")


def test_without_an_output_no_message_is_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        with pytest.raises(SystemExit) as ended:
            commands.main(["receive", "--url", url, "q"], prog_name="embedbroker")
        assert ended.value.code == 6
    assert CliRunner().invoke(commands, ["browse", "--url", url, "q"]).stdout.startswith("1 €")
