"""`artemis producer`, `browser`, `consumer` and `perf client` against our broker: every count is exact."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from tests.interop.artemis import command_line
from tests.interop.brokers import BrokerUnderTest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@pytest.fixture
def queue() -> str:
    return f"queue://cli-{uuid4().hex[:8]}"


def counted(word: str, lines: Sequence[str]) -> list[int]:
    """The counts in lines like `... thread=0 Produced: 300 messages`, one per thread."""
    found = {
        match[1]: int(match[2]) for line in lines if (match := re.search(rf"thread=(\d+) {word}: (\d+) messages", line))
    }
    return list(found.values())


def consume(broker: BrokerUnderTest, queue: str, *options: str | int) -> list[int]:
    lines = command_line("consumer", "--url", broker.url, "--destination", queue, "--silent", *options)
    return counted("Consumed", lines)


@pytest.mark.parametrize(
    ("threads", "options"),
    [
        (4, []),
        (1, ["--non-persistent", "--text-size", "2000"]),
        (1, ["--commit-interval", "50"]),
    ],
    ids=["threads", "text", "transacted"],
)
def test_what_the_producer_sends_is_browsed_and_consumed(
    broker: BrokerUnderTest, queue: str, threads: int, options: list[str]
) -> None:
    target = ("--url", broker.url, "--destination", queue, "--silent")
    size = [] if "--text-size" in options else ["--message-size", "1024"]
    sent = command_line("producer", *target, "--message-count", 250, "--threads", threads, *size, *options)
    assert counted("Produced", sent) == [250] * threads
    total = 250 * threads
    assert counted("browsed", command_line("browser", *target)) == [total]
    assert consume(broker, queue, "--message-count", total) == [total]
    assert consume(broker, queue, "--message-count", 1, "--break-on-null", "--receive-timeout", 200) == [0]


def test_a_transacted_consumer_with_a_filter_takes_its_share(broker: BrokerUnderTest, queue: str) -> None:
    command_line("producer", "--url", broker.url, "--destination", queue, "--silent", "--message-count", 100)
    taken = consume(broker, queue, "--message-count", 10, "--commit-interval", 5, "--filter", "count >= 90")
    assert taken == [10]
    assert consume(broker, queue, "--message-count", 90) == [90]


@pytest.mark.parametrize(
    ("destination", "options", "consumers"),
    [
        ("queue", [], 1),
        ("queue", ["--tx", "--persistent"], 1),
        ("queue", ["--producers", "3", "--consumers", "3", "--threads", "2"], 1),
        ("topic", ["--consumers", "4"], 4),
        ("topic", ["--durable", "--clientID", "perf", "--consumers", "2", "--persistent"], 2),
    ],
    ids=["queue", "transacted", "many", "topic", "durable-topic"],
)
def test_perf_client_receives_what_it_sent(
    broker: BrokerUnderTest, tmp_path: Path, destination: str, options: list[str], consumers: int
) -> None:
    report = tmp_path / "report.json"
    target = f"{destination}://perf-{uuid4().hex[:8]}"
    load = f"--message-count 3000 --message-size 1024 --max-pending 100 --json {report}".split()
    command_line("perf", "client", "--url", broker.url, "--silent", *load, *options, target)
    summary = next(sample for sample in json.loads(report.read_text()) if sample["sampleType"] == "summary")
    assert summary["result"] == "success"
    sent, completed, received = summary["totalSent"], summary["totalCompleted"], summary["totalReceived"]
    assert sent == completed
    assert (sent >= 3000, received) == (True, sent * consumers)
