"""The tables of this folder are whole: each line of the checklist is held by tests that exist, or has a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
TESTS = HERE.parent
#: How many lines each section has.
LINES = {
    "1.1": 5,
    "1.2": 9,
    "1.3": 7,
    "1.4": 8,
    "1.5": 8,
    "1.6": 4,
    "1.7": 1,
    "1.8": 7,
    "1.9": 1,
    "1.10": 1,
    "1.11": 5,
    "3.1": 8,
    "3.2": 1,
    "3.3": 1,
    "3.4": 1,
    "3.5": 4,
    "3.6": 9,
    "3.7": 1,
    "3.8": 1,
    "4.1": 8,
    "4.2": 5,
    "4.3": 6,
    "4.4": 7,
    "4.5": 1,
    "4.6": 3,
    "4.7": 8,
    "4.8": 1,
    "4.9": 1,
    "7": 17,
    "9.1": 2,
    "9.2": 9,
    "9.3": 1,
    "9.4": 14,
    "9.5": 5,
    "9.6": 5,
    "12.1": 40,
    "12.2": 15,
    "12.3": 26,
    "12.4": 33,
    "12.5": 14,
    "12.7": 7,
    "12.9": 21,
}
REASONS = ("excluded: ", "not yet: ", "differs: ")
NUMBER = re.compile(r"\d+(?:\.\d+)+")


@frozen
class Row:
    """One line: ``tests`` are the ids of those that hold it, none where there is a reason."""

    line: str
    name: str
    held: str

    @property
    def tests(self) -> tuple[str, ...]:
        return () if self.held.startswith(REASONS) else tuple(each.strip("`") for each in self.held.split("<br>"))


def words(name: str) -> set[str]:
    """The words of a name in any of the ways to write it."""
    parted = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name))
    return set(re.findall(r"[a-z]+|\d+", parted.lower())) - {"test"}


@cache
def rows() -> list[Row]:
    found = []
    for path in sorted(HERE.glob("section-*.md")):
        for text in path.read_text().splitlines():
            parts = [part.strip() for part in text.strip("|").split("|")]
            if text.startswith("|") and NUMBER.fullmatch(parts[0]):
                found.append(Row(*parts))
    return found


def path_of(test: str) -> Path:
    """The file of a test: of this folder if the id has no other."""
    file = test.partition("::")[0]
    return (TESTS if "/" in file else HERE) / file


@cache
def functions(path: Path) -> dict[str, str]:
    """The tests of a file, with their docstrings."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, kinds)]
    return {node.name: ast.get_docstring(node) or "" for node in nodes if node.name.startswith("test_")}


def docstring_of(test: str) -> str:
    return functions(path_of(test))[test.partition("::")[2]]


def test_every_line_has_one_row() -> None:
    for section, count in LINES.items():
        lines = [row.line for row in rows() if row.line.rpartition(".")[0] == section]
        assert lines == [f"{section}.{number}" for number in range(1, count + 1)], section


def test_every_section_is_counted() -> None:
    assert {row.line.rpartition(".")[0] for row in rows()} == set(LINES)
    assert all(row.name and row.held for row in rows())


def test_what_holds_a_line_exists() -> None:
    tests = sorted({test for row in rows() for test in row.tests})
    assert [test for test in tests if test.partition("::")[2] not in functions(path_of(test))] == []


def test_a_line_has_a_test_of_its_name() -> None:
    def is_named(row: Row) -> bool:
        wanted = words(row.name.rpartition(".")[2])
        return any(wanted <= words(test.partition("::")[2]) or row.name in docstring_of(test) for test in row.tests)

    named = [row for row in rows() if row.tests and row.line.startswith("12.")]
    assert [f"{row.line} {row.name}" for row in named if not is_named(row)] == []


def test_the_tests_of_this_folder_state_which_lines_they_hold() -> None:
    in_tables = {(test, row.line) for row in rows() for test in row.tests if path_of(test).parent == HERE}
    own = set()
    for path in sorted(HERE.glob("test_*.py")):
        for name, docstring in functions(path).items():
            if path != Path(__file__) and not docstring.startswith("Not on the checklist"):
                own |= {(f"{path.name}::{name}", line) for line in NUMBER.findall(docstring.partition(":")[0])}
    assert {each for each in in_tables if each[1].startswith("12.")} == own
