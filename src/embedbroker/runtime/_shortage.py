"""What the operating system refuses for a moment only: which errors pass.

Responsible for telling a shortage from a fault. Refuses to know what is done about one.
"""

from __future__ import annotations

import errno

__all__ = ["caused_by_shortage", "lacks_room", "passes"]

# ESTALE: a server of files was away, or replaced the file; the next look by name finds what is there now.
_OF_A_NAME = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EINTR, errno.ESTALE}
)
_OF_A_DESCRIPTOR = _OF_A_NAME - {errno.ESTALE}
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def passes(error: OSError, *, of_descriptor: bool = False) -> bool:
    """Whether the same call may succeed a moment later. ``of_descriptor``: it was about a file that is open, which may
    be another one than the name means now."""
    return error.errno in (_OF_A_DESCRIPTOR if of_descriptor else _OF_A_NAME)


def caused_by_shortage(error: BaseException | None) -> bool:
    """Whether an error that says what could not be had comes from something that passes."""
    while error is not None:
        if isinstance(error, OSError) and passes(error):
            return True
        error = error.__cause__
    return False


def lacks_room(error: OSError) -> bool:
    """Whether the file system is full, or this user's part of it."""
    return error.errno in _NO_ROOM
