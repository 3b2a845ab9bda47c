"""Evaluation of selectors: the expression tree compiled once into closures over the stored message.

Responsible for values, types and three-valued logic: a condition returns ``True``, ``False`` or ``None`` (unknown).
Does not depend on the syntax, and never reads a message body.

Where the specification has a rule it holds: NULL on either side makes a comparison unknown, values of different types
are neither equal nor ordered (``False``), NOT unknown is unknown. Where it is silent the rules are those of Artemis.
``<>`` is the negation of ``=``, so values of different types differ. Division gives a double, dividing by zero an
infinity. ``+`` appends to a string. Strings held by two properties have an order. Arithmetic on anything else than
numbers leaves the whole selector without a match; so does a text that ``+`` makes longer than it may be.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

from attrs import fields, has

from embedclient.model import uuid_text

from ..message._message import Message
from ._errors import NotANumber, TextTooLong
from ._grammar import ParsedSelector
from ._like import like_matcher
from ._numbers import OPERATIONS, is_number, number_in, read_as, text_of, wrapped
from ._tree import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Constant,
    Expression,
    Identifier,
    IsNull,
    Like,
    Membership,
    Negation,
    Not,
    Or,
)

__all__ = ["Condition", "compile_condition_on", "compile_selector"]

APPENDED_LENGTH_MAX: Final = 262_144
"""Characters of a text that ``+`` makes. Without a limit a short selector appends a long property to itself often."""

Value: TypeAlias = Callable[[Message], object]
Condition: TypeAlias = Callable[[Message], bool | None]


def compile_selector(parsed: ParsedSelector) -> Condition:
    """Return the closure that evaluates a message: ``True`` if it matches, or any other value if not."""
    return _Compiler(parsed.convert_strings).condition(parsed.condition)


def compile_condition_on(parsed: ParsedSelector, names: frozenset[str]) -> Condition:
    """Return the closure that evaluates the conjuncts in which no other properties stand.

    A message that has not ``True`` there has it nowhere: a conjunction is as true as the least of its parts.
    """
    compiler = _Compiler(parsed.convert_strings)
    known = [each for each in _conjuncts(parsed.condition) if names_in(each) <= names]
    return _every([compiler.condition(each) for each in known])


def _conjuncts(node: Expression) -> list[Expression]:
    return [each for part in node.operands for each in _conjuncts(part)] if isinstance(node, And) else [node]


def names_in(tree: Expression) -> set[str]:
    """Return the names of all properties in a tree."""
    names: set[str] = set()
    waiting: list[object] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Identifier):
            names.add(part.name)
        elif isinstance(part, tuple):
            waiting += part
        elif has(kind := type(part)):
            waiting += (getattr(part, each.name) for each in fields(kind))
    return names


def _user_id(message: Message) -> object:
    """Return ``ID:`` and the text of the sender's id: 16 bytes from CORE, a text of any form from other protocols."""
    user_id = message.user_id
    if isinstance(user_id, bytes) and len(user_id) == 16:
        return f"ID:{uuid_text(user_id)}"
    if isinstance(user_id, str):
        return user_id if user_id.startswith("ID:") else f"ID:{user_id}"
    return None


_HEADERS: Final[dict[str, Value]] = {
    "AMQUserID": _user_id,
    "AMQPriority": operator.attrgetter("priority"),
    "AMQTimestamp": operator.attrgetter("timestamp"),
    "AMQExpiration": operator.attrgetter("expiration"),
    "AMQDurable": lambda message: "DURABLE" if message.durable else "NON_DURABLE",
    "AMQSize": operator.attrgetter("encoded_size"),
    "AMQAddress": operator.attrgetter("address"),
    "AMQGroupID": operator.attrgetter("group_id"),
}


def _property(name: str) -> Value:
    return _HEADERS.get(name) or (lambda message: message.property(name))


_COMPARISONS: Final[dict[str, Callable[..., bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SWAPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _alike(left: object, right: object) -> bool:
    """Return True for two numbers, or two values of one type that has an order."""
    if left.__class__ is right.__class__:
        return left.__class__ in (str, int, float, bool, bytes)
    return is_number(left) and is_number(right)


class _Compiler:
    """Compile one tree; its parts share only the convert prefix."""

    __slots__ = ("_convert",)

    def __init__(self, convert_strings: bool) -> None:
        self._convert = convert_strings

    def condition(self, node: Expression) -> Condition:
        match node:
            case And(operands):
                return _every([self.condition(operand) for operand in operands])
            case Or(operands):
                return _any([self.condition(operand) for operand in operands])
            case Not(operand):
                return _negated(self.condition(operand))
            case Comparison(symbol, left, right):
                return self._comparison(symbol, left, right)
            case Between(operand, low, high, negated):
                return self._between(operand, low, high, negated=negated)
            case Membership(identifier, choices):
                return _membership(self.value(identifier), frozenset(choices))
            case Like(operand, pattern, escape):
                return _like(self.value(operand), like_matcher(pattern, escape))
            case IsNull(operand):
                value = self.value(operand)
                return lambda message: value(message) is None
            case Identifier():
                return _truth(self.value(node))
            case Constant(constant):
                truth = constant if isinstance(constant, bool) else None
                return lambda message: truth
            case Negation() | Arithmetic():
                raise AssertionError(f"the grammar lets no {type(node).__name__} stand for a condition")
            case _:
                assert_never(node)

    def value(self, node: Expression) -> Value:
        match node:
            case Identifier(name):
                return _property(name)
            case Constant(constant):
                return lambda message: constant
            case Negation(operand):
                return _negative(self.value(operand))
            case Arithmetic(symbol, left, right):
                return self._arithmetic(symbol, self.value(left), self.value(right))
            case Comparison() | Between() | Membership() | Like() | IsNull() | Not() | And() | Or():
                return self.condition(node)
            case _:
                assert_never(node)

    def _comparison(self, symbol: str, left: Expression, right: Expression) -> Condition:
        if symbol == "<>":
            return _negated(self._comparison("=", left, right))
        if isinstance(left, Constant) and not isinstance(right, Constant):
            return self._comparison(_SWAPPED[symbol], right, left)
        if isinstance(right, Constant) and not self._convert:
            return _compared_with_constant(self.value(left), symbol, right.value)
        compare = _COMPARISONS[symbol]
        left_value, right_value = self.value(left), self.value(right)
        convert = self._convert

        # As in Artemis, an order evaluates its right side only if the left one has a value; "=" evaluates both. The
        # difference shows where the right side is arithmetic on something else than numbers.
        orders = symbol != "="

        def comparison(message: Message) -> bool | None:
            first = left_value(message)
            if first is None and orders:
                return None
            second = right_value(message)
            if first is None or second is None:
                return None
            if convert and first.__class__ is not second.__class__:
                first, second = _converted(first, second)
            return compare(first, second) if _alike(first, second) else False

        return comparison

    def _between(self, operand: Expression, low: Expression, high: Expression, *, negated: bool) -> Condition:
        value = self.value(operand)
        first = self._bound("<" if negated else ">=", low)
        second = self._bound(">" if negated else "<=", high)

        def between(message: Message) -> bool | None:
            # Evaluated once: nested in each other, they would double the work with each level.
            held = value(message)
            if held is None:
                return None
            answer = first(held, message)
            if answer is negated:
                return negated
            other = second(held, message)
            if other is negated:
                return negated
            return None if answer is None or other is None else not negated

        return between

    def _bound(self, symbol: str, bound: Expression) -> Callable[[object, Message], bool | None]:
        """Return the comparison of a value that is there with a bound of BETWEEN."""
        compare, value, convert = _COMPARISONS[symbol], self.value(bound), self._convert

        def compared(held: object, message: Message) -> bool | None:
            other = value(message)
            if other is None:
                return None
            if convert and held.__class__ is not other.__class__:
                held, other = _converted(held, other)
            return compare(held, other) if _alike(held, other) else False

        return compared

    def _arithmetic(self, symbol: str, left_value: Value, right_value: Value) -> Value:
        operation = OPERATIONS[symbol]
        appends = symbol == "+"
        number = self._number

        def arithmetic(message: Message) -> object:
            left = left_value(message)
            if left is None:
                return None
            right = right_value(message)
            if right is None:
                return None
            if appends and isinstance(left, str):
                text = text_of(right)
                if len(left) + len(text) > APPENDED_LENGTH_MAX:
                    raise TextTooLong(f"more than {APPENDED_LENGTH_MAX} characters are appended to each other")
                return left + text
            result = operation(number(left), number(right))
            return wrapped(result) if isinstance(result, int) else result

        return arithmetic

    def _number(self, value: object) -> int | float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if self._convert and isinstance(value, str):
            held = number_in(value, whole="." not in value)
            if held is not None:
                return held
        raise NotANumber(f"{value!r} is not a number")


def _every(conditions: Sequence[Condition]) -> Condition:
    if len(conditions) == 2:
        # The usual length, worth a closure without a loop.
        first, second = conditions

        def both(message: Message) -> bool | None:
            left = first(message)
            if left is False:
                return False
            right = second(message)
            return left if right is True else right

        return both

    def every(message: Message) -> bool | None:
        result: bool | None = True
        for condition in conditions:
            answer = condition(message)
            if answer is False:
                return False
            if answer is None:
                result = None
        return result

    return every


def _any(conditions: Sequence[Condition]) -> Condition:
    def any_of(message: Message) -> bool | None:
        result: bool | None = False
        for condition in conditions:
            answer = condition(message)
            if answer is True:
                return True
            if answer is None:
                result = None
        return result

    return any_of


def _negated(condition: Condition) -> Condition:
    def negated(message: Message) -> bool | None:
        answer = condition(message)
        return None if answer is None else not answer

    return negated


def _truth(value: Value) -> Condition:
    """Return the condition of an identifier where a truth value is needed: a value that is not a boolean is false."""

    def truth(message: Message) -> bool | None:
        held = value(message)
        return None if held is None else held is True

    return truth


def _membership(value: Value, choices: frozenset[str]) -> Condition:
    def membership(message: Message) -> bool | None:
        held = value(message)
        return held in choices if held.__class__ is str else None

    return membership


def _like(value: Value, matches: Callable[[str], bool]) -> Condition:
    def like(message: Message) -> bool | None:
        held = value(message)
        if held is None:
            return None
        return matches(held) if isinstance(held, str) else False

    return like


def _negative(value: Value) -> Value:
    def negative(message: Message) -> object:
        held = value(message)
        if isinstance(held, int) and not isinstance(held, bool):
            return wrapped(-held)
        return -held if isinstance(held, float) else None

    return negative


def _compared_with_constant(value: Value, symbol: str, constant: object) -> Condition:
    compare = _COMPARISONS[symbol]
    numeric = is_number(constant)

    if symbol == "=" and isinstance(constant, str):

        def equals_text(message: Message) -> bool | None:
            held = value(message)
            return None if held is None else held == constant

        return equals_text

    def compared(message: Message) -> bool | None:
        held = value(message)
        if held is None:
            return None
        kind = held.__class__
        if kind is constant.__class__ or (numeric and (kind is int or kind is float)):
            return compare(held, constant)
        return False

    return compared


def _converted(first: object, second: object) -> tuple[object, object]:
    """Convert the string of a pair to the other's type, if possible, under ``convert_string_expressions:``."""
    if isinstance(first, str):
        return read_as(first, second), second
    if isinstance(second, str):
        return first, read_as(second, first)
    return first, second
