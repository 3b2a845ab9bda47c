"""The audit with an audit log: confirmations, deliveries and acknowledgements, as DataFrames.

Responsible for reading logs in parallel by segment and for joining them with the contents of journals. Does not write
reports or read journals: the audit of journals runs before any log is read. That order matters with a running broker.
Everything in its journal is in its log, so a log that is read later contains all of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from attrs import define
from pyspark.sql import functions as F

from embedbroker.storage import RecordKind

from ._audit_log_files import LogSource, segment_rows_of
from ._audit_log_records import LOG_TYPES, LogKind, unpacked_numbers
from ._audit_log_verdict import LOG_PROBLEMS, LOG_VERDICT_TYPES, LogEvidence, judge_log
from ._audit_problems import messages_behind
from ._journals import each_of, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LogAudit", "log_audit"]

_FACTS = (LogKind.CONFIRMED, LogKind.NAMED, LogKind.GONE, LogKind.BEGUN, LogKind.ENDED, LogKind.DAMAGED,
          LogKind.READ_TO)  # fmt: skip
_JOURNALS = (int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE))
_COUNTS = ("sent", "confirmed", "delivered", "acknowledged", "rejected", "expired", "removed", "read", "present",
           "outstanding", "never delivered", "delivered twice", "never acknowledged", "delivered again",
           "not logged")  # fmt: skip
# Ways in which messages leave a queue.
_LEFT = {
    "acknowledged": "acknowledged",
    "read": "read by cursor",
    "rejected": "rejected",
    "expired": "expired",
    "removed": "removed",
}
_WRONG = {
    "never_delivered": "confirmed and NEVER DELIVERED",
    "delivered_twice": "DELIVERED TWICE without flag",
    "never_acknowledged": "delivered and NEVER ACKNOWLEDGED, nor present",
    "not_logged": "in the journal, NOT IN THE LOG",
}
_FIRST_ID_MAX = 1 << 62
Row = dict[str, Any]


@define(eq=False)
class LogAudit:
    """The result of audit logs.

    ``queues``: per journal and queue, counts and milliseconds from send to acknowledgement. ``problems``: the messages
    behind ``never_delivered``, ``delivered_twice``, ``never_acknowledged`` and ``not_logged``. ``latencies``: number of
    messages per duration and queue. ``lives``: lives of brokers. ``gaps``: sentences on missing parts of the logs.
    ``unjudged``: sentences on messages whose fate may have been in logs that retention removed.
    """

    sources: list[LogSource]
    queues: DataFrame
    problems: DataFrame
    latencies: DataFrame
    lives: DataFrame
    gaps: list[str]
    unjudged: list[str]
    has_journal: bool
    _kept: tuple[DataFrame, ...]

    @property
    def sound(self) -> bool:
        """Return True if the logs are whole and show no fault.

        A fault is a message that was confirmed and never delivered, delivered twice without flag, or forgotten.
        """
        bad = " + ".join(_WRONG)
        return not self.gaps and not self.queues.where(f"{bad} > 0").limit(1).count()

    def limits(self) -> list[str]:
        """Return sentences on the consequences of which logs there are."""
        count = len(self.sources)
        texts = [
            f"{count} audit log{'s were' if count > 1 else ' was'} read: what was confirmed, delivered and "
            "acknowledged is proven for the messages that were sent while a log ran, as far as its retention goes back."
        ]
        if not self.has_journal:
            texts.append(
                "The journal of a log was not read, so what is present is unknown: what was confirmed and neither "
                "delivered nor removed is called outstanding."
            )
        return texts + self.unjudged + self.gaps

    def lines(self) -> Iterator[str]:
        """Yield the verdict as text, a line per queue."""
        for row in self.queues.where("sent + delivered > 0").orderBy("queue").toLocalIterator():
            wrong = ", ".join(f"{row[key]:,} {text}" for key, text in _WRONG.items() if row[key])
            times = ""
            if row["max_ms"] is not None:
                times = (
                    f"; send to acknowledge p50 {row['p50_ms']:,.0f} ms, p90 {row['p90_ms']:,.0f} ms, "
                    f"p99 {row['p99_ms']:,.0f} ms, max {row['max_ms']:,} ms"
                )
            there = f"{row['present']:,} present" if self.has_journal else f"{row['outstanding']:,} outstanding"
            left = ", ".join(f"{row[key]:,} {text}" for key, text in _LEFT.items() if row[key])
            yield (
                f"{row['queue']}: log: {there}, {row['sent']:,} sent, {row['confirmed']:,} confirmed, "
                f"{row['delivered']:,} delivered, {left or 'none left the queue'}{'; ' + wrong if wrong else ''}{times}"
            )

    def close(self) -> None:
        """Free the data that Spark keeps."""
        for frame in self._kept:
            frame.unpersist()


def log_audit(
    spark: SparkSession,
    sources: Sequence[LogSource],
    effective: DataFrame,
    current: Mapping[int, int],
    confirmed_before: Mapping[str, int],
    parts: int,
) -> LogAudit:
    """Judge the contents of logs.

    Args:
        sources: the logs.
        effective: the rows of journals that count.
        current: per journal, the number of its longest source.
        confirmed_before: the result of `confirmed_now` before the journals were read.
        parts: number of Spark's partitions.
    """
    rows = _rows(spark, sources).persist()
    facts = [row.asDict() for row in rows.where(F.col("kind").isin(*_FACTS)).collect()]
    evidence = _evidence(sources, facts, rows, current, confirmed_before)

    def judged(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(judge_log(table, evidence)), pa.schema(list(LOG_VERDICT_TYPES.items())))

    keys = ("journal", "queue_id", "block")
    journals = effective.where(F.col("kind").isin(*_JOURNALS)).where(F.col("journal").isin(*evidence))
    everything = _settled(rows).unionByName(journals.select("source", "kind", "ids", *keys), allowMissingColumns=True)
    shuffled = everything.repartition(parts, *keys)
    verdicts = shuffled.groupBy(*keys).applyInArrow(judged, spark_schema(LOG_VERDICT_TYPES)).persist()
    named = _named(spark, facts)
    latencies = (
        verdicts.where("verdict = 'latency'")
        .groupBy("journal", "queue_id", "milliseconds")
        .agg(F.sum("count").alias("messages"))
        .join(named, ["journal", "queue_id"], "left")
    )
    return LogAudit(
        list(sources),
        _queues(verdicts, named),
        _problems(verdicts, named),
        latencies,
        _lives(spark, sources, facts),
        _gaps(sources, facts),
        _unjudged(sources, facts),
        all(journal in current for journal in evidence),
        (rows, verdicts),
    )


def _rows(spark: SparkSession, sources: Sequence[LogSource]) -> DataFrame:
    tasks = [
        (source.number, source.folder, number, number == source.segments[-1][0])
        for source in sources
        for number, _ in source.segments
    ]

    def summarised(index: int) -> Iterator[pa.RecordBatch]:
        source, folder, number, newest = tasks[index]
        found = list(segment_rows_of(source, folder, number, newest=newest))
        arrays = [pa.array([row.get(name) for row in found], kind) for name, kind in LOG_TYPES.items()]
        yield pa.RecordBatch.from_arrays(arrays, names=list(LOG_TYPES))

    return each_of(spark, len(tasks), summarised, spark_schema(LOG_TYPES))


def _evidence(
    sources: Sequence[LogSource],
    facts: Sequence[Row],
    rows: DataFrame,
    current: Mapping[int, int],
    confirmed_before: Mapping[str, int],
) -> dict[int, LogEvidence]:
    confirmed: dict[tuple[int, int], int] = {}
    newest: dict[int, int] = {}
    for fact in facts:
        newest[fact["source"]] = max(newest.get(fact["source"], 0), fact["life"])
        if fact["kind"] == LogKind.CONFIRMED:
            key = (fact["source"], fact["life"])
            confirmed[key] = max(confirmed.get(key, 0), fact["number"])
    for source in sources:
        key = (source.number, newest.get(source.number, 0))
        if key in confirmed:
            confirmed[key] = min(confirmed[key], confirmed_before.get(source.name, 0))
    firsts = rows.where(F.col("kind") == LogKind.SENT).groupBy("source", "journal").agg(F.min("number").alias("first"))
    first = {(row["source"], row["journal"]): row["first"] for row in firsts.collect()}
    gone: dict[int, set[int]] = {}
    for fact in facts:
        if fact["kind"] == LogKind.GONE:
            gone.setdefault(fact["journal"], set()).add(fact["queue_id"])
    judged_from = judged_from_of(facts, first)
    return {
        journal: LogEvidence(
            confirmed,
            current.get(journal),
            min((number for (_, its), number in first.items() if its == journal), default=_FIRST_ID_MAX),
            frozenset(gone.get(journal, ())),
            judged_from.get(journal, 0),
        )
        for journal in sorted({fact["journal"] for fact in facts})
    }


def judged_from_of(facts: Iterable[Row], first: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """Return by journal the id from which on the logs contain the fate of each message.

    ``first`` are the first ids sent, by source and journal. A log that goes back to a send has everything that its
    broker did with the message. Another broker may have ended the message earlier than its own log goes back, unless
    the message is younger than that log's first one.
    """
    found: dict[int, int] = {}
    for source, journal in _without_beginning(facts):
        found[journal] = max(found.get(journal, 0), first.get((source, journal), _FIRST_ID_MAX))
    return found


def _without_beginning(facts: Iterable[Row]) -> list[tuple[int, int]]:
    """Return the (source, journal) of logs whose oldest segment is not their first.

    A directory may have logs of several journals.
    """
    oldest: dict[int, tuple[int, int]] = {}
    for fact in facts:
        number = fact["generation"], fact["journal"]
        oldest[fact["source"]] = min(oldest.get(fact["source"], number), number)
    return [(source, journal) for source, (number, journal) in oldest.items() if number > 1]


def _unjudged(sources: Sequence[LogSource], facts: Sequence[Row]) -> list[str]:
    """Return texts only if the same journal has another log: within one log, the kept part is whole."""
    names = {source.number: source.name for source in sources}
    of_journal = Counter(journal for _, journal in {(fact["source"], fact["journal"]) for fact in facts})
    return [
        f"{names[source]}: retention took its beginning; what other logs say of messages sent before that is not judged"
        for source, journal in _without_beginning(facts)
        if of_journal[journal] > 1
    ]


def _settled(rows: DataFrame) -> DataFrame:
    """Return rows of messages and deliveries; those of a transaction only with its commit, in whatever segment."""
    kinds = range(LogKind.SENT, LogKind.TWICE + 1)
    wanted = rows.where(F.col("kind").isin(*kinds)).withColumn("number", F.lit(None).cast("long"))
    alone = wanted.where("transaction_id is null or transaction_id = 0")
    schema = "journal long, transaction_id long, at_source int, at_life long, number long"

    def apart(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                ids, numbers = unpacked_numbers(row["ids"]), unpacked_numbers(row["needs"])
                count = len(ids)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(np.full(count, row["journal"], np.int64)),
                        pa.array(ids),
                        pa.array(np.full(count, row["source"], np.int32)),
                        pa.array(np.full(count, row["life"], np.int64)),
                        pa.array(numbers),
                    ],
                    names=["journal", "transaction_id", "at_source", "at_life", "number"],
                )

    commits = rows.where(F.col("kind") == LogKind.COMMITTED).mapInArrow(apart, schema)
    pending = wanted.where("transaction_id <> 0").drop("number").join(commits, ["journal", "transaction_id"])
    late = pending.withColumn("source", F.col("at_source")).withColumn("life", F.col("at_life"))
    return alone.unionByName(late.drop("at_source", "at_life"))


def _named(spark: SparkSession, facts: Sequence[Row]) -> DataFrame:
    names = {
        (fact["journal"], fact["queue_id"]): json.loads(fact["text"]) for fact in facts if fact["kind"] == LogKind.NAMED
    }
    values = [(journal, queue_id, each["name"], each["address"]) for (journal, queue_id), each in names.items()]
    return spark.createDataFrame(values, "journal long, queue_id long, queue string, address string")


def _queues(verdicts: DataFrame, named: DataFrame) -> DataFrame:
    counts = [
        F.sum(F.when(F.col("verdict") == name, F.col("count")).otherwise(0)).alias(name.replace(" ", "_"))
        for name in _COUNTS
    ]
    table = verdicts.groupBy("journal", "queue_id").agg(*counts)
    times = (
        verdicts.where("verdict = 'latency'")
        .groupBy("journal", "queue_id")
        .agg(
            F.expr("percentile(milliseconds, 0.5, count)").alias("p50_ms"),
            F.expr("percentile(milliseconds, 0.9, count)").alias("p90_ms"),
            F.expr("percentile(milliseconds, 0.99, count)").alias("p99_ms"),
            F.max("milliseconds").alias("max_ms"),
        )
    )
    return table.join(times, ["journal", "queue_id"], "left").join(named, ["journal", "queue_id"], "left")


def _problems(verdicts: DataFrame, named: DataFrame) -> DataFrame:
    return messages_behind(verdicts, LOG_PROBLEMS).join(named, ["journal", "queue_id"], "left")


def _lives(spark: SparkSession, sources: Sequence[LogSource], facts: Sequence[Row]) -> DataFrame:
    """Return each life of a broker in the logs, and whether it ended in order as far as the log goes."""
    names = {source.number: source.name for source in sources}
    begun = {(fact["source"], fact["life"]): fact for fact in facts if fact["kind"] == LogKind.BEGUN}
    ended = {(fact["source"], fact["life"]) for fact in facts if fact["kind"] == LogKind.ENDED}
    values = [
        (names[source], fact["journal"], json.loads(fact["text"])["broker"], life, (source, life) in ended)
        for (source, life), fact in sorted(begun.items())
    ]
    return spark.createDataFrame(values, "log string, journal long, broker string, life long, ended boolean")


def _gaps(sources: Sequence[LogSource], facts: Sequence[Row]) -> list[str]:
    names = {source.number: source.name for source in sources}
    found = [gap for source in sources for gap in source.gaps()]
    for fact in facts:
        if fact["kind"] == LogKind.DAMAGED and not fact["flags"]:
            found.append(f"{names[fact['source']]}: segment {fact['generation']}: {fact['text']}")
    return found
