"""A message whose body is read while it is sent: chunk by chunk, at the pace of the broker's credits.

Responsible for reading the body, and for a body that can be read again after a lost connection. Does not depend on JMS.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, cast

from embedclient.agent import Chunker, CoreMessage, Upload
from embedclient.agent import Producer as AgentProducer
from embedclient.errors import ErrorCode, JMSException, MessageFormatException
from embedclient.model import Progress, Readable

from ._edge import Edge
from ._inbox import OneTask, post

READ_BYTES: Final = 256 * 1024


class BodyReader:
    """A readable body. `total` is its size in bytes, None if unknown."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], rewind: Callable[[], Awaitable[object]] | None) -> None:
        self._read = read
        self._rewind = rewind
        self.total: int | None = None

    async def read(self) -> bytes:
        """Return the next piece, `b""` at the end. Raise what the readable raises."""
        data = await self._read()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise MessageFormatException(f"a body is read as bytes, not as {type(data).__name__}; open files with 'rb'")
        return bytes(data)

    async def rewind(self) -> bool:
        """Begin again. Return True if the readable can do that."""
        if self._rewind is None:
            return False
        await self._rewind()
        return True


async def open_reader(edge: Edge, readable: Readable | memoryview) -> BodyReader:
    """Return the reader of a body. What may block is called in a thread."""
    if isinstance(readable, memoryview):
        readable = io.BytesIO(readable)
    source: Any = readable
    run = _at_once if isinstance(source, io.BytesIO) else edge.in_thread
    if hasattr(source, "read"):
        if iscoroutinefunction(source.read):
            run = _awaited
        return await _file_reader(source, run)
    if isinstance(readable, AsyncIterable):
        items = aiter(readable)
        return BodyReader(lambda: _next_of(items.__anext__), None)
    pieces = cast("Iterator[bytes]", readable)
    return BodyReader(lambda: edge.in_thread(partial(_gathered, pieces)), None)


async def _file_reader(file: Any, run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> BodyReader:
    begin: int | None = None
    try:
        begin = await run(file.tell)
        total = await run(partial(file.seek, 0, io.SEEK_END)) - begin
        await run(partial(file.seek, begin))
    except (AttributeError, OSError):
        # It cannot be read twice, as a pipe or a socket.
        return BodyReader(lambda: run(partial(file.read, READ_BYTES)), None)
    reader = BodyReader(lambda: run(partial(file.read, READ_BYTES)), lambda: run(partial(file.seek, begin)))
    reader.total = total
    return reader


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


async def _awaited(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


async def _next_of(take: Callable[[], Awaitable[bytes]]) -> bytes:
    try:
        while not (piece := await take()):
            pass  # an empty piece is not the end
    except StopAsyncIteration:
        return b""
    return piece


def _gathered(pieces: Iterator[bytes]) -> bytes:
    """Return the next pieces: a change of the thread for each small one costs more than the piece."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= READ_BYTES:
            break
    return bytes(gathered)


async def post_parts(
    edge: Edge,
    one_task: OneTask,
    producer: AgentProducer,
    message: CoreMessage,
    readable: Readable | None,
    progress: Progress | None,
) -> None:
    """Send a message with the body that `readable` gives, or report the progress of one that is in memory."""
    if readable is not None:
        await send_readable(edge, one_task, producer, message, readable, progress)
    elif producer.is_large(message):
        await send_readable(edge, one_task, producer, message.with_body(b""), message.body, progress)
    else:
        await post(edge, one_task, producer, message)
        if progress is not None:
            progress(len(message.body), len(message.body))


async def send_readable(
    edge: Edge,
    one_task: OneTask,
    producer: AgentProducer,
    message: CoreMessage,
    readable: Readable | memoryview,
    progress: Progress | None,
) -> None:
    """Send a message with the body that `readable` gives. `message` has no body.

    Raise what the readable raises: the message is not sent then.
    """
    with one_task:
        reader = await open_reader(edge, readable)
        while True:
            try:
                await _send_once(edge, producer, message, reader, progress)
            except JMSException as error:
                if error.error_code != ErrorCode.LARGE_MESSAGE_INTERRUPTED or not await reader.rewind():
                    raise
            else:
                return


async def _send_once(
    edge: Edge, producer: AgentProducer, message: CoreMessage, reader: BodyReader, progress: Progress | None
) -> None:
    chunker = Chunker(producer.chunk_bytes, producer.compression_level)
    upload: Upload | None = None
    try:
        last = False
        while not last:
            while (chunk := chunker.take()) is None:
                await _fill(chunker, reader)
            last = chunk[1]
            if upload is None and last and producer.compression_level is not None:
                await edge.wait(producer.send(producer.shrunk(message, chunk[0], chunker.body_bytes)))
            else:
                upload = upload or producer.open_upload(message)
                await edge.wait(upload.room())
                upload.put(chunk, chunker.body_bytes)
                edge.flush_soon()
            if progress is not None:
                progress(chunker.body_bytes, reader.total)
        if upload is not None:
            await edge.wait(upload.call)
    except BaseException:
        if upload is not None:
            upload.abort(JMSException("the body was not read to its end"))
            edge.flush_soon()
        raise


async def _fill(chunker: Chunker, reader: BodyReader) -> None:
    data = await reader.read()
    if data:
        chunker.add(data)
    else:
        chunker.finish()
