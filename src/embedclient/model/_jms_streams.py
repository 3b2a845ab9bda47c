"""Bodies outside the memory: one that is read while it is sent, and one that is read while it arrives.

Responsible for what counts as a readable body, and for the pieces of a body that is in memory. Does not depend on the
way bytes come or go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any, Final, NoReturn, Protocol, Self, TypeAlias

from ..errors import IllegalStateException
from ._jms_source import MessageSource
from ._saving import SaveTarget, TargetFile
from ._summary import summary

__all__ = [
    "DONE_WAITING",
    "BodyChunks",
    "BodyStream",
    "MemoryChunks",
    "Progress",
    "Readable",
    "ReadableBody",
    "is_readable",
]

PIECE_BYTES: Final = 256 * 1024
"""Size of the pieces of a body that is in memory, in bytes."""

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes of a body that are done, and with all of them, or None while that is unknown."""


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes | Awaitable[bytes]:
        """Return up to `size` bytes, and `b""` at the end."""


Readable: TypeAlias = _Reader | AsyncIterable[bytes] | Iterator[bytes]
"""A body that is read while it is sent: a file opened in the mode `rb`, another object with a plain or async `read`, or
an iterator or async iterator of bytes."""


def is_readable(value: object) -> bool:
    """Return True if the value is a body that is read while it is sent."""
    return hasattr(value, "read") or hasattr(value, "__aiter__") or isinstance(value, Iterator)


class ReadableBody:
    """The source of a body that is read while it is sent. It has no body before that, and no other parts."""

    __slots__ = ("readable",)

    def __init__(self, readable: Readable) -> None:
        self.readable = readable

    def headers(self) -> NoReturn:
        raise AssertionError("a body has no headers")

    def properties(self) -> NoReturn:
        raise AssertionError("a body has no properties")

    def body(self) -> NoReturn:
        """Raise IllegalStateException."""
        raise IllegalStateException(f"the body is read from {self.readable!r} while send() sends it, and only then")


class BodyChunks(ABC):
    """The content of a body, piece by piece: `async for piece in message.chunks()`.

    In the blocking facade it is `for piece in message.chunks()`. It can be iterated once.
    """

    def __repr__(self) -> str:
        return summary(self, "of a body")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    def __iter__(self) -> Iterator[bytes]:
        return self

    @abstractmethod
    async def __anext__(self) -> bytes:
        """Return the next piece. Raise StopAsyncIteration."""

    @abstractmethod
    def __next__(self) -> bytes:
        """Return the next piece. Raise StopIteration."""


class MemoryChunks(BodyChunks):
    """The pieces of a body that is in memory."""

    def __init__(self, content: bytes | memoryview, progress: Progress | None) -> None:
        self._content = memoryview(content)
        self._progress = progress
        self._at = 0

    def __next__(self) -> bytes:
        if self._at >= len(self._content):
            raise StopIteration
        piece = bytes(self._content[self._at : self._at + PIECE_BYTES])
        self._at += len(piece)
        if self._progress is not None:
            self._progress(self._at, len(self._content))
        return piece

    async def __anext__(self) -> bytes:
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def save_to(self, target: SaveTarget) -> None:
        """Write all pieces. Raise OSError."""
        file = TargetFile(target)
        try:
            for piece in self:
                file.write(piece)
            file.finish()
        except BaseException:
            file.discard()
            raise


class BodyStream(MessageSource, ABC):
    """The source of a received message whose body is read while it arrives. The client implements it."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_loaded(self) -> bool:
        """Return True if the body is in memory."""

    @abstractmethod
    def check_loaded(self) -> None:
        """Raise BodyTooLargeException if the body is not in memory."""

    @abstractmethod
    def chunks(self, progress: Progress | None) -> BodyChunks:
        """Return the content, piece by piece."""

    @abstractmethod
    def save_to(self, target: SaveTarget, progress: Progress | None) -> Awaitable[None]:
        """Write the content to a file."""

    @abstractmethod
    def use_calls(self, call: Callable[..., Any]) -> Self:
        """Make `chunks` and `save_to` block: `call` runs an async function to its end."""


class _DoneWaiting:
    """An awaitable for work that is done."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE_WAITING: Final = _DoneWaiting()
