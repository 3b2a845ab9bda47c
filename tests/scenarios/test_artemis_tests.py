"""The table in ARTEMIS_TESTS.md is whole: each line is held by tests that exist, or has a reason."""

from __future__ import annotations

import re

import pytest

from .test_checklist import HERE, functions, path_of

#: How many lines each section has.
LINES = {"Memory, paging, disk": 19, "Security": 11}
#: A line without a test: it waits for a feature, or was decided against.
REASON = re.compile(r"(not yet|decided): \S")
TEST = re.compile(r"`([^`\s]+\.py::\w+)`")


def rows() -> dict[str, list[tuple[str, str]]]:
    """Each section's lines with the cell of what holds them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in (HERE / "ARTEMIS_TESTS.md").read_text().split("\n## ")[1:]:
        title = section.partition("\n")[0]
        found[title] = re.findall(r"^\| `(\w+\.\w+)` \| (.*) \|$", section, re.MULTILINE)
    return found


ALL = [row for section in rows().values() for row in section]


def test_every_line_has_one_row() -> None:
    """Not on the checklist of failover: Artemis' tests of memory and security."""
    assert {title: len(lines) for title, lines in rows().items()} == LINES
    assert len({name for name, _held in ALL}) == len(ALL)


@pytest.mark.parametrize(("name", "held"), ALL, ids=[name for name, _held in ALL])
def test_what_holds_a_line_exists(name: str, held: str) -> None:
    """Not on the checklist of failover: a line without a test has a reason."""
    tests = TEST.findall(held)
    assert tests or REASON.match(held), name
    for test in tests:
        assert test.partition("::")[2] in functions(path_of(test)), test
