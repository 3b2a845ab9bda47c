"""`artemis data print` finds nothing in a directory of ours, and harms nothing; the same the other way round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker
from embedclient import Queue
from embedclient.blocking import ConnectionFactory
from tests.interop.artemis import ArtemisBroker, command_line

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

BODIES = ["tea", "x" * 300_000]


def test_artemis_prints_an_empty_journal_and_leaves_ours_as_it_was(tmp_path: Path) -> None:
    orders = Queue("orders")
    with (
        EmbeddedBroker.in_thread(data_directory=str(tmp_path)) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
    ):
        for body in BODIES:
            session.create_producer(orders).send(body)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    places = [word for name in ("journal", "bindings", "paging", "large-messages") for word in (f"--{name}", tmp_path)]
    printed = command_line("data", "print", *map(str, places))
    assert printed.count("message count=0") == 2
    assert "tea" not in "".join(printed)
    # Artemis makes files beside ours, which this broker does not read.
    made = {path.suffix for path in tmp_path.iterdir() if path not in before}
    assert made == {".amq", ".bindings"}
    assert {path: path.read_bytes() for path in before} == before
    with (
        EmbeddedBroker.in_thread(data_directory=str(tmp_path)) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
        session.create_consumer(orders) as consumer,
    ):
        for body in BODIES:
            message = consumer.receive(timeout=5)
            assert message is not None and message.body == body


def test_our_commands_refuse_a_directory_of_artemis(artemis: ArtemisBroker) -> None:
    directory = artemis.directory / "data" / "journal"
    assert list(directory.glob("*.amq"))
    command = [sys.executable, "-m", "embedbroker.cli", "journal", "verify", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    text = f"embedbroker: cannot open directory {directory}: it holds the journal of an Apache Artemis broker, "
    assert done.returncode == 3 and done.stderr.startswith(text)
