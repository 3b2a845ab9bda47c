"""What a row costs in the source alone, without Spark, as backlogs and partitions grow.

A query of Spark costs 1.6 s of processor time whatever it reads, and a job 0.1 to 0.2: beside those, 10,000 rows cannot
be measured. So the reader of a stream is called here as Spark calls it, in this process: once for a range, then for its
parts, as often as it takes to read many rows of each backlog. Counted is the processor time of this process and of the
broker, less what a part costs that has one row.

A core is a fifth faster in one second than in another, and a case that follows another reads a warmer memory. So all
take turns, and of each the median counts.
"""

from __future__ import annotations

import gc
import os
from statistics import median
from typing import TYPE_CHECKING

from attrs import frozen

from benchmarks.broker_cases import Effort
from benchmarks.measured import family_cpu_seconds
from benchmarks.report import Row
from benchmarks.spark_cases import BODY_BYTES, fill, running_broker

if TYPE_CHECKING:
    from embedbroker.pipeline._source_stream import StreamReader

PARTITIONS = (1, 2, 4)
BACKLOGS, QUICK_BACKLOGS = (10_000, 100_000, 1_000_000), (1_000, 10_000)
#: Turns, and the least number of rows that one turn reads of a backlog.
TURNS, QUICK_TURNS, TURN_ROWS = 5, 1, 400_000
#: Reads of one row in each part in a turn, to learn what a part costs.
SMALL_READS = 100
FLAT, AIM = 1.2, 1.1


def source_scale(effort: Effort) -> list[Row]:
    """CPU per row of the source alone at 1, 2, 4 partitions and 10,000 to 1,000,000 messages: flat within 20 %."""
    thorough = effort.rounds > 1
    backlogs, turns = (BACKLOGS, TURNS) if thorough else (QUICK_BACKLOGS, QUICK_TURNS)
    found: dict[tuple[int, int], list[float]] = {(parts, each): [] for parts in PARTITIONS for each in backlogs}
    with running_broker() as broker:
        for backlog in (*PARTITIONS, *backlogs):
            fill(broker.url, f"scale-{backlog}", backlog)
        _Range(broker.url, backlogs[0], 1).cpu(2)  # the warm-up
        for turn in range(turns):
            for parts in PARTITIONS:
                of_read = _Range(broker.url, parts, parts).cpu(SMALL_READS) / SMALL_READS
                for backlog in backlogs:
                    reads = max(1, TURN_ROWS // backlog)
                    rows_cpu = _Range(broker.url, backlog, parts).cpu(reads) - reads * of_read
                    found[parts, backlog].append(rows_cpu / (reads * backlog) * 1e6)
                shown = ", ".join(f"{found[parts, backlog][-1]:.2f}" for backlog in backlogs)
                print(
                    f"  turn {turn + 1}, {parts} partitions: {of_read * 1e3:.1f} ms a read, {shown} us a row",
                    flush=True,
                )
    return _rows({cell: median(costs) for cell, costs in found.items()}, backlogs)


def _rows(costs: dict[tuple[int, int], float], backlogs: tuple[int, ...]) -> list[Row]:
    """Return each backlog and each number of partitions beside the smallest; the bound is for either direction."""
    title = f"CPU per row of {BODY_BYTES} bytes, all columns, source and broker"
    rows = []
    for parts in PARTITIONS:
        found = [costs[parts, backlog] for backlog in backlogs]
        details: dict[str, object] = {str(backlog): costs[parts, backlog] for backlog in backlogs}
        metric = f"{title}, {parts} partitions, {backlogs[0]:,} to {backlogs[-1]:,} messages: most beside least"
        rows.append(Row("source-scale", metric, "us", max(found), min(found), "lower", FLAT, AIM, details))
    found = [costs[parts, backlogs[-1]] for parts in PARTITIONS]
    metric = f"{title}, {backlogs[-1]:,} messages, {PARTITIONS[0]} to {PARTITIONS[-1]} partitions: most beside least"
    return [*rows, Row("source-scale", metric, "us", max(found), min(found), "lower", FLAT, AIM)]


@frozen
class _Range:
    """All of one backlog, in a number of parts."""

    url: str
    backlog: int
    parts: int

    def cpu(self, reads: int) -> float:
        """Return the processor seconds of ``reads`` reads of the range."""
        reader = self._reader()
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        parts = reader.partitions(start, end)
        assert len(parts) == self.parts, (len(parts), self.parts)
        gc.collect()
        before, rows = family_cpu_seconds(os.getpid()), 0
        for _ in range(reads):
            for part in parts:
                for batch in reader.read(part):
                    rows += batch.num_rows
        took = family_cpu_seconds(os.getpid()) - before
        assert rows == reads * self.backlog, (rows, reads * self.backlog)
        reader.stop()
        return took

    def _reader(self) -> StreamReader:
        # With the extra alone.
        import pyarrow as pa

        from embedbroker.pipeline._arrow_schema import PLAIN_TYPES
        from embedbroker.pipeline._options import SourceOptions
        from embedbroker.pipeline._schema import COLUMNS
        from embedbroker.pipeline._source_stream import StreamReader

        # The next reader of the queue waits for what is left of the lease.
        values = {"url": self.url, "queue": f"scale-{self.backlog}", "leaseMs": "1000"}
        values["minPartitions"] = str(self.parts)
        texts = pa.map_(pa.string(), pa.string())
        types = {"map<string,string>": texts, **PLAIN_TYPES}
        schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
        return StreamReader(SourceOptions.parse(values), schema)
