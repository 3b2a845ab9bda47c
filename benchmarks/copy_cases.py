"""A backup joins a broker that has a full journal and serves: how fast the copy is, and what the traffic notices."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import trio
from attrs import define, field

from benchmarks.broker_cases import Effort
from benchmarks.pairs import OurPair, ReplicatingPair, TheirPair, journal_bytes
from benchmarks.report import Row
from embedclient import BytesMessage, ConnectionFactory, JMSException, Queue
from tests.interop.programs import ProgramError

MIB = 2**20
#: Large enough that filling does not take the most of the time, small enough that no broker treats it as large.
FILLER_BYTES = 32 * 1024
FILLERS_PER_COMMIT = 256
BODY = b"x" * 1024
#: Each sends so many durable messages a second and waits for each one's answer; another client receives them.
PRODUCERS, RATE_HZ = 4, 50.0


@define
class Traffic:
    """Paced load, and how long each send took: from the moment when it was due, so that none hides behind another."""

    latencies_s: list[float] = field(factory=list)

    async def run(self, url: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until it is cancelled."""
        queue = Queue("traffic")
        async with ConnectionFactory(url).connect() as connection, trio.open_nursery() as nursery:
            for _ in range(PRODUCERS):
                await nursery.start(self._send, url, queue)
            async with connection.session() as session, session.create_consumer(queue) as consumer:
                task_status.started()
                while True:
                    await consumer.receive()

    async def _send(self, url: str, queue: Queue, *, task_status: trio.TaskStatus[None]) -> None:
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(queue)
            task_status.started()
            due = trio.current_time()
            while True:
                await trio.sleep_until(due)
                await producer.send(BODY)
                self.latencies_s.append(trio.current_time() - due)
                due += 1 / RATE_HZ

    def taken(self) -> list[float]:
        """Return what was measured since the last call, in seconds."""
        found, self.latencies_s = self.latencies_s, []
        return found


@define
class Copies:
    """The measurements of one pair."""

    rates: list[float] = field(factory=list)  # MiB/s
    quiet_s: list[float] = field(factory=list)
    copying_s: list[float] = field(factory=list)
    size_mib: float = 0.0


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception that is no group."""
    first = errors.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


def p99(times: Sequence[float]) -> float:
    """Return the smallest time that 99 of 100 do not exceed."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


async def _fill(url: str, size_bytes: int) -> None:
    body = BytesMessage(b"f" * FILLER_BYTES)
    async with ConnectionFactory(url).connect() as connection, connection.session(transacted=True) as session:
        producer = session.create_producer(Queue("filler"))
        for number in range(1, size_bytes // FILLER_BYTES + 1):
            await producer.send(body)
            if number % FILLERS_PER_COMMIT == 0:
                await session.commit()
        await session.commit()


async def _measured(pair: ReplicatingPair, size_bytes: int, rounds: int, quiet_s: float) -> Copies:
    found, traffic = Copies(), Traffic()
    await _fill(pair.url, size_bytes)
    async with trio.open_nursery() as nursery:
        await nursery.start(traffic.run, pair.url)
        await trio.sleep(quiet_s)  # warms it up
        for _ in range(rounds):
            traffic.taken()
            await trio.sleep(quiet_s)
            found.quiet_s += traffic.taken()
            found.size_mib = journal_bytes(pair) / MIB
            seconds = await trio.to_thread.run_sync(pair.copy)
            # The start of the backup's process counts, too: the traffic does not depend on the difference.
            found.copying_s += traffic.taken()
            found.rates.append(found.size_mib / seconds)
            await trio.to_thread.run_sync(pair.drop_backup)
        nursery.cancel_scope.cancel()
    return found


def copy(effort: Effort) -> list[Row]:
    """A backup copies 1 GiB from a broker that serves: MiB/s, and p99 of the traffic beside that without a copy."""
    full = effort.rounds > 1
    size_bytes, rounds, quiet_s = (2**30, 3, 8.0) if full else (2**26, 1, 2.0)
    results: dict[str, Copies] = {}
    makers: dict[str, type[OurPair | TheirPair]] = {"ours": OurPair, "artemis": TheirPair}
    for name, make in makers.items():
        try:
            with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder, make(Path(folder) / name) as pair:
                results[name] = trio.run(_measured, pair, size_bytes, rounds, quiet_s)
        except* (ProgramError, JMSException) as errors:
            # A reference that fails to complete proves nothing against our measurements.
            if name == "ours":
                raise
            print(f"  {name} did not get through: {first_of(errors)}", flush=True)
        else:
            print(f"  {name}: {', '.join(f'{rate:.0f}' for rate in results[name].rates)} MiB/s", flush=True)
    return rows_of(results)


def rows_of(results: dict[str, Copies]) -> list[Row]:
    """Return medians of the rates, and percentiles over all sends of all rounds.

    Without "artemis" there is no reference.
    """
    ours = results["ours"]
    rates = {name: median(found.rates) for name, found in results.items()}
    tails = {name: (p99(found.copying_s) * 1000, p99(found.quiet_s) * 1000) for name, found in results.items()}
    details: dict[str, object] = {
        name: {
            "rates_mib_s": [round(rate, 1) for rate in found.rates],
            "journal_mib": round(found.size_mib, 1),
            "p99_ms_copying_and_quiet": [round(time, 2) for time in tails[name]],
            "sends": [len(found.copying_s), len(found.quiet_s)],
            "longest_ms": [round(max(times) * 1000, 1) for times in (found.copying_s, found.quiet_s)],
        }
        for name, found in results.items()
    }
    size = f"{ours.size_mib:,.0f} MiB"
    traffic = f"p99 of a durable send at {PRODUCERS * RATE_HZ:.0f}/s while a backup copies"
    return [
        Row("copy", f"initial synchronisation of {size} while serving", "MiB/s", rates["ours"], None, "higher", 100),
        Row(
            "copy", "the same, beside Artemis", "MiB/s", rates["ours"], rates.get("artemis"), "higher", details=details
        ),
        Row("copy", f"{traffic}, beside none", "ms", *tails["ours"], "lower", 3.0),
        Row("copy", f"{traffic}, beside Artemis'", "ms", tails["ours"][0], tails.get("artemis", (None,))[0], "lower"),
    ]
