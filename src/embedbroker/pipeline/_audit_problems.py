"""The messages behind the verdicts of an audit, as rows: small sets of ids are expanded.

Responsible for that step. Does not depend on the meaning of a verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from ._audit_blocks import IdSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["messages_behind"]

_SCHEMA = "journal long, queue_id long, verdict string, message_id long"
_NAMES = ("journal", "queue_id", "verdict", "message_id")
_TYPES = (pa.int64(), pa.int64(), pa.string(), pa.int64())


def messages_behind(verdicts: DataFrame, wanted: Collection[str]) -> DataFrame:
    """Return a row for each message of the ``wanted`` kinds.

    Args:
        verdicts: a row for each queue, block of ids and kind.
        wanted: kinds of verdicts.
    """

    def apart(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                ids = IdSet.of(row["ids"]).ids(row["block"])
                columns = [[row["journal"]] * len(ids), [row["queue_id"]] * len(ids), [row["verdict"]] * len(ids), ids]
                arrays = [pa.array(values, kind) for values, kind in zip(columns, _TYPES, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=list(_NAMES))

    return verdicts.where(F.col("verdict").isin(list(wanted))).mapInArrow(apart, _SCHEMA)
