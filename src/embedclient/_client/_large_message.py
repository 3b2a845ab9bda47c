"""A received large message whose body the program reads while it arrives.

Responsible for waiting on its chunks, for their content, and for files that get it. Does not depend on the rules of JMS
about messages, or on credits: a chunk that is taken is paid for by the agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, Self

from embedclient.agent import ContentDecoder, LargeDelivery, core_source
from embedclient.errors import (
    BodyTooLargeException,
    ConnectionTimedOutException,
    IllegalStateException,
    MessageFormatException,
    RemoteProtocolError,
)
from embedclient.model import (
    BodyChunks,
    BodyStream,
    BodyValue,
    Destination,
    Headers,
    MemoryChunks,
    Progress,
    Properties,
    SaveTarget,
    TargetFile,
)

from ._edge import Edge

WRITE_BYTES: Final = 1024 * 1024
"""Content that is gathered for one write to a file."""

OnEnd = Callable[[LargeDelivery], Awaitable[None]]


class LargeBodyStream(BodyStream):
    """The source of a large message, and the access to its body.

    Args:
        destination: the consumer's.
        on_end: called when the program has the whole content of a body that was not in memory. None for the core
            layer: the content is the encoded body then, and nothing is acknowledged.
    """

    __slots__ = ("_begun", "_call", "_delivery", "_edge", "_on_end", "_raw", "_source")

    def __init__(
        self,
        edge: Edge,
        delivery: LargeDelivery,
        destination: Destination | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        self._edge = edge
        self._delivery = delivery
        self._source = core_source(delivery.message, destination)
        self._on_end = on_end
        self._raw = on_end is None
        self._begun = False
        self._call: Callable[..., Any] | None = None
        edge.flush_soon()  # the headers were paid for just now

    def headers(self) -> Headers:
        return self._source.headers()

    def properties(self) -> Properties:
        return self._source.properties()

    def body(self) -> BodyValue:
        self.check_loaded()
        return self._source.body()

    @property
    def is_loaded(self) -> bool:
        """Return True if the body is in memory."""
        return self._delivery.loads

    def check_loaded(self) -> None:
        """Raise BodyTooLargeException if the body is not in memory."""
        if not self._delivery.loads:
            limit = self._edge.agent.settings.max_large_message_body_size
            raise BodyTooLargeException(
                f"the body of {self._delivery.body_bytes:,} bytes is above maxLargeMessageBodySize={limit}: raise that "
                "parameter of the URL, or read the body with save_to() or chunks()"
            )

    def content(self) -> bytes:
        """Return the content of a body that is in memory."""
        message = self._delivery.message
        return bytes(message.body) if self._raw else self._source.content()

    def use_calls(self, call: Callable[..., Any]) -> Self:
        self._call = call
        return self

    def chunks(self, progress: Progress | None) -> BodyChunks:
        if self.is_loaded:
            return MemoryChunks(self.content(), progress)
        return self._begin(progress, self._on_end)

    def save_to(self, target: SaveTarget, progress: Progress | None) -> Awaitable[None]:
        file = TargetFile(target)
        if self._call is not None:
            waited: Awaitable[None] = self._call(self._save, file, progress)
            return waited
        return self._save(file, progress)

    def _begin(self, progress: Progress | None, on_end: OnEnd | None) -> _StreamChunks:
        if self._begun:
            raise IllegalStateException("the body was read before; a large message can be read once")
        self._begun = True
        try:
            decoder = None if self._raw else ContentDecoder.for_message(self._delivery.message)
        except RemoteProtocolError as error:
            raise MessageFormatException(f"the properties are malformed: {error}") from error
        return _StreamChunks(self._edge, self._delivery, decoder, progress, on_end, self._call)

    async def _save(self, file: TargetFile, progress: Progress | None) -> None:
        chunks = MemoryChunks(self.content(), progress) if self.is_loaded else self._begin(progress, None)
        gathered = bytearray()
        try:
            async for piece in chunks:
                gathered += piece
                if len(gathered) >= WRITE_BYTES:
                    await self._edge.in_thread(partial(file.write, bytes(gathered)))
                    gathered.clear()
            if gathered:
                await self._edge.in_thread(partial(file.write, bytes(gathered)))
            await self._edge.in_thread(file.finish)
        except BaseException:  # a cancellation, too, must not leave a part of a file
            file.discard()
            raise
        if not self.is_loaded and self._on_end is not None:
            # Acknowledged when the file is whole, and not before.
            await self._on_end(self._delivery)


class _StreamChunks(BodyChunks):
    """The content of a body that arrives, piece by piece."""

    def __init__(
        self,
        edge: Edge,
        delivery: LargeDelivery,
        decoder: ContentDecoder | None,
        progress: Progress | None,
        on_end: OnEnd | None,
        call: Callable[..., Any] | None,
    ) -> None:
        self._edge = edge
        self._delivery = delivery
        self._decoder = decoder
        self._progress = progress
        self._on_end = on_end
        self._call = call
        self._signal = edge.signal()
        self._pieces: Iterator[bytes] = iter(())
        self._done_bytes = 0
        self._total = delivery.body.size if decoder is None else decoder.content_size(delivery.body_bytes)
        self._ended = False

    def __next__(self) -> bytes:
        if self._call is None:
            raise TypeError("the body is read with 'async for' here; 'for' is for the blocking facade")
        try:
            piece: bytes = self._call(self.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
        return piece

    async def __anext__(self) -> bytes:
        while True:
            # One chunk may hold much when it is compressed: its pieces are decoded as they are read.
            piece = next(self._pieces, None)
            if piece is not None:
                await self._edge.pause()
                return self._report(piece)
            if self._ended:
                raise StopAsyncIteration
            chunk = await self._next_chunk()
            if chunk is None:
                await self._end()
            elif self._decoder is not None:
                self._pieces = self._decoder.feed(chunk)
            elif chunk:
                self._pieces = iter((chunk,))

    async def _next_chunk(self) -> bytes | None:
        """Wait for the next chunk. Return None after the last one."""
        body, edge = self._delivery.body, self._edge
        while True:
            chunk = body.take()
            if chunk is not None:
                edge.flush_soon()
                return chunk
            if body.error is not None:
                raise body.error
            if body.exhausted:
                return None
            body.on_change = self._signal.set
            timeout_ms = edge.agent.settings.call_timeout_ms
            if not await self._signal.wait(timeout_ms / 1000) and edge.agent.connected:
                raise ConnectionTimedOutException(
                    f"no chunk of the large message came within {timeout_ms} ms, after {body.received_bytes:,} of "
                    f"{body.size:,} bytes"
                )

    async def _end(self) -> None:
        self._ended = True
        if self._decoder is not None:
            self._decoder.finish()
        if self._on_end is not None:
            await self._on_end(self._delivery)

    def _report(self, piece: bytes) -> bytes:
        self._done_bytes += len(piece)
        if self._progress is not None:
            self._progress(self._done_bytes, self._total)
        return piece
