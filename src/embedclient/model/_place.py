"""The line of the program that opened something, for the warning about what it did not close.

Does not depend on what is opened.
"""

from __future__ import annotations

import sys
import warnings

from attrs import frozen

_PACKAGES = ("embedclient", "embedbroker")


@frozen
class Place:
    """A line of the program."""

    file: str
    line: int

    @classmethod
    def of_caller(cls) -> Place:
        """Return the innermost line outside these packages that led to this call."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno)

    def warn(self, what: str, source: object = None) -> None:
        """Warn that the program did not close something that it opened here."""
        text = f"{what} was not closed, and is ended: use a with block, or call close()"
        warnings.warn_explicit(f"{text} (opened in {self})", ResourceWarning, self.file, self.line, source=source)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class WarnsWhenDeleted:
    """A warning that is given by the deletion of this object.

    If the program turns warnings into errors, Python reports the error of a deletion, and it ends no event loop.
    """

    def __init__(self, place: Place, what: str) -> None:
        self._place = place
        self._what = what

    def __del__(self) -> None:
        self._place.warn(self._what)
