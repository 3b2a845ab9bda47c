"""Numbered files with blocks of messages, between the broker's acknowledgement and the commit in the sink.

Responsible for writing a block whole and durably before its existence is reported. Does not depend on the content of
blocks. The folder may be a path, or the URI of any file system that Arrow supports: each executor must reach it.
"""

from __future__ import annotations

import os
import re
from struct import Struct

from attrs import frozen
from pyarrow import fs

from ._frames import Block
from ._synced import sync_file, sync_folder

__all__ = ["LogFile", "WriteAheadLog", "read_log_file"]

_NAME = re.compile(r"(\d{20})-(\d{10})\.block")
_QUEUE = Struct("<I")


@frozen
class LogFile:
    """Hold one block: its number, and its number of messages."""

    number: int
    rows: int
    path: str


class WriteAheadLog:
    """The log of one query in a separate folder, which is created for the first block."""

    def __init__(self, location: str, query: str) -> None:
        self._files, folder = _file_system(location)
        self._folder = f"{folder.rstrip('/')}/{query}"
        self._has_folder = False

    def files(self, after: int) -> list[LogFile]:
        """Return the blocks after a number, in order."""
        found: list[LogFile] = []
        for info in self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True)):
            name = _NAME.fullmatch(info.base_name)
            if name is not None and int(name[1]) > after:
                found.append(LogFile(int(name[1]), int(name[2]), info.path))
        return sorted(found, key=lambda file: file.number)

    def append(self, number: int, queue: str, block: Block) -> LogFile:
        """Write a block. It is on the disk when this returns."""
        if not self._has_folder:
            self._files.create_dir(self._folder, recursive=True)
            if isinstance(self._files, fs.LocalFileSystem):
                sync_folder(os.path.dirname(self._folder))
            self._has_folder = True
        path = f"{self._folder}/{number:020d}-{block.count:010d}.block"
        name = queue.encode()
        data = _QUEUE.pack(len(name)) + name + block.data
        if isinstance(self._files, fs.LocalFileSystem):
            _write_durably(path, data)
        else:
            # Object stores show a file when it is complete and kept, others are renamed into place.
            with self._files.open_output_stream(f"{path}.new") as stream:
                stream.write(data)
            self._files.move(f"{path}.new", path)
        return LogFile(number, block.count, path)

    def remove_through(self, number: int) -> None:
        """Remove the blocks that are in the sink."""
        for file in self.files(-1):
            if file.number <= number:
                self._files.delete_file(file.path)


def read_log_file(location: str, path: str) -> tuple[str, Block]:
    """Return the queue and the block of a file, in any process."""
    files, _ = _file_system(location)
    with files.open_input_stream(path) as stream:
        data = stream.readall()
    end = _QUEUE.size + _QUEUE.unpack_from(data)[0]
    return data[_QUEUE.size : end].decode(), Block(data[end:])


def _file_system(location: str) -> tuple[fs.FileSystem, str]:
    if "://" in location or location.startswith("file:"):
        files, folder = fs.FileSystem.from_uri(location)
        return files, folder
    return fs.LocalFileSystem(), os.path.abspath(location)


def _write_durably(path: str, data: bytes) -> None:
    with open(f"{path}.new", "wb") as stream:
        stream.write(data)
    sync_file(f"{path}.new")
    os.rename(f"{path}.new", path)
    sync_folder(os.path.dirname(path))
