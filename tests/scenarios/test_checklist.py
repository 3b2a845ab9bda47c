"""The table in README.md is whole: each line of the checklist is held by tests that exist, or is in NOT_YET.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from attrs import frozen

HERE = Path(__file__).parent
TESTS = HERE.parent
#: How many lines each section has.
LINES = {
    "2.1": 13,
    "2.2": 30,
    "2.3": 26,
    "2.4": 8,
    "2.5": 15,
    "2.6": 7,
    "2.7": 12,
    "2.8": 3,
    "2.9": 6,
    "2.10": 5,
    "2.11": 4,
    "2.12": 3,
    "3": 25,
}
NUMBER = re.compile(r"(?:2\.\d+|3)\.\d+")
NOT_YET = "not yet"


@frozen
class Row:
    """One line: ``tests`` are the ids of those that hold it, none where that is not yet."""

    line: str
    name: str
    tests: tuple[str, ...]


def cells(text: str) -> Iterator[list[str]]:
    """The rows of the tables of a page that begin with the number of a line."""
    for row in text.splitlines():
        parts = [part.strip() for part in row.strip("|").split("|")]
        if row.startswith("|") and NUMBER.fullmatch(parts[0]):
            yield parts


@cache
def rows() -> list[Row]:
    found = []
    for line, name, held in cells((HERE / "README.md").read_text()):
        tests = () if held == NOT_YET else tuple(each.strip("`") for each in held.split("<br>"))
        found.append(Row(line, name, tests))
    return found


@cache
def functions(path: Path) -> dict[str, str]:
    """The tests of a file, with their docstrings."""
    nodes = ast.parse(path.read_text()).body
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {
        node.name: ast.get_docstring(node) or ""
        for node in nodes
        if isinstance(node, kinds) and node.name.startswith("test_")
    }


def path_of(test: str) -> Path:
    """The file of a test: of this folder if the id has no other."""
    file = test.partition("::")[0]
    return (TESTS if "/" in file else HERE) / file


def own_tests() -> dict[str, list[str]]:
    """The tests of this folder by id, with the numbers their docstrings begin with. A few say that they are extra."""
    return {
        f"{path.name}::{name}": NUMBER.findall(docstring.partition("\n")[0])
        for path in sorted(HERE.glob("test_*.py"))
        if path != Path(__file__)
        for name, docstring in functions(path).items()
        if not docstring.startswith("Not on the checklist")
    }


def section(title: str) -> dict[str, list[str]]:
    """What a section of NOT_YET.md says of lines."""
    text = (HERE / "NOT_YET.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    listed = list(cells(text))
    assert len({line for line, *_ in listed}) == len(listed), f"a line is twice in {title!r}"
    return {line: said for line, *said in listed}


def test_every_line_has_one_row() -> None:
    expected = [f"{chapter}.{number}" for chapter, count in LINES.items() for number in range(1, count + 1)]
    assert [row.line for row in rows()] == expected
    assert all(row.name for row in rows())


@pytest.mark.parametrize("test", sorted({test for row in rows() for test in row.tests}))
def test_what_holds_a_line_exists(test: str) -> None:
    assert test.partition("::")[2] in functions(path_of(test))


def test_the_tests_of_this_folder_say_which_lines_they_hold() -> None:
    in_table: dict[str, list[str]] = {}
    for row in rows():
        for test in row.tests:
            if path_of(test).parent == HERE:
                in_table.setdefault(test, []).append(row.line)
    assert own_tests() == in_table


def test_what_is_not_held_is_listed_with_a_reason() -> None:
    missing = section("Needs what does not exist yet") | section("Should hold, does not")
    assert list(missing) == [row.line for row in rows() if not row.tests]
    held = {row.line for row in rows() if row.tests}
    others = section("Parts of lines"), section("Held in another way")
    for listed in others:
        assert set(listed) <= held
    assert all(text for listed in (missing, *others) for said in listed.values() for text in said)
