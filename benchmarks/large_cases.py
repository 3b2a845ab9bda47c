"""Large messages: how many MB/s the same Java client sends to our broker and to Artemis in turn, and receives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from uuid import uuid4

from attrs import frozen

from benchmarks.broker_cases import Effort, both_brokers
from benchmarks.java_load import Served, artemis
from benchmarks.measured import cpu_seconds
from benchmarks.report import Row

BODY_BYTES = 10 * 1024 * 1024
#: One large message for this many messages of the case `durable`, per thread.
_SHARE = 25
_MB = 1_000_000


@frozen
class LargeResult:
    """One run of a producer or a consumer, from the first message of its threads to the last."""

    mb_per_second: float
    cpu_ms_per_mb: float


def large(effort: Effort) -> list[Row]:
    """Durable messages of 10 MiB by `artemis producer` and `artemis consumer`, 1 and 4 threads."""
    rows = []
    with both_brokers() as brokers:
        for broker in brokers.values():
            _round_trip(broker, threads=2, per_thread=2)
        for threads in (1, 4):
            per_thread = max(effort.durable_messages // _SHARE // threads, 2)
            results: dict[str, list[tuple[LargeResult, LargeResult]]] = {"ours": [], "reference": []}
            for _ in range(effort.rounds):
                for name, broker in brokers.items():
                    results[name].append(_round_trip(broker, threads=threads, per_thread=per_thread))
                    print(f"  {threads} threads, {name}: {results[name][-1]}", flush=True)
            for index, way in enumerate(("send", "receive")):
                ours, theirs = ([pair[index] for pair in each] for each in results.values())
                rates = _mean(ours, "mb_per_second"), _mean(theirs, "mb_per_second")
                cpu = _mean(ours, "cpu_ms_per_mb"), _mean(theirs, "cpu_ms_per_mb")
                rows += [
                    Row(f"large-{threads}", f"{way}, durable 10 MiB", "MB/s", *rates, "higher", must=0.7, aim=1.0),
                    Row(f"large-{threads}", f"broker CPU per MB, {way}", "ms", *cpu, "lower"),
                ]
    return rows


def _mean(results: Sequence[LargeResult], name: str) -> float:
    return fmean(getattr(result, name) for result in results)


def _round_trip(broker: Served, *, threads: int, per_thread: int) -> tuple[LargeResult, LargeResult]:
    """Send to a fresh queue and receive all of it."""
    total = threads * per_thread
    target = ("--url", broker.url, "--destination", f"queue://bench-{uuid4().hex[:8]}", "--threads", threads)
    load = ("--message-size", BODY_BYTES, "--message-count", per_thread)
    sent = _run(broker, "Produced", total, threads, ("producer", *target, *load))
    received = _run(broker, "Consumed", total, threads, ("consumer", *target, "--message-count", per_thread))
    return sent, received


def _run(broker: Served, verb: str, total: int, threads: int, words: tuple[str | int, ...]) -> LargeResult:
    before = cpu_seconds(broker.pid)
    lines = artemis(*words, "--silent")
    used = cpu_seconds(broker.pid) - before
    found = (re.search(rf"thread=(\d+) {verb}: (\d+) messages", line) for line in lines)
    counts = {int(match[1]): int(match[2]) for match in found if match}
    elapsed = [int(match[1]) for line in lines if (match := re.search(r"milli second : (\d+)", line))]
    assert len(elapsed) == threads and sum(counts.values()) == total, lines[-10:]
    megabytes = total * BODY_BYTES / _MB
    return LargeResult(mb_per_second=megabytes / max(elapsed) * 1000, cpu_ms_per_mb=used * 1000 / megabytes)
