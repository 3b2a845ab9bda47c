"""What an audit log costs: the same broker with it and without, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import fmean

from benchmarks.broker_cases import Effort
from benchmarks.java_load import PerfResult, ProducerResult, mean, perf_client, producer
from benchmarks.report import Row
from tests.interop.brokers import EmbeddedBrokerProcess

#: The share of the throughput that must be left, and the share that is the goal.
MUST, AIM = 0.85, 0.95


def audit_log(effort: Effort) -> list[Row]:
    """Durable throughput with an audit log, against the same broker without: blocking sends, and 1 to 1."""
    sends: dict[str, list[ProducerResult]] = {"with": [], "without": []}
    pairs: dict[str, list[PerfResult]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name:
        folder = Path(name)
        brokers = {
            "with": EmbeddedBrokerProcess(folder / "with", ("--audit", folder / "log")),
            "without": EmbeddedBrokerProcess(folder / "without"),
        }
        try:
            for broker in brokers.values():
                broker.start()
                producer(broker, threads=4, per_thread=effort.durable_messages)
            for turn in range(2 * effort.rounds):
                for which in ("with", "without") if turn % 2 else ("without", "with"):
                    broker = brokers[which]
                    sends[which].append(producer(broker, threads=16, per_thread=effort.durable_messages))
                    options: list[str | int] = ["--max-pending", 100, "--persistent"]
                    pairs[which].append(
                        perf_client(
                            broker,
                            "queue://bench-audit",
                            options,
                            warmup_s=effort.warmup_s // 4,
                            measured_s=effort.measured_s // 2,
                        )
                    )
                    print(f"  {which}: {sends[which][-1]} {pairs[which][-1]}", flush=True)
        finally:
            for broker in brokers.values():
                broker.kill()
    rates = {which: fmean(result.sent_per_second for result in found) for which, found in sends.items()}
    through = {which: mean(found, "received_per_second") for which, found in pairs.items()}
    loads = {"durable 1 KiB, 1 to 1": through, "blocking durable sends, 16 threads": rates}
    return [
        Row("audit-log", f"{load}, with and without", "msg/s", each["with"], each["without"], "higher", MUST, AIM)
        for load, each in loads.items()
    ]
