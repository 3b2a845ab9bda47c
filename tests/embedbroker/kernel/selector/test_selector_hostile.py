"""Selectors meant to do harm: too deep, too long, too slow."""

from __future__ import annotations

from time import process_time

import pytest

from embedbroker.kernel.selector._grammar import DEPTH_MAX, LENGTH_MAX
from embedbroker.kernel.selector._selector import InvalidSelector, parse_selector
from tests.embedbroker.kernel.selector.selector_message import Letter

LETTER = Letter(properties={"n": 7, "yes": True})

DEEP = [
    "(" * 100_000 + "a" + ")" * 100_000,
    "NOT " * 20_000 + "a",
    "- " * 60_000 + "1 = 1",
    "a = " * 50_000 + "1",
    "1" + " + 1" * 50_000 + " = 1",
    "a" + " IS NULL" * 10_000,
    "a = 1 OR (b = 1 AND " * 5_000 + "c" + ")" * 5_000,
]


@pytest.mark.parametrize("text", DEEP, ids=[text[:12] for text in DEEP])
def test_a_text_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector, match="nested deeper"):
        parse_selector(text)


def test_nesting_just_inside_the_limit_compiles_and_runs() -> None:
    levels = DEPTH_MAX - 2
    assert parse_selector("(" * levels + "yes" + ")" * levels).matches(LETTER)
    assert parse_selector("NOT " * (levels - levels % 2) + "yes").matches(LETTER)
    assert parse_selector("1" + " + 1" * (levels - 2) + " > 1").matches(LETTER)
    assert parse_selector("(" * levels + "yes" + " OR yes)" * levels).matches(LETTER)


def test_long_chains_of_alternatives_are_one_level() -> None:
    text = " OR ".join(f"n = {value + 100}" for value in range(5_000))
    assert not parse_selector(text).matches(LETTER)
    assert parse_selector(f"{text} OR n = 7").matches(LETTER)
    assert parse_selector(" AND ".join(["yes"] * 20_000)).matches(LETTER)


def test_a_text_beyond_the_length_limit_is_refused_unread() -> None:
    with pytest.raises(InvalidSelector, match="longer than") as caught:
        parse_selector("a" * (LENGTH_MAX + 1))
    assert len(str(caught.value)) < 400
    with pytest.raises(InvalidSelector, match="pattern is longer"):
        parse_selector(f"a LIKE '{'_' * 5000}'")


def test_a_like_pattern_cannot_make_the_search_explode() -> None:
    selector = parse_selector(f"color LIKE '{'%a' * 2000}%b'")
    letter = Letter(properties={"color": "a" * 20_000})
    started = process_time()
    assert not selector.matches(letter)
    # A hundred times what it takes. An exploding search, in C code where nothing can be counted, never ends.
    assert process_time() - started < 1.0


def test_numbers_of_any_length_are_read() -> None:
    assert parse_selector(f"n < {'9' * 100_000}").matches(LETTER)
    assert parse_selector(f"n > -{'9' * 100_000}").matches(LETTER)
    assert not parse_selector(f"convert_string_expressions:n = '{'9' * 100_000}'").matches(LETTER)
    with pytest.raises(InvalidSelector):
        parse_selector(f"n = 0x{'f' * 100_000}")


@pytest.mark.parametrize("piece", ["a--", "a/*", "'a", '"a', "08", "1.", "''", "- ", "/*/", "a\0", "."])
def test_reading_a_text_costs_no_more_than_its_length(piece: str) -> None:
    text = piece * (LENGTH_MAX // len(piece))
    started = process_time()
    with pytest.raises(InvalidSelector):
        parse_selector(text)
    # Ten times what the slowest takes. Looking at the whole rest for each piece takes a hundred times as long.
    assert process_time() - started < 5.0
