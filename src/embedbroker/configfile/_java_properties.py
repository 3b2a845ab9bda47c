"""Files in the syntax of Java properties, such as ``artemis-users.properties``.

Responsible for comments, separators, continued lines and escapes. As in Java the encoding is ISO 8859-1, and of a
repeated key the last value counts. Does not depend on the meaning of keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["parse_properties", "read_properties"]

FILE_BYTES_MAX = 16 * 1024 * 1024
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
# The key ends before the first separator that is not escaped.
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is too long.
    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"longer than {FILE_BYTES_MAX} bytes")
    return parse_properties(data.decode("iso-8859-1"))


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a text."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, "a key may be empty"
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None, "a separator may be empty"
        found[_unescaped(key[0])] = _unescaped(line[separator.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Return the lines that hold a property, joined where they are continued."""
    begun: list[str] = []
    for line in re.split(r"\r\n|\r|\n", text):
        rest = line.lstrip(_BLANKS)
        if not begun and (not rest or rest[0] in "#!"):
            continue
        backslashes = len(rest) - len(rest.rstrip("\\"))
        if backslashes % 2:
            begun.append(rest[:-1])
            continue
        yield "".join(begun) + rest
        begun.clear()
    if begun:
        yield "".join(begun)


def _unescaped(text: str) -> str:
    def replaced(escape: re.Match[str]) -> str:
        name = escape[1]
        return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPES.get(name, name)

    # Java writes characters beyond the basic plane as pairs.
    joined = _ESCAPE.sub(replaced, text)
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
