"""The one text for a directory that cannot be made, opened or locked. Does not depend on the purpose of opening it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

__all__ = ["unusable"]


def unusable(directory: Path, error: OSError) -> str:
    """Return the text on a directory, with the operating system's reason.

    Args:
        directory: The directory that was opened.
        error: The error of the operating system. If it is about a file elsewhere, such as a directory of large
            messages, the text has that name.
    """
    shown = directory
    if isinstance(error.filename, str):
        place = Path(error.filename)
        if not (place.is_relative_to(directory) or directory.is_relative_to(place)):
            shown = place
    # To make a directory in the place of a file fails because a name exists.
    reason = os.strerror(errno.ENOTDIR) if error.errno == errno.EEXIST else error.strerror or str(error)
    return f"cannot open directory {shown}: {reason}"
