"""Frames of the CORE protocol: finding their ends in a stream of bytes.

Responsible for the length field and its limits. Refuses to look at packet types or bodies.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ...errors import RemoteProtocolError

__all__ = ["FRAME_HEADER", "FRAME_HEADER_SIZE", "HANDSHAKE", "FrameSplitter"]

HANDSHAKE: Final = b"ARTEMIS"

# Length of what follows, packet type, channel id.
FRAME_HEADER: Final = Struct(">ibq")
FRAME_HEADER_SIZE: Final = FRAME_HEADER.size

_LENGTH = Struct(">i")
_LENGTH_MIN: Final = FRAME_HEADER_SIZE - _LENGTH.size


class FrameSplitter:
    """Cuts a stream of bytes into frames and keeps the incomplete rest.

    Holds at most what it was fed: a length that promises 100 MiB costs nothing until the bytes arrive.
    """

    __slots__ = ("_broken", "_length_max", "_needed", "_rest")

    def __init__(self, frame_size_bytes_max: int = 100 * 1024 * 1024) -> None:
        assert frame_size_bytes_max >= FRAME_HEADER_SIZE
        self._length_max = frame_size_bytes_max - _LENGTH.size
        self._rest = bytearray()
        self._needed = 0  # size of the frame that _rest begins, 0 while its length is unknown
        self._broken: str | None = None

    @property
    def pending_size(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return len(self._rest)

    def feed(self, data: bytes | bytearray) -> tuple[bytes | bytearray, list[int]]:
        """Return a buffer that starts at a frame boundary, and the end offsets of the complete frames in it.

        Frame i spans ``ends[i - 1]`` to ``ends[i]``, its four length bytes included. ``data`` itself comes back when
        nothing was held before; bytes behind the last end belong to the next call and must be ignored.

        Raises RemoteProtocolError for a length outside the limits, then and on every later call.
        """
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        rest = self._rest
        buffer: bytes | bytearray = data
        if rest:
            rest += data
            if len(rest) < self._needed:
                return b"", []
            buffer = rest
        ends: list[int] = []
        position = 0
        size = len(buffer)
        self._needed = 0
        length_max = self._length_max
        while size - position >= 4:
            length = _LENGTH.unpack_from(buffer, position)[0]
            if not _LENGTH_MIN <= length <= length_max:
                self._broken = f"frame length {length}"
                self._rest = bytearray()
                raise RemoteProtocolError(self._broken)
            end = position + 4 + length
            if end > size:
                self._needed = end - position
                break
            ends.append(end)
            position = end
        if position == size:
            if rest:
                self._rest = bytearray()
        elif position or not rest:
            self._rest = bytearray(memoryview(buffer)[position:])
        return (buffer, ends) if ends else (b"", ends)
