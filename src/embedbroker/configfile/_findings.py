"""Findings in a file: errors, which refuse it, and warnings, with which it loads.

Responsible for reporting all of them at once, each line with file and path. Several places with the same name and text
become one warning. Also remembers which files were read, and in which state. Does not depend on what is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from attrs import define, field

from ._stamp import UNREAD, Stamp, stamp_of

__all__ = ["ConfigFileError", "Findings", "SourcePosition"]


class ConfigFileError(ValueError):
    """Report that a configuration file is wrong.

    ``problems`` are its errors, one line each, which name file and path.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SourcePosition(Protocol):
    """Describe where something was found. ``path`` is the same for all elements of one name in one position."""

    @property
    def path(self) -> str: ...

    @property
    def place(self) -> str: ...


@define(eq=False)
class Findings:
    """Collect errors and warnings in the order in which they were found, each once."""

    errors: dict[str, None] = field(factory=dict)
    #: State of each file before it was read. One that could not be read for a reason that may pass is `UNREAD`.
    files: dict[Path, Stamp] = field(factory=dict)
    _warned: dict[tuple[str, str], list[str]] = field(init=False, factory=dict)

    def refuse(self, place: str, text: str) -> None:
        """Add an error, which keeps the file from being loaded."""
        self.errors[f"{place}: {text}"] = None

    def warn(self, place: str, text: str) -> None:
        """Add a warning about a request of the file that has no effect."""
        self._warned.setdefault((place, text), []).append(place)

    def warn_of(self, element: SourcePosition, text: str, *, attribute: str | None = None) -> None:
        """Like `warn`, for an element or its attribute; several of one name and text become one warning."""
        below = "" if attribute is None else f"/@{attribute}"
        self._warned.setdefault((element.path + below, text), []).append(element.place + below)

    @contextmanager
    def reading(self, path: Path) -> Iterator[None]:
        """Remember the state of a file that is read in the block."""
        self.files.setdefault(path, stamp_of(path))
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError:
            self.files[path] = UNREAD
            raise

    @property
    def warnings(self) -> list[str]:
        """Return the warnings, one line each."""
        lines = []
        for (_, text), places in self._warned.items():
            others = f" (and in {len(places) - 1} more)" if len(places) > 1 else ""
            lines.append(f"{places[0]}{others}: {text}")
        return lines

    def raise_if_wrong(self) -> None:
        """Raise the errors, if there are any.

        Raises:
            ConfigFileError: There are errors.
        """
        if self.errors:
            raise ConfigFileError(tuple(self.errors))
