"""Durable throughput with a backup that is in sync: ours beside Artemis, and beside our own broker without one."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median

from benchmarks.broker_cases import Effort
from benchmarks.java_load import ProducerResult, Served, producer
from benchmarks.pairs import OurPair, ReplicatingPair, TheirPair
from benchmarks.report import Row
from tests.interop.brokers import EmbeddedBrokerProcess

THREADS = 16


def replicated(effort: Effort) -> list[Row]:
    """Blocking durable sends of 16 threads with a synchronised backup: ours, Artemis', and ours without a backup."""
    results: dict[str, list[ProducerResult]] = {"ours": [], "artemis": [], "alone": []}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        pairs: dict[str, ReplicatingPair] = {"ours": OurPair(folder / "ours"), "artemis": TheirPair(folder / "artemis")}
        alone = EmbeddedBrokerProcess(folder / "alone")
        stack.callback(alone.kill)
        alone.start()
        for pair in pairs.values():
            stack.enter_context(pair)
            pair.copy()
        brokers: dict[str, Served] = {**pairs, "alone": alone}
        # A JVM becomes faster for longer than a round takes.
        for broker in brokers.values():
            _load(broker, effort.durable_messages * (3 if effort.rounds > 1 else 1))
        for _ in range(effort.rounds + (effort.rounds > 1)):
            for peer, broker in brokers.items():
                results[peer].append(_load(broker, effort.durable_messages))
                print(f"  {peer}: {results[peer][-1]}", flush=True)
    return rows_of(results)


def _load(broker: Served, per_thread: int) -> ProducerResult:
    return producer(broker, threads=THREADS, per_thread=per_thread)


def rows_of(results: dict[str, list[ProducerResult]]) -> list[Row]:
    """Return medians over rounds; processor time is that of the broker that serves, and a mean."""
    rates = {peer: median(each.sent_per_second for each in found) for peer, found in results.items()}
    cpu = {peer: fmean(each.cpu_seconds_per_message for each in found) * 1e6 for peer, found in results.items()}
    details: dict[str, object] = {
        peer: [round(each.sent_per_second) for each in found] for peer, found in results.items()
    }
    sends = f"blocking durable sends, {THREADS} threads, synchronised backup"
    return [
        Row("replicated", sends, "msg/s", rates["ours"], rates["artemis"], "higher", 1.0, 1.5, details),
        Row("replicated", f"{sends}, beside none", "msg/s", rates["ours"], rates["alone"], "higher", 0.45, 0.7),
        Row("replicated", "CPU of the live broker per send", "us", cpu["ours"], cpu["artemis"], "lower"),
    ]
