"""Errors of the operating system that are temporary.

Responsible for distinguishing a shortage from a fault. Does not depend on the reaction to one.
"""

from __future__ import annotations

import errno

__all__ = ["caused_by_shortage", "lacks_room", "passes"]

# ESTALE: a file server was away, or replaced the file; the next look by name finds the current one.
_OF_A_NAME = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EINTR, errno.ESTALE}
)
_OF_A_DESCRIPTOR = _OF_A_NAME - {errno.ESTALE}
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def passes(error: OSError, *, of_descriptor: bool = False) -> bool:
    """Return True if the same call may succeed a moment later.

    ``of_descriptor``: the call was about an open file, which may differ from the file that has the name now.
    """
    return error.errno in (_OF_A_DESCRIPTOR if of_descriptor else _OF_A_NAME)


def caused_by_shortage(error: BaseException | None) -> bool:
    """Return True if the cause of an error about an unavailable resource is temporary."""
    while error is not None:
        if isinstance(error, OSError) and passes(error):
            return True
        error = error.__cause__
    return False


def lacks_room(error: OSError) -> bool:
    """Return True if the file system is full, or this user's part of it."""
    return error.errno in _NO_ROOM
