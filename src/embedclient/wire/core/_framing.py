"""Frames of the CORE protocol: finding their ends in a stream of bytes.

Responsible for the frame header, and for the limits of its length field. Does not depend on bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from ...errors import RemoteProtocolError

__all__ = ["FRAME_HEADER", "FRAME_HEADER_SIZE", "HANDSHAKE", "FrameSplitter", "frame_spans"]

HANDSHAKE: Final = b"ARTEMIS"

# Length of what follows, packet type, channel id.
FRAME_HEADER: Final = Struct(">ibq")
FRAME_HEADER_SIZE: Final = FRAME_HEADER.size

_LENGTH = Struct(">i")
# How an alert and a handshake of TLS begin: as lengths they are beyond any limit.
_TLS_RECORDS: Final = (0x1503, 0x1603)
_LENGTH_MIN: Final = FRAME_HEADER_SIZE - _LENGTH.size


class FrameSplitter:
    """Cut a stream of bytes into frames and keep the incomplete rest, which has ``pending_size`` bytes.

    Holds at most what it was fed: a length that promises 100 MiB costs nothing until the bytes arrive.
    """

    __slots__ = ("_broken", "_length_max", "_needed", "_rest", "pending_size")

    def __init__(self, frame_size_bytes_max: int = 100 * 1024 * 1024) -> None:
        assert frame_size_bytes_max >= FRAME_HEADER_SIZE
        self._length_max = frame_size_bytes_max - _LENGTH.size
        self._rest = bytearray()
        self.pending_size = 0
        self._needed = 0  # size of the frame that _rest begins, 0 while its length is unknown
        self._broken: str | None = None

    def feed(self, data: bytes | bytearray) -> tuple[bytes | bytearray, list[tuple[int, int, int]]]:
        """Return a buffer that starts at a frame boundary, and the headers of the complete frames in it.

        A header holds the length field, the packet type and the channel id. Its frame is four bytes longer than the
        length field, and the next one follows at once (`frame_spans`). ``data`` itself comes back when nothing was held
        before; bytes behind the last frame belong to the next call and must be ignored.

        Raise RemoteProtocolError for a length outside the limits, then and on every later call.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        rest = self._rest
        buffer: bytes | bytearray = data
        if rest:
            rest += data
            if len(rest) < self._needed:
                self.pending_size = len(rest)
                return b"", []
            buffer = rest
        headers: list[tuple[int, int, int]] = []
        position = 0
        size = len(buffer)
        self._needed = 0
        length_max = self._length_max
        unpack_header = FRAME_HEADER.unpack_from
        while size - position >= FRAME_HEADER_SIZE:
            header = unpack_header(buffer, position)
            length = header[0]
            end = position + 4 + length
            if end > size or not _LENGTH_MIN <= length <= length_max:
                break
            headers.append(header)
            position = end
        if size - position >= 4:
            length = _LENGTH.unpack_from(buffer, position)[0]
            if not _LENGTH_MIN <= length <= length_max:
                is_tls = length >> 16 in _TLS_RECORDS
                self._broken = "TLS; add sslEnabled=true to the URL" if is_tls else f"frame length {length}"
                self._rest = bytearray()
                self.pending_size = 0
                raise RemoteProtocolError(self._broken)
            self._needed = 4 + length
        if position == size:
            if rest:
                self._rest = bytearray()
                self.pending_size = 0
        else:
            if position or not rest:
                self._rest = bytearray(memoryview(buffer)[position:])
            self.pending_size = size - position
        return (buffer, headers) if headers else (b"", headers)


def frame_spans(headers: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Return start and end of each frame of which `FrameSplitter.feed` returned the header."""
    start = 0
    for length, _packet_type, _channel_id in headers:
        end = start + 4 + length
        yield start, end
        start = end
