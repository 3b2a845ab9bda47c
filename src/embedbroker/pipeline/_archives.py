"""Archives of broker files: their members, and the members' bytes. Does not depend on the meaning of the files.

An archive with files that were added again has members of one name several times, with or without ``./`` in front. The
last one counts, as in unpacking. Links in a tar stand for their targets.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from lzma import LZMAError
from pathlib import Path, PurePosixPath

__all__ = ["member_bytes", "members"]


def members(path: Path, is_wanted: Callable[[str], bool], size: int) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an archive whose names, without their folders, are wanted; with their first ``size`` bytes.

    Raises:
        ValueError: not an archive of a known type, or cut short or damaged.
    """
    try:
        found = _in_zip(path, is_wanted, size) if zipfile.is_zipfile(path) else _in_tar(path, is_wanted, size)
    except tarfile.TarError:
        raise ValueError(f"{path} is neither a directory nor an archive (tar, compressed or not, or zip)") from None
    except EOFError as error:
        raise ValueError(f"{path} is cut short: {error}") from error
    except (zlib.error, LZMAError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        # Errors of gzip and bzip2 name no file.
        raise ValueError(f"{path} is damaged: {error}") from error
    yield from found.values()


def _in_zip(path: Path, is_wanted: Callable[[str], bool], size: int) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if is_wanted(PurePosixPath(member).name):
                with archive.open(member) as file:
                    found[_plain(member)] = member, file.read(size)
    return found


def _in_tar(path: Path, is_wanted: Callable[[str], bool], size: int) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            if (entry.isfile() or entry.islnk() or entry.issym()) and is_wanted(PurePosixPath(entry.name).name):
                # To go back in a compressed archive costs reading it from the beginning.
                linked = found.get(_plain(entry.linkname)) if entry.islnk() else None
                data = _content(path, archive, entry, size) if linked is None else linked[1]
                found[_plain(entry.name)] = entry.name, data
        _check_end(path, archive)
    return found


def _content(path: Path, archive: tarfile.TarFile, entry: tarfile.TarInfo, size: int = -1) -> bytes:
    try:
        file = archive.extractfile(entry)
    except KeyError:
        raise ValueError(f"{path}: {entry.name} is a link to {entry.linkname}, which is not there") from None
    if file is None:
        raise ValueError(f"{path}: {entry.name} is a link to {entry.linkname}, which is no file")
    return file.read(size)


def _check_end(path: Path, archive: tarfile.TarFile) -> None:
    """Check the end of a tar.

    Reading ends without an error at anything but a header, with the members before that. A whole tar ends with a block
    of zeros.
    """
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    block = archive.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise ValueError(f"{path} is cut short: its end is missing")
    if block.strip(b"\0"):
        raise ValueError(f"{path} is damaged: at {archive.offset} is neither a member nor the end")


def _plain(name: str) -> str:
    return str(PurePosixPath(name))


def member_bytes(path: str, member: str) -> bytes:
    """Return the bytes of a whole member: the last one of this name."""
    name = _plain(member)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as zipped:
            return zipped.read(next(each for each in reversed(zipped.infolist()) if _plain(each.filename) == name))
    with tarfile.open(path) as archive:
        return _content(
            Path(path), archive, next(each for each in reversed(archive.getmembers()) if _plain(each.name) == name)
        )
