"""Journals as DataFrames for questions beyond the audit; and the one that needs the messages: their order.

Responsible for frames of records, messages, acknowledgements and transactions, a row each. These cost many times more
than an audit: it takes sets of ids from a segment, these take every record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from attrs import define
from pyspark.sql import Window
from pyspark.sql import functions as F

from embedbroker.storage import RecordKind

from ._journal_files import JournalSource, journal_sources
from ._journal_records import ARROW_TYPES, CUT, END, FINDING, MESSAGE_COLUMNS
from ._journal_tables import queue_names, transaction_ends
from ._journals import Selection, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["JournalFrames", "frames_of", "journal_frames", "placed_messages", "producer_order"]

_PLAIN = tuple(name for name in ARROW_TYPES if name not in MESSAGE_COLUMNS)
_NAMES = {kind.value: kind.name for kind in RecordKind} | {FINDING: "damage", END: "end of segment", CUT: "gone"}


@define(eq=False)
class JournalFrames:
    """Hold the records of journals. Each action reads the segments again: `persist` frames of repeated queries.

    Args:
        records: all of them, by ``kind``, with damage as rows of the kind ``damage``.
        messages: a row per message and queue as it was stored.
        acknowledgements: a row per acknowledgement.
        transactions: with their state (committed, rolled back, in doubt, open).

    ``state`` of a message or acknowledgement is that of its transaction, or ``committed`` outside of transactions.
    """

    records: DataFrame
    messages: DataFrame
    acknowledgements: DataFrame
    transactions: DataFrame


def journal_frames(
    spark: SparkSession,
    places: Sequence[str | PathLike[str]],
    *,
    contents: bool = False,
    producer: str | None = None,
    sequence: str | None = None,
) -> JournalFrames:
    """Return frames over journals in directories and archives; copies of one journal have separate rows, by ``source``.

    Args:
        spark: the session that reads.
        places: directories and archives with journals.
        contents: add the columns ``key``, ``digest`` and ``raw`` to messages.
        producer: name of the property for the column ``producer``.
        sequence: name of the property for the column ``sequence``.

    Raises:
        FileNotFoundError: a place does not exist, or has no journal.
        ValueError: a place is given twice, or is an archive of an unknown type.
    """
    sources = journal_sources(places)
    return frames_of(spark, sources, {}, contents=contents, producer=producer, sequence=sequence)


def frames_of(
    spark: SparkSession,
    sources: Sequence[JournalSource],
    apart: Mapping[int, int],
    *,
    contents: bool = False,
    producer: str | None = None,
    sequence: str | None = None,
) -> JournalFrames:
    """Return frames over journals that were listed.

    ``apart`` has the last batches that sources share with another copy: later batches are left out.
    """
    of_messages = [name for name, given in (("producer", producer), ("sequence", sequence)) if given]
    of_messages += ["key", "digest", "raw"] if contents else []
    columns = (*_PLAIN, *of_messages)
    rows = rows_of(spark, sources, Selection(columns, None, producer, sequence))
    for source, fork in apart.items():
        rows = rows.where((F.col("source") != source) | (F.col("batch") <= fork))
    ends = transaction_ends(rows)
    state = (
        F.when(F.col("committed"), "committed")
        .when(F.col("rolled_back"), "rolled back")
        .when(F.col("branch").isNotNull(), "in doubt")
        .otherwise("open")
    )
    transactions = ends.withColumn("state", state).drop("committed", "rolled_back")
    current = {source.identity: source.number for source in sources}
    named = F.broadcast(queue_names(spark, rows, current).drop("exists", "routing"))

    def of_kind(kind: RecordKind, wanted: Sequence[str]) -> DataFrame:
        own = rows.where(F.col("kind") == int(kind)).select("journal", "source", "batch_ms", *wanted)
        joined = own.join(transactions.drop("branch"), ["journal", "transaction_id"], "left")
        whole = F.when(F.col("transaction_id") == 0, "committed").otherwise(F.coalesce("state", F.lit("open")))
        return joined.withColumn("state", whole).join(named, ["journal", "queue_id"], "left")

    names = F.create_map(*[F.lit(each) for pair in _NAMES.items() for each in pair])
    base = ("message_id", "queue_id", "transaction_id")
    return JournalFrames(
        rows.withColumn("kind", F.coalesce(names[F.col("kind").cast("int")], F.col("kind").cast("string"))),
        of_kind(
            RecordKind.ADD_MESSAGE,
            (*base, "position", "size", "priority", "encoding", "expiration", "timestamp", "wall_ms", *of_messages),
        ),
        of_kind(RecordKind.ACKNOWLEDGE, base),
        transactions,
    )


def producer_order(
    spark: SparkSession, places: Sequence[str | PathLike[str]], *, producer: str, sequence: str
) -> DataFrame:
    """Return the order of messages per queue and producer.

    The counts are of messages that are stored, that stand behind a later one of the same producer, or that come again.
    What counts is the place in the queue, which a transaction's messages get at its commit. Messages without
    ``sequence`` are left out.

    Args:
        spark: the session that reads.
        places: directories and archives with journals.
        producer: name of the property with the sender's name.
        sequence: name of the property with a whole number that grows per sender.

    Raises what `journal_frames` raises.

    Raises: as `journal_frames`.
    """
    frames = journal_frames(spark, places, producer=producer, sequence=sequence)
    return (
        placed_messages(frames)
        .where("sequence is not null")
        .groupBy("journal", "queue", "producer")
        .agg(
            F.count("*").alias("messages"),
            F.sum((F.col("late") & ~F.col("again")).cast("long")).alias("out_of_order"),
            F.sum(F.col("again").cast("long")).alias("repeated"),
        )
        .orderBy("journal", "queue", "producer")
    )


def placed_messages(frames: JournalFrames) -> DataFrame:
    """Return the stored messages, each once per queue.

    ``late``: behind a later message of its producer. ``again``: its number was there before. A message without a number
    is neither.
    """
    stored = frames.messages.where("state = 'committed'").dropDuplicates(["journal", "queue_id", "message_id"])
    commits = frames.records.where("kind in ('COMMIT', 'COMMIT_SET')")
    first = commits.groupBy("journal", "transaction_id", "queue_id").agg(F.max("position").alias("first"))
    placed = stored.join(first, ["journal", "transaction_id", "queue_id"], "left").withColumn(
        "place", F.when(F.col("transaction_id") == 0, F.col("position")).otherwise(F.col("first") + F.col("position"))
    )
    # One task would sort all messages without a number: each stands for itself.
    alone = F.when(F.col("sequence").isNull(), F.col("message_id"))
    earlier = (
        Window.partitionBy("journal", "queue_id", "producer", alone)
        .orderBy("place")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    before = F.max("sequence").over(earlier)
    same = Window.partitionBy("journal", "queue_id", "producer", "sequence", alone).orderBy("place")
    return placed.withColumn("again", F.row_number().over(same) > 1).withColumn(
        "late", F.coalesce(before > F.col("sequence"), F.lit(False))
    )
