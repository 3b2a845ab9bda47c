"""Selectors meant to do harm: too deep, too long, too slow."""

from __future__ import annotations

from time import process_time

import pytest
from attrs import field, frozen

from embedbroker.kernel.selector._evaluation import APPENDED_LENGTH_MAX
from embedbroker.kernel.selector._grammar import DEPTH_MAX, LENGTH_MAX
from embedbroker.kernel.selector._like import like_matcher
from embedbroker.kernel.selector._selector import InvalidSelector, parse_selector
from embedclient.model import PropertyValue
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
    with pytest.raises(InvalidSelector, match="between two %"):
        parse_selector(f"a LIKE '%{'_' * 513}%'")
    parse_selector(f"a LIKE '{'_' * 4000}'")
    parse_selector(f"a LIKE '%{'a' * 4000}%'")


NEARLY = "a" * 100_000
# Each nearly fits at every place of the text.
SLOW = {
    "many segments": "%a" * 2000 + "%b",
    "one long segment": f"%{'a' * 4000}b%",
    "one segment with any characters": f"%_{'a' * 254}b%",
    "any characters between": f"%{'_a' * 64}_b{'_a' * 63}%",
    "segments with any characters": "%_a_b" * 800 + "%",
    "any characters": f"%{'_' * 255}b%",
}


@pytest.mark.parametrize("pattern", SLOW.values(), ids=SLOW)
def test_a_like_pattern_that_nearly_fits_everywhere_takes_little_time(pattern: str) -> None:
    selector = parse_selector(f"color LIKE '{pattern}'")
    started = process_time()
    assert not selector.matches(Letter(properties={"color": NEARLY}))
    # Ten times what the slowest takes, in C code where nothing can be counted.
    assert process_time() - started < 1.0


def test_many_patterns_share_what_one_may_search_for() -> None:
    patterns = " OR ".join(["color LIKE '%a_b%'"] * 170)
    parse_selector(patterns)
    with pytest.raises(InvalidSelector, match="more than 512 characters in all"):
        parse_selector(f"{patterns} OR color LIKE '%a_b%'")
    parse_selector(" OR ".join(["color LIKE 'a_b%c%_'"] * 1_000))


@pytest.mark.parametrize("pattern", SLOW.values(), ids=SLOW)
def test_a_like_pattern_finds_the_one_place_where_it_fits(pattern: str) -> None:
    matches = like_matcher(pattern, None)
    sought = pattern.replace("%", "").replace("_", "c")
    assert matches(f"{NEARLY}{sought}")
    assert matches(f"{NEARLY}{sought}{NEARLY}") is pattern.endswith("%")
    assert not matches(f"{NEARLY}{sought[:-1]}")


def test_a_like_pattern_cannot_make_the_search_explode() -> None:
    selector = parse_selector(f"color LIKE '{'%a' * 2000}%b'")
    letter = Letter(properties={"color": "a" * 20_000})
    started = process_time()
    assert not selector.matches(letter)
    # A hundred times what it takes. An exploding search, in C code where nothing can be counted, never ends.
    assert process_time() - started < 1.0


@frozen
class CountedLetter(Letter):
    """A message that lists the properties that are read."""

    reads: list[str] = field(factory=list)

    def property(self, name: str) -> PropertyValue:
        self.reads.append(name)
        return self.properties.get(name)


@pytest.mark.parametrize("kind", ["BETWEEN", "NOT BETWEEN"])
def test_the_left_side_of_between_is_evaluated_once(kind: str) -> None:
    levels = 16
    text = "(text + (" * levels + "n" + f" {kind} 1 AND 2))" * levels
    letter = CountedLetter(properties={"n": 7, "text": "a"})
    selector = parse_selector(f"{text} {kind} 1 AND 2")
    assert not selector.matches(letter)
    assert sorted(letter.reads) == ["n", *["text"] * levels]


def test_a_text_that_is_appended_to_itself_often_matches_nothing() -> None:
    part = "(" + " + ".join(["color"] * 100) + ")"
    letter = Letter(properties={"color": "a" * (APPENDED_LENGTH_MAX // 100)})
    assert parse_selector(f"{part} LIKE 'a%'").matches(letter)
    assert not parse_selector(f"({part} + {part}) LIKE 'a%'").matches(letter)
    assert not parse_selector(f"NOT (({part} + {part}) LIKE 'b%')").matches(letter)


@pytest.mark.parametrize("text", ["9" * 60_000 + "x", "9" * 60_000 + "." + "9" * 60_000 + "x"])
def test_a_long_text_that_is_no_number_is_read_once(text: str) -> None:
    letter = Letter(properties={"text": text, "x": 1.5})
    started = process_time()
    assert not parse_selector("convert_string_expressions:text = x").matches(letter)
    # Hundreds of times what it takes. Trying each way to share the digits takes ten times as long as this.
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
