"""Selectors: the language as a table, its errors, hostile texts, and the cache."""

from __future__ import annotations

import pytest

from embedbroker.kernel import is_decided_by
from embedbroker.kernel.selector._selector import InvalidSelector, SelectorCache, parse_condition_on, parse_selector
from embedclient.errors import RemoteProtocolError
from embedclient.model import PropertyValue
from tests.embedbroker.kernel.selector.selector_message import Letter

LETTER = Letter(
    properties={
        "color": "red",
        "quote": "'In God We Trust'",
        "under": "foo_bar",
        "percent": "100%",
        "lines": "one\ntwo",
        "empty": "",
        "digits": "42",
        "decimal": "4.5",
        "word": "true",
        "n": 7,
        "zero": 0,
        "big": 9_223_372_036_854_775_807,
        "x": 2.5,
        "yes": True,
        "no": False,
        "blob": b"red",
        "JMSType": "order",
        "price-eur": 10,
        "a.test": "dotted",
        "größe": 3,
        "$id": 1,
        "_AMQ_Hops": 2,
        "AMQOther": "plain",
    },
    address="orders",
    durable=False,
    priority=9,
    expiration=5000,
    timestamp=1234,
    encoded_size=321,
    user_id=bytes(range(16)),
    group_id="g1",
)
USER_ID = "ID:00010203-0405-0607-0809-0a0b0c0d0e0f"

TRUE, FALSE, UNKNOWN = True, False, None

TABLE: list[tuple[str, bool | None]] = [
    # comparison of like types
    ("color = 'red'", TRUE),
    ("color = 'blue'", FALSE),
    ("'red' = color", TRUE),
    ("color <> 'blue'", TRUE),
    ("color <> 'red'", FALSE),
    ("n = 7", TRUE),
    ("n = 7.0", TRUE),
    ("7 = n", TRUE),
    ("5 < n", TRUE),
    ("9 < n", FALSE),
    ("7 >= n", TRUE),
    ("n > 6.9", TRUE),
    ("n >= 8", FALSE),
    ("x < 3", TRUE),
    ("x <= 2.5", TRUE),
    ("n > x", TRUE),
    ("n = n", TRUE),
    ("yes = TRUE", TRUE),
    ("yes = FALSE", FALSE),
    ("yes <> no", TRUE),
    ("TRUE = yes", TRUE),
    ("color = color", TRUE),
    ("color > empty", TRUE),  # two properties with strings have an order
    # unlike types are not equal and have no order
    ("color = 7", FALSE),
    ("color <> 7", TRUE),
    ("color > 7", FALSE),
    ("NOT (color > 7)", TRUE),
    ("digits = 42", FALSE),
    ("yes = 1", FALSE),
    ("zero = FALSE", FALSE),
    ("no = zero", FALSE),
    ("yes > 0", FALSE),
    ("blob = 'red'", FALSE),
    ("blob = color", FALSE),
    ("n BETWEEN color AND 9", FALSE),
    ("color BETWEEN 1 AND 2", FALSE),
    ("color NOT BETWEEN 1 AND 2", FALSE),
    # NULL
    ("nothing = 'red'", UNKNOWN),
    ("nothing <> 'red'", UNKNOWN),
    ("'red' = nothing", UNKNOWN),
    ("'red' <> nothing", UNKNOWN),
    ("nothing = nobody", UNKNOWN),
    ("nothing > 1", UNKNOWN),
    ("1 > nothing", UNKNOWN),
    ("n > nothing", UNKNOWN),
    ("nothing BETWEEN 1 AND 2", UNKNOWN),
    ("n BETWEEN nothing AND 9", UNKNOWN),
    ("n BETWEEN nothing AND 6", FALSE),
    ("nothing NOT BETWEEN 1 AND 2", UNKNOWN),
    ("nothing IN ('a')", UNKNOWN),
    ("nothing NOT IN ('a')", UNKNOWN),
    ("nothing LIKE '%'", UNKNOWN),
    ("nothing NOT LIKE '%'", UNKNOWN),
    ("nothing + 1 = 2", UNKNOWN),
    ("1 + nothing = 2", UNKNOWN),
    ("-nothing = 2", UNKNOWN),
    ("nothing IS NULL", TRUE),
    ("nothing IS NOT NULL", FALSE),
    ("n IS NULL", FALSE),
    ("n IS NOT NULL", TRUE),
    ("no IS NOT NULL", TRUE),
    ("(nothing + 1) IS NULL", TRUE),
    ("(nothing > 1) IS NULL", TRUE),
    ("NULL", UNKNOWN),
    ("NULL IS NULL", TRUE),
    # three-valued logic
    ("yes AND yes", TRUE),
    ("yes AND no", FALSE),
    ("no AND nothing", FALSE),
    ("nothing AND no", FALSE),
    ("yes AND nothing", UNKNOWN),
    ("nothing AND yes", UNKNOWN),
    ("nothing AND nobody", UNKNOWN),
    ("yes AND nothing AND no", FALSE),
    ("yes AND yes AND nothing", UNKNOWN),
    ("yes AND yes AND yes", TRUE),
    ("no OR yes", TRUE),
    ("nothing OR yes", TRUE),
    ("yes OR nothing", TRUE),
    ("no OR nothing", UNKNOWN),
    ("nothing OR no", UNKNOWN),
    ("no OR no", FALSE),
    ("no OR nothing OR yes", TRUE),
    ("NOT yes", FALSE),
    ("NOT no", TRUE),
    ("NOT nothing", UNKNOWN),
    ("NOT NOT yes", TRUE),
    ("TRUE", TRUE),
    ("FALSE", FALSE),
    ("NOT FALSE", TRUE),
    ("color", FALSE),  # an identifier that is no boolean
    ("NOT color", TRUE),
    ("(yes AND no) = no", TRUE),
    ("(n > 5) = yes", TRUE),
    ("yes = NOT no", TRUE),
    ("n > 5 = TRUE", TRUE),
    ("n = 7 = yes", TRUE),
    # precedence: NOT below comparison, AND above OR
    ("NOT n = 7", FALSE),
    ("NOT n = 8", TRUE),
    ("NOT nothing IS NULL", FALSE),
    ("NOT color IN ('red')", FALSE),
    ("NOT color LIKE 'r%'", FALSE),
    ("NOT n BETWEEN 1 AND 5", TRUE),
    ("NOT no AND no", FALSE),
    ("NOT (no AND no)", TRUE),
    ("yes OR yes AND no", TRUE),
    ("(yes OR yes) AND no", FALSE),
    ("no AND yes OR yes", TRUE),
    ("no AND NOT n = 7 OR yes", TRUE),
    ("1 + 2 * 3 = n", TRUE),
    ("(1 + 2) * 3 = 9", TRUE),
    ("10 - 2 - 1 = n", TRUE),
    ("8 / 4 / 2 = 1", TRUE),
    # arithmetic
    ("n + 1 = 8", TRUE),
    ("n - 1 = 6", TRUE),
    ("n * 2 = 14", TRUE),
    ("n / 2 = 3.5", TRUE),
    ("n % 4 = 3", TRUE),
    ("-n = -7", TRUE),
    ("- -n = 7", TRUE),
    ("+n = 7", TRUE),
    ("-n % 4 = -3", TRUE),  # the sign of the dividend
    ("x + n = 9.5", TRUE),
    ("n / 0 > 1000000", TRUE),
    ("-n / 0 < -1000000", TRUE),
    ("zero / 0 = zero / 0", FALSE),
    ("n % 0 > 0", FALSE),
    ("big + 1 < 0", TRUE),  # 64 bits wrap
    ("color + '!' = 'red!'", TRUE),
    ("color + n = 'red7'", TRUE),
    ("color + yes = 'redtrue'", TRUE),
    ("color + x = 'red2.5'", TRUE),
    ("color + 12345678.0 = 'red1.2345678E7'", TRUE),
    ("color + 1E-5 = 'red1.0E-5'", TRUE),
    ("n-1=6", TRUE),
    ("-color = 1", UNKNOWN),
    # BETWEEN, IN
    ("n BETWEEN 7 AND 7", TRUE),
    ("n BETWEEN 1 AND 6", FALSE),
    ("n BETWEEN x AND n + 1", TRUE),
    ("n NOT BETWEEN 1 AND 6", TRUE),
    ("n NOT BETWEEN 7 AND 9", FALSE),
    ("n BETWEEN 1 AND 9 AND yes", TRUE),
    ("color IN ('red')", TRUE),
    ("color IN ('blue', 'red')", TRUE),
    ("color IN ('blue', 'green')", FALSE),
    ("color NOT IN ('blue', 'green')", TRUE),
    ("color NOT IN ('red', 'green')", FALSE),
    ("n IN ('7')", UNKNOWN),
    ("n NOT IN ('7')", UNKNOWN),
    ("quote IN ('''In God We Trust''')", TRUE),
    # LIKE
    ("color LIKE 'red'", TRUE),
    ("color LIKE 'r_d'", TRUE),
    ("color LIKE 'r_'", FALSE),
    ("color LIKE '_'", FALSE),
    ("color LIKE '%'", TRUE),
    ("empty LIKE '%'", TRUE),
    ("empty LIKE ''", TRUE),
    ("empty LIKE '_'", FALSE),
    ("color LIKE ''", FALSE),
    ("color LIKE '%e%'", TRUE),
    ("color LIKE '%d'", TRUE),
    ("color LIKE 'r%'", TRUE),
    ("color LIKE 'red%red'", FALSE),  # the ends do not share characters
    ("color LIKE '%%%'", TRUE),
    ("color LIKE '%_%_%_%'", TRUE),
    ("color LIKE '%_%_%_%_%'", FALSE),
    ("color LIKE '_e%_'", TRUE),
    ("color LIKE 'R%'", FALSE),
    ("color LIKE 'r.d'", FALSE),
    ("color LIKE 're[d]'", FALSE),
    ("color NOT LIKE 'b%'", TRUE),
    ("color NOT LIKE 'r%'", FALSE),
    ("quote LIKE '''In G_d We Trust'''", TRUE),
    ("lines LIKE 'one_two'", TRUE),
    ("lines LIKE '%two'", TRUE),
    ("under LIKE 'foo!_bar' ESCAPE '!'", TRUE),
    ("color LIKE 'r!_d' ESCAPE '!'", FALSE),
    ("percent LIKE '100\\%' ESCAPE '\\'", TRUE),
    ("color LIKE 're\\%' ESCAPE '\\'", FALSE),
    ("under LIKE 'foo__bar' ESCAPE '_'", TRUE),
    ("under LIKE '%!_%' ESCAPE '!'", TRUE),
    ("color LIKE '!red' ESCAPE '!'", FALSE),  # before an ordinary character it stands for itself
    ("color LIKE 'red!' ESCAPE '!'", FALSE),
    ("n LIKE '7'", FALSE),
    ("n NOT LIKE '7'", TRUE),
    ("(color + 'x') LIKE 'red_'", TRUE),
    # literals
    ("n = 7L", TRUE),
    ("n = 0x7", TRUE),
    ("n = 0X07l", TRUE),
    ("n = 07", TRUE),
    ("8 = 010", TRUE),
    ("zero = 0", TRUE),
    ("255 = 0xFF", TRUE),
    ("x = 2.5", TRUE),
    ("x = 2.5f", TRUE),
    ("x = .25E1", TRUE),
    ("x = 25e-1", TRUE),
    ("n = 7.", TRUE),
    ("n = 7.E0D", TRUE),
    ("1E400 > big", TRUE),
    ("big = 9223372036854775807", TRUE),
    ("-9223372036854775808 < big", TRUE),
    ("99999999999999999999999999 > big", TRUE),
    ("0.1 + 0.2 > 0.3", TRUE),
    ("empty = ''", TRUE),
    ("quote = '''In God We Trust'''", TRUE),
    ("color = 'RED'", FALSE),
    # spelling
    ("color='red'and n>5", TRUE),
    ("  color\t=\n'red'\r\f ", TRUE),
    ("color = 'red' -- the rest of the line\nAND yes", TRUE),
    ("color /* between / the * words */ = 'red'", TRUE),
    ("n - -1 = 8", TRUE),
    ("n Not Between 1 aNd 6 oR no", TRUE),
    ("\"a.test\" = 'dotted'", TRUE),
    ('"price-eur" = 10', TRUE),
    ('"no""such" IS NULL', TRUE),
    ('"AND" IS NULL', TRUE),
    ("größe = 3", TRUE),
    ("$id = 1", TRUE),
    ("((((n)))) = (7)", TRUE),
    ("COLOR = 'red'", UNKNOWN),
    # headers under their broker names
    ("AMQPriority = 9", TRUE),
    ("AMQTimestamp = 1234", TRUE),
    ("AMQExpiration > 4999", TRUE),
    ("AMQDurable = 'NON_DURABLE'", TRUE),
    ("AMQDurable = 'DURABLE'", FALSE),
    ("AMQSize BETWEEN 300 AND 400", TRUE),
    ("AMQAddress = 'orders'", TRUE),
    ("AMQAddress LIKE 'ord%'", TRUE),
    ("AMQGroupID = 'g1'", TRUE),
    (f"AMQUserID = '{USER_ID}'", TRUE),
    ("AMQUserID LIKE 'ID:%'", TRUE),
    ("AMQOther = 'plain'", TRUE),
    ("JMSType = 'order'", TRUE),
    ("_AMQ_Hops < 3", TRUE),
    ("_AMQX=-1", UNKNOWN),
    # prefixes
    ("hyphenated_props:price-eur = 10", TRUE),
    ("hyphenated_props:n - 1 = 6", TRUE),
    ("no_hyphenated_props:n-1 = 6", TRUE),
    ("hyphenated_props:no_hyphenated_props:n-1 = 6", TRUE),
    ("convert_string_expressions:digits = 42", TRUE),
    ("convert_string_expressions:42 = digits", TRUE),
    ("convert_string_expressions:digits > 41", TRUE),
    ("convert_string_expressions:digits <> 42", FALSE),
    ("convert_string_expressions:n = '7'", TRUE),
    ("convert_string_expressions:n < digits", TRUE),
    ("convert_string_expressions:decimal = 4.5", TRUE),
    ("convert_string_expressions:decimal = 4", FALSE),
    ("convert_string_expressions:word = TRUE", TRUE),
    ("convert_string_expressions:color = TRUE", FALSE),
    ("convert_string_expressions:color = FALSE", TRUE),
    ("convert_string_expressions:color = 7", FALSE),
    ("convert_string_expressions:color = 'red'", TRUE),
    ("convert_string_expressions:digits BETWEEN 40 AND 43", TRUE),
    ("convert_string_expressions:digits - 2 = 40", TRUE),
    ("convert_string_expressions:decimal * 2 = 9", TRUE),
    ("convert_string_expressions:digits + 1 = '421'", TRUE),
    ("convert_string_expressions:nothing = 1", UNKNOWN),
    ("no_convert_string_expressions:digits = 42", FALSE),
    ("convert_string_expressions:hyphenated_props:price-eur = '10'", TRUE),
    (" hyphenated_props:price-eur = 10", TRUE),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(missing + (no + no)) IS NULL", True),
        ("(missing < no + no) OR TRUE", True),
        ("(missing BETWEEN no + no AND 5) OR TRUE", True),
        ("(missing = no + no) OR TRUE", False),
        ("(n < no + no) OR TRUE", False),
    ],
)
def test_arithmetic_on_no_number_matters_only_where_artemis_looks_at_it(text: str, expected: bool) -> None:
    assert parse_selector(text).matches(LETTER) is expected


@pytest.mark.parametrize(("text", "expected"), TABLE, ids=[text for text, _ in TABLE])
def test_the_language_as_a_table(text: str, expected: bool | None) -> None:
    selector = parse_selector(text)
    assert selector.matches(LETTER) is (expected is True)
    prefix, _, condition = text.rpartition(":") if "_props:" in text or "_expressions:" in text else ("", "", text)
    negated = parse_selector(f"{prefix}:NOT ({condition}\n)" if prefix else f"NOT ({condition}\n)")
    assert negated.matches(LETTER) is (expected is False)


NUMBERLESS = ["color - 1 = 3", "n * color = 3", "n + color = 3", "yes + 1 = 2", "blob * 2 = 4", "color % n = 0"]


@pytest.mark.parametrize("text", NUMBERLESS)
def test_arithmetic_on_something_else_than_numbers_matches_nothing(text: str) -> None:
    assert not parse_selector(text).matches(LETTER)
    assert not parse_selector(f"NOT ({text})").matches(LETTER)
    assert not parse_selector(f"({text}) OR yes").matches(LETTER)
    assert not parse_selector(f"convert_string_expressions:{text}").matches(LETTER)


INVALID: list[tuple[str, int, str]] = [
    ("", 0, "no condition"),
    ("   ", 3, "no condition"),
    ("hyphenated_props:", 17, "no condition"),
    ("3 + 5", 0, "not a condition"),
    ("'red'", 0, "not a condition"),
    ("yes AND 3 + 5", 8, "not a condition"),
    ("NOT 3", 4, "not a condition"),
    ("n + 1 OR yes", 0, "not a condition"),
    ("=TEST 'test'", 0, "unexpected ="),
    ("a = b foo AND c = 'd'", 6, "unexpected 'foo'"),
    ("a = 1 AMD b = 2", 6, "unexpected 'AMD'"),
    ("a =", 3, "too early"),
    ("(a = 1", 6, "too early"),
    ("a = 1)", 5, "unexpected )"),
    ("a = 'open", 4, "never closed"),
    ('"open = 1', 0, "never closed"),
    ("a == 1", 3, "write '='"),
    ("a != 1", 2, "unexpected '!'"),
    ("a = 1; b = 2", 5, "unexpected ';'"),
    ("a = 08", 5, "unexpected 8"),
    ("a = 1x", 5, "unexpected 'x'"),
    ("a = 0xFFFFFFFFFFFFFFFFFF", 4, "64 bits"),
    ("a = 07777777777777777777777", 4, "64 bits"),
    ("a.b = 1", 1, "unexpected '.'"),
    ("a = NULL", 4, "IS NULL"),
    ("NULL = a", 0, "IS NULL"),
    ("a <> NULL", 5, "IS NULL"),
    ("a > 'b'", 4, "numbers only"),
    ("'b' <= a", 0, "numbers only"),
    ("a > TRUE", 4, "numbers only"),
    ("a > (b = 1)", 4, "numbers only"),
    ("1 < 2 < 3", 0, "numbers only"),
    ("a BETWEEN 'a' AND 'b'", 10, "numbers only"),
    ("a BETWEEN 1", 11, "too early"),
    ("a BETWEEN 1 OR 2", 12, "unexpected OR"),
    ("a IN ()", 6, "unexpected )"),
    ("a IN ('b',)", 10, "unexpected )"),
    ("a IN ('b' 'c')", 10, "unexpected 'c'"),
    ("a IN (1, 2)", 6, "unexpected 1"),
    ("a IN 'b'", 5, "unexpected 'b'"),
    ("3 IN ('b')", 0, "identifier"),
    ("a + 'c' IN ('b')", 0, "identifier"),
    ("a LIKE b", 7, "unexpected 'b'"),
    ("a LIKE 1", 7, "unexpected 1"),
    ("a LIKE 'b' ESCAPE", 17, "too early"),
    ("a LIKE 'b' ESCAPE 'cc'", 18, "one character"),
    ("a LIKE 'b' ESCAPE ''", 18, "one character"),
    ("a IS", 4, "too early"),
    ("a IS 1", 5, "unexpected 1"),
    ("a IS NOT 1", 9, "unexpected 1"),
    ("a NOT = 1", 6, "unexpected ="),
    ("NOT", 3, "too early"),
    ("AND = 1", 0, "unexpected AND"),
    ("a AND", 5, "too early"),
    ("XPATH '//a'", 0, "not part of"),
    ("a -- never ends", 11, "unexpected 'ends'"),
    ("a = 1 /* never ends", 7, "unexpected *"),
    ("hyphenated_props:a = = 1", 21, "unexpected ="),
    ("a = 1 \0", 6, "unexpected"),
]


@pytest.mark.parametrize(("text", "position", "reason"), INVALID)
def test_an_invalid_text_is_refused_with_place_and_reason(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector(text)
    assert (caught.value.text, caught.value.position) == (text, position)
    assert reason in caught.value.reason
    assert str(position) in str(caught.value)


def test_a_message_with_unreadable_properties_matches_nothing() -> None:
    class Unreadable(Letter):
        def property(self, name: str) -> PropertyValue:
            raise RemoteProtocolError("malformed properties")

    assert not parse_selector("a = 1").matches(Unreadable())
    assert not parse_selector("NOT (a = 1) OR a IS NULL").matches(Unreadable())
    assert parse_selector("AMQPriority = 4").matches(Unreadable())


def test_a_user_id_that_is_no_uuid_is_text_with_its_prefix() -> None:
    assert parse_selector("AMQUserID = 'ID:abc'").matches(Letter(user_id="abc"))
    assert parse_selector("AMQUserID = 'ID:abc'").matches(Letter(user_id="ID:abc"))
    assert parse_selector("AMQUserID IS NULL").matches(Letter())


def test_the_cache_gives_the_same_selector_for_the_same_text() -> None:
    cache = SelectorCache(2)
    first = cache.find("n = 7")
    assert first is not None
    assert cache.find("n = 7") is first
    cache.find("n = 8")
    assert cache.find("n = 7") is first  # now the most recent
    cache.find("n = 9")
    assert cache.find("n = 7") is first
    assert len(cache) == 2


def test_the_cache_takes_no_text_and_blank_text_for_no_selector() -> None:
    cache = SelectorCache()
    assert cache.find(None) is None
    assert cache.find("") is None
    assert cache.find("  ") is None
    with pytest.raises(InvalidSelector):
        cache.find("n =")
    assert len(cache) == 0


@pytest.mark.parametrize(
    ("text", "may_match"),
    [
        ("n = 7", True),
        ("n = 8", False),
        ("n = 8 OR word = 'x'", True),
        ("word = 'x' AND n = 8", False),
        ("word = 'x' AND (empty = 'x' AND n = 8)", False),
        ("word = 'x' AND n = 7 AND NOT color LIKE 'b%'", True),
        ("word = 'x' AND NOT color LIKE 'r%'", False),
        ("word = 'x' AND missing < 1", False),
        ("word = 'x' AND n IS NULL", False),
        ("word = 'x' AND n + zero = 8", True),
        ("word = 'x' AND color + 1 - 1 = 8", False),
    ],
)
def test_the_part_of_a_selector_that_some_properties_decide(text: str, may_match: bool) -> None:
    known = frozenset(("n", "color", "missing"))
    message = Letter(properties={"n": 7, "color": "red"})
    assert parse_condition_on(text, known).matches(message) is may_match


@pytest.mark.parametrize(
    ("text", "is_decided"),
    [("n = 7 AND NOT color LIKE 'b%'", True), ("n = 7 OR word = 'x'", False), ("n = 7 AND AMQPriority > 4", False)],
)
def test_a_selector_that_some_properties_decide(text: str, is_decided: bool) -> None:
    assert is_decided_by(text, frozenset(("n", "color", "missing"))) is is_decided
