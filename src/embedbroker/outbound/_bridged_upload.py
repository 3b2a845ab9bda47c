"""A large message on its way to the other broker: its body is read in portions, and sent in chunks.

Responsible for reading no more than a portion ahead of what the connection takes. Does not depend on the connection:
the agent's upload reports when there is room.
"""

from __future__ import annotations

from typing import Final, Protocol

from embedbroker.kernel import Kernel, StoredMessage
from embedclient.agent import Call, Chunker, Upload
from embedclient.errors import JMSException

__all__ = ["BridgedUpload", "UploadOwner"]

# A read covers several chunks, up to about this size: each may cost a hop to a thread and back.
_READ_BYTES: Final = 1024 * 1024
_ORIGINAL_SIZE: Final = "_AMQ_LARGE_SIZE"


class UploadOwner(Protocol):
    """The owner of an upload."""

    def on_output(self) -> None:
        """Note that `BridgedUpload.advance` must be called in this step."""

    def on_unreadable(self, upload: BridgedUpload, reason: str) -> None:
        """Handle a body that cannot be read, or is damaged."""


class BridgedUpload:
    """One upload. ``is_over`` is True when every chunk was given to the agent, or when it was given up.

    ``is_damaged`` is True if the body on the disk is not what it was: to read it again is of no use.
    """

    def __init__(
        self, kernel: Kernel, message: StoredMessage, upload: Upload, chunk_bytes: int, owner: UploadOwner
    ) -> None:
        self.message_id = message.message_id
        self.call = upload.call
        self.is_over = False
        self.is_damaged = False
        self._kernel = kernel
        self._body = message.body
        self._upload = upload
        self._owner = owner
        self._chunker = Chunker(chunk_bytes, None)
        stated = message.property(_ORIGINAL_SIZE)
        # Clients return it as the length of the body, which may be compressed.
        self._stated_size = stated if isinstance(stated, int) else message.body.size
        self._portion = max(_READ_BYTES // chunk_bytes, 1) * chunk_bytes
        # End of what was read, and its CRC-32: `0 <= read_end <= size of the body`.
        self._read_end = 0
        self._checksum = 0
        self._is_reading = False
        self._waits_for: Call[None] | None = None
        kernel.large_bodies.begin_delivery(self._body.number)

    def advance(self) -> None:
        """Give the agent the chunks for which it has room, and read on."""
        while not self.is_over and not self._is_reading:
            room = self._upload.room()
            if self.call.done:
                self.end()
                return
            if not room.done:
                if self._waits_for is not room:
                    self._waits_for = room
                    room.when_done(self._owner.on_output)
                return
            chunk = self._chunker.take()
            if chunk is not None:
                self._upload.put(chunk, self._stated_size)
                self._owner.on_output()
                if chunk[1]:
                    self.end()
            elif self._read_end < self._body.size:
                self._read()
            else:
                self._chunker.finish()

    def _read(self) -> None:
        length = min(self._portion, self._body.size - self._read_end)
        self._is_reading = True
        self._kernel.store.bodies.read(
            self._body.number,
            self._read_end,
            length,
            lambda data, checksum: self._on_read(length, data, checksum),
            self._checksum,
        )

    def _on_read(self, length: int, data: bytes | None, checksum: int) -> None:
        self._is_reading = False
        if self.is_over:
            return
        self._owner.on_output()
        if data is None or len(data) < length:
            # Without data the disk reported an error, which may pass.
            self.is_damaged = data is not None
            self._owner.on_unreadable(self, f"its body cannot be read at {self._read_end}")
            return
        self._read_end += length
        self._checksum = checksum
        if self._read_end == self._body.size and self._body.checksum not in (None, checksum):
            self.is_damaged = True
            # The last portion is not sent: the other broker does not take the rest for a whole body.
            self._owner.on_unreadable(self, "its body is damaged: it does not fit its checksum")
            return
        self._chunker.add(data)

    def abort(self, reason: str) -> None:
        """Give the message up in the middle: the other broker drops what it has."""
        self._upload.abort(JMSException(reason))

    def end(self) -> None:
        """End the upload, complete or not."""
        if not self.is_over:
            self.is_over = True
            self._kernel.large_bodies.end_delivery(self._body.number)
