"""Load from Artemis' own command line: the perf client with its warm-up, and the blocking producer."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol
from uuid import uuid4

from attrs import frozen

from benchmarks.measured import CpuRecord, cpu_seconds
from tests.interop.brokers import BrokerUnderTest
from tests.interop.programs import Program
from tests.interop.registry import artemis_home

JVM = {"JAVA_ARGS": "-Xms512M -Xmx1G -XX:+UseParallelGC"}


@frozen
class PerfResult:
    """The steady state of one perf run: after the warm-up, whole seconds only."""

    received_per_second: float
    cpu_seconds_per_message: float
    p50_us: float
    p99_us: float
    samples: tuple[int, ...]


def perf_client(
    broker: BrokerUnderTest, destination: str, options: Sequence[str | int], *, warmup_s: int, measured_s: int
) -> PerfResult:
    """Run `artemis perf client`; its duration includes the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command: list[str | Path] = [artemis_home() / "bin" / "artemis", "perf", "client", "--silent"]
        words = ("--url", broker.url, "--message-size", 1024, "--json", report, *options, destination)
        times = ("--warmup", warmup_s, "--duration", warmup_s + measured_s)
        with CpuRecord(broker.pid) as cpu, Program([*command, *map(str, (*times, *words))], environment=JVM) as run:
            run.output(seconds_max=warmup_s + measured_s + 60)
        samples: list[dict[str, Any]] = json.loads(report.read_text())
    summary = samples[-1]
    assert summary["sampleType"] == "summary" and summary["result"] == "success", summary
    # The last interval holds the end of the run: left out.
    steady = [sample for sample in samples[:-2] if not sample["warmup"]]
    first, last = steady[0], steady[-1]
    seconds = (last["time"] - first["time"]) / 1000
    messages = sum(sample["received"] for sample in steady[1:])
    used = cpu.at(last["time"] / 1000) - cpu.at(first["time"] / 1000)
    transfer = summary["totalTransferTime"]
    return PerfResult(
        received_per_second=messages / seconds,
        cpu_seconds_per_message=used / messages,
        p50_us=transfer["50"],
        p99_us=transfer["99"],
        samples=tuple(sample["received"] for sample in steady),
    )


class Served(Protocol):
    """A broker, as its load needs it."""

    url: str

    @property
    def pid(self) -> int:
        """The process whose processor time counts."""


@frozen
class ProducerResult:
    """Blocking durable sends, from the first thread's first send to the last thread's last."""

    sent_per_second: float
    cpu_seconds_per_message: float


def producer(broker: Served, *, threads: int, per_thread: int, durable: bool = True) -> ProducerResult:
    """Run `artemis producer` into a fresh queue and drain it afterwards; both counts must be exact."""
    queue = f"queue://bench-{uuid4().hex[:8]}"
    target = ("--url", broker.url, "--destination", queue, "--silent")
    mode = () if durable else ("--non-persistent",)
    before = cpu_seconds(broker.pid)
    words = ("producer", *target, "--message-size", 1024, "--message-count", per_thread, "--threads", threads, *mode)
    lines = artemis(*words)
    used = cpu_seconds(broker.pid) - before
    elapsed = [int(match[1]) for line in lines if (match := re.search(r"milli second : (\d+)", line))]
    assert len(elapsed) == threads, lines
    total = threads * per_thread
    drained = artemis("consumer", *target, "--message-count", total)
    assert any(f"Consumed: {total} messages" in line for line in drained), drained[-3:]
    return ProducerResult(sent_per_second=total / max(elapsed) * 1000, cpu_seconds_per_message=used / total)


def artemis(*words: str | int, seconds_max: float = 600) -> list[str]:
    """Run one command of the distribution with a full-size JVM, and return its lines."""
    with Program([artemis_home() / "bin" / "artemis", *map(str, words)], environment=JVM) as program:
        return program.output(seconds_max=seconds_max)


def mean(results: Sequence[PerfResult], name: str) -> float:
    """Return the mean of one figure over rounds."""
    return fmean(getattr(result, name) for result in results)
