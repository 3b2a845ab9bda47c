"""The directory of another kind of broker: Apache Artemis, whose journal is not read.

Responsible for telling such a directory from a new one: a broker would begin there, without the messages. Does not
depend on the content of the files.
"""

from __future__ import annotations

import errno
from pathlib import Path

__all__ = ["check_no_artemis_journal"]

# The directory of the files itself, or one above it: that of all data, or that of the whole instance.
_FILES = tuple(
    f"{above}{replaced}{file}"
    for own, file in (("journal", "activemq-data-*.amq"), ("bindings", "activemq-bindings-*.bindings"))
    for above in ("", f"{own}/", f"data/{own}/")
    # Artemis moves what a copy of another broker replaces, and may leave nothing else.
    for replaced in ("", "oldreplica.*/")
)
_OWN_FILES = "*.journal"


def check_no_artemis_journal(directory: Path) -> None:
    """Check that a directory is not that of an Artemis broker. One that has a journal of ours, too, is allowed.

    Raises:
        OSError: it is, or it cannot be read.
    """
    if not any(_has(directory, pattern) for pattern in _FILES) or _has(directory, _OWN_FILES):
        return
    raise OSError(
        errno.EINVAL,
        "it holds the journal of an Apache Artemis broker, which cannot be read: choose another directory, and let a "
        "bridge move the messages",
        str(directory),
    )


def _has(directory: Path, pattern: str) -> bool:
    return next(directory.glob(pattern), None) is not None
