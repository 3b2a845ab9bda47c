"""Random selectors against a second, deliberately dumb evaluator that never sees the text."""

from __future__ import annotations

import fnmatch
import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from embedbroker.kernel.selector._selector import InvalidSelector, parse_selector
from embedclient.model import PropertyValue
from tests.embedbroker.kernel.selector.selector_message import Letter

# A tree is a tuple: its first item names the operation, the others are trees, names or constants.
Tree = tuple[object, ...]
Properties = dict[str, PropertyValue]

NAMES = ["a", "b", "c", "d", "missing"]
TEXTS = ["", "a", "ab", "b'c", "a%b", "_", "5", "-7", "2.5", "true"]
texts = st.sampled_from(TEXTS)
numbers = st.one_of(st.integers(-20, 20), st.sampled_from([0.0, 0.5, 2.5, 1e9]))
bags = st.dictionaries(st.sampled_from(NAMES[:-1]), st.one_of(texts, numbers, st.booleans(), st.just(b"x")))
names = st.sampled_from(NAMES).map(lambda name: ("name", name))
literals = numbers.map(lambda value: ("number", value))
terms = st.recursive(
    st.one_of(names, literals),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner), st.tuples(st.just("minus"), inner)
    ),
    max_leaves=4,
)
leaves = st.one_of(
    st.tuples(st.sampled_from(["=", "<>"]), st.one_of(terms, texts.map(lambda text: ("text", text))), terms),
    st.tuples(st.sampled_from(["=", "<>"]), terms, texts.map(lambda text: ("text", text))),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), terms, terms),
    st.tuples(st.sampled_from(["BETWEEN", "NOT BETWEEN"]), terms, terms, terms),
    st.tuples(st.sampled_from(["IN", "NOT IN"]), names, st.lists(texts, min_size=1, max_size=4).map(tuple)),
    st.tuples(st.sampled_from(["LIKE", "NOT LIKE"]), terms, st.text("ab_%'5", max_size=5)),
    st.tuples(st.sampled_from(["IS NULL", "IS NOT NULL"]), terms),
    names,
    st.sampled_from([("TRUE",), ("FALSE",), ("NULL",)]),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("NOT"), inner),
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner),
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner, inner),
    ),
    max_leaves=8,
)


def sub(tree: Tree, index: int) -> Tree:
    child = tree[index]
    assert isinstance(child, tuple)
    return child


def quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def spell(tree: Tree) -> str:
    """The tree as text, every operation in brackets."""
    operation = str(tree[0])
    match operation:
        case "name":
            return str(tree[1])
        case "number":
            value = tree[1]
            return f"({value})" if isinstance(value, int | float) and value < 0 else str(value)
        case "text":
            return quoted(tree[1])
        case "TRUE" | "FALSE" | "NULL":
            return operation
        case "minus":
            return f"(- {spell(sub(tree, 1))})"
        case "NOT":
            return f"(NOT {spell(sub(tree, 1))})"
        case "IS NULL" | "IS NOT NULL":
            return f"({spell(sub(tree, 1))} {operation})"
        case "IN" | "NOT IN":
            return f"({spell(sub(tree, 1))} {operation} ({', '.join(quoted(choice) for choice in sub(tree, 2))}))"
        case "LIKE" | "NOT LIKE":
            return f"({spell(sub(tree, 1))} {operation} {quoted(tree[2])})"
        case "BETWEEN" | "NOT BETWEEN":
            return f"({spell(sub(tree, 1))} {operation} {spell(sub(tree, 2))} AND {spell(sub(tree, 3))})"
        case _:
            return "(" + f" {operation} ".join(spell(sub(tree, index)) for index in range(1, len(tree))) + ")"


class NoNumberError(Exception):
    """Arithmetic met something else than a number."""


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def arithmetic(operation: str, left: object, right: object) -> object:
    if right is None:
        return None
    if operation == "+" and isinstance(left, str):
        return left + ("true" if right is True else "false" if right is False else spelled_number(right))
    if not (is_number(left) and is_number(right)):
        raise NoNumberError
    assert isinstance(left, int | float) and isinstance(right, int | float)
    if operation in "+-*":
        return left + right if operation == "+" else left - right if operation == "-" else left * right
    if right == 0:
        if operation == "%" or left == 0 or math.isnan(left):
            return math.nan
        return math.inf if (left > 0) == (math.copysign(1, right) > 0) else -math.inf
    if operation == "/":
        return left / right
    return math.nan if math.isinf(left) else math.fmod(left, right)


def spelled_number(value: object) -> str:
    """Fits the numbers used here; other spellings are in the table of test_selector.py."""
    if isinstance(value, float) and abs(value) >= 1e7 and math.isfinite(value):
        return "big"
    return str(value).replace("inf", "Infinity").replace("nan", "NaN")


def equal(left: object, right: object) -> bool | None:
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        return left == right
    return type(left) is type(right) and left == right


def ordered(operation: str, left: object, right: object) -> bool | None:
    if right is None:
        return None
    if not (is_number(left) and is_number(right)) and type(left) is not type(right):
        return False
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operation]


def negate(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def evaluate(tree: Tree, bag: Properties) -> object:
    operation = str(tree[0])
    match operation:
        case "name":
            return bag.get(str(tree[1]))
        case "number" | "text":
            return tree[1]
        case "TRUE" | "FALSE" | "NULL":
            return {"TRUE": True, "FALSE": False, "NULL": None}[operation]
        case "minus":
            value = evaluate(sub(tree, 1), bag)
            if not is_number(value):
                return None
            assert isinstance(value, int | float)
            return -value
        case "+" | "-" | "*" | "/" | "%":
            left = evaluate(sub(tree, 1), bag)
            # Without a left value the right side is not looked at, so it cannot meet something else than a number.
            return None if left is None else arithmetic(operation, left, evaluate(sub(tree, 2), bag))
        case _:
            return decide(tree, bag)


def decide(tree: Tree, bag: Properties) -> bool | None:
    operation = str(tree[0])
    if operation in ("name", "TRUE", "FALSE", "NULL"):
        value = evaluate(tree, bag)
        return None if value is None else value is True
    if operation in ("AND", "OR", "NOT"):
        return logic(operation, [sub(tree, index) for index in range(1, len(tree))], bag)
    value = evaluate(sub(tree, 1), bag)
    if operation.startswith("NOT ") and operation != "NOT BETWEEN":
        return negate(decide((operation[4:], *tree[1:]), bag))
    match operation:
        case "IS NULL" | "IS NOT NULL":
            return (value is None) is (operation == "IS NULL")
        case "IN":
            return value in sub(tree, 2) if isinstance(value, str) else None
        case "LIKE":
            return None if value is None else isinstance(value, str) and like(value, str(tree[2]))
        case "=" | "<>":
            answer = equal(value, evaluate(sub(tree, 2), bag))
            return answer if operation == "=" else negate(answer)
        case "BETWEEN":
            return logic("AND", [(">=", tree[1], tree[2]), ("<=", tree[1], tree[3])], bag)
        case "NOT BETWEEN":
            return logic("OR", [("<", tree[1], tree[2]), (">", tree[1], tree[3])], bag)
        case _:
            return None if value is None else ordered(operation, value, evaluate(sub(tree, 2), bag))


def logic(operation: str, operands: list[Tree], bag: Properties) -> bool | None:
    if operation == "NOT":
        return negate(decide(operands[0], bag))
    decisive = operation == "OR"
    answers: list[bool | None] = []
    for operand in operands:
        answers.append(decide(operand, bag))
        if answers[-1] is decisive:
            return decisive
    return None if None in answers else not decisive


def like(value: str, pattern: str) -> bool:
    shell = "".join({"%": "*", "_": "?"}.get(character, f"[{character}]") for character in pattern)
    return re.fullmatch(fnmatch.translate(shell), value) is not None


def string_order_or_long_number(tree: Tree, bag: Properties) -> bool:
    """Cases left to the table of test_selector.py: ordered strings and booleans, and how large numbers are appended."""
    text = spell(tree)
    values = list(bag.values())
    appends = "+" in text and any(isinstance(value, str) for value in values)
    orders = any(operation in text for operation in ("<", ">", "BETWEEN"))
    return (appends and "000000" in text + str(values)) or (
        orders and any(isinstance(value, str | bool | bytes) for value in values)
    )


@pytest.mark.search
@settings(max_examples=400, deadline=None)
@given(tree=conditions, bag=bags)
@example(tree=("NOT BETWEEN", ("name", "a"), ("number", 1), ("name", "missing")), bag={"a": 0})
@example(tree=("IS NULL", ("+", ("name", "a"), ("+", ("name", "b"), ("name", "b")))), bag={"b": False})
@example(tree=("OR", ("<", ("name", "a"), ("+", ("name", "b"), ("name", "b"))), ("TRUE",)), bag={"b": b"x"})
def test_a_compiled_selector_answers_as_the_dumb_evaluator(tree: Tree, bag: Properties) -> None:
    if string_order_or_long_number(tree, bag):
        bag = {name: value for name, value in bag.items() if is_number(value)}
    try:
        expected = decide(tree, bag)
    except NoNumberError:
        expected = None
    letter = Letter(properties=bag)
    assert parse_selector(spell(tree)).matches(letter) is (expected is True)
    assert parse_selector(f"NOT {spell(tree)}").matches(letter) is (expected is False)


@pytest.mark.search
@settings(max_examples=300, deadline=None)
@given(value=st.text("ab_%\n.*", max_size=12), pattern=st.text("ab_%\n.*", max_size=8))
def test_like_agrees_with_a_backtracking_matcher(value: str, pattern: str) -> None:
    letter = Letter(properties={"text": value})
    assert parse_selector(f"text LIKE '{pattern}'").matches(letter) is like(value, pattern)


WORDS = ["a", "b", "=", "<>", "<", "(", ")", ",", "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "ESCAPE", "BETWEEN"]
WORDS += [
    "1",
    "2.5",
    "0x1F",
    "'s'",
    "'",
    '"q"',
    "+",
    "-",
    "*",
    "/",
    "%",
    "TRUE",
    "--",
    "/*",
    "*/",
    "\n",
    "hyphenated_props:",
]


@pytest.mark.search
@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
def test_any_text_is_a_selector_or_is_refused(text: str) -> None:
    try:
        selector = parse_selector(text)
    except InvalidSelector as refused:
        assert 0 <= refused.position <= len(text)
        assert refused.reason
    else:
        assert selector.matches(Letter()) in (True, False)


@pytest.mark.parametrize("text", ["a = 'red'", "a BETWEEN 1 AND 2", "NOT (a LIKE '%x' ESCAPE '!') OR b IS NOT NULL"])
def test_every_prefix_of_a_selector_is_a_selector_or_is_refused(text: str) -> None:
    for length in range(len(text)):
        try:
            parse_selector(text[:length])
        except InvalidSelector:
            continue
