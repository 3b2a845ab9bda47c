"""Stdin as bodies of messages, read in threads: a connection stays alive meanwhile, and Ctrl-C ends the wait at once.

Responsible for what is one body, and for how much of it is read. Does not depend on messages.
"""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import trio

from ._failure import Refused

__all__ = ["chunks_of", "lines_of_stdin", "whole_stdin"]

_READ_BYTES = 64 * 1024


class _Raw(Protocol):
    """A file without a buffer."""

    def read(self, size: int, /) -> bytes | None: ...


async def whole_stdin(bytes_max: int) -> bytes:
    """Return everything up to the end of stdin.

    Raises:
        Refused: it is more than ``bytes_max``, and perhaps without end.
    """
    body = bytearray()
    async with aclosing(_chunks()) as chunks:
        async for chunk in chunks:
            body += chunk
            _check_size(body, bytes_max)
    return bytes(body)


async def lines_of_stdin(bytes_max: int) -> AsyncGenerator[bytes, None]:
    """Yield each line of stdin when it arrives, without its end.

    Raises:
        Refused: a line is longer than ``bytes_max``.
    """
    line = bytearray()
    async with aclosing(_chunks()) as chunks:
        async for chunk in chunks:
            head, *following = chunk.split(b"\n")
            line += head
            for beginning in following:
                yield bytes(line).rstrip(b"\r")
                line = bytearray(beginning)
            _check_size(line, bytes_max)
    if line:
        yield bytes(line).rstrip(b"\r")


def _check_size(body: bytearray, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise Refused(f"no message holds what stdin has: it is more than {bytes_max:,} bytes")


def _chunks() -> AsyncGenerator[bytes, None]:
    if sys.stdin is None:
        raise Refused("stdin is closed: there is nothing to send")
    source = sys.stdin.buffer
    # Past the buffer: its lock would be held by the thread that an interrupted command leaves behind, and Python needs
    # it when it ends.
    return chunks_of(source.raw if isinstance(source, io.BufferedReader) else source)


async def chunks_of(raw: _Raw) -> AsyncGenerator[bytes, None]:
    """Yield what comes from a pipe, when it comes. Ctrl-C ends the wait, and leaves the thread that reads behind."""
    while chunk := await trio.to_thread.run_sync(raw.read, _READ_BYTES, abandon_on_cancel=True):
        yield chunk
