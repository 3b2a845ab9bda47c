"""The folder with the export of one queue: `queue.json`, parts of Parquet, `complete.json`, and the notes of imports.

Responsible for files that are whole and on the disk when they have their names. Also for parts that several attempts
write at once, as Spark's speculation does, and for the check that a file belongs to an export. Does not depend on
brokers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Self
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from embedclient.model import RoutingType

from ._frames import Block
from ._rows import RowConverter
from ._schema import COLUMNS
from ._synced import sync_file, sync_folder

__all__ = ["ExportFolder", "NewPart", "Part", "about", "noted", "write_note"]

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
# The limit of file systems, with room for the suffix of a name.
_NAME_BYTES_MAX, _NAME_BYTES_KEPT = 200, 160


@frozen
class Part:
    """Hold a part that is whole: ``rows`` messages, with ``before`` messages in earlier parts."""

    path: Path
    before: int
    rows: int


@frozen
class ExportFolder:
    """The folder with the export of one queue."""

    path: Path

    @classmethod
    def of(cls, root: str, queue: str) -> ExportFolder:
        """Return the folder of a queue. Queue names may be impossible for folders: `..`, or hundreds of characters."""
        name = quote(queue, safe="")
        if not name.strip("."):
            name = name.replace(".", "%2E")
        if len(name) > _NAME_BYTES_MAX:
            digest = blake2b(queue.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            name = f"{name[:_NAME_BYTES_KEPT]}-{digest}"
        return cls(Path(root) / name)

    def make(self) -> None:
        """Create the folder unless it exists."""
        self.path.mkdir(parents=True, exist_ok=True)
        sync_folder(self.path.parent)

    @property
    def complete(self) -> Path:
        """Return the path of the file that marks the export as complete, with its number of messages."""
        return self.path / "complete.json"

    @property
    def ranges(self) -> Path:
        """Return the path of the file with the positions at which parts begin, where they were written by ranges."""
        return self.path / "ranges.json"

    def finish(self, messages: int) -> None:
        """Mark the export as complete, and remove the remains of killed attempts."""
        write_note(self.complete, {"messages": messages})
        for left in self.path.glob("*.unfinished"):
            left.unlink(missing_ok=True)

    def parts(self) -> list[Part]:
        """Return the whole parts, in the order of the queue."""
        found: list[Part] = []
        before = 0
        for path in self.part_paths():
            found.append(Part(path, before, pq.read_metadata(path).num_rows))
            before += found[-1].rows
        return found

    @property
    def messages(self) -> int:
        """Return the number of messages in its parts."""
        return sum(part.rows for part in self.parts())

    def part_paths(self) -> list[Path]:
        """Return the paths of the whole parts, by name."""
        return sorted(self.path.glob("part-*.parquet"))

    def part_path(self, number: int) -> Path:
        """Return the path of a part."""
        return self.path / f"part-{number:06}.parquet"


class NewPart:
    """Write a part block by block. Leaving its ``with`` before `close` discards it."""

    def __init__(self, path: Path, queue: str) -> None:
        self.messages = self.size = 0
        self.name = path.name
        self._queue = queue
        self._path = path
        # Each attempt writes a separate file.
        self._unfinished = path.with_suffix(f".{uuid4().hex}.unfinished")
        # Browsing is not a delivery: the next consumer receives a delivery count one higher than the stored one.
        self._converter = RowConverter(_READABLE, deliveries_ahead=1)
        self._writer = pq.ParquetWriter(self._unfinished, _SCHEMA, compression="zstd")

    def add(self, block: Block) -> None:
        """Write these messages as a row group."""
        batch = self._converter.convert(block, self._queue).batch
        raws = [block.data[place.start : place.end] for place in block.places()]
        whole = pa.RecordBatch.from_arrays([*batch.columns, pa.array(raws, pa.binary())], schema=_SCHEMA)
        self._writer.write_batch(whole)
        self.messages += block.count
        self.size += sum(map(len, raws))

    def close(self) -> bool:
        """Give the part its final name. Return False if another attempt was faster, and discard this one."""
        self._writer.close()
        sync_file(self._unfinished)
        try:
            os.link(self._unfinished, self._path)
        except (FileExistsError, FileNotFoundError):
            self._unfinished.unlink(missing_ok=True)
            return False
        except OSError:  # a file system without links: the same, except for a moment
            if self._path.exists():
                self._unfinished.unlink(missing_ok=True)
                return False
            self._unfinished.replace(self._path)
        self._unfinished.unlink(missing_ok=True)
        sync_folder(self._path.parent)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._unfinished.unlink(missing_ok=True)


def write_note(path: Path, value: Mapping[str, object]) -> None:
    """Write a file of JSON, or replace it."""
    unfinished = path.with_suffix(f".{uuid4().hex}.unfinished")
    unfinished.write_text(json.dumps(value), encoding="utf-8")
    sync_file(unfinished)
    unfinished.replace(path)
    sync_folder(path.parent)


def noted(path: Path) -> dict[str, object]:
    """Return the content of a file of JSON.

    Raises:
        ValueError: it is damaged.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    return found if isinstance(found, dict) else {}


def about(folder: Path) -> dict[str, str]:
    """Return the description of an exported queue: `queue`, `address`, `routing`.

    Raises:
        ValueError: the file lacks one of them, has an invalid routing type, or is damaged.
    """
    path = folder / "queue.json"
    found = {name: value for name, value in noted(path).items() if isinstance(value, str)}
    missing = [name for name in ("queue", "address", "routing") if name not in found]
    if missing:
        raise ValueError(f"{path} is not of an export: it does not say {', '.join(missing)}")
    if found["routing"] not in RoutingType.__members__:
        raise ValueError(f"{path}: {found['routing']!r} is no routing type")
    return found
