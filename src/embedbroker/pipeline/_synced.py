"""What is on a disk for good: contents of files, and names in folders.

Responsible for both being there after a power failure. Refuses to know what is written.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_file", "sync_folder"]


def sync_file(path: str | Path) -> None:
    """Its content, whoever wrote it."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: str | Path) -> None:
    """The names in it: without that a file that was made, renamed or removed may not be so after a power failure."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str | Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
