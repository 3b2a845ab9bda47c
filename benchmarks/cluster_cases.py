"""Cases of clusters: ours beside Artemis' with the same settings and the same load, in turn."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from attrs import frozen

from benchmarks.broker_cases import Effort
from benchmarks.cluster_growth import join
from benchmarks.cluster_growth import rows_of as growth_rows
from benchmarks.cluster_load import blocking_sends, first_messages, redistribution, transfer
from benchmarks.cluster_nodes import KINDS, Nodes, OurNode
from benchmarks.measured import cpu_seconds
from benchmarks.report import Row
from tests.interop.artemis import free_port


@frozen
class Extent:
    """How much is measured: messages of a round, those of the warm-up, rounds of each kind, and sizes of clusters.

    ``durable`` and ``redistributed`` are messages of a round, too.
    """

    messages: int
    warm_up: int
    rounds: int
    durable: int
    redistributed: int
    members: tuple[int, ...]


THREADS = 16


FULL = Extent(messages=60_000, warm_up=120_000, rounds=3, durable=32_000, redistributed=100_000, members=(8, 16, 32))
QUICK = Extent(messages=10_000, warm_up=30_000, rounds=2, durable=8_000, redistributed=20_000, members=(8, 16))


def forwarded(extent: Extent) -> list[Row]:
    """Measure messages that are produced on one of two nodes and consumed on the other."""
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder, ExitStack() as stack:
        clusters = {kind: stack.enter_context(Nodes(Path(folder), kind, 2)) for kind in KINDS}
        for cluster in clusters.values():
            transfer(*cluster.link, "warm-up", extent.warm_up)
        for number in range(extent.rounds):
            for kind, cluster in clusters.items():
                before = cluster.cpu_seconds()
                rates[kind].append(transfer(*cluster.link, f"forwarded-{number}", extent.messages))
                cpu[kind].append((cluster.cpu_seconds() - before) / extent.messages * 1e6)
                print(f"  forwarded, {kind}: {cpu[kind][-1]:.1f} us, {rates[kind][-1]:,.0f} msg/s", flush=True)
    return forwarded_rows(cpu, rates)


def forwarded_rows(cpu: dict[str, list[float]], rates: dict[str, list[float]]) -> list[Row]:
    """Return medians over rounds."""
    what = "produced on A, consumed on B, non-durable 1 KiB"
    return [
        Row(
            "cluster",
            f"{what}: CPU of both nodes per message",
            "us",
            median(cpu["ours"]),
            median(cpu["artemis"]),
            "lower",
            0.7,
            0.5,
            {"cpu": cpu, "rates": rates},
        ),
        Row("cluster", f"{what}: rate", "msg/s", median(rates["ours"]), median(rates["artemis"]), "higher"),
    ]


ALONE, AMONG_OTHERS, ON_ALL = "alone", "in a cluster", "in a cluster, queue on all nodes"


def local(extent: Extent) -> list[Row]:
    """Measure messages that stay on one node of a cluster of four, beside the same node without a cluster."""
    cpu: dict[str, list[float]] = {ALONE: [], AMONG_OTHERS: [], ON_ALL: []}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        alone = OurNode(folder / "alone", free_port(), [])
        stack.callback(alone.kill)
        alone.launch()
        alone.wait_ready()
        cluster = stack.enter_context(Nodes(folder, "ours", 4))
        for number, url in enumerate(cluster.urls[1:], start=1):
            # Each has the queue and bindings of the others from then on.
            transfer(cluster.urls[0], url, ON_ALL, 10 * number)
        nodes = {ALONE: alone, AMONG_OTHERS: cluster.nodes[0], ON_ALL: cluster.nodes[0]}
        for queue, node in nodes.items():
            transfer(node.url, node.url, queue, extent.messages // 2)
        # The differences are small, and the rounds are short: more of them.
        for _ in range(3 * extent.rounds):
            for queue, node in nodes.items():
                before = cpu_seconds(node.pid)
                transfer(node.url, node.url, queue, extent.messages // 2)
                cpu[queue].append((cpu_seconds(node.pid) - before) / (extent.messages // 2) * 1e6)
            print(f"  local: {', '.join(f'{queue}: {found[-1]:.2f} us' for queue, found in cpu.items())}", flush=True)
    return local_rows(cpu)


def local_rows(cpu: dict[str, list[float]]) -> list[Row]:
    """Return medians over rounds. The bound is for a queue without bindings of other nodes."""
    details: dict[str, object] = {queue: [round(each, 2) for each in found] for queue, found in cpu.items()}
    what = "CPU per message that stays on a node of four, beside that node alone"
    among, everywhere, alone = (median(cpu[queue]) for queue in (AMONG_OTHERS, ON_ALL, ALONE))
    return [
        Row("cluster", what, "us", among, alone, "lower", 1.05, 1.0, details),
        Row("cluster", f"{what}; the queue is on all four", "us", everywhere, alone, "lower"),
    ]


def durable(extent: Extent) -> list[Row]:
    """Measure durable messages of blocking producers on one of two nodes, consumed on the other."""
    sent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    received: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    per_thread = extent.durable // THREADS
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder, ExitStack() as stack:
        clusters = {kind: stack.enter_context(Nodes(Path(folder), kind, 2)) for kind in KINDS}
        for cluster in clusters.values():
            blocking_sends(*cluster.link, "warm-up", THREADS, 2 * per_thread)
        for number in range(extent.rounds):
            for kind, cluster in clusters.items():
                before = cluster.cpu_seconds()
                rates = blocking_sends(*cluster.link, f"durable-{number}", THREADS, per_thread)
                cpu[kind].append((cluster.cpu_seconds() - before) / (per_thread * THREADS) * 1e6)
                sent[kind].append(rates[0])
                received[kind].append(rates[1])
                print(f"  durable, {kind}: {rates[0]:,.0f} sent/s, {rates[1]:,.0f} received/s", flush=True)
    return durable_rows(sent, received, cpu)


def durable_rows(
    sent: dict[str, list[float]], received: dict[str, list[float]], cpu: dict[str, list[float]]
) -> list[Row]:
    """Return medians over rounds. The bound is for what arrives: a node that only queues is no faster."""
    what = f"durable, {THREADS} blocking producers on A, consumed on B"
    details: dict[str, object] = {"sent": sent, "received": received, "cpu": cpu}

    def both(found: dict[str, list[float]]) -> tuple[float, float]:
        return median(found["ours"]), median(found["artemis"])

    return [
        Row("cluster", f"{what}: received", "msg/s", *both(received), "higher", 1.0, 1.5, details),
        Row("cluster", f"{what}: sent", "msg/s", *both(sent), "higher"),
        Row("cluster", f"{what}: CPU of both nodes per message", "us", *both(cpu), "lower"),
    ]


def redistributed(extent: Extent) -> list[Row]:
    """Measure how fast a queue empties to another node once its last consumer has left."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder, ExitStack() as stack:
        clusters = {kind: stack.enter_context(Nodes(Path(folder), kind, 2, redistributes=True)) for kind in KINDS}
        for cluster in clusters.values():
            redistribution(*cluster.link, "warm-up", extent.redistributed // 2)
        for number in range(extent.rounds):
            for kind, cluster in clusters.items():
                before = cluster.cpu_seconds()
                times[kind].append(redistribution(*cluster.link, f"left-{number}", extent.redistributed))
                cpu[kind].append((cluster.cpu_seconds() - before) / extent.redistributed * 1e6)
                print(f"  redistribution, {kind}: {times[kind][-1]:.2f} s", flush=True)
    return redistributed_rows(times, cpu, extent.redistributed)


def redistributed_rows(times: dict[str, list[float]], cpu: dict[str, list[float]], count: int) -> list[Row]:
    """Return medians over rounds."""
    what = f"redistribution of {count:,} durable messages after the last consumer left"
    found = median(times["ours"]), median(times["artemis"])
    costs = median(cpu["ours"]), median(cpu["artemis"])
    return [
        Row("cluster", what, "s", *found, "lower", 0.5, 0.2, dict(times)),
        Row("cluster", f"{what}: CPU of both nodes per message, with its arrival", "us", *costs, "lower"),
    ]


def formed(extent: Extent) -> list[Row]:
    """Measure the time in which four nodes that have started become a cluster."""
    up: dict[str, list[float]] = {kind: [] for kind in KINDS}
    launched: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(extent.rounds):
        for kind in KINDS:
            with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder:
                cluster = Nodes(Path(folder), kind, 4)
                cluster.prepare()
                began = time.perf_counter()
                with cluster:
                    ready = time.perf_counter()
                    first_messages(cluster.urls)
                    up[kind].append(time.perf_counter() - ready)
                    launched[kind].append(time.perf_counter() - began)
            print(f"  formed, {kind}: {up[kind][-1]:.2f} s of {launched[kind][-1]:.2f}", flush=True)
    return formed_rows(up, launched)


def formed_rows(up: dict[str, list[float]], launched: dict[str, list[float]]) -> list[Row]:
    """Return medians over rounds."""
    what = "to the first message over each link of four nodes"
    after = median(up["ours"]), median(up["artemis"])
    whole = median(launched["ours"]), median(launched["artemis"])
    return [
        Row("cluster", f"from the last node that is up {what}", "s", *after, "lower", 0.2, 0.1, dict(up)),
        Row("cluster", f"from the start of the processes {what}", "s", *whole, "lower", None, None, dict(launched)),
    ]


def cluster(effort: Effort) -> list[Row]:
    """Clusters of ours and of Artemis: what messages to other nodes cost, and what a cluster costs a node."""
    extent = FULL if effort.rounds > 1 else QUICK
    return [row for part in PARTS for row in part(extent)]


def growth(extent: Extent) -> list[Row]:
    """Measure the join of a broker to clusters of several sizes, in virtual time."""
    joins = []
    for members in extent.members:
        joins.append(join(members))
        print(f"  join: {joins[-1]}", flush=True)
    return growth_rows(joins)


PARTS = (forwarded, durable, redistributed, local, formed, growth)
