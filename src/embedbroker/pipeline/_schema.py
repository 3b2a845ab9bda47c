"""The columns of a message: their names, their types, and which of them are read.

Responsible for the one list that source, sink and jobs share. Does not depend on the values of a column; imports
neither pyspark nor pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from embedclient.model import did_you_mean

from ._option_reader import OptionError

__all__ = ["COLUMNS", "PROPERTY_COLUMNS", "VALUE_COLUMN", "ddl", "ddl_type", "known_columns"]

# Name: type in Spark's DDL. The order is the order in a data frame.
COLUMNS: dict[str, str] = {
    "messageId": "string",  # ID:<uuid>, null if the sender set none
    "sequenceId": "bigint",  # the broker's number of the message
    "position": "bigint",  # the place in its queue, null if the broker has no lasting one
    "address": "string",
    "queue": "string",
    "routingType": "string",  # ANYCAST or MULTICAST, null if the message has none
    "durable": "boolean",
    "priority": "int",
    "timestamp": "timestamp",  # time of the send, by the sender's clock; null for none
    "expiration": "timestamp",  # null for never
    "redelivered": "boolean",
    "deliveryCount": "int",
    "correlationId": "string",
    "replyTo": "string",
    "type": "string",  # JMSType
    "groupId": "string",
    "groupSequence": "int",
    "duplicateId": "binary",  # in the brokers' form: a text by its UTF-16LE bytes
    "user": "string",  # the sender's user, where the broker provides it
    "properties": "map<string,string>",
    "propertyTypes": "map<string,string>",  # by the same names: boolean, byte, short, int, long, float, double, ...
    "bodyType": "string",  # default, object, text, bytes, map, stream
    "body": "binary",  # texts as UTF-8
    "bodyText": "string",
}
PROPERTY_COLUMNS = ("properties", "propertyTypes")
# With the format json: the column of the parsed bodies.
VALUE_COLUMN = "value"


def known_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of these names, in the spelling of this list.

    Raises:
        OptionError: there is no such column, or one is named twice.
    """
    by_lower = {name.lower(): name for name in (*COLUMNS, VALUE_COLUMN)}
    found: dict[str, None] = {}
    for name in names:
        column = by_lower.get(name.strip().lower())
        if column is None:
            raise OptionError(f"option 'columns': there is no column {name.strip()!r}{did_you_mean(name, COLUMNS)}")
        if column in found:
            raise OptionError(f"option 'columns' has {column!r} twice")
        found[column] = None
    return tuple(found)


def ddl_type(column: str, value_type: str | None = None) -> str:
    """Return the type of a column in Spark's DDL; `value_type` is the type of bodies parsed by the format json."""
    if column == VALUE_COLUMN:
        assert value_type is not None
        return value_type
    return COLUMNS[column]


def ddl(columns: Sequence[str], value_type: str | None = None) -> str:
    """Return the schema of these columns in Spark's DDL."""
    return ", ".join(f"`{column}` {ddl_type(column, value_type)}" for column in columns)
