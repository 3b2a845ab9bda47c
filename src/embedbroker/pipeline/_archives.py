"""Archives of broker files: which members there are, and their bytes. Refuses to know what the files mean."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

__all__ = ["member_bytes", "members"]


def members(path: Path, is_wanted: Callable[[str], bool], size: int) -> Iterator[tuple[str, bytes]]:
    """The members of an archive whose names, without their folders, are wanted; with their first ``size`` bytes.

    Raises:
        ValueError: it is no archive of a known kind, or is cut short.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if is_wanted(PurePosixPath(member).name):
                    with archive.open(member) as file:
                        yield member, file.read(size)
        return
    try:
        with tarfile.open(path) as archive:
            for entry in archive:
                file_or_none = archive.extractfile(entry) if entry.isfile() else None
                if file_or_none is not None and is_wanted(PurePosixPath(entry.name).name):
                    yield entry.name, file_or_none.read(size)
    except tarfile.TarError:
        raise ValueError(f"{path} is neither a directory nor an archive (tar, compressed or not, or zip)") from None
    except EOFError as error:
        raise ValueError(f"{path} is cut short: {error}") from error


def member_bytes(path: str, member: str) -> bytes:
    """A whole member."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as zipped:
            return zipped.read(member)
    with tarfile.open(path) as archive:
        file = archive.extractfile(member)
        assert file is not None, "it was a file when the archive was listed"
        return file.read()
