"""Files with bodies of messages: those that `send` reads, and those that `receive` writes.

Responsible for names, and for files that are whole or absent. Does not depend on connections.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import IO, BinaryIO

import click
import trio
from attrs import define, field

from embedclient import BytesMessage, Message

from ._message_text import Value
from ._stdin import chunks_of

__all__ = ["SavePlace", "file_message", "new_file"]

# A body up to this size is read at once, and sent as an ordinary message.
_SMALL_BYTES = 64 * 1024
# What `os.link` raises where the file system has no hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
# What `os.fsync` raises where the file system cannot sync a directory.
_NO_DIRECTORY_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_NAME_CHARACTERS_MAX = 200


@asynccontextmanager
async def file_message(path: Path, properties: dict[str, Value]) -> AsyncIterator[BytesMessage]:
    """Open a file, and return a message with its content as the body, which is read while it is sent.

    Raises:
        OSError: The file cannot be opened or read.
    """
    # A pipe is opened when it has a writer, and Ctrl-C must end the wait.
    with await trio.to_thread.run_sync(_open_to_read, path, abandon_on_cancel=True) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            async with aclosing(chunks_of(file)) as chunks:
                yield BytesMessage(chunks, properties=properties)
        elif status.st_size <= _SMALL_BYTES:
            yield BytesMessage(file.read(), properties=properties)
        else:
            yield BytesMessage(file, properties=properties)


def _open_to_read(path: Path) -> IO[bytes]:
    return open(path, "rb", buffering=0)


@define
class SavePlace:
    """The place of received bodies: one file, or a directory with a file for each message.

    Attributes:
        path: Path of the file or the directory.
        is_directory: Whether it is a directory.
        overwrites: Whether a body may replace a file.
    """

    path: Path
    is_directory: bool
    overwrites: bool
    # The last number of a message without an id.
    _number: int = field(default=0, init=False, repr=False)

    @classmethod
    def of_option(cls, text: str, *, overwrites: bool, count: int) -> SavePlace:
        """Return the place that ``--save`` names.

        Raises:
            click.BadParameter: It cannot get the bodies.
            click.UsageError: It is one file, and the count of messages is not 1.
        """
        path = Path(text)
        if path.is_dir():
            return cls(path, True, overwrites)
        # A `Path` has no slash at its end, and would name a file.
        if os.path.basename(text) in ("", ".", ".."):
            reason = (
                "is no directory" if os.path.lexists(path) else "does not exist: create the directory with mkdir first"
            )
            raise click.BadParameter(f"'{text}' {reason}", param_hint="--save")
        if count != 1:
            raise click.UsageError(f"--save {path} is one file, and --count is {count}: name a directory that exists")
        path = path.resolve()
        if not path.parent.is_dir():
            raise click.BadParameter(f"directory '{path.parent}' does not exist", param_hint="--save")
        if path.exists() and not path.is_file():
            raise click.BadParameter(f"'{path}' is neither a file nor a directory", param_hint="--save")
        if path.exists() and not overwrites:
            raise click.BadParameter(f"'{path}' exists: choose another name, or add --overwrite", param_hint="--save")
        return cls(path, False, overwrites)

    def file_for(self, message: Message) -> tuple[Path, bool]:
        """Return the file of a message, and whether it may replace one.

        In a directory its name is that of the message id. Without an id it is a number that is free, for a file that
        replaces nothing.
        """
        if not self.is_directory:
            return self.path, self.overwrites
        name = _name_of((message.message_id or "").removeprefix("ID:"))
        return (self.path / name, self.overwrites) if name else (self._next_free(), False)

    def _next_free(self) -> Path:
        while True:
            self._number += 1
            path = self.path / f"message-{self._number}"
            if not os.path.lexists(path):
                return path


def _name_of(identifier: str) -> str:
    """Return the name of the file of an id, which no other id has; without an id, an empty name."""
    if not identifier:
        return ""
    name = re.sub(r"[^\w-]", "_", identifier, flags=re.ASCII)
    if name == identifier and len(name) <= _NAME_CHARACTERS_MAX and not re.fullmatch(r"message-\d+", name):
        return name
    # Other ids may lead to this text, too.
    return f"{name[:_NAME_CHARACTERS_MAX]}-{hashlib.sha256(identifier.encode(errors='surrogatepass')).hexdigest()[:16]}"


@asynccontextmanager
async def new_file(path: Path, *, overwrites: bool) -> AsyncIterator[IO[bytes]]:
    """Return a file that gets its name at the end of the block, when it is on disk. After it the name is on disk, too.

    Until then its name ends in ``.part``. After an error or a cancellation it is removed.

    Raises:
        FileExistsError: A file of this name exists, and ``overwrites`` is False.
        OSError: The file cannot be written.
    """
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    file = _open_to_write(unfinished)
    try:
        with file:
            yield file
            await trio.to_thread.run_sync(_to_disk, file)
        await trio.to_thread.run_sync(_give_name, unfinished, path, overwrites)
    finally:
        unfinished.unlink(missing_ok=True)


def _open_to_write(path: Path) -> BinaryIO:
    return open(path, "xb")


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _give_name(unfinished: Path, path: Path, overwrites: bool) -> None:
    # Opened first: without the right to do so the file gets no name.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if overwrites:
            os.replace(unfinished, path)
        else:
            _take_name(unfinished, path)
        try:
            _sync_directory(directory)
        except OSError:
            # The message comes again, and would find its name taken. What was replaced cannot come back.
            if not overwrites:
                path.unlink(missing_ok=True)
            raise
    finally:
        os.close(directory)


def _take_name(unfinished: Path, path: Path) -> None:
    try:
        os.link(unfinished, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The name is taken first, so that no file of another program is replaced.
        open(path, "xb").close()
        os.replace(unfinished, path)


def _sync_directory(directory: int) -> None:
    try:
        os.fsync(directory)
    except OSError as error:
        # Some network file systems sync no directories: the name is then as safe as they make it.
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
