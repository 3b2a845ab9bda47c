"""The grammar of selectors: from text to an expression tree.

Responsible for the grouping of Jakarta Messaging 3.1 section 3.8.1 (a subset of SQL-92 conditions). Also responsible
for the operands that each operator allows, and for the four prefixes of Artemis. Does not depend on the meaning of an
identifier and on evaluation.

The parser climbs operator precedences, so that one level of brackets costs two Python frames, and the depth of the tree
is limited. A hostile text ends in ``InvalidSelector``, never in a recursion error, neither here nor in the evaluation.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import define, frozen

from ._errors import InvalidSelector
from ._like import SEARCHED_LENGTH_MAX, searched_length
from ._tokens import Token, tokenize
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

__all__ = ["ParsedSelector", "parse"]

LENGTH_MAX: Final = 262_144
"""Characters in one selector text."""
DEPTH_MAX: Final = 150
"""Levels of brackets and levels of the tree. Chains of AND and of OR are one level, however long."""
LIKE_PATTERN_LENGTH_MAX: Final = 4096
"""Characters in one pattern."""


@frozen
class ParsedSelector:
    """Hold a selector's condition and the one prefix that changes its meaning."""

    condition: Expression
    convert_strings: bool


_PREFIXES: Final = {
    "convert_string_expressions:": ("convert_strings", True),
    "no_convert_string_expressions:": ("convert_strings", False),
    "hyphenated_props:": ("hyphenated", True),
    "no_hyphenated_props:": ("hyphenated", False),
}

# Binding powers, weakest first. NOT is a prefix between AND and the comparisons.
_OR, _AND, _NOT, _EQUALITY, _ORDER, _SUM, _PRODUCT, _SIGN = range(1, 9)
_POWERS: Final = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(["=", "<>", "IS"], _EQUALITY),
    **dict.fromkeys([">", ">=", "<", "<=", "LIKE", "BETWEEN", "IN", "NOT"], _ORDER),
    **dict.fromkeys(["+", "-"], _SUM),
    **dict.fromkeys(["*", "/", "%"], _PRODUCT),
}
_CONDITIONS: Final = (Comparison, Between, Membership, Like, IsNull, Not, And, Or)


def _is_condition(node: Expression) -> bool:
    return isinstance(node, _CONDITIONS) or (isinstance(node, Constant) and isinstance(node.value, bool | None))


_Parsed: TypeAlias = tuple[Expression, int]
"""A node and how many levels it has."""


@define(eq=False)
class _Parser:
    """Parse the tokens of one text in one pass."""

    text: str
    tokens: list[Token]
    index: int = 0
    brackets: int = 0
    searched: int = 0

    def condition(self) -> Expression:
        """Return the whole text as one condition."""
        parsed = self._expression(_OR)
        self._expect("end")
        node, _ = self._as_condition(parsed, self.tokens[0])
        return node

    def _unexpected(self, token: Token) -> InvalidSelector:
        if token.kind == "end":
            return self._invalid(token, "the selector ends too early")
        if token.kind in ("XPATH", "XQUERY"):
            return self._invalid(token, f"{token.kind} is not part of the selector language")
        if token.kind == "=" and self.text[: token.position].endswith("="):
            return self._invalid(token, "'==' is not part of the selector language: write '='")
        found = repr(token.value) if token.value is not None else token.kind
        return self._invalid(token, f"unexpected {found}")

    def _invalid(self, token: Token, reason: str) -> InvalidSelector:
        return InvalidSelector(self.text, token.position, reason)

    def _next(self) -> Token:
        token = self.tokens[self.index]
        self.index += 1
        return token

    def _expect(self, kind: str) -> Token:
        token = self._next()
        if token.kind != kind:
            raise self._unexpected(token)
        return token

    def _string(self) -> str:
        value = self._expect("string").value
        assert isinstance(value, str)
        return value

    def _expression(self, power_min: int) -> _Parsed:
        self.brackets += 1
        token = self.tokens[self.index]
        if self.brackets > DEPTH_MAX:
            raise self._invalid(token, f"nested deeper than {DEPTH_MAX} levels")
        parsed = self._operand(power_min)
        while True:
            operator = self.tokens[self.index]
            power = _POWERS.get(operator.kind, 0)
            if power < power_min:
                break
            self.index += 1
            parsed = self._infix(operator, power, parsed, token)
            if parsed[1] > DEPTH_MAX:
                raise self._invalid(operator, f"nested deeper than {DEPTH_MAX} levels")
        self.brackets -= 1
        return parsed

    def _operand(self, power_min: int) -> _Parsed:
        token = self._next()
        match token.kind:
            case "constant" | "string":
                return Constant(token.value), 1
            case "identifier":
                return Identifier(str(token.value)), 1
            case "TRUE":
                return Constant(True), 1
            case "FALSE":
                return Constant(False), 1
            case "NULL":
                return Constant(None), 1
            case "(":
                parsed = self._expression(_OR)
                self._expect(")")
                return parsed
            case "+":
                return self._expression(_SIGN)
            case "-":
                node, depth = self._expression(_SIGN)
                if isinstance(node, Constant) and type(node.value) in (int, float):
                    assert isinstance(node.value, int | float)
                    return Constant(-node.value), depth
                return Negation(node), depth + 1
            case "NOT":
                # Where a condition may stand NOT takes the whole comparison that follows; inside a comparison it takes
                # the next value.
                operand_token = self.tokens[self.index]
                operand = self._expression(_NOT if power_min <= _NOT else _SIGN)
                node, depth = self._as_condition(operand, operand_token)
                return Not(node), depth + 1
            case _:
                raise self._unexpected(token)

    def _infix(self, operator: Token, power: int, left: _Parsed, left_token: Token) -> _Parsed:
        match operator.kind:
            case "OR" | "AND":
                return self._logic(operator.kind, power, left, left_token)
            case "IS":
                return self._is_null(left)
            case "LIKE" | "BETWEEN" | "IN":
                return self._predicate(operator, left, left_token, negated=False)
            case "NOT":
                return self._predicate(self._next(), left, left_token, negated=True)
            case _:
                right_token = self.tokens[self.index]
                right, right_depth = self._expression(power + 1)
                depth = max(left[1], right_depth) + 1
                if power >= _SUM:
                    return Arithmetic(operator.kind, left[0], right), depth
                self._check_comparable(operator, left[0], left_token)
                self._check_comparable(operator, right, right_token)
                return Comparison(operator.kind, left[0], right), depth

    def _logic(self, kind: str, power: int, left: _Parsed, left_token: Token) -> _Parsed:
        node_type: type[And] | type[Or] = And if kind == "AND" else Or
        node, depth = self._as_condition(left, left_token)
        operands: list[Expression] = list(node.operands) if isinstance(node, node_type) else [node]
        depth = depth - 1 if isinstance(node, node_type) else depth
        while True:
            token = self.tokens[self.index]
            operand, operand_depth = self._as_condition(self._expression(power + 1), token)
            operands.append(operand)
            depth = max(depth, operand_depth)
            if self.tokens[self.index].kind != kind:
                return node_type(tuple(operands)), depth + 1
            self.index += 1

    def _is_null(self, left: _Parsed) -> _Parsed:
        node, depth = left
        negated = self.tokens[self.index].kind == "NOT"
        if negated:
            self.index += 1
        self._expect("NULL")
        return (Not(IsNull(node)), depth + 2) if negated else (IsNull(node), depth + 1)

    def _predicate(self, operator: Token, left: _Parsed, left_token: Token, *, negated: bool) -> _Parsed:
        """Parse what may follow NOT: LIKE, IN and BETWEEN."""
        node: Expression
        match operator.kind:
            case "LIKE":
                node = self._like(left[0])
            case "IN":
                node = self._membership(left[0], left_token)
            case "BETWEEN":
                return self._between(operator, left, left_token, negated=negated)
            case _:
                raise self._unexpected(operator)
        return (Not(node) if negated else node), left[1] + 2

    def _between(self, operator: Token, left: _Parsed, left_token: Token, *, negated: bool) -> _Parsed:
        low_token = self.tokens[self.index]
        low, low_depth = self._expression(_SUM)
        self._expect("AND")
        high_token = self.tokens[self.index]
        high, high_depth = self._expression(_SUM)
        for bound, token in ((left[0], left_token), (low, low_token), (high, high_token)):
            self._check_comparable(operator, bound, token)
        return Between(left[0], low, high, negated), max(left[1], low_depth, high_depth) + 2

    def _like(self, node: Expression) -> Expression:
        pattern_token = self.tokens[self.index]
        pattern = self._string()
        if len(pattern) > LIKE_PATTERN_LENGTH_MAX:
            raise self._invalid(pattern_token, f"the pattern is longer than {LIKE_PATTERN_LENGTH_MAX} characters")
        escape = None
        if self.tokens[self.index].kind == "ESCAPE":
            self.index += 1
            token = self.tokens[self.index]
            escape = self._string()
            if len(escape) != 1:
                raise self._invalid(token, "ESCAPE takes exactly one character")
        self.searched += searched_length(pattern, escape)
        if self.searched > SEARCHED_LENGTH_MAX:
            reason = f"between two %, with _ among them, are more than {SEARCHED_LENGTH_MAX} characters in all"
            raise self._invalid(pattern_token, reason)
        return Like(node, pattern, escape)

    def _membership(self, node: Expression, token: Token) -> Expression:
        if not isinstance(node, Identifier):
            raise self._invalid(token, "IN takes an identifier on its left")
        self._expect("(")
        choices = [self._string()]
        while self.tokens[self.index].kind == ",":
            self.index += 1
            choices.append(self._string())
        self._expect(")")
        return Membership(node, tuple(choices))

    def _as_condition(self, parsed: _Parsed, token: Token) -> _Parsed:
        """Require a truth value: only conditions and identifiers (which may hold booleans) are allowed."""
        if _is_condition(parsed[0]) or isinstance(parsed[0], Identifier):
            return parsed
        raise self._invalid(token, "this value is not a condition")

    def _check_comparable(self, operator: Token, node: Expression, token: Token) -> None:
        if isinstance(node, Constant) and node.value is None:
            raise self._invalid(token, f"NULL cannot be compared with {operator.kind}; use IS NULL")
        if operator.kind in ("=", "<>"):
            return
        if _is_condition(node) or (isinstance(node, Constant) and isinstance(node.value, str)):
            raise self._invalid(token, f"{operator.kind} compares numbers only")


def parse(text: str) -> ParsedSelector:
    """Return the tree of one selector text.

    Raises:
        InvalidSelector: the text is not a selector.
    """
    if len(text) > LENGTH_MAX:
        raise InvalidSelector(text, LENGTH_MAX, f"longer than {LENGTH_MAX} characters")
    flags = {"convert_strings": False, "hyphenated": False}
    start = len(text) - len(text.lstrip())
    while prefix := next((name for name in _PREFIXES if text.startswith(name, start)), None):
        flag, value = _PREFIXES[prefix]
        flags[flag] = value
        start += len(prefix)
    tokens = tokenize(text, start, hyphenated=flags["hyphenated"])
    if len(tokens) == 1:
        raise InvalidSelector(text, start, "there is no condition")
    return ParsedSelector(_Parser(text, tokens).condition(), flags["convert_strings"])
