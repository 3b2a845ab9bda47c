"""The tree of a selector: one frozen class per construct.

Responsible only for the shapes that grammar and evaluation share.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

__all__ = [
    "And",
    "Arithmetic",
    "Between",
    "Comparison",
    "Constant",
    "Expression",
    "Identifier",
    "IsNull",
    "Like",
    "Membership",
    "Negation",
    "Not",
    "Or",
]

# Nodes of the tree. ``Constant``, ``Identifier``, ``Negation`` and ``Arithmetic`` are values, the others conditions.


@frozen
class Constant:
    value: str | int | float | bool | None


@frozen
class Identifier:
    name: str


@frozen
class Negation:
    operand: Expression


@frozen
class Arithmetic:
    operator: str
    left: Expression
    right: Expression


@frozen
class Comparison:
    operator: str
    left: Expression
    right: Expression


@frozen
class Between:
    """Two comparisons with one left side, which is evaluated once; NOT BETWEEN is one of their opposites, or both."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool


@frozen
class Membership:
    identifier: Identifier
    choices: tuple[str, ...]


@frozen
class Like:
    operand: Expression
    pattern: str
    escape: str | None


@frozen
class IsNull:
    operand: Expression


@frozen
class Not:
    operand: Expression


@frozen
class And:
    operands: tuple[Expression, ...]


@frozen
class Or:
    operands: tuple[Expression, ...]


Expression: TypeAlias = (
    Constant | Identifier | Negation | Arithmetic | Comparison | Between | Membership | Like | IsNull | Not | And | Or
)
