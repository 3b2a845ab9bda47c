"""The directory of large messages, where it is another one than that of the journal.

Responsible for finding out that it is the one that the journal refers to. A file system that is not mounted, or the
directory of another broker, would look like a journal whose large messages are lost. Both directories get a file with
the same number. Responsible, too, for finding a body that is in both directories. Does not depend on what is in the
files of bodies.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable
from pathlib import Path

from embedbroker.storage import BODY_SUFFIX, body_number

__all__ = ["MARK_FILE", "body_directory_fits", "check_bodies_differ", "check_body_directory"]

MARK_FILE = "large-messages.id"
_MARK_BYTES = 16
# An error names so many files.
_NAMED_MAX = 5


def check_body_directory(journal: Path, bodies: Path | None, random_bytes: Callable[[int], bytes]) -> None:
    """Check that the large messages of a journal are in ``bodies``, None for its own directory. Mark new directories.

    Both must be locked.

    Raises:
        OSError: they are elsewhere, or a mark cannot be read or written.
    """
    wanted = _mark_in(journal)
    if bodies is None:
        if wanted is not None:
            raise OSError(
                "its large messages are in another directory: set large_messages_directory to that one, or move its "
                f"files here and remove {journal / MARK_FILE}"
            )
        return
    found = _mark_in(bodies)
    if wanted is None:
        if found is not None and _has_bodies(bodies):
            raise OSError(
                f"large_messages_directory {bodies} holds large messages of another journal: choose another directory"
            )
        # A mark of another journal must not be taken over: that journal would remove the bodies of this one as unknown.
        mark = random_bytes(_MARK_BYTES // 2).hex().encode()
        # The journal's mark is last: a crash in between leaves a directory without bodies, which may be taken.
        _write(bodies, mark)
        _write(journal, mark)
    elif found != wanted:
        raise OSError(
            f"large_messages_directory {bodies} does not hold the large messages of this journal: mount its file "
            f"system, or name the directory that has them; without them, remove {journal / MARK_FILE}"
        )
    check_bodies_differ(journal, bodies)


def check_bodies_differ(journal: Path, bodies: Path) -> None:
    """Check that no body is in both directories with different content: only one of the two files can be whole.

    Files that are equal are allowed: a copy in place of a move, or a move that was interrupted between two files.

    Raises:
        OSError: a body is in both, or a file cannot be read.
    """
    twofold = sorted(_body_files(journal) & _body_files(bodies))
    different = [name for name in twofold if not filecmp.cmp(journal / name, bodies / name, shallow=False)]
    if different:
        raise OSError(
            f"{len(different)} large messages are in {journal} and in {bodies}, and the two files differ: "
            f"{', '.join(different[:_NAMED_MAX])}; remove the file that is not whole, mostly the shorter one"
        )


def body_directory_fits(journal: Path, bodies: Path) -> bool:
    """Return True if the large messages of a journal are in ``bodies``, by the marks in both."""
    wanted = _mark_in(journal)
    return wanted is not None and _mark_in(bodies) == wanted


def _mark_in(directory: Path) -> bytes | None:
    try:
        return (directory / MARK_FILE).read_bytes()
    except FileNotFoundError:
        return None


def _body_files(directory: Path) -> set[str]:
    return {entry.name for entry in os.scandir(directory) if entry.name.endswith(BODY_SUFFIX) and entry.is_file()}


def _has_bodies(directory: Path) -> bool:
    return any(body_number(name) is not None for name in os.listdir(directory))


def _write(directory: Path, mark: bytes) -> None:
    """Write a mark so that a crash leaves all of it or nothing."""
    new = directory / f"{MARK_FILE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    try:
        os.write(descriptor, mark)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(new, directory / MARK_FILE)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
