"""Tables of text for people: a row per line, or folded where the terminal is too narrow.

No value is ever cut, because names are copied from a table into the next command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["print_framed", "print_table", "table_lines"]

_ANY_WIDTH = 100_000


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table for the terminal that there is. In a pipe or file a row is always one line."""
    for line in table_lines(titles, rows, _columns()):
        click.echo(line)


def print_framed(console: Console, table: Table) -> None:
    """Print a table with a frame, or fold it where it does not fit.

    A table without titles is not folded: its texts are broken between words.
    """
    needed = console.measure(table, options=console.options.update(width=_ANY_WIDTH)).maximum
    if needed > console.width and _columns() is None:
        console.width = needed
    if needed <= console.width or not table.show_header:
        console.print(table)
        return
    titles = [str(column.header) for column in table.columns]
    rows = list(zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True))
    for text in (table.title, "", *table_lines(titles, rows, console.width), "", table.caption, ""):
        if text is not None:
            console.print(text, highlight=False, markup=False)


def _columns() -> int | None:
    """Return the width of the terminal on stdout, or the one that the environment sets for it; None without a terminal.

    A Python with readline passes ``COLUMNS`` on to its child processes, also if their stdout is a pipe.
    """
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else columns or None


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """Return the lines of a table, numbers to the right.

    Args:
        titles: Titles of the columns.
        rows: Values of each row.
        columns: Width that there is. A wider table becomes a line ``title: value`` per value, and an empty line between
            two rows; None for any width.
    """
    widths = [max(cell_len(line[index]) for line in (titles, *rows)) for index in range(len(titles))]
    numeric = [bool(rows) and all(row[index].lstrip("-").isdigit() for row in rows) for index in range(len(titles))]
    lines = [_line(line, widths, numeric) for line in (titles, *rows)]
    if not rows or columns is None or max(map(cell_len, lines)) <= columns:
        return lines
    folded: list[str] = []
    for row in rows:
        folded += [f"{title}: {text}" for title, text in zip(titles, row, strict=True) if text]
        folded.append("")
    return folded[:-1]


def _line(texts: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = []
    for text, width, is_number in zip(texts, widths, numeric, strict=True):
        padding = " " * (width - cell_len(text))
        cells.append(padding + text if is_number else text + padding)
    return "  ".join(cells).rstrip()
