"""Stdout and stderr of a command: what cannot be written as it is, and what nobody reads.

Refuses to know what is written.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, Any

__all__ = ["shut_off", "write_whatever_comes"]


def write_whatever_comes() -> None:
    """A character that stdout's encoding does not have is written as its escape, as stderr does by itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def shut_off(stream: IO[Any] | None) -> None:
    """Whoever read it is gone, or its disk is full. Python keeps what it could not write, and tries once more when the
    process ends: that must not fail, too.
    """
    if stream is None:
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
