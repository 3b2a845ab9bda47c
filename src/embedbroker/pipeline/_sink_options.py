"""The options of the sink, for `write` and `writeStream`, checked before a task starts.

Responsible for names, defaults, contradictions, and the columns of a data frame that can become a message. Does not
depend on the conversion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from embedclient.model import did_you_mean

from ._option_reader import OptionError, OptionReader
from ._options import ConnectionOptions
from ._schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["BODY_TYPES", "EXACTLY_ONCE", "SinkOptions", "sink_columns"]

EXACTLY_ONCE, DEDUPLICATION = GUARANTEES = ("exactly-once", "deduplication")
ROWS_PER_BRANCH_DEFAULT, ROWS_PER_BRANCH_MAX = 10_000, 50_000
BYTES_PER_BRANCH_DEFAULT = 16 * 1024 * 1024
CREDIT_TIMEOUT_MS_DEFAULT = 120_000
DAY_MS = 86_400_000
VERSION_MAX = 2**62
NAME_BYTES_MAX = 400
_OPTIONS = (
    *("url", "user", "password", "queue", "topic", "guarantee", "sinkName", "writeId", "writeVersion"),
    *("durable", "priority", "timeToLiveMs", "bodyType", "rowsPerBranch", "bytesPerBranch", "creditTimeoutMs"),
)
# Spark's options, which arrive among those of the sink.
_OF_SPARK = ("checkpointlocation", "queryname")
# Names of the message types on the wire.
BODY_TYPES = {"default": 0, "object": 2, "text": 3, "bytes": 4, "map": 5, "stream": 6}

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("timestamp", "timestamp_ntz")
# Columns of the sink that the source does not have.
_OWN_COLUMNS = {"destination": "string", "timeToLiveMs": "bigint"}
# Columns that brokers set on a message. A frame that was read may have them; they are not written.
_OF_THE_BROKER = ("sequenceId", "position", "queue", "redelivered", "deliveryCount", "user")
_WIDER = {"int": _INTEGERS, "bigint": _INTEGERS, "timestamp": _TIMES}


@frozen
class SinkOptions:
    """Hold the place and the way in which a sink writes. Made by `parse`."""

    connection: ConnectionOptions
    queue: str | None
    topic: str | None
    guarantee: str
    sink_name: str
    # Names a batch write, so that a repeated write changes nothing; its version goes up.
    write_id: str | None
    write_version: int
    durable: bool
    priority: int
    time_to_live_ms: int
    body_type: str | None
    rows_per_branch: int
    bytes_per_branch: int
    credit_timeout_s: float

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> SinkOptions:
        """Return the options of a sink. Raises OptionError, which names what is unknown, wrong or contradictory."""
        ours = {name: value for name, value in values.items() if name.lower() not in _OF_SPARK}
        options = OptionReader(ours, _OPTIONS)
        options.apart("queue", "topic", "all rows go to one of them; a column `destination` names one for each row")
        options.together("writeVersion", "writeId")
        return cls(
            connection=ConnectionOptions.taken_from(options),
            queue=options.text("queue"),
            topic=options.text("topic"),
            guarantee=options.choice("guarantee", GUARANTEES, EXACTLY_ONCE),
            sink_name=_name(options, "sinkName") or "sink",
            write_id=_name(options, "writeId"),
            write_version=options.whole("writeVersion", 0, VERSION_MAX) or 0,
            durable=options.boolean("durable", True),
            priority=_or(options.whole("priority", 0, 9), 4),
            time_to_live_ms=options.whole("timeToLiveMs", 0, VERSION_MAX) or 0,
            body_type=None if options.text("bodyType") is None else options.choice("bodyType", tuple(BODY_TYPES), ""),
            rows_per_branch=options.whole("rowsPerBranch", 1, ROWS_PER_BRANCH_MAX) or ROWS_PER_BRANCH_DEFAULT,
            bytes_per_branch=options.size("bytesPerBranch") or BYTES_PER_BRANCH_DEFAULT,
            credit_timeout_s=_or(options.whole("creditTimeoutMs", 1, DAY_MS), CREDIT_TIMEOUT_MS_DEFAULT) / 1000,
        )

    @property
    def is_exactly_once(self) -> bool:
        """Return True if rows are seen with the commit of their batch, and not before."""
        return self.guarantee == EXACTLY_ONCE


def _name(options: OptionReader, name: str) -> str | None:
    """Return a part of a marker's name, which has 1,024 bytes at most; ids of queries take 36."""
    value = options.text(name)
    if value is not None and len(value.encode()) > NAME_BYTES_MAX:
        raise OptionError(f"option {name!r} has at most {NAME_BYTES_MAX} bytes, not {len(value.encode())}")
    return value


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def sink_columns(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    """Return the columns of a frame by their names here, in their order; empty for columns that are not written.

    Raises:
        OptionError: a column is unknown or of a type that does not fit, or the destination is missing or named twice.
    """
    known = {**COLUMNS, **_OWN_COLUMNS}
    by_lower = {name.lower(): name for name in known}
    found: list[str] = []
    for field in schema.fields:
        name = by_lower.get(field.name.lower())
        if name is None:
            raise OptionError(f"column {field.name!r} is not a column of a message{did_you_mean(field.name, known)}")
        if name in found:
            raise OptionError(f"the column {field.name!r} is there twice")
        _check_type(name, field.dataType.simpleString(), known[name])
        found.append("" if name in _OF_THE_BROKER else name)
    _check_destination(found, options)
    if "duplicateId" in found and not options.is_exactly_once:
        raise OptionError(
            "column 'duplicateId' and guarantee=deduplication contradict each other: the sink makes the ids"
        )
    if "propertyTypes" in found and "properties" not in found:
        raise OptionError("column 'propertyTypes' needs column 'properties'")
    return tuple(found)


def _check_type(name: str, given: str, expected: str) -> None:
    fitting = ("binary", "string") if name == "body" else _WIDER.get(expected, (expected,))
    if given not in fitting and not (given.startswith(("varchar(", "char(")) and "string" in fitting):
        raise OptionError(f"column {name!r} is of type {' or '.join(fitting)}, not {given}")


def _check_destination(columns: list[str], options: SinkOptions) -> None:
    has_option = options.queue is not None or options.topic is not None
    if has_option and "destination" in columns:
        option = "queue" if options.queue is not None else "topic"
        raise OptionError(f"option {option!r} and column 'destination' contradict each other: both say where rows go")
    if not has_option and "destination" not in columns and "address" not in columns:
        raise OptionError("option 'queue' or 'topic', or a column 'destination', is missing: where rows go")
