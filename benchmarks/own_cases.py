"""Cases without a Java client: our client beside other Python clients, start, import, scale, memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import trio
from attrs import asdict, frozen

from benchmarks.broker_cases import Effort
from benchmarks.measured import cpu_seconds, resident_bytes
from benchmarks.python_clients import CLIENTS
from benchmarks.report import Row
from embedclient import ConnectionFactory, DeliveryMode, MessageConsumer, Queue, Session
from tests.interop.artemis import ArtemisBroker
from tests.interop.brokers import EmbeddedBrokerProcess
from tests.interop.programs import Program

BODY = b"x" * 1024

# What `scale` compares the many with, queues or consumers.
FEW = 10


@frozen
class ClientRun:
    """One run of one client library."""

    rate: float
    cpu_us: float


def _run_client(library: str, port: int, count: int) -> ClientRun:
    command = [sys.executable, "-m", "benchmarks.python_clients", library, str(port), str(count)]
    with Program(command) as program:
        found = program.wait_for(r"^rate (\S+) cpu (\S+)", seconds_max=400)
    return ClientRun(float(found[1]), float(found[2]))


def client(effort: Effort) -> list[Row]:
    """embedclient, python-qpid-proton and stomp.py, in turn, against one Artemis that all of them have warmed up."""
    runs: dict[str, list[ClientRun]] = {library: [] for library in CLIENTS}
    count, rounds = (100_000, effort.rounds + 1) if effort.rounds > 1 else (5_000, 1)
    with tempfile.TemporaryDirectory() as folder, ArtemisBroker(Path(folder) / "instance", memory="2G") as broker:
        for library in CLIENTS:
            # Each protocol is a separate part of the JVM's code, so each gets its share of the time.
            until = time.monotonic() + effort.warmup_s / len(CLIENTS)
            while time.monotonic() < until:
                _run_client(library, broker.port, count // 4)
        order = list(CLIENTS)
        for _ in range(rounds):
            for library in order:
                runs[library].append(_run_client(library, broker.port, count))
                print(f"  {library}: {runs[library][-1]}", flush=True)
            order.append(order.pop(0))
    rates = {library: median(run.rate for run in found) for library, found in runs.items()}
    best = max(rates["proton"], rates["stomp"])
    metric = "one sender, one receiver, against the better of proton and stomp.py (medians)"
    details: dict[str, object] = {library: [asdict(run) for run in found] for library, found in runs.items()}
    return [Row("client", metric, "msg/s", rates["embedclient"], best, "higher", 2.0, 5.0, details)]


FIRST_MESSAGE = """
import time, trio
from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue

async def once():
    start = time.perf_counter()
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.url).connect() as connection:
        async with connection.session() as session, session.create_consumer(Queue("q")) as consumer:
            await session.create_producer(Queue("q")).send("hello")
            assert (await consumer.receive()).body == "hello"
            return time.perf_counter() - start

async def main():
    await once()
    return [await once() for _ in range(20)]

print(*trio.run(main))
"""


def start(effort: Effort) -> list[Row]:
    """From entering `EmbeddedBroker()` to the first message received, everything imported."""
    run = subprocess.run([sys.executable, "-c", FIRST_MESSAGE], check=True, capture_output=True, text=True)
    times = [float(word) * 1000 for word in run.stdout.split()]
    return [Row("start", "to the first message, in memory (median of 20)", "ms", median(times), None, "lower", 15, 10)]


IMPORTS = {
    "import embedbroker": "import embedbroker",
    "EmbeddedBroker, ready to use": "from embedbroker import EmbeddedBroker",
    "ConnectionFactory, ready to use": "import trio; from embedclient import ConnectionFactory",
}


def imports(effort: Effort) -> list[Row]:
    """Imports beside `import trio`, without the interpreter's own start.

    CPU time, because the wall clock of a busy machine shows the neighbours; medians of interleaved runs. Everything
    runs from bytecode, as it does once installed: a checkout in which Python may not write any would be compiled anew
    by every process, beside a trio that never is.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode

        def milliseconds(statement: str) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000

        found: dict[str, list[float]] = {statement: [] for statement in ("pass", "import trio", *IMPORTS.values())}
        for statement in found:
            milliseconds(statement)  # writes the bytecode
        for _ in range(21):
            for statement, times in found.items():
                times.append(milliseconds(statement))
    start = median(found["pass"])
    trio_alone = median(found["import trio"]) - start
    return [
        Row("imports", f"{what}, beside trio", "ms", median(found[statement]) - start, trio_alone, "lower", 2.5, 1.5)
        for what, statement in IMPORTS.items()
    ]


async def _cost_with_queues(broker: EmbeddedBrokerProcess, queues: int, count: int) -> float:
    """Return the broker's CPU per message with ``queues`` queues, each with a consumer, on one session.

    The messages go to ten of them.
    """
    async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        names = [f"scale-{queues}-{number}" for number in range(queues)]
        async with trio.open_nursery() as scopes:
            opened = [await scopes.start(_hold_consumer, session, name) for name in names]
            busy = opened[:: queues // FEW]
            targets = names[:: queues // FEW]
            producer = session.create_producer()

            async def exchange(amount: int) -> None:
                for _ in range(amount // 100):
                    for _ in range(10):
                        for target in targets:
                            await producer.send(
                                BODY, destination=Queue(target), delivery_mode=DeliveryMode.NON_PERSISTENT
                            )
                    for consumer in busy:
                        for _ in range(10):
                            assert await consumer.receive(timeout=30) is not None

            await exchange(count // 5)
            before = cpu_seconds(broker.pid)
            await exchange(count)
            used = cpu_seconds(broker.pid) - before
            scopes.cancel_scope.cancel()
    return used / count


async def _cost_with_consumers(broker: EmbeddedBrokerProcess, consumers: int, count: int) -> float:
    """Return the broker's CPU per message with ``consumers`` consumers of one queue, which get the messages in turn.

    No consumer gets two messages in one round, however few there are: the client acknowledges what one consumer
    received with one packet, and the cost would be that of fewer packets.
    """
    queue = Queue("scale")
    async with (
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
        trio.open_nursery() as scopes,
    ):
        opened = [await scopes.start(_hold_consumer, session, queue.name) for _ in range(consumers)]
        producer = session.create_producer(queue)
        turns = cycle(opened)

        async def exchange(amount: int) -> None:
            for _ in range(amount // FEW):
                for _ in range(FEW):
                    await producer.send(BODY, delivery_mode=DeliveryMode.NON_PERSISTENT)
                for consumer in islice(turns, FEW):
                    assert await consumer.receive(timeout=30) is not None

        await exchange(count // 5)
        before = cpu_seconds(broker.pid)
        await exchange(count)
        used = cpu_seconds(broker.pid) - before
        scopes.cancel_scope.cancel()
    return used / count


async def _hold_consumer(session: Session, name: str, *, task_status: trio.TaskStatus[MessageConsumer]) -> None:
    async with session.create_consumer(Queue(name)) as consumer:
        task_status.started(consumer)
        await trio.sleep_forever()


def scale(effort: Effort) -> list[Row]:
    """Cost per message with 10,000 queues of one consumer each, and with 10,000 consumers of one queue, beside 10.

    Medians of turns, because the machine's caches are shared with others.
    """
    many, count, turns = (10_000, 30_000, 5) if effort.rounds > 1 else (1_000, 5_000, 1)
    rows = []
    for what, cost in (("queues", _cost_with_queues), ("consumers of one queue", _cost_with_consumers)):
        costs: dict[int, list[float]] = {FEW: [], many: []}
        for _ in range(turns):
            for number, found in costs.items():
                with tempfile.TemporaryDirectory() as folder:
                    broker = EmbeddedBrokerProcess(Path(folder) / "ours")
                    try:
                        broker.start()
                        found.append(trio.run(cost, broker, number, count) * 1e6)
                    finally:
                        broker.kill()
        metric = f"CPU per message with {many:,} {what} beside {FEW}"
        rows.append(Row("scale", metric, "us", median(costs[many]), median(costs[FEW]), "lower", 1.2, 1.1))
    return rows


def memory(effort: Effort) -> list[Row]:
    """Resident memory of an idle broker process, and per queued message of 1 KiB."""
    count = 100_000 if effort.rounds > 1 else 10_000

    async def fill(url: str) -> None:
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue("memory"))
            for _ in range(count):
                await producer.send(BODY, delivery_mode=DeliveryMode.NON_PERSISTENT)
            await producer.send("last")

    with tempfile.TemporaryDirectory() as folder:
        broker = EmbeddedBrokerProcess(Path(folder) / "ours")
        try:
            broker.start()
            idle = resident_bytes(broker.pid)
            trio.run(fill, broker.url)
            per_message = (resident_bytes(broker.pid) - idle) / count
        finally:
            broker.kill()
    # A bytes message of 1 KiB as it lies in the queue: our client's headers are 209 bytes beside the body.
    frame = 1024 + 209
    return [
        Row("memory", "resident, idle", "MiB", idle / 2**20, None, "lower", 60),
        Row("memory", f"per queued message of {frame} bytes", "bytes", per_message, None, "lower", frame + 400),
    ]
