"""The state of a file by which a change is noticed: modification time, size and the file itself."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

__all__ = ["UNREAD", "Stamp", "stamp_of"]

#: None: there is no such file, or it cannot be looked at.
Stamp: TypeAlias = tuple[int, int, int] | None
#: Differs from each state of a file.
UNREAD: Stamp = (-1, -1, -1)


def stamp_of(path: Path) -> Stamp:
    """Return the present state of a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
