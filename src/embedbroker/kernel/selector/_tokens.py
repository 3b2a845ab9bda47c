"""The tokens of a selector.

Responsible for words, literals, comments and the values literals stand for. Does not depend on the grouping of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

from attrs import define, frozen

from ._errors import InvalidSelector

__all__ = ["Token", "tokenize"]

_KEYWORDS: Final = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL", "XPATH", "XQUERY"]
)
_IDENTIFIER_END: Final = r"(?![\w$])"
_PATTERNS: Final = r"""
    (?P<space>[ \t\n\r\f]+)
  | (?P<float>(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?:[fFdD]{end})?)
  | (?P<hex>0[xX][0-9a-fA-F]+(?:[lL]{end})?)
  | (?P<octal>0[0-7]*(?:[lL]{end})?)
  | (?P<decimal>[1-9][0-9]*(?:[lL]{end})?)
  | (?P<string>'(?:''|[^'])*')
  | (?P<quoted>"(?:""|[^"])*")
  | (?P<word>(?:[^\W\d]|\$)[\w${hyphen}]*)
  | (?P<symbol><>|>=|<=|[=<>+\-*/%(),])
"""


@cache
def _scanner(hyphenated: bool) -> re.Pattern[str]:
    # Compiled on first use: it costs more than the rest of importing this package.
    return re.compile(_PATTERNS.format(end=_IDENTIFIER_END, hyphen=r"\-" if hyphenated else ""), re.VERBOSE | re.DOTALL)


@frozen
class Token:
    """Hold one token.

    ``kind`` is ``constant``, ``string``, ``identifier``, ``end``, or the keyword or symbol itself.
    """

    kind: str
    value: str | int | float | bool | None
    position: int


_LINE_END: Final = re.compile(r"[\n\r]")
_LONG_MAX: Final = 2**63 - 1


def _integer(text: str, base: int) -> int | float:
    digits = text.rstrip("lL")
    if base == 8:
        digits = digits.lstrip("0") or "0"
    if base == 10 and len(digits) > 18:
        # Beyond 64 bits Artemis keeps a decimal number; a double compares the same but for the last digits. 2**63
        # itself stays exact because -9223372036854775808 is a legal long.
        return float(digits) if float(digits) > _LONG_MAX + 1 else int(digits)
    if len(digits) > 24:
        raise ValueError("the number does not fit 64 bits")
    value = int(digits, base)
    if value > _LONG_MAX and base != 10:
        raise ValueError("the number does not fit 64 bits")
    return value


_CONSTANTS: Final[dict[str, Callable[[str], int | float]]] = {
    "float": lambda text: float(text.rstrip("fFdD")),
    "hex": lambda text: _integer(text, 16),
    "octal": lambda text: _integer(text, 8),
    "decimal": lambda text: _integer(text, 10),
}


def tokenize(text: str, start: int, *, hyphenated: bool) -> list[Token]:
    """Return all tokens from ``start`` on, the last of kind ``end``. ``hyphenated`` lets identifiers contain hyphens.

    Raises:
        InvalidSelector: a character, quote or number that does not belong to the language.
    """
    scanner = _scanner(hyphenated)
    comments = _Comments(text)
    tokens: list[Token] = []
    position = start
    while position < len(text):
        match = scanner.match(text, position)
        if match is None:
            character = text[position]
            reason = f"the quote {character} is never closed" if character in "'\"" else f"unexpected {character!r}"
            raise InvalidSelector(text, position, reason)
        kind, lexeme = match.lastgroup, match.group()
        end = comments.end_at(position) if lexeme in ("-", "/") else None
        if end is None:
            end = match.end()
            if kind != "space":
                assert kind is not None
                tokens.append(_token(kind, lexeme, text, position))
        position = end
    tokens.append(Token("end", None, len(text)))
    return tokens


def _token(kind: str, lexeme: str, text: str, position: int) -> Token:
    match kind:
        case "word":
            upper = lexeme.upper()
            return Token(upper, None, position) if upper in _KEYWORDS else Token("identifier", lexeme, position)
        case "string":
            return Token("string", lexeme[1:-1].replace("''", "'"), position)
        case "quoted":
            return Token("identifier", lexeme[1:-1].replace('""', '"'), position)
        case "symbol":
            return Token(lexeme, None, position)
        case _:
            try:
                return Token("constant", _CONSTANTS[kind](lexeme), position)
            except ValueError as error:
                raise InvalidSelector(text, position, str(error)) from None


@define(eq=False)
class _Comments:
    """Find the ends of comments. An unclosed opener is not a comment, and is looked for once only.

    Without the second rule a text of nothing but comment openers costs the square of its length.
    """

    text: str
    line_ends: bool = True
    block_ends: bool = True

    def end_at(self, position: int) -> int | None:
        """Return where the comment that begins here ends, ``None`` if none begins here."""
        opener = self.text[position : position + 2]
        if opener == "--" and self.line_ends:
            found = _LINE_END.search(self.text, position)
            self.line_ends = found is not None
            return found.end() if found else None
        if opener == "/*" and self.block_ends:
            close = self.text.find("*/", position + 2)
            self.block_ends = close >= 0
            return close + 2 if self.block_ends else None
        return None
