"""`embedbroker perf`: the figures add up, with a given broker and with one that it starts itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedbroker import EmbeddedBroker
from embedbroker.cli._commands import commands
from embedbroker.cli._perf import progress_line
from embedbroker.cli._perf_load import Load, Meter
from embedclient import BytesMessage, TextMessage
from embedclient.blocking import ConnectionFactory
from tests.embedbroker.cli.command_processes import started

SHORT = ["perf", "--seconds", "0.4", "--warmup", "0.1"]


def test_figures_of_a_given_broker() -> None:
    with EmbeddedBroker.in_thread() as broker:
        arguments = [*SHORT, "--url", broker.url, "--json", "--destination", "topic://perf", "--consumers", "2"]
        result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["sent"] > 0
    assert figures["received"] > figures["sent"]
    assert figures["broker_cpu_us_per_message"] is None
    latency = figures["latency_ms"]
    order = [latency[name] for name in ("min", "p50", "p90", "p99", "p999", "max")]
    assert order == sorted(order)
    assert order[0] > 0


def test_a_broker_of_its_own_with_durable_messages(tmp_path: Path) -> None:
    result = CliRunner().invoke(commands, [*SHORT, "--durable", "--producers", "2", "--rate", "100"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("2 producers, 1 consumers, durable, 1,024 bytes, queue://perf")
    assert "p99" in lines[3]
    assert "µs of processor time per message" in lines[4]


def test_a_broker_that_dies_is_told_in_one_line() -> None:
    with EmbeddedBroker.in_thread() as broker:
        options = ("--url", broker.url, "--destination", "topic://perf", "--seconds", "60", "--warmup", "0")
        with started("perf", *options) as process:
            with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                assert session.create_consumer("topic://perf").receive(timeout=30) is not None
            broker.crash()
            assert process.exit_code() == 5
            said = process.rest_of_errors()
    assert said.startswith(f"embedbroker: {options[1]}: ") and said.count("\n") == 1, said


def test_progress_tells_phase_and_counts() -> None:
    meter = Meter(Load("queue://q", 10.0, 2.0, 1, 1, 100, False, 100, None))
    assert progress_line(meter, 1.0).plain == "  1.0 of 12.0 s  warming up  sent 0  received 0"
    meter.open = True
    for _ in range(1500):
        meter.was_sent()
    assert progress_line(meter, 3.25).plain == "  3.2 of 12.0 s  measuring   sent 1,500  received 0"


def test_without_a_terminal_only_the_figures_are_printed() -> None:
    result = CliRunner().invoke(commands, [*SHORT, "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["sent"] > 0


def test_a_broker_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(commands, [*SHORT, "--url", "tcp://127.0.0.1:1"])
    assert result.exit_code == 5
    assert "127.0.0.1:1" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("body", ["hello", b"short"])
def test_messages_that_it_did_not_send_are_refused(body: str | bytes) -> None:
    with EmbeddedBroker.in_thread() as broker:
        with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
            message = TextMessage(body) if isinstance(body, str) else BytesMessage(body)
            session.create_producer("perf").send(message)
        url = broker.url
        result = CliRunner().invoke(commands, [*SHORT, "--url", url])
    assert result.exit_code == 6
    assert result.stderr == f"embedbroker: {url}: queue://perf has messages that are not of a measurement\n"
