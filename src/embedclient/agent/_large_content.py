"""The content of a body that is read in chunks: inflated, and without the framing of its kind of message.

Responsible for a bound of the memory that one chunk takes, whatever its compression. Text becomes UTF-8, an object its
serialised bytes; bytes, maps and streams stay as they are encoded. Does not depend on deliveries or files.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from typing import Final

from ..errors import MessageFormatException
from ..wire.core import CoreMessage, MessageType

PIECE_BYTES_MAX: Final = 256 * 1024
"""Largest piece in bytes that inflating yields."""
COMPRESSED: Final = "_AMQ_LARGE_COMPRESSED"

# Bytes in front of the content: of a text a flag and a length, of an object a length.
_FRAMING_BYTES: Final = {MessageType.TEXT: 5, MessageType.OBJECT: 4}


class ContentDecoder:
    """Decode the chunks of one body in order: `feed` each, then call `finish`."""

    def __init__(self, type: int, *, compressed: bool) -> None:
        self._inflater = zlib.decompressobj() if compressed else None
        self._framing_left = _FRAMING_BYTES.get(type, 0)
        self._utf_16 = codecs.getincrementaldecoder("utf-16-le")("surrogatepass") if type == MessageType.TEXT else None

    @classmethod
    def for_message(cls, header: CoreMessage) -> ContentDecoder:
        """Return the decoder for a message's body. Raise RemoteProtocolError."""
        return cls(header.type, compressed=header.property(COMPRESSED) is True)

    def content_size(self, body_bytes: int) -> int | None:
        """Return the size of the content in bytes, None for a text: its UTF-8 may have any size."""
        return None if self._utf_16 is not None else body_bytes - self._framing_left

    def feed(self, chunk: bytes | memoryview) -> Iterator[bytes]:
        """Yield the content of one chunk, in pieces. Raise MessageFormatException."""
        if self._inflater is None:
            yield from self._content(bytes(chunk))
            return
        data: bytes | memoryview = chunk
        while True:
            try:
                piece = self._inflater.decompress(data, PIECE_BYTES_MAX)
            except zlib.error as error:
                raise MessageFormatException(f"the compressed body is malformed: {error}") from error
            yield from self._content(piece)
            data = self._inflater.unconsumed_tail
            # A full piece may leave more content inside, although all bytes are consumed.
            if self._inflater.eof or not (data or len(piece) == PIECE_BYTES_MAX):
                return

    def finish(self) -> None:
        """Check that the content is whole. Raise MessageFormatException."""
        if self._inflater is not None and not self._inflater.eof:
            raise MessageFormatException("the compressed body is cut off")
        if self._utf_16 is not None:
            try:
                self._utf_16.decode(b"", True)
            except UnicodeDecodeError as error:
                raise MessageFormatException("the text ends in the middle of a character") from error

    def _content(self, data: bytes) -> Iterator[bytes]:
        if self._framing_left:
            skipped = min(self._framing_left, len(data))
            self._framing_left -= skipped
            data = data[skipped:]
        if self._utf_16 is not None:
            data = self._utf_16.decode(data).encode("utf-8", "surrogatepass")
        if data:
            yield data
