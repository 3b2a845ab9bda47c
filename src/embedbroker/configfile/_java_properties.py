"""Files in the syntax of Java properties, such as ``artemis-users.properties``.

Responsible for comments, separators, continued lines and escapes, and for files that are changed in place. As in Java
the encoding is ISO 8859-1, and of a repeated key the last value counts. Does not depend on the meaning of keys.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from attrs import define, field

__all__ = ["PropertiesFile", "parse_properties", "read_properties"]

_logger = logging.getLogger("embedbroker.configfile")
FILE_BYTES_MAX = 16 * 1024 * 1024
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {char: name for name, char in _ESCAPES.items()}
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
    return parse_properties(_text_of(path))


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a text."""
    found: dict[str, str] = {}
    for part in _parts(text):
        if part.key is not None:
            found[part.key] = part.value
    return found


class PropertiesFile:
    """Change properties of a file in place: its other lines stay as they are, with comments and order.

    Args:
        path: Path of the file. A symbolic link stays one.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is too long.
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(os.path.realpath(path))
        text = _text_of(self._path)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._parts = list(_parts(text))

    @property
    def values(self) -> dict[str, str]:
        """Return the properties."""
        return {part.key: part.value for part in self._parts if part.key is not None}

    def set(self, key: str, value: str) -> None:
        """Set a property: at its place, or behind all others if it is new."""
        line = f"{_escaped(key, is_key=True)} = {_escaped(value, is_key=False)}"
        places = [place for place, part in enumerate(self._parts) if part.key == key]
        if places:
            for place in reversed(places[:-1]):
                del self._parts[place]
            self._parts[places[-1] - len(places) + 1] = _Part([line], key, value)
        else:
            while self._parts and self._parts[-1].lines == [""]:
                self._parts.pop()
            self._parts += [_Part([line], key, value), _Part([""])]

    def remove(self, key: str) -> None:
        """Remove a property; comments before it stay."""
        self._parts = [part for part in self._parts if part.key != key]

    def check_length(self) -> None:
        """Check that the changed text can be read again.

        Raises:
            ValueError: It is too long.
        """
        self._encoded()

    def write(self) -> None:
        """Replace the file by its changed text: a reader, or a crash, finds the old one or the new one.

        Raises:
            OSError: The file cannot be written, and is as it was.
            ValueError: The changed text is too long to be read again, and the file is as it was.
        """
        _replace(self._path, self._encoded())

    def _encoded(self) -> bytes:
        data = self._line_end.join(line for part in self._parts for line in part.lines).encode("iso-8859-1")
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(
                f"{self._path} would have {len(data)} bytes, more than {FILE_BYTES_MAX}; remove entries first"
            )
        return data


def _replace(path: Path, data: bytes) -> None:
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            known = path.stat()
            os.fchmod(file.fileno(), known.st_mode & 0o7777)
            if os.geteuid() == 0:
                os.fchown(file.fileno(), known.st_uid, known.st_gid)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:  # any exception: a file with passwords must not be left
        Path(name).unlink(missing_ok=True)
        raise
    try:
        _sync_folder(path.parent)
    except OSError as error:
        # The new file is in its place. An error here would let the caller take it for the old one.
        _logger.warning("%s is written, but may be lost in a crash of the machine: %s", path, error.strerror or error)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"longer than {FILE_BYTES_MAX} bytes")
    return data.decode("iso-8859-1")


@define
class _Part:
    """Lines of a file: those of one property, or one blank line or comment, which has no key."""

    lines: list[str]
    key: str | None = None
    value: str = field(default="", repr=False)


def _parts(text: str) -> Iterator[_Part]:
    """Return the parts of a text in order. Lines that are continued belong to one property."""
    lines: list[str] = []
    begun: list[str] = []
    for line in re.split(r"\r\n|\r|\n", text):
        rest = line.lstrip(_BLANKS)
        if not lines and (not rest or rest[0] in "#!"):
            yield _Part([line])
            continue
        lines.append(line)
        backslashes = len(rest) - len(rest.rstrip("\\"))
        if backslashes % 2:
            begun.append(rest[:-1])
            continue
        yield _property(lines, "".join(begun) + rest)
        lines, begun = [], []
    if lines:
        # Ended, so that a line behind it does not continue it.
        yield _property([*lines, ""], "".join(begun))


def _property(lines: list[str], joined: str) -> _Part:
    key = _KEY.match(joined)
    assert key is not None, "a key may be empty"
    separator = _SEPARATOR.match(joined, key.end())
    assert separator is not None, "a separator may be empty"
    return _Part(lines, _unescaped(key[0]), _unescaped(joined[separator.end() :]))


def _escaped(text: str, *, is_key: bool) -> str:
    """Return a key or value as Java reads it back."""
    found = []
    for index, char in enumerate(text):
        if char in _NAMES:
            found.append("\\" + _NAMES[char])
        elif char == "\\" or (is_key and char in "=:#! ") or (char == " " and not index):
            found.append("\\" + char)
        elif " " <= char <= "~":
            found.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            found += [f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2)]
    return "".join(found)


def _unescaped(text: str) -> str:
    def replaced(escape: re.Match[str]) -> str:
        name = escape[1]
        return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPES.get(name, name)

    # Java writes characters beyond the basic plane as pairs.
    joined = _ESCAPE.sub(replaced, text)
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
