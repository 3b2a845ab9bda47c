"""Paged lists: the options, the filter, the order and the page of ``listQueues`` and its relatives.

Options are a JSON object, or an empty text for none. Responsible for the answer's form. Does not depend on the elements
of a list: each list is data, `Column` by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from attrs import frozen

from ._registry import ManagementRefused, Work
from ._rows import ROWS_MAX, Rows, too_many_rows
from ._texts import flag

__all__ = ["Column", "page_of", "plain_text"]

_SHOWN_MAX = 100
_OPERATIONS = ("EQUALS", "NOT_EQUALS", "CONTAINS", "NOT_CONTAINS", "LESS_THAN", "GREATER_THAN")
_PART = 256


@frozen
class Column:
    """Describe a column of a list: its value, and whether it is a number for filters and order.

    ``read`` returns the value, or work that returns it after several portions.
    """

    read: Callable[[Any], object]
    is_number: bool = False
    #: Numbers of few lists are numbers in the answer; all others are texts.
    stays_number: bool = False
    #: Returns the text of a number; None: its digits.
    show: Callable[[Any], str] | None = None


@frozen
class _Options:
    field: str = ""
    operation: str = ""
    value: str = ""
    sort_field: str = ""
    descending: bool = False


def plain_text(value: object) -> str:
    """Return a value as Java prints it; None is empty."""
    if value is None:
        return ""
    return flag(value) if isinstance(value, bool) else str(value)


def _options(text: str | None, columns: Mapping[str, Column]) -> _Options:
    if text is None or not text.strip():
        return _Options()
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ManagementRefused(f"the options are not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ManagementRefused(f"the options must be a JSON object, not {text[:_SHOWN_MAX]}")
    for name in ("field", "operation", "value"):
        if name not in fields:
            raise ManagementRefused(f"the options have no {name!r}")
    texts = {
        name: plain_text(value)[: 64 * 1024] for name, value in fields.items() if not isinstance(value, dict | list)
    }
    field = _column_name(texts.get("field", ""))
    sort_field = _column_name(texts.get("sortField") or texts.get("sortColumn") or "")
    for name in (field, sort_field):
        if name and name not in columns:
            raise ManagementRefused(f"the list has no field {name[:_SHOWN_MAX]!r}; it has {', '.join(columns)}")
    operation = texts.get("operation", "")
    if operation and operation not in _OPERATIONS:
        raise ManagementRefused(f"there is no operation {operation[:_SHOWN_MAX]!r}; there are {', '.join(_OPERATIONS)}")
    return _Options(
        field, operation, texts.get("value", ""), sort_field,
        texts.get("sortOrder", "").lower() == "desc",
    )  # fmt: skip


def _column_name(text: str) -> str:
    """Return the name of a column; Artemis' command line writes ``MESSAGE_COUNT`` for ``messageCount``."""
    if not text.isupper():
        return text
    first, *others = text.lower().split("_")
    return first + "".join([word.capitalize() for word in others])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _matcher(options: _Options, columns: Mapping[str, Column]) -> Callable[[object], bool] | None:
    """Return the filter of the options for values of their field; None without one.

    A number that is compared with a text never matches.
    """
    if not options.field or not options.operation:
        return None
    operation, wanted = options.operation, options.value
    if columns[options.field].is_number:
        number = _number(wanted)

        def matches_number(value: object) -> bool:
            if number is None or not isinstance(value, int | float):
                return False
            return {
                "EQUALS": value == number,
                "NOT_EQUALS": value != number,
                "CONTAINS": False,
                "NOT_CONTAINS": False,
                "LESS_THAN": value < number,
                "GREATER_THAN": value > number,
            }[operation]

        return matches_number

    def matches_text(found: object) -> bool:
        value = plain_text(found)
        if operation == "EQUALS":
            return value == wanted
        if operation == "NOT_EQUALS":
            return value != wanted
        if operation == "CONTAINS":
            return wanted in value
        return operation == "NOT_CONTAINS" and wanted not in value

    return matches_text


def page_of(
    items: Iterable[object],
    columns: Mapping[str, Column],
    options_text: str | None,
    page: int | None,
    page_size: int | None,
    default_sort: str,
) -> Work:
    """Return the page as JSON: ``data`` with one object per element, and ``count`` of all that match.

    Args:
        items: Elements of the list; they must not change while the work goes on.
        columns: Fields of an element.
        options_text: Filter and order as JSON; empty for all in the default order.
        page: Number of the page, from 1; -1 for all.
        page_size: Elements of a page; -1 for all.
        default_sort: Field that orders the list unless the options name one.
    """
    options = _options(options_text, columns)
    matches = _matcher(options, columns)
    is_paged = page is not None and page_size is not None and page > 0 and page_size > 0
    start = (page - 1) * page_size if is_paged and page is not None and page_size is not None else 0
    end = start + page_size if is_paged and page_size is not None else ROWS_MAX
    order = columns[options.sort_field or default_sort]
    best = _Best(order, end, is_descending=options.descending)
    for number, item in enumerate(items):
        if matches is None or matches((yield from _value(columns[options.field], item))):
            best.add(item, (yield from _value(order, item)))
            if not is_paged and best.count > ROWS_MAX:
                raise too_many_rows()
        if not number % 4:
            yield
    rows = Rows()
    for item in best.taken()[start:end]:
        row: dict[str, object] = {}
        for name, column in columns.items():
            row[name] = _shown(column, (yield from _value(column, item)))
        rows.add(row)
        yield
    return f'{{"data":{rows.text()},"count":{best.count}}}'


class _Best:
    """Keep the first elements in an order, as many as the page reaches; more of a long list would take memory."""

    def __init__(self, column: Column, limit: int, *, is_descending: bool) -> None:
        self._column = column
        self._limit = limit
        self._is_descending = is_descending
        self._sorted: list[tuple[int, Any, int, object]] = []
        self._fresh: list[tuple[int, Any, int, object]] = []
        #: Elements that were added.
        self.count = 0

    def add(self, item: object, value: Any) -> None:
        """Add an element with its value. Elements with the same value keep their order."""
        if not (self._column.is_number and isinstance(value, int | float)):
            value = plain_text(value)
        rank, key = _sort_key(value)
        self._fresh.append((rank, key, -self.count if self._is_descending else self.count, item))
        self.count += 1
        if len(self._fresh) >= max(_PART, len(self._sorted)):
            self._merge()

    def _merge(self) -> None:
        # The third part differs, so elements themselves are never compared.
        self._sorted += self._fresh
        self._sorted.sort(reverse=self._is_descending)
        del self._sorted[self._limit :]
        self._fresh.clear()

    def taken(self) -> list[object]:
        """Return the first elements."""
        self._merge()
        return [entry[3] for entry in self._sorted]


def _sort_key(value: object) -> tuple[int, Any]:
    # A column of numbers may have an empty value: those come first.
    return (0, value) if isinstance(value, int | float) else (-1 if value == "" else 1, value)


def _value(column: Column, item: object) -> Work:
    value = column.read(item)
    if isinstance(value, Generator):
        value = yield from value
    return value


def _shown(column: Column, value: object) -> object:
    if column.show is not None:
        return column.show(value)
    return value if column.stays_number else plain_text(value)
