"""What was found in a file: errors, which refuse it, and warnings, with which it loads.

Responsible for saying everything at once, each line with file and path, and for one warning where the same name says
the same in several places. Refuses to know what is right.
"""

from __future__ import annotations

from typing import Protocol

from attrs import define, field

__all__ = ["ConfigFileError", "Findings", "SourcePosition"]


class ConfigFileError(ValueError):
    """A configuration file is wrong. ``problems`` are its errors, one line each, which name file and path."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SourcePosition(Protocol):
    """Where something was found. ``path`` is the same for all elements of one name in one position."""

    @property
    def path(self) -> str: ...

    @property
    def place(self) -> str: ...


@define(eq=False)
class Findings:
    """Errors and warnings in the order in which they were found, each once."""

    errors: dict[str, None] = field(factory=dict)
    _warned: dict[tuple[str, str], list[str]] = field(init=False, factory=dict)

    def refuse(self, place: str, text: str) -> None:
        """Note what keeps the file from being loaded."""
        self.errors[f"{place}: {text}"] = None

    def warn(self, place: str, text: str) -> None:
        """Note what the file asks for and does not get."""
        self._warned.setdefault((place, text), []).append(place)

    def warn_of(self, element: SourcePosition, text: str, *, attribute: str | None = None) -> None:
        """The same of an element, or of its attribute; several of one name and text become one warning."""
        below = "" if attribute is None else f"/@{attribute}"
        self._warned.setdefault((element.path + below, text), []).append(element.place + below)

    @property
    def warnings(self) -> list[str]:
        """One line each."""
        lines = []
        for (_, text), places in self._warned.items():
            others = f" (and in {len(places) - 1} more)" if len(places) > 1 else ""
            lines.append(f"{places[0]}{others}: {text}")
        return lines

    def raise_if_wrong(self) -> None:
        """Raises ConfigFileError: there are errors."""
        if self.errors:
            raise ConfigFileError(tuple(self.errors))
