"""Stdin as bodies of messages: where lines end, and where reading does."""

from __future__ import annotations

import io
import sys

import pytest

from embedbroker.cli._commands import commands
from embedbroker.cli._failure import Refused
from embedbroker.cli._stdin import lines_of_stdin, whole_stdin


class _InPieces(io.RawIOBase):
    """A stdin that gives a few bytes at a time, as a terminal or a slow pipe does."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__()
        self._left = io.BytesIO(data)
        self._size = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # a writable buffer is what it gets
        piece = self._left.read(min(self._size, len(buffer)))
        buffer[: len(piece)] = piece
        return len(piece)


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, size: int = 1 << 20) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(_InPieces(data, size))))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_lines_end_where_they_do_however_they_come(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    stdin(monkeypatch, b"one\r\n\ntwo\nthr\ree", size)
    assert [line async for line in lines_of_stdin(100)] == [b"one", b"", b"two", b"thr\ree"]
    stdin(monkeypatch, b"last\n", size)
    assert [line async for line in lines_of_stdin(100)] == [b"last"]
    stdin(monkeypatch, b"", size)
    assert [line async for line in lines_of_stdin(100)] == []


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_the_whole_of_it_is_one_body(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    stdin(monkeypatch, b"one\r\ntwo\n", size)
    assert await whole_stdin(100) == b"one\r\ntwo\n"


class _Endless(_InPieces):
    """Like /dev/zero, up to a point far beyond any limit that a command may check."""

    def __init__(self) -> None:
        super().__init__(b"", 0)
        self.given = 0

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # as above
        self.given += len(buffer)
        assert self.given < 10_000_000, "it reads for ever"
        buffer[:] = bytes(len(buffer))  # what was there before may have ends of lines
        return len(buffer)


async def test_what_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(_Endless())))
    with pytest.raises(Refused, match="more than 1,000,000 bytes"):
        await whole_stdin(1_000_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(_Endless())))
    with pytest.raises(Refused, match="more than 1,000,000 bytes"):
        assert [line async for line in lines_of_stdin(1_000_000)] == []


async def test_many_lines_may_be_more_than_one_message_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"0123456789\n" * 100)
    assert [line async for line in lines_of_stdin(20)] == [b"0123456789"] * 100


async def test_a_stdin_that_is_closed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(Refused, match="stdin is closed"):
        await whole_stdin(100)


def test_who_would_end_with_a_stdin_that_is_closed_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        commands.main(["run", "--until-eof", "--port", "0"], prog_name="embedbroker")
    assert ended.value.code == 2
