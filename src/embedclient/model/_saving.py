"""A file that gets the content of a message: whole under its name, or not at all.

The one module of this package that uses files. Responsible for the file only; the caller decides in which thread.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Protocol, TypeAlias

__all__ = ["SaveTarget", "TargetFile"]


class Writable(Protocol):
    """An object to which the content is written, such as a file opened in the mode `wb`."""

    def write(self, data: bytes, /) -> object:
        """Write all of the data."""


SaveTarget: TypeAlias = str | os.PathLike[str] | Writable
"""A path, or an object with `write`, such as a file opened in the mode `wb`."""


class TargetFile:
    """The place of the content: `write` it in pieces, then call `finish`, or `discard` in case of an error.

    A path gets the file with `finish`, and keeps what it had before until then. Objects with `write` stay open.
    """

    def __init__(self, target: SaveTarget) -> None:
        self._path: Path | None = None
        self._file: IO[bytes] | None = None
        self._target: Writable | None = None
        if isinstance(target, str | os.PathLike):
            self._path = Path(target)
        elif hasattr(target, "write"):
            self._target = target
        else:
            raise TypeError(f"a body is saved to a path or to an object with write(), not to {target!r}")

    @property
    def _unfinished(self) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.part")

    def write(self, data: bytes) -> None:
        """Write a piece. Raise OSError."""
        if self._target is not None:
            self._target.write(data)
            return
        if self._file is None:
            self._file = self._unfinished.open("wb")
        self._file.write(data)

    def finish(self) -> None:
        """Give the file its name. Raise OSError."""
        if self._path is None:
            return
        self.write(b"")
        assert self._file is not None
        self._file.close()
        os.replace(self._unfinished, self._path)

    def discard(self) -> None:
        """Remove the unfinished file."""
        if self._file is not None:
            self._file.close()
            self._unfinished.unlink(missing_ok=True)
