"""Files of a journal that are lost while the broker is down: the command refuses to start and prints what to do."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from embedclient import TextMessage
from embedclient.blocking import ConnectionFactory
from embedclient.errors import InvalidDestinationException
from tests.embedbroker.cli.command_processes import broker, finished

CANNOT_START = 3
MESSAGES = 200
# Small pieces of the journal, so that there are several.
BROKER_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
    <security-enabled>false</security-enabled>
    <journal-file-size>65536</journal-file-size>
</core></configuration>
"""


@pytest.fixture
def options(tmp_path: Path) -> list[str | Path]:
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML)
    return ["--config", file, "--data", tmp_path / "data"]


def fill(options: list[str | Path], end: signal.Signals) -> None:
    """A broker whose messages are all confirmed when the signal ends it."""
    with broker(*options) as (process, url):
        with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer("orders")
            for number in range(MESSAGES):
                producer.send(TextMessage(f"message {number} " + "x" * 500))
        process.send(end)
        process.exit_code()


def count(options: list[str | Path]) -> int:
    """How many messages a broker has that starts on what is there."""
    with (
        broker(*options) as (_process, url),
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_browser("orders") as browser,
    ):
        return sum(1 for _message in browser)


def refused(options: list[str | Path]) -> str:
    """What a broker prints that does not start."""
    ended = finished("run", "--port", "0", *options)
    assert ended.returncode == CANNOT_START, (ended.stdout, ended.stderr)
    return ended.stderr.splitlines()[-1]


@pytest.mark.search
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_broker_whose_segments_are_gone_refuses_to_be_live_and_empty(
    options: list[str | Path], tmp_path: Path, end: signal.Signals
) -> None:
    fill(options, end)
    data = tmp_path / "data"
    aside = tmp_path / "aside"
    aside.mkdir()
    for file in data.glob("segment-*"):
        file.rename(aside / file.name)
    said = refused(options)
    assert "there is no journal, but node" in said and "remove the record of the lock store (node.state)" in said
    verdict = finished("journal", "verify", "--json", data)
    assert verdict.returncode == 1
    assert json.loads(verdict.stdout)["refusal"] == "there is no journal, but node.state beside it names one"
    for file in aside.glob("segment-*"):
        file.rename(data / file.name)
    assert count(options) == MESSAGES
    for file in [*data.glob("segment-*"), data / "node.state"]:
        file.unlink()
    with pytest.raises(InvalidDestinationException):  # a new node, as the text states
        count(options)


@pytest.mark.search
def test_a_broker_without_the_end_of_its_journal_refuses_to_start(options: list[str | Path], tmp_path: Path) -> None:
    fill(options, signal.SIGTERM)
    data = tmp_path / "data"
    report = json.loads(finished("journal", "verify", "--json", data).stdout)
    assert report["sound"] and report["messages"] == MESSAGES
    newest = [segment["file"] for segment in report["segments"] if segment["batches"]][-1]
    (data / newest).rename(tmp_path / newest)
    assert "its newest segments are missing, or it is an older copy. Bring the missing files back" in refused(options)
    verdict = finished("journal", "verify", data)
    assert verdict.returncode == 1 and "but node.state beside it records that batch" in verdict.stdout
    (tmp_path / newest).rename(data / newest)
    assert count(options) == MESSAGES
