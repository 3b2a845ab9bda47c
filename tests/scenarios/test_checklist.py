"""The table in README.md is whole: each line of the checklist is held by tests that exist, or is in NOT_YET.md.

One of the tests of a line is called what the line is called.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
TESTS = HERE.parent
#: How many lines each section has.
LINES = {
    "1.1": 24,
    "1.2": 10,
    "1.3": 11,
    "1.4": 33,
    "1.5": 5,
    "1.6": 28,
    "1.7": 30,
    "1.8": 3,
    "1.9": 23,
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
    "4": 12,
    "5.1": 20,
    "5.2": 19,
    "5.3": 4,
    "6": 2,
    "7": 1,
}
#: Lines that repeat others in another surrounding, or have a letter for a name.
NAMELESS = [
    *("1.1.24", "1.2.10", "1.4.32", "1.5.5", "1.7.27", "1.8.3", "1.9.23"),
    *("2.1.6", "2.1.7", "2.1.8", "2.1.9", "2.1.10", "2.3.26", "2.5.7", "2.5.12", "2.9.4", "2.10.3"),
    *(f"3.{number}" for number in range(15, 26)),
    "4.6",
]
NUMBER = re.compile(r"(?:[125]\.\d+|[3467])\.\d+")
NOT_YET = "not yet"


@frozen
class Row:
    """One line: ``tests`` are the ids of those that hold it, none where that is not yet.

    ``name`` is in words; what is in brackets is no part of it, and distinguishes lines of one name.
    """

    line: str
    name: str
    tests: tuple[str, ...]

    @property
    def words(self) -> set[str]:
        return words(self.name.partition("(")[0])


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+", text.lower()))


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


def cases(test: str) -> Iterator[set[str]]:
    """The words of a test's name, with those of the ids of each choice of its parameters."""
    name = test.partition("::")[2]
    module = import_module(".".join(path_of(test).relative_to(TESTS.parent).with_suffix("").parts))
    marks = getattr(getattr(module, name), "pytestmark", [])
    ids = [mark.kwargs.get("ids") or mark.args[1] for mark in marks if mark.name == "parametrize"]
    for chosen in product(*ids):
        yield words(" ".join(map(str, (name, *chosen))))


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
    """The lines of a section of NOT_YET.md."""
    text = (HERE / "NOT_YET.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    listed = list(cells(text))
    assert len({line for line, *_ in listed}) == len(listed), f"a line is twice in {title!r}"
    return {line: said for line, *said in listed}


def test_every_line_has_one_row() -> None:
    expected = [f"{chapter}.{number}" for chapter, count in LINES.items() for number in range(1, count + 1)]
    assert [row.line for row in rows()] == expected
    assert all(row.name for row in rows())
    assert [row.line for row in rows() if not row.words] == NAMELESS


def test_what_holds_a_line_exists() -> None:
    tests = sorted({test for row in rows() for test in row.tests})
    assert [test for test in tests if test.partition("::")[2] not in functions(path_of(test))] == []


def test_a_line_has_a_test_of_its_name() -> None:
    named = [row for row in rows() if row.tests and row.words]
    lacking = [row for row in named if not any(row.words <= case for test in row.tests for case in cases(test))]
    assert [f"{row.line} {row.name}" for row in lacking] == []


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
