"""Stdout and stderr of a command: characters that cannot be encoded, and streams without a reader.

Does not depend on what is written.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, Any

__all__ = ["shut_off", "write_whatever_comes"]


def write_whatever_comes() -> None:
    """Write a character that stdout's encoding does not have as its escape, as stderr does by itself."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def shut_off(stream: IO[Any] | None) -> None:
    """Redirect a stream to nowhere after its reader has gone or its disk is full.

    Python keeps what it could not write, and tries once more when the process ends. That must not fail, too.
    """
    if stream is None:
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
