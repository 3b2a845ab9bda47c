"""Durable writes to a disk: contents of files, and names in folders.

Responsible for both being there after a power failure. Does not depend on what is written.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_file", "sync_folder"]


def sync_file(path: str | Path) -> None:
    """Make the content of a file durable, whichever process wrote it."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: str | Path) -> None:
    """Make the names in a folder durable: otherwise a power failure may undo a creation, a renaming or a removal."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str | Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
