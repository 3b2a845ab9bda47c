"""Cases in which the same Java client drives our broker and Artemis in turn."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import fmean

from attrs import frozen

from benchmarks.java_load import PerfResult, ProducerResult, artemis, mean, perf_client, producer
from benchmarks.report import Row
from tests.interop.artemis import ArtemisBroker
from tests.interop.brokers import BrokerUnderTest, EmbeddedBrokerProcess
from tests.interop.programs import ProgramError

QUEUED_ELSEWHERE = 1_000_000


@frozen
class Effort:
    """How long and how often a case runs: full figures, or a look in a minute."""

    warmup_s: int
    measured_s: int
    rounds: int
    durable_messages: int
    queued_elsewhere: int


FULL = Effort(warmup_s=45, measured_s=20, rounds=2, durable_messages=4_000, queued_elsewhere=QUEUED_ELSEWHERE)
QUICK = Effort(warmup_s=8, measured_s=6, rounds=1, durable_messages=500, queued_elsewhere=20_000)


@contextmanager
def both_brokers() -> Iterator[dict[str, BrokerUnderTest]]:
    """Start ours and Artemis, with journals on the same disk; Artemis with AIO where the machine has it."""
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder:
        ours = EmbeddedBrokerProcess(Path(folder) / "ours")
        reference = _start_artemis(Path(folder))
        try:
            ours.start()
            yield {"ours": ours, "reference": reference}
        finally:
            ours.kill()
            reference.kill()


def _start_artemis(folder: Path) -> ArtemisBroker:
    broker = ArtemisBroker(folder / "artemis", journal=artemis_journal(), memory="2G")
    broker.start()
    return broker


@cache
def artemis_journal() -> str:
    """Return Artemis' fastest journal that this machine has: AIO, which needs libaio (`apt install libaio1`), or NIO.

    The broker's log decides: without libaio a broker that is configured for AIO uses NIO.
    """
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder:
        broker = ArtemisBroker(Path(folder) / "aio", journal="aio")
        try:
            broker.launch()
            found = broker.wait_for(r"Using (AIO|NIO) Journal").split()[1].lower()
        except ProgramError:
            found = "nio"
        finally:
            broker.kill()
    print(f"  Artemis' journal: {found}", flush=True)
    return found


def alternating(
    effort: Effort, run: Callable[[BrokerUnderTest], PerfResult]
) -> tuple[list[PerfResult], list[PerfResult]]:
    """Run the same load against both, in turn, `rounds` times."""
    results: dict[str, list[PerfResult]] = {"ours": [], "reference": []}
    with both_brokers() as brokers:
        for _ in range(effort.rounds):
            for name, broker in brokers.items():
                results[name].append(run(broker))
                print(f"  {name}: {results[name][-1]}", flush=True)
    return results["ours"], results["reference"]


def throughput(effort: Effort) -> list[Row]:
    """One producer, one consumer, non-durable 1 KiB, 100 pending; throughput and CPU per message."""
    ours, reference = alternating(
        effort,
        lambda broker: perf_client(
            broker,
            "queue://bench-throughput",
            ["--max-pending", 100],
            warmup_s=effort.warmup_s,
            measured_s=effort.measured_s,
        ),
    )
    rates = mean(ours, "received_per_second"), mean(reference, "received_per_second")
    cpu = mean(ours, "cpu_seconds_per_message") * 1e6, mean(reference, "cpu_seconds_per_message") * 1e6
    return [
        Row("throughput", "non-durable 1 KiB, 1 to 1", "msg/s", *rates, "higher", must=1.0, aim=1.2),
        Row("throughput", "broker CPU per message", "us", *cpu, "lower", must=0.9, aim=0.7),
    ]


def topic(effort: Effort) -> list[Row]:
    """One producer, ten consumers of a topic."""
    ours, reference = alternating(
        effort,
        lambda broker: perf_client(
            broker,
            "topic://bench-topic",
            ["--max-pending", 100, "--consumers", 10],
            warmup_s=effort.warmup_s,
            measured_s=effort.measured_s,
        ),
    )
    rates = mean(ours, "received_per_second"), mean(reference, "received_per_second")
    cpu = mean(ours, "cpu_seconds_per_message") * 1e6, mean(reference, "cpu_seconds_per_message") * 1e6
    return [
        Row("topic", "deliveries, 1 to 10", "msg/s", *rates, "higher", must=0.9, aim=1.5),
        Row("topic", "broker CPU per delivery", "us", *cpu, "lower"),
    ]


def durable(effort: Effort) -> list[Row]:
    """Blocking durable sends by `artemis producer`, 1 and 16 threads."""
    rows = []
    with both_brokers() as brokers:
        details = _journal_settings(brokers["reference"])
        for broker in brokers.values():
            producer(broker, threads=4, per_thread=effort.durable_messages)
        for threads, per_thread in ((16, effort.durable_messages), (1, 3 * effort.durable_messages)):
            results: dict[str, list[ProducerResult]] = {"ours": [], "reference": []}
            for _ in range(effort.rounds):
                for name, broker in brokers.items():
                    results[name].append(producer(broker, threads=threads, per_thread=per_thread))
                    print(f"  {threads} threads, {name}: {results[name][-1]}", flush=True)
            rates = [fmean(result.sent_per_second for result in each) for each in results.values()]
            cpu = [fmean(result.cpu_seconds_per_message for result in each) * 1e6 for each in results.values()]
            case = f"durable-{threads}"
            rows += [
                Row(case, "blocking sends", "msg/s", rates[0], rates[1], "higher", 1.0, 1.5, details),
                Row(case, "broker CPU per send", "us", cpu[0], cpu[1], "lower", 1.0, 0.7, details),
            ]
    return rows


def _journal_settings(artemis_broker: BrokerUnderTest) -> dict[str, object]:
    """Return how the reference writes, from its configuration; a journal that does not sync is no reference."""
    assert isinstance(artemis_broker, ArtemisBroker)
    settings = (artemis_broker.directory / "etc" / "broker.xml").read_text()
    found = dict(re.findall(r"<(journal-type|journal-datasync|journal-sync-\w+)>(.*?)</", settings))
    assert found["journal-datasync"] == "true", found
    return {"artemis": {**found, "in fact": artemis_journal()}}


def latency(effort: Effort) -> list[Row]:
    """Transfer times at 10,000 messages a second, without and with a million messages in another queue."""
    rows = []
    for case, queued in (("latency", 0), ("latency-queued", effort.queued_elsewhere)):
        results: dict[str, list[PerfResult]] = {"ours": [], "reference": []}
        with both_brokers() as brokers:
            for broker in brokers.values():
                fill(broker, queued)
            for _ in range(effort.rounds):
                for name, broker in brokers.items():
                    result = perf_client(
                        broker,
                        "queue://bench-latency",
                        ["--rate", 10_000],
                        warmup_s=effort.warmup_s,
                        measured_s=effort.measured_s,
                    )
                    results[name].append(result)
                    print(f"  {case}, {name}: {result}", flush=True)
        for percentile, must, aim in (("p50", 1.2, 0.8), ("p99", 1.0, 0.3)):
            ours, reference = (mean(each, f"{percentile}_us") for each in results.values())
            metric = f"{percentile} transfer time at 10,000 msg/s, {queued:,} messages elsewhere"
            rows.append(Row(case, metric, "us", ours, reference, "lower", must, aim))
    return rows


def fill(broker: BrokerUnderTest, messages: int) -> None:
    """Put messages of 100 bytes into a queue without a reader."""
    if messages:
        load = ("--message-size", 100, "--message-count", messages // 4, "--threads", 4, "--non-persistent")
        artemis("producer", "--url", broker.url, "--destination", "queue://bench-elsewhere", "--silent", *load)
