"""The tree of a selector: one frozen class per construct.

Responsible only for the shapes that grammar and evaluation share.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

__all__ = [
    "And",
    "Arithmetic",
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
# BETWEEN has no node: the specification defines it, and NOT BETWEEN, as two comparisons.


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
    Constant | Identifier | Negation | Arithmetic | Comparison | Membership | Like | IsNull | Not | And | Or
)
