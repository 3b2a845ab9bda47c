"""The transactions and the queues of all segments of a journal together, a row each.

Responsible for ends in other segments than their transactions, and for names. Does not read segments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from embedbroker.storage import RecordKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["queue_names", "transaction_ends"]

_PREPARE, _ROLLBACK = int(RecordKind.PREPARE), int(RecordKind.ROLLBACK)
_COMMITS = (int(RecordKind.COMMIT), int(RecordKind.COMMIT_SET))


def transaction_ends(rows: DataFrame) -> DataFrame:
    ends = rows.where(F.col("kind").isin(_PREPARE, *_COMMITS, _ROLLBACK))
    return ends.groupBy("journal", "transaction_id").agg(
        F.max(F.col("kind").isin(*_COMMITS)).alias("committed"),
        F.max(F.col("kind") == _ROLLBACK).alias("rolled_back"),
        F.max(F.when(F.col("kind") == _PREPARE, F.col("text"))).alias("branch"),
    )


def queue_names(spark: SparkSession, rows: DataFrame, current: Mapping[int, int]) -> DataFrame:
    """Return per journal and queue id: name, address, routing, and whether its ``current`` source has the queue."""
    kinds = [int(RecordKind.QUEUE), int(RecordKind.REMOVE_QUEUE)]
    definitions = (
        rows.where(F.col("kind").isin(kinds)).select("journal", "source", "kind", "queue_id", "text").collect()
    )
    known: dict[tuple[int, int], list[object]] = {}
    removed = {(row["journal"], row["queue_id"]) for row in definitions if row["kind"] == RecordKind.REMOVE_QUEUE}
    for row in definitions:
        if row["kind"] == RecordKind.QUEUE:
            payload = json.loads(row["text"])
            entry = known.setdefault(
                (row["journal"], payload["id"]), [payload["name"], payload["address"], payload["routing_type"], False]
            )
            entry[3] = entry[3] or row["source"] == current[row["journal"]]
    values = [
        (journal, queue_id, name, address, routing, bool(there) and (journal, queue_id) not in removed)
        for (journal, queue_id), (name, address, routing, there) in known.items()
    ]
    schema = "journal long, queue_id long, queue string, address string, routing int, exists boolean"
    return spark.createDataFrame(values, schema)
