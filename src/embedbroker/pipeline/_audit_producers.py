"""An audit's results per producer: its messages by verdict, and whether their order held.

Responsible for finding the producers of the messages behind the verdicts, which needs reading each message. Does not
judge the fate of the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ._journal_files import JournalSource
from ._journal_frames import frames_of, placed_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["producer_lines", "producers_of"]

_MESSAGE = ["journal", "queue_id", "message_id"]
_WRONG = {
    "lost": "LOST",
    "unaccounted": "unaccounted for",
    "acknowledged_twice": "ACKNOWLEDGED TWICE",
}


def producers_of(
    spark: SparkSession,
    sources: Sequence[JournalSource],
    apart: Mapping[int, int],
    queues: DataFrame,
    problems: DataFrame,
    *,
    producer: str,
    sequence: str,
) -> DataFrame:
    """Return a row per queue and producer.

    A queue's messages without a producer have one row together, and their order is not judged. ``queues`` and
    ``problems`` are those of the audit of the same ``sources``. The producer of a message is unknown if compaction has
    removed its record.
    """
    frames = frames_of(spark, sources, apart, producer=producer, sequence=sequence)
    acknowledged = frames.acknowledgements.where("state = 'committed'").select(*_MESSAGE).distinct()
    verdicts = problems.groupBy(*_MESSAGE).agg(F.collect_set("verdict").alias("verdicts"))
    messages = (
        placed_messages(frames)
        .join(acknowledged.withColumn("acknowledged", F.lit(True)), _MESSAGE, "left")
        .join(verdicts, _MESSAGE, "left")
        .join(queues.select("journal", "queue_id", "exists"), ["journal", "queue_id"], "left")
    )
    exists = F.coalesce("exists", F.lit(False))
    is_open = F.col("acknowledged").isNull()
    lost, unaccounted, twice = (
        F.coalesce(F.array_contains("verdicts", name), F.lit(False))
        for name in ("lost", "unaccounted", "acknowledged twice")
    )
    is_known = F.col("producer").isNotNull()
    counts = {
        "stored": F.lit(True),
        "acknowledged": ~is_open,
        "present": exists & is_open & ~lost & ~unaccounted,
        "removed_with_queue": ~exists & is_open,
        "lost": lost,
        "unaccounted": unaccounted,
        "acknowledged_twice": twice,
        "out_of_order": F.when(is_known, F.col("late") & ~F.col("again")),
        "repeated": F.when(is_known, F.col("again")),
    }
    return (
        messages.groupBy("journal", "queue_id", "queue", "producer")
        .agg(*[F.sum(each.cast("long")).alias(name) for name, each in counts.items()])
        .orderBy("journal", "queue", "producer")
    )


def producer_lines(producers: DataFrame) -> Iterator[str]:
    """Yield the verdict as text, a line per queue and named producer."""
    for row in producers.where("producer is not null").toLocalIterator():
        wrong = ", ".join(f"{row[key]:,} {text}" for key, text in _WRONG.items() if row[key])
        yield (
            f"{row['queue']}, producer {row['producer']}: {row['present']:,} present, {row['stored']:,} stored, "
            f"{row['acknowledged']:,} acknowledged, {row['out_of_order']:,} out of order, "
            f"{row['repeated']:,} repeated{'; ' + wrong if wrong else ''}"
        )
