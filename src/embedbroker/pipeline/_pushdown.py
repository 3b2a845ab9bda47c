"""Filters of Spark as selectors of a broker, where both select exactly the same messages.

Responsible for a selector only where this holds: it includes null, types that differ, and times that a frame shows as
null. Does not depend on readers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

__all__ = ["selector_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Names of text properties: Spark and selectors both treat no other type as equal to a text.
_TEXT_COLUMNS: Final = {"type": "JMSType", "correlationId": "JMSCorrelationID", "groupId": "_AMQ_GROUP_ID"}
_OPERATORS: Final = {GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<=", EqualTo: "="}
_MILLISECONDS_MAX: Final = (1 << 63) // 1000 - 1
VALUES_MAX: Final = 100


def selector_of(found: Filter) -> str | None:
    """Return the selector that selects exactly the same as the filter, or None if there is no such selector."""
    attribute: tuple[str, ...] = getattr(found, "attribute", ())
    if len(attribute) != 1:
        return None
    make = _COLUMNS.get(attribute[0])
    return None if make is None else make(found)


def _priority(found: Filter) -> str | None:
    operator = _OPERATORS.get(type(found))
    value = found.value if operator is not None else None
    return f"AMQPriority {operator} {value}" if type(value) is int and abs(value) < 1 << 31 else None


def _durable(found: Filter) -> str | None:
    if isinstance(found, EqualTo) and isinstance(found.value, bool):
        return f"AMQDurable = '{'DURABLE' if found.value else 'NON_DURABLE'}'"
    return None


def _timestamp(found: Filter) -> str | None:
    operator = _OPERATORS.get(type(found))
    if operator is None or not isinstance(found.value, datetime) or found.value.tzinfo is None:
        return None
    microseconds = (found.value - _EPOCH) // timedelta(microseconds=1)
    # Messages have milliseconds: a time between two of them is rounded to the side that changes nothing.
    milliseconds, rest = divmod(microseconds, 1000)
    if rest and operator == "=":
        return None
    if rest and operator in (">=", "<"):
        milliseconds += 1
    # Zero is no time, and a frame has no times further away than these.
    is_time = f"AMQTimestamp <> 0 AND AMQTimestamp <= {_MILLISECONDS_MAX} AND AMQTimestamp >= {-_MILLISECONDS_MAX}"
    return f"(AMQTimestamp {operator} {milliseconds} AND {is_time})"


def _text(name: str) -> Callable[[Filter], str | None]:
    def make(found: Filter) -> str | None:
        values = found.value if isinstance(found, In) else (found.value,) if isinstance(found, EqualTo) else ()
        if not 0 < len(values) <= VALUES_MAX or not all(isinstance(value, str) for value in values):
            return None
        return "(" + " OR ".join(f"{name} = {_quoted(value)}" for value in values) + ")"

    return make


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_COLUMNS: Final[dict[str, Callable[[Filter], str | None]]] = {
    "priority": _priority,
    "durable": _durable,
    "timestamp": _timestamp,
    **{column: _text(name) for column, name in _TEXT_COLUMNS.items()},
}
