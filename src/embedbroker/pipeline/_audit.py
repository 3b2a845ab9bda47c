"""The audit: what journals of any number of brokers prove about their messages, as DataFrames.

Responsible for joining the contents of segments: ends of transactions, definitions, copies of the same journal. Does
not depend on the form of reports. Its input is the journals only, which do not record deliveries: `Audit.limits` states
the consequences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import asdict, define, frozen
from pyspark.sql import functions as F

from embedbroker.storage import RecordKind

from ._audit_blocks import AGAIN, CAME, WENT
from ._audit_log import LogAudit, log_audit
from ._audit_log_files import LogFolder, confirmed_now, log_places, log_sources
from ._audit_problems import messages_behind
from ._audit_producers import producer_lines, producers_of
from ._audit_verdict import (
    CAME_AND_STAYED,
    CAME_AND_WENT,
    PROBLEMS,
    VERDICT_TYPES,
    WENT_AGAIN,
    JournalEvidence,
    judge,
)
from ._journal_files import JournalSource, gone_since, journal_sources
from ._journal_forks import forks
from ._journal_records import CUT, END, FINDING
from ._journal_tables import queue_names, transaction_ends
from ._journals import spark_schema, summaries_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Audit", "AuditFinding", "JournalMoved", "audit", "evidence_of", "forks_of", "furthest", "journal_places"]

LISTINGS = 8
_SEGMENTS_PER_PART = 64
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_COUNTS = ("stored", "acknowledged", "present", "lost", "unaccounted", "acknowledged twice", "acknowledged, not stored",
           "left behind")  # fmt: skip
_SOMETHING = "stored + acknowledged_twice + acknowledged_not_stored + left_behind > 0"
_NEVER = 1 << 63  # no batch has such a number
_WRONG = {
    "lost": "LOST",
    "unaccounted": "unaccounted for",
    "left_behind": "left behind",
    "acknowledged_twice": "ACKNOWLEDGED TWICE",
}
Row = dict[str, Any]


class JournalMoved(Exception):
    """A broker compacted a directory faster than it could be read, several times in a row: audit a copy of it."""


@frozen
class AuditFinding:
    """Describe damage.

    Args:
        source: name of the journal's source.
        offset: byte offset in the file.
        text: the file and the damage.
        torn: the damage is the end of the newest segment, as a kill or a write under way leaves it.
    """

    source: str
    offset: int
    text: str
    torn: bool


@define(eq=False)
class Audit:
    """The result of an audit. Its DataFrames use data that was read once; `close` frees it.

    Args:
        sources: the copies of journals that were read.
        evidence: per journal, the source that is its present, and how far back its records are complete.
        findings: damage in the files.
        queues: per journal and queue, messages stored, acknowledged, present, lost, unaccounted for, acknowledged
            twice, left behind.
        problems: the messages behind the last four of these.
        transactions: each that is not over, with its branch.
        traffic: messages, bytes and acknowledgements per queue and second.
        backlog: arrivals and departures per queue and second, of the messages that were read and are acknowledged or
            present; arrivals - departures = present.
        segments: the segments that were read.
        bytes_read: bytes of the segments that were read.
        log: the verdict of the audit logs; None without one.
        producers: per queue and producer the counts of ``queues`` and the order; None if the audit had no properties.
    """

    sources: list[JournalSource]
    evidence: dict[int, JournalEvidence]
    findings: list[AuditFinding]
    queues: DataFrame
    problems: DataFrame
    transactions: DataFrame
    traffic: DataFrame
    backlog: DataFrame
    segments: DataFrame
    bytes_read: int
    log: LogAudit | None
    _kept: tuple[DataFrame, ...]
    producers: DataFrame | None = None

    @property
    def sound(self) -> bool:
        """Return True if no loss, double acknowledgement, damage or wrong order was found in journals and logs."""
        if self.log is not None and not self.log.sound:
            return False
        if self.producers is not None and self.producers.where("out_of_order > 0").limit(1).count():
            return False
        bad = self.queues.where("lost + acknowledged_twice > 0").limit(1).count()
        return not bad and not any(not finding.torn for finding in self.findings)

    def limits(self) -> list[str]:
        """Return sentences on what could not be proven, and why."""
        names = {source.identity: source.name for source in self.sources}
        texts = [f"{names[journal]}: {each.limited}" for journal, each in self.evidence.items() if each.limited]
        if self.log is not None:
            return [*texts, *self.log.limits()]
        return [
            *texts,
            "No audit log was read. A journal does not say what was confirmed to a producer and delivered to a "
            "consumer: confirmed and never delivered, delivered twice without flag, and latencies cannot be proven "
            "from it.",
        ]

    def lines(self) -> Iterator[str]:
        """Yield the verdict as text: queues with their problems, damage, transactions, limits."""
        where = "" if self.log is None else "; the audit log may have it"
        unaccounted = f"unaccounted for (the journal no longer has a record of their end{where})"
        texts = {**_WRONG, "unaccounted": unaccounted}
        for row in self.queues.where(_SOMETHING).toLocalIterator():
            name = row["queue"] if row["queue"] is not None else f"queue {row['queue_id']}, which is not defined"
            gone = "" if row["exists"] else ", queue removed"
            wrong = ", ".join(f"{row[key]:,} {text}" for key, text in texts.items() if row[key])
            yield (
                f"{name}: {row['present']:,} present, {row['stored']:,} stored, {row['acknowledged']:,} acknowledged"
                f"{gone}{'; ' + wrong if wrong else ''}"
            )
        if self.producers is not None:
            yield from producer_lines(self.producers)
        if self.log is not None:
            yield from self.log.lines()
        for finding in self.findings:
            shown = "torn tail" if finding.torn else "DAMAGED"
            yield f"{shown}: {finding.source}: {finding.text} (offset {finding.offset})"
        for row in self.transactions.toLocalIterator():
            branch = f", branch {row['branch']}" if row["branch"] else ""
            yield (
                f"transaction {row['transaction_id']} is {row['state']}{branch}: "
                f"{row['sent']:,} sent, {row['acknowledged']:,} acknowledged"
            )
        yield from self.limits()
        yield "nothing is lost, acknowledged twice or damaged" if self.sound else "SOMETHING IS WRONG"

    def as_json(self) -> dict[str, object]:
        """Return the verdict as values for JSON, which `lines` has as text: rows of the DataFrames are objects."""

        def rows(frame: DataFrame | None) -> list[Row]:
            return [] if frame is None else [row.asDict(recursive=True) for row in frame.toLocalIterator()]

        return {
            "sound": self.sound,
            "queues": rows(self.queues.where(_SOMETHING)),
            "producers": rows(self.producers),
            "log_queues": rows(None if self.log is None else self.log.queues),
            "findings": [asdict(finding) for finding in self.findings],
            "transactions": rows(self.transactions),
            "limits": self.limits(),
        }

    def close(self) -> None:
        """Free the data of the journals that Spark keeps."""
        if self.log is not None:
            self.log.close()
        if self.producers is not None:
            self.producers.unpersist()
        for frame in self._kept:
            frame.unpersist()


def journal_places(places: Sequence[str | PathLike[str]]) -> list[Path]:
    """Return the places of an audit that must have journals: all except those with only an audit log.

    Args:
        places: directories and archives with journals or audit logs.

    Raises:
        ValueError: an archive has an unknown type.
    """
    alone = log_places(places)[1]
    return [Path(place) for place in places if Path(place).resolve() not in alone]


def audit(
    spark: SparkSession,
    places: Sequence[str | PathLike[str]],
    *,
    producer: str | None = None,
    sequence: str | None = None,
) -> Audit:
    """Read journals in directories and archives, in parallel by segment, and judge each message.

    Places with an audit log are those of logs, archives too. A log in ``audit``, in or beside a journal's directory, is
    found without being named. A directory may be that of a running broker: nothing is locked or written. Several copies
    of one journal (a primary and its backup, archives of earlier days) are taken together: the longest one decides
    which messages are present.

    Args:
        spark: the session that runs the job.
        places: directories and archives with journals or audit logs.
        producer: name of the property with the sender's name.
        sequence: name of the property with a whole number that grows per sender. With both properties, each message is
            read, and there are verdicts per producer.

    Raises:
        FileNotFoundError: a place does not exist, or has no journal.
        ValueError: a place is given twice, or is an archive of an unknown type; or one property is given without the
            other.
        JournalMoved: compaction was always faster.
    """
    if (producer is None) != (sequence is None):
        raise ValueError("producer and sequence belong together")
    moved = ""
    logs, _ = log_places(places)
    # Before the journals: messages confirmed by now are in them, unless they left their queue.
    confirmed = confirmed_now(log_sources(logs))
    journals = journal_places(places)
    for _ in range(LISTINGS):
        sources = journal_sources(journals)
        rows, notes, moved = _summed_up(spark, sources, {})
        apart: dict[int, int] = {}
        try:
            apart = {} if moved else forks_of(sources, notes)
        except FileNotFoundError as error:
            moved = str(error)
        if apart:
            # Only reading shows which records are behind a fork. It is rare: a primary that died.
            rows.unpersist()
            rows, notes, moved = _summed_up(spark, sources, apart)
        if not moved:
            result = _audit(spark, sources, rows, notes, apart, logs, confirmed)
            if producer is not None and sequence is not None:
                moved = _add_producers(spark, result, apart, journals, producer, sequence)
            if not moved:
                return result
            result.close()
        rows.unpersist()
    raise JournalMoved(f"the segments changed while they were read, {LISTINGS} times: {moved}; audit a copy")


def _summed_up(
    spark: SparkSession, sources: list[JournalSource], apart: Mapping[int, int]
) -> tuple[DataFrame, list[Row], str]:
    """Return the rows, which Spark keeps; those with the ends of the reading; and a text on data removed meanwhile."""
    rows = summaries_of(spark, sources, apart).persist()
    notes = [row.asDict() for row in rows.where(F.col("kind").isin(CUT, END, FINDING)).collect()]
    return rows, notes, next((note["text"] for note in notes if note["kind"] == CUT), "")


def _add_producers(
    spark: SparkSession, result: Audit, apart: Mapping[int, int], places: list[Path], producer: str, sequence: str
) -> str:
    """Read everything once more; return a text on data removed meanwhile, or an empty text."""
    found = producers_of(
        spark, result.sources, apart, result.queues, result.problems, producer=producer, sequence=sequence
    )
    result.producers = found.persist()
    found.count()
    return gone_since(result.sources, places)


def forks_of(sources: list[JournalSource], notes: list[Row]) -> dict[int, int]:
    last = {(note["source"], note["generation"]): note["count"] for note in notes if note["kind"] == END}
    groups = [group for group in _journals(sources).values() if len(group) > 1]
    return {number: fork for group in groups for number, fork in forks(group, furthest(group, last), last).items()}


def _audit(
    spark: SparkSession,
    sources: list[JournalSource],
    rows: DataFrame,
    notes: list[Row],
    apart: Mapping[int, int],
    logs: list[LogFolder],
    confirmed: Mapping[str, int],
) -> Audit:
    findings = _findings(sources, notes) + _missing(sources, rows)
    evidence = {identity: evidence_of(group, notes, apart) for identity, group in _journals(sources).items()}
    # An end behind a fork was never reported; the broker that took over may have ended the transaction otherwise.
    ends = transaction_ends(rows.where("not left_behind"))
    blocks = rows.where(F.col("kind").isin(_ADD, _ACKNOWLEDGE, AGAIN))
    pending = blocks.where("transaction_id <> 0 and not left_behind").join(ends, ["journal", "transaction_id"], "left")
    effective = blocks.where("transaction_id = 0").unionByName(
        pending.where("committed").drop("committed", "rolled_back", "branch").withColumn("transaction_id", F.lit(0))
    )

    def judged(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(judge(table, evidence)), pa.schema(list(VERDICT_TYPES.items())))

    keys = ("journal", "queue_id", "block")
    # Spark's default number of partitions, 200, would start as many workers for a journal of a few segments.
    segments = sum(len(source.segments) for source in sources)
    parts = max(spark.sparkContext.defaultParallelism, segments // _SEGMENTS_PER_PART)
    moves = _moves(rows, evidence).select(*effective.columns)
    shuffled = effective.unionByName(moves).repartition(parts, *keys)
    verdicts = shuffled.groupBy(*keys).applyInArrow(judged, spark_schema(VERDICT_TYPES)).persist()
    named = queue_names(
        spark, rows.where("not left_behind"), {journal: each.current for journal, each in evidence.items()}
    )
    current = named
    log = None
    if logs:
        present = {journal: each.current for journal, each in evidence.items()}
        log = log_audit(
            spark, log_sources(logs), effective.where("not left_behind"), present, confirmed, parts
        )  # the log contains its own confirmations
    return Audit(
        sources,
        evidence,
        findings,
        _queues(verdicts, current),
        _problems(verdicts, current),
        _open_transactions(pending, ends),
        _traffic(rows, current, evidence),
        _backlog(verdicts, current),
        _segments(rows),
        sum(note["offset"] for note in notes if note["kind"] == END),
        log,
        (rows, verdicts),
    )


def _journals(sources: Iterable[JournalSource]) -> dict[int, list[JournalSource]]:
    groups: dict[int, list[JournalSource]] = {}
    for source in sources:
        groups.setdefault(source.identity, []).append(source)
    return groups


def _findings(sources: list[JournalSource], notes: list[Row]) -> list[AuditFinding]:
    names = {source.number: source.name for source in sources}
    ends = {(note["source"], note["generation"]): note["offset"] for note in notes if note["kind"] == END}
    newest = {each.source: each.header.generation for source in sources for each in source.segments if each.newest}
    found = [
        AuditFinding(
            names[note["source"]],
            note["offset"],
            note["text"],
            newest.get(note["source"]) == note["generation"]
            and note["offset"] >= ends[note["source"], note["generation"]],
        )
        for note in notes
        if note["kind"] == FINDING
    ]
    damaged = [AuditFinding(each.name, 0, f"{file}: {text}", False) for each in sources for file, text in each.damage]
    return sorted([*found, *damaged], key=lambda each: (each.source, each.text, each.offset))


def _missing(sources: list[JournalSource], rows: DataFrame) -> list[AuditFinding]:
    """Return findings on missing segments.

    The newest segment of their source lists them, and they were not dropped since.
    """
    starts, drops = int(RecordKind.SEGMENT_START), int(RecordKind.SEGMENTS_DROPPED)
    known = rows.where(F.col("kind").isin(starts, drops) & F.col("text").isNotNull()).collect()
    found: list[AuditFinding] = []
    for source in sources:
        own = [row for row in known if row["source"] == source.number]
        began = max((row["offset"] for row in own if row["kind"] == starts), default=0)
        dropped = [
            pair for row in own if row["kind"] == drops and row["offset"] > began for pair in json.loads(row["text"])
        ]
        there = [(each.header.first, each.header.last) for each in source.segments]
        for row in own:
            if row["kind"] == starts and row["offset"] == began:
                gone = [
                    (first, last)
                    for first, last in json.loads(row["text"])
                    if not any(low <= first and last <= high for low, high in [*there, *dropped])
                ]
                found += [
                    AuditFinding(source.name, 0, f"segment {first} to {last} is missing", False) for first, last in gone
                ]
    return found


def evidence_of(sources: list[JournalSource], notes: list[Row], apart: Mapping[int, int]) -> JournalEvidence:
    """Return how far back the records of one journal are complete, and which source is its present.

    A segment in which a copy went its own way does not stand for that of the present.
    """
    ends = {(note["source"], note["generation"]): note for note in notes if note["kind"] == END}
    current = furthest(sources, {place: note["count"] for place, note in ends.items()})
    newest = current.newest_generation
    whole = _whole(sources, notes, ends, apart, newest)
    complete_from = newest + 1
    while complete_from - 1 in whole:
        complete_from -= 1
    limits = [
        f"{source.name} went on behind batch {apart[source.number]} when it was cut off from {current.name}: what it "
        "alone stored there was left behind, and is lost only if an audit log records that it was confirmed"
        for source in sources
        if source.number in apart
    ]
    if complete_from > 1:
        limits.append(
            f"records are complete from segment {complete_from} on; what is older was compacted, is damaged or is not "
            "there, so a message of that time that is gone may have been acknowledged"
        )
    return JournalEvidence(current.number, complete_from, "; ".join(limits) or None)


def _whole(
    sources: list[JournalSource],
    notes: list[Row],
    ends: Mapping[tuple[int, int], Row],
    apart: Mapping[int, int],
    newest: int,
) -> set[int]:
    """Return the generations of which some source has everything that was written.

    A copy of a segment that was still being written does not have it. Of the newest segment, the longest copy does.
    """
    last = {place: int(note["count"]) for place, note in ends.items()}
    reach = max((count for (_, generation), count in last.items() if generation == newest), default=0)
    # Data that a kill leaves behind the end of the newest segment does not count.
    damaged = {
        (note["source"], note["generation"])
        for note in notes
        if note["kind"] == FINDING
        and (note["generation"] != newest or note["offset"] < ends[note["source"], newest]["offset"])
    }
    return {
        each.header.generation
        for source in sources
        for each in source.segments
        if not each.header.compacted
        and last[source.number, each.header.generation] <= apart.get(source.number, _NEVER)
        and (source.number, each.header.generation) not in damaged
        and (not each.newest or (each.header.generation == newest and last[source.number, newest] == reach))
    }


def furthest(sources: Iterable[JournalSource], last_batches: Mapping[tuple[int, int], int]) -> JournalSource:
    """Return the longest of several copies of one journal; the first of those with the same end."""

    def reach(source: JournalSource) -> tuple[int, int, int]:
        last = max(last_batches[source.number, each.header.generation] for each in source.segments)
        return source.newest_generation, last, -source.number

    return max(sources, key=reach)


def _queues(verdicts: DataFrame, named: DataFrame) -> DataFrame:
    """Return a row per queue. Messages left in a removed queue went with it."""
    verdicts = verdicts.where("second is null")
    counts = [F.sum(F.when(F.col("verdict") == name, F.col("count")).otherwise(0)).alias(name) for name in _COUNTS]
    table = verdicts.groupBy("journal", "queue_id").agg(*counts).join(named, ["journal", "queue_id"], "full")
    exists = F.coalesce(F.col("exists"), F.lit(False))

    def number(name: str) -> Any:
        return F.coalesce(F.col(f"`{name}`"), F.lit(0))

    return table.select(
        "journal",
        "queue_id",
        "queue",
        "address",
        exists.alias("exists"),
        number("stored").alias("stored"),
        number("acknowledged").alias("acknowledged"),
        F.when(exists, number("present")).otherwise(0).alias("present"),
        F.when(exists, 0)
        .otherwise(number("present") + number("lost") + number("unaccounted"))
        .alias("removed_with_queue"),
        F.when(exists, number("lost")).otherwise(0).alias("lost"),
        F.when(exists, number("unaccounted")).otherwise(0).alias("unaccounted"),
        number("acknowledged twice").alias("acknowledged_twice"),
        number("acknowledged, not stored").alias("acknowledged_not_stored"),
        number("left behind").alias("left_behind"),
    ).orderBy("journal", "queue", "queue_id")


def _problems(verdicts: DataFrame, named: DataFrame) -> DataFrame:
    found = messages_behind(verdicts, PROBLEMS)
    gone = ~F.coalesce(F.col("exists"), F.lit(False)) & F.col("verdict").isin("lost", "unaccounted")
    return found.join(named, ["journal", "queue_id"], "left").where(~gone).drop("exists", "routing")


def _open_transactions(pending: DataFrame, ends: DataFrame) -> DataFrame:
    """Return each transaction that is prepared or has no end, with its sends and acknowledgements."""
    sent = F.sum(F.when(F.col("kind") == _ADD, F.col("count")).otherwise(0))
    acknowledged = F.sum(F.when(F.col("kind") == _ACKNOWLEDGE, F.col("count")).otherwise(0))
    work = pending.groupBy("journal", "transaction_id").agg(sent.alias("sent"), acknowledged.alias("acknowledged"))
    table = ends.join(work, ["journal", "transaction_id"], "full")
    over = F.coalesce(F.col("committed"), F.lit(False)) | F.coalesce(F.col("rolled_back"), F.lit(False))
    return table.where(~over).select(
        "journal",
        "transaction_id",
        "branch",
        F.when(F.col("branch").isNull(), "open").otherwise("in doubt").alias("state"),
        F.coalesce("sent", F.lit(0)).alias("sent"),
        F.coalesce("acknowledged", F.lit(0)).alias("acknowledged"),
    )


def _moves(rows: DataFrame, evidence: dict[int, JournalEvidence]) -> DataFrame:
    """Return the moves of each journal's present alone: copies hold the same records."""
    current = [each.current for each in evidence.values()]
    return rows.where(F.col("kind").isin(CAME, WENT) & F.col("source").isin(current) & ~F.col("left_behind"))


def _backlog(verdicts: DataFrame, named: DataFrame) -> DataFrame:
    """Return the backlog. Messages left in a removed queue are not present."""
    named = named.drop("routing")
    found = verdicts.where("second is not null").join(named, ["journal", "queue_id"], "left")
    is_there = F.coalesce(F.col("exists"), F.lit(False))
    counts = (F.col("verdict") == CAME_AND_WENT) | ((F.col("verdict") == CAME_AND_STAYED) & is_there)
    return found.groupBy("journal", "queue_id", "queue", "address", "second").agg(
        F.sum(F.when(counts, F.col("count")).otherwise(0)).alias("came"),
        F.sum(F.when(F.col("verdict") == WENT_AGAIN, F.col("count")).otherwise(0)).alias("went"),
    )


def _traffic(rows: DataFrame, named: DataFrame, evidence: dict[int, JournalEvidence]) -> DataFrame:
    found = _moves(rows, evidence)
    return (
        found.groupBy("journal", "queue_id", "second")
        .agg(
            F.sum(F.when(F.col("kind") == CAME, F.col("count")).otherwise(0)).alias("messages"),
            F.sum(F.when(F.col("kind") == CAME, F.col("bytes")).otherwise(0)).alias("bytes"),
            F.sum(F.when(F.col("kind") == WENT, F.col("count")).otherwise(0)).alias("acknowledgements"),
        )
        .join(named.drop("exists", "routing"), ["journal", "queue_id"], "left")
    )


def _segments(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("kind") == END).select(
        "journal", "source", F.col("text").alias("file"), "generation", "written",
        F.col("count").alias("last_batch"), F.col("offset").alias("bytes"),
    )  # fmt: skip
