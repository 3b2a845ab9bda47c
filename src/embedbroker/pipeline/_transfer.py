"""`export` and `import`: queues to and from Parquet, complete, resumable, each message once.

An export of a queue is a folder. Its parts hold some thousand messages each in the order of the queue, with the columns
of the source. The column `raw` has the message as the broker stores it. `queue.json` describes the queue, and
`complete.json` marks the export as complete. A part gets its name when it is whole, so a named part is never written
again. One task browses a queue (`_export`), or many tasks read ranges of it (`_export_ranges`). An import sends each
part in transactions of fixed bounds, with duplicate ids made of export, queue and message. The broker refuses a message
that was sent before.

All executors and the driver must see folders under the same path. Responsible for imports, and for the tasks of both.
Does not depend on Spark's file formats, because a task must decide when a part is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from embedclient.model import RoutingType

from ._export import TransferResult, export_queue
from ._export_folder import ExportFolder, Part, about, noted, write_note
from ._export_ranges import export_range, pinned_ranges
from ._journal_records import IMPORT_MARK
from ._journals import each_of, spark_schema
from ._options import ConnectionOptions
from ._sending import QueueSender, SentMessage, queue_sender

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["export_queues", "exported_queues", "import_id", "import_queues", "transactions_of"]

MESSAGES_PER_PART = 10_000
MESSAGES_PER_TRANSACTION, BYTES_PER_TRANSACTION = 500, 8 << 20
_RESULT = {"queue": pa.string(), "messages": pa.int64(), "before": pa.int64(), "bytes": pa.int64()}


def export_queues(
    spark: SparkSession,
    queues: Sequence[str],
    directory: str | PathLike[str],
    *,
    url: str,
    user: str | None = None,
    password: str | None = None,
    messages_per_part: int = MESSAGES_PER_PART,
    parallel: bool = False,
) -> DataFrame:
    """Write the messages of these queues to Parquet; the messages stay in their queues.

    One task browses each queue. With ``parallel`` many tasks read a part each, and the broker refuses consumers at
    these queues meanwhile. A queue is browsed anyway if it has consumers, is read by a stream, or its broker does not
    offer ranges.

    A repeated call resumes after an interruption: messages of earlier parts are not written again. The result has a row
    per queue: messages and bytes written now, and messages written before.

    Args:
        spark: the session that runs the tasks.
        queues: names of the queues.
        directory: the folder for the exports, under the same path on all executors and the driver.
        url: URL of the broker.
        user: user at the broker; None without a login.
        password: password at the broker; None without a login.
        messages_per_part: largest number of messages in a part when browsing, approximate number by ranges; at least 1.
        parallel: read each queue by ranges.

    Raises:
        PySparkException: a task failed: the queue does not exist, or its connection broke; start it again.
        IllegalStateException: an export began with ``parallel``, and its queue has consumers or another broker now.
        JMSException: with ``parallel``, the broker cannot be reached, or refuses.
    """
    root, connection = str(Path(directory).absolute()), ConnectionOptions(url, user, password)
    names = list(dict.fromkeys(queues))
    # An export that began by ranges continues by ranges.
    by_ranges = [name for name in names if parallel or ExportFolder.of(root, name).ranges.exists()]
    if not by_ranges:
        return _as_frame(spark, _moved(spark, [_export(connection, name, root, messages_per_part) for name in names]))
    with pinned_ranges(connection, by_ranges, root, messages_per_part) as ranges:
        had = {name: ExportFolder.of(root, name).messages for name in ranges}
        work: list[_Work] = []
        for parts in ranges.values():
            work += [partial(export_range, connection, part, root) for part in parts]
        work += [_export(connection, name, root, messages_per_part) for name in names if name not in ranges]
        found = {result.queue: result for result in _moved(spark, work)}
    for name, before in had.items():
        folder = ExportFolder.of(root, name)
        # An attempt that was repeated may have written more than it reported.
        written = folder.messages - before
        found[name] = TransferResult(name, written, before, found[name].bytes if name in found else 0)
        folder.finish(before + written)
    return _as_frame(spark, [found[name] for name in names])


def _export(connection: ConnectionOptions, queue: str, root: str, messages_per_part: int) -> _Work:
    return partial(export_queue, connection, queue, root, messages_per_part)


def import_queues(
    spark: SparkSession,
    directory: str | PathLike[str],
    *,
    url: str,
    user: str | None = None,
    password: str | None = None,
    queues: Sequence[str] | None = None,
    parallel: bool = False,
) -> DataFrame:
    """Send the messages that `export_queues` wrote, into queues of the same names and addresses.

    One task sends a queue, in its order. With ``parallel`` many tasks send a part each, which mixes the order of parts.

    Missing queues are created. A repeated call resumes and sends nothing twice. Progress is recorded beside the parts,
    and duplicate ids make the broker refuse messages that were sent and not recorded. A message keeps the duplicate id
    from its producer, and is left out where the broker has received that id.

    Args:
        spark: the session that runs the tasks.
        directory: the folder with the exports, under the same path on all executors and the driver.
        url: URL of the broker.
        user: user at the broker; None without a login.
        password: password at the broker; None without a login.
        queues: names of the queues; None means all in the folder.
        parallel: send the parts of a queue at the same time.

    Raises:
        ValueError: a file beside the parts does not come from an export or an import.
        FileNotFoundError: one of the queues has no complete export (all present ones, by default).
    """
    connection = ConnectionOptions(url, user, password)
    work: list[_Work] = []
    for queue, path in exported_queues(directory, queues).items():
        parts = ExportFolder(path).parts()
        each = [[part] for part in parts] if parallel and parts else [parts]
        work += [partial(import_parts, connection, queue, path, some) for some in each]
    return _as_frame(spark, _moved(spark, work))


def exported_queues(directory: str | PathLike[str], queues: Sequence[str] | None = None) -> dict[str, Path]:
    """Return the queues with a complete export in ``directory``, with their folders. Needs no Spark.

    Args:
        directory: the folder with the exports.
        queues: names of the queues; None means all in the folder.

    Raises:
        ValueError: a file beside the parts does not come from an export or an import.
        FileNotFoundError: one of the queues has no complete export (all present ones, by default).
    """
    root = Path(directory).absolute()
    folders = {about(path.parent)["queue"]: path.parent for path in sorted(root.glob("*/queue.json"))}
    names = sorted(folders) if queues is None else list(queues)
    for name in names:
        if name not in folders or not (folders[name] / "complete.json").exists():
            raise FileNotFoundError(f"there is no complete export of queue {name!r} in {root}")
        for path in folders[name].glob("imported-*.json"):
            _sent_before(path)
    if not names:
        raise FileNotFoundError(f"there is no export in {root}")
    return {name: folders[name] for name in names}


_Work = Callable[[], TransferResult]


def _moved(spark: SparkSession, work: Sequence[_Work]) -> list[TransferResult]:
    """Do all of the work, and add up by queue."""

    def run(number: int) -> Iterator[pa.RecordBatch]:
        result = work[number]()
        row = {"queue": result.queue, "messages": result.messages, "before": result.before, "bytes": result.bytes}
        yield pa.RecordBatch.from_pylist([row], pa.schema(list(_RESULT.items())))

    found: dict[str, TransferResult] = {}
    for row in each_of(spark, len(work), run, spark_schema(_RESULT)).collect() if work else ():
        so_far = found.get(row["queue"], TransferResult(row["queue"], 0, 0, 0))
        messages, before = so_far.messages + row["messages"], so_far.before + row["before"]
        found[so_far.queue] = TransferResult(so_far.queue, messages, before, so_far.bytes + row["bytes"])
    return list(found.values())


def _as_frame(spark: SparkSession, results: Sequence[TransferResult]) -> DataFrame:
    """Return the results as a frame of rows: as a plan, each action would do the work again."""
    rows = [(each.queue, each.messages, each.before, each.bytes) for each in results]
    return spark.createDataFrame(rows, spark_schema(_RESULT))


def import_parts(connection: ConnectionOptions, queue: str, folder: Path, parts: Sequence[Part]) -> TransferResult:
    """Send these parts of an export, unless they were sent before.

    Raises:
        ValueError: a file beside the parts does not come from an export or an import.
        JMSException: the broker cannot be reached, or refuses.
    """
    described = about(folder)
    name = f"imported-{blake2b(connection.url.encode(), digest_size=8).hexdigest()}"
    messages = before = size = 0
    with queue_sender(connection, described["address"], queue, RoutingType[described["routing"]]) as sender:
        for part in parts:
            sent, found, sent_size = _import_part(sender, queue, part, folder / name)
            messages, before, size = messages + sent, before + found, size + sent_size
    return TransferResult(queue, messages, before, size)


def _import_part(sender: QueueSender, queue: str, part: Part, note: Path) -> tuple[int, int, int]:
    """Send a part, and record its progress. Return messages sent, messages sent before, and bytes."""
    progress = note.with_name(f"{note.name}-{part.path.stem.removeprefix('part-')}.json")
    sent = size = at = 0
    before = _sent_before(progress)
    if before < part.rows:
        for messages in transactions_of(queue, part.path):
            at += len(messages)
            if at <= before:
                continue
            sent += sender.send_once(messages)
            size += sum(len(message.raw) for message in messages)
            # Another attempt may be ahead.
            if _sent_before(progress) < at:
                write_note(progress, {"messages": at})
    return sent, part.rows - sent, size


def transactions_of(queue: str, part: Path) -> Iterator[list[SentMessage]]:
    """Yield the transactions of a part, with one row group in memory.

    Transactions have the same bounds each time, so the first message identifies one to the broker.
    """
    messages: list[SentMessage] = []
    size = 0
    with pq.ParquetFile(part) as file:
        for group in range(file.num_row_groups):
            for row in file.read_row_group(group, columns=["sequenceId", "raw"]).to_pylist():
                raw = row["raw"]
                if messages and (len(messages) == MESSAGES_PER_TRANSACTION or size + len(raw) > BYTES_PER_TRANSACTION):
                    yield messages
                    messages, size = [], 0
                messages.append(SentMessage(raw, import_id(queue, row["sequenceId"], raw)))
                size += len(raw)
    if messages:
        yield messages


def _sent_before(path: Path) -> int:
    """Return the progress in a note of an import; 0 if the note does not exist."""
    if not path.exists():
        return 0
    count = noted(path).get("messages")
    if not isinstance(count, int):
        raise ValueError(f"{path} is not of an import: it does not say how many messages were sent")
    return count


def import_id(queue: str, number: int, raw: bytes) -> bytes:
    """Return a duplicate id of 24 bytes: the same for the same message of an export, in every import."""
    digest = blake2b(f"{queue}\0{number}\0".encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(raw)
    return IMPORT_MARK + digest.digest()
