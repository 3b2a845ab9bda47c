"""`export` and `import`: queues to and from Parquet, complete, resumable, each message once.

An export of a queue is a folder: parts of some thousand messages in the order of the queue, with the columns of the
source and, in `raw`, the message as the broker stores it; `queue.json` says what queue it was, `complete.json` that all
is there. A part gets its name when it is whole, so what has a name is never written again: a task that is interrupted,
also by a failover that it outlives, shows the queue once more and leaves out what stands in a part. An import sends
each part in transactions of fixed size with duplicate ids made of export, queue and message: one that was sent before
is refused by the broker.

Folders have to be seen under the same path by all executors. Responsible for both; refuses to know Spark's own file
formats, because a task has to decide when a part is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from embedclient.blocking import ClientSession
from embedclient.errors import ConnectionLostException, InvalidDestinationException
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage

from ._frames import pack_block
from ._journals import each_of, spark_schema
from ._link import Link
from ._options import ConnectionOptions
from ._rows import RowConverter
from ._schema import COLUMNS
from ._sending import SentMessage, queue_sender

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["export_queues", "exported_queues", "import_queues"]

MESSAGES_PER_PART = 10_000
MESSAGES_PER_TRANSACTION = 500
# So often in a row a queue is shown from its beginning without that a part of it is written.
INTERRUPTIONS_MAX = 10
_BYTES_PER_READ = 4 << 20
_RESULT = pa.schema([("queue", pa.string()), ("messages", pa.int64()), ("before", pa.int64()), ("bytes", pa.int64())])
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
_READABLE = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS.items() if name != "position"])
_SCHEMA = _READABLE.append(pa.field("raw", pa.binary()))


@frozen
class TransferResult:
    """What became of one queue: messages moved now and found moved before, and their bytes."""

    queue: str
    messages: int
    before: int
    bytes: int


def export_queues(
    spark: SparkSession,
    queues: Sequence[str],
    directory: str | PathLike[str],
    *,
    url: str,
    user: str | None = None,
    password: str | None = None,
    messages_per_part: int = MESSAGES_PER_PART,
) -> DataFrame:
    """Write what is in these queues to Parquet, one task per queue; the messages stay in their queues.

    Started again after an interruption it goes on: messages of earlier parts are not written again. A row per queue
    says how much was written now, and before.

    Raises:
        PySparkException: a task failed: there is no queue of this name, or its connection broke; start it again.
    """
    root, connection = str(Path(directory).absolute()), ConnectionOptions(url, user, password)
    return _per_queue(spark, list(queues), lambda queue: _export(connection, queue, root, messages_per_part))


def import_queues(
    spark: SparkSession,
    directory: str | PathLike[str],
    *,
    url: str,
    user: str | None = None,
    password: str | None = None,
    queues: Sequence[str] | None = None,
) -> DataFrame:
    """Send what `export_queues` wrote, into queues of the same names and addresses, one task per queue.

    Queues that are not there are made. Started again it goes on where it was, and sends nothing twice: how far it came
    is noted beside the parts, and what was sent and not noted the broker refuses by duplicate ids. A message that
    brings a duplicate id of its own keeps it, and is left out where the broker has seen that id.

    Raises:
        ValueError: a file beside the parts is not what an export or an import wrote.
        FileNotFoundError: there is no complete export of one of the queues (all that are there, by default).
    """
    connection = ConnectionOptions(url, user, password)
    folders = exported_queues(directory, queues)
    return _per_queue(spark, list(folders), lambda queue: _import(connection, queue, folders[queue]))


def exported_queues(directory: str | PathLike[str], queues: Sequence[str] | None = None) -> dict[str, Path]:
    """The queues whose export in ``directory`` is complete, with their folders: these, or all. Needs no Spark.

    Raises:
        ValueError: a file beside the parts is not what an export or an import wrote.
        FileNotFoundError: there is no complete export of one of the queues (all that are there, by default).
    """
    root = Path(directory).absolute()
    folders = {_about(path.parent)["queue"]: path.parent for path in sorted(root.glob("*/queue.json"))}
    names = sorted(folders) if queues is None else list(queues)
    for name in names:
        if name not in folders or not (folders[name] / "complete.json").exists():
            raise FileNotFoundError(f"there is no complete export of queue {name!r} in {root}")
        for path in folders[name].glob("imported-*.json"):
            _sent_before(path)
    if not names:
        raise FileNotFoundError(f"there is no export in {root}")
    return {name: folders[name] for name in names}


def _per_queue(spark: SparkSession, queues: list[str], work: Callable[[str], TransferResult]) -> DataFrame:
    def run(number: int) -> Iterator[pa.RecordBatch]:
        result = work(queues[number])
        row = {"queue": result.queue, "messages": result.messages, "before": result.before, "bytes": result.bytes}
        yield pa.RecordBatch.from_pylist([row], _RESULT)

    # At once: as a plan it would be carried out again by each action.
    rows = each_of(
        spark, len(queues), run, spark_schema(dict(zip(_RESULT.names, _RESULT.types, strict=True)))
    ).collect()
    return spark.createDataFrame(rows, spark_schema(dict(zip(_RESULT.names, _RESULT.types, strict=True))))


def _export(connection: ConnectionOptions, queue: str, root: str, messages_per_part: int) -> TransferResult:
    folder = Path(root) / quote(queue, safe="")
    folder.mkdir(parents=True, exist_ok=True)
    _sync_folder(folder.parent)
    writing = _Parts(folder, queue)
    before = len(writing.done)
    if not (folder / "complete.json").exists():
        with closing(Link(connection)) as link, link.session() as session:
            _describe(session, queue, folder)
            had, interruptions = before, 0
            while not _export_parts(session, writing, messages_per_part):
                interruptions = interruptions + 1 if had == len(writing.done) else 1
                had = len(writing.done)
                if interruptions > INTERRUPTIONS_MAX:
                    raise ConnectionLostException(f"the connection was lost whenever queue {queue!r} was shown")
        _write(folder / "complete.json", {"messages": len(writing.done)})
    return TransferResult(queue, len(writing.done) - before, before, writing.size)


def _describe(session: ClientSession, queue: str, folder: Path) -> None:
    state = session.query_queue(queue)
    if not state.exists or state.address is None:
        raise InvalidDestinationException(f"there is no queue {queue!r}")
    routing = RoutingType.ANYCAST if state.routing_type is None else RoutingType(state.routing_type)
    _write(folder / "queue.json", {"queue": queue, "address": state.address, "routing": routing.name})


class _Parts:
    """The parts of a queue that are written, and those that follow. ``done``: the numbers of their messages."""

    def __init__(self, folder: Path, queue: str) -> None:
        self.queue = queue
        self.size = 0
        self._folder = folder
        self._converter = RowConverter(_READABLE)
        parts = sorted(folder.glob("part-*.parquet"))
        self._count = len(parts)
        numbers = (pq.read_table(part, columns=["sequenceId"]).column(0).to_pylist() for part in parts)
        self.done = {number for each in numbers for number in each}

    def write(self, messages: list[tuple[bytearray, int]]) -> None:
        """One more part, of messages with their delivery counts."""
        parsed = [CoreMessage.parse(raw) for raw, _ in messages]
        block = pack_block((0, count, core) for (_, count), core in zip(messages, parsed, strict=True))
        batch = self._converter.convert(block, self.queue).batch
        raw = pa.array([bytes(each) for each, _ in messages], pa.binary())
        whole = pa.RecordBatch.from_arrays([*batch.columns, raw], schema=_SCHEMA)
        path = self._folder / f"part-{self._count:06}.parquet"
        unfinished = path.with_suffix(".unfinished")
        pq.write_table(pa.Table.from_batches([whole]), unfinished, compression="zstd")
        _synced_rename(unfinished, path)
        self._count += 1
        self.done.update(core.message_id for core in parsed)
        self.size += sum(len(each) for each, _ in messages)


def _export_parts(session: ClientSession, parts: _Parts, messages_per_part: int) -> bool:
    """Browse the queue and write what is not in a part yet; False when the session was lost, and a new one browses.

    That one shows the queue from its beginning. What was not written is thrown away: it is shown again, in its order.
    """
    name = session.name
    pending: list[tuple[bytearray, int]] = []
    with session.create_consumer(parts.queue, browse_only=True) as consumer:
        while received := consumer.receive_encoded(messages_per_part, bytes_max=_BYTES_PER_READ):
            if session.name != name:
                return False
            pending += [each for each in received if CoreMessage.parse(each[0]).message_id not in parts.done]
            while len(pending) >= messages_per_part:
                parts.write(pending[:messages_per_part])
                del pending[:messages_per_part]
    if session.name != name:
        return False
    if pending:
        parts.write(pending)
    return True


def _write(path: Path, value: dict[str, object]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(value), encoding="utf-8")
    _synced_rename(unfinished, path)


def _synced_rename(unfinished: Path, path: Path) -> None:
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Names outlive a power failure only with their folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _noted(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return found if isinstance(found, dict) else {}


def _about(folder: Path) -> dict[str, str]:
    """What an export says of its queue."""
    path = folder / "queue.json"
    found = {name: value for name, value in _noted(path).items() if isinstance(value, str)}
    missing = [name for name in ("queue", "address", "routing") if name not in found]
    if missing:
        raise ValueError(f"{path} is not of an export: it does not say {', '.join(missing)}")
    if found["routing"] not in RoutingType.__members__:
        raise ValueError(f"{path}: {found['routing']!r} is no routing type")
    return found


def _sent_before(path: Path) -> int:
    count = _noted(path).get("messages")
    if not isinstance(count, int):
        raise ValueError(f"{path} is not of an import: it does not say how many messages were sent")
    return count


def _import(connection: ConnectionOptions, queue: str, folder: Path) -> TransferResult:
    about = _about(folder)
    progress = folder / f"imported-{blake2b(connection.url.encode(), digest_size=8).hexdigest()}.json"
    before = _sent_before(progress) if progress.exists() else 0
    sent = size = at = 0
    routing = RoutingType[about["routing"]]
    with queue_sender(connection, about["address"], queue, routing) as sender:
        for part in sorted(folder.glob("part-*.parquet")):
            rows = pq.ParquetFile(part).metadata.num_rows
            if at + rows <= before:
                at += rows
                continue
            table = pq.read_table(part, columns=["sequenceId", "raw"]).to_pylist()
            # Transactions have the same bounds each time, so that the broker knows one by its first message.
            for first in range(0, rows, MESSAGES_PER_TRANSACTION):
                chunk = table[first : first + MESSAGES_PER_TRANSACTION]
                at += len(chunk)
                if at <= before:
                    continue
                messages = [
                    SentMessage(row["raw"], _duplicate_id(queue, row["sequenceId"], row["raw"])) for row in chunk
                ]
                sent += sender.send_once(messages)
                size += sum(len(message.raw) for message in messages)
                _write(progress, {"messages": at})
    return TransferResult(queue, sent, at - sent, size)


def _duplicate_id(queue: str, number: int, raw: bytes) -> bytes:
    """The same for the same message of an export, whoever imports it: 24 bytes."""
    digest = blake2b(f"{queue}\0{number}\0".encode("utf-8", "surrogatepass"), digest_size=24)
    digest.update(raw)
    return digest.digest()
