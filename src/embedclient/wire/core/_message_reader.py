"""Reading the messages of one stream, which mostly look alike.

Responsible for detecting that a message has the headers of the one before in the same places: then one read is enough
for all of them. Does not depend on the layout of any other message: that is ``CoreMessage.parse``.

Hot: ``MessageReader.read`` runs once per message that a client receives.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from ._message import CoreMessage

__all__ = ["MessageReader"]

_END_OF_BODY = Struct(">i").unpack_from


def _layout(address_size: int) -> Struct:
    """Return the layout behind the body, with a user id: id, address, user id (skipped), fixed headers, flag.

    The flag is the one that begins the properties.
    """
    return Struct(f">qBi{address_size}sB16xbBqqbB")


class MessageReader:
    """Expect the address of the last message, and a user id. Another message is parsed in full and expected next."""

    __slots__ = ("_address", "_encoded_address", "_read_headers")

    def __init__(self) -> None:
        self._address = ""
        self._encoded_address = b""
        self._read_headers = _layout(0).unpack_from

    def read(self, raw: bytearray) -> CoreMessage:
        """Return the same as ``CoreMessage.parse``. Raise RemoteProtocolError."""
        expected = self._encoded_address
        try:
            body_end: int = _END_OF_BODY(raw)[0] - 9
            headers = self._read_headers(raw, body_end)
        except StructError:
            return self._read_anew(raw)
        message_id, has_address, size, address, has_user_id, type, durable, expiration, timestamp, priority, _ = headers
        if not (
            address == expected
            and size == len(expected)
            and has_address == has_user_id == 1
            and 0 <= priority <= 9
            and body_end >= 4
        ):
            return self._read_anew(raw)
        message = CoreMessage()
        message.raw = raw
        message.encoded_size = message.memory_size = len(raw)
        message.message_id = message_id
        message.address = self._address
        message.type = type
        message.durable = durable != 0
        message.expiration = expiration
        message.timestamp = timestamp
        message.priority = priority
        message._body_end = body_end
        message._user_id_at = body_end + 13 + size
        message._properties = None
        return message

    def _read_anew(self, raw: bytearray) -> CoreMessage:
        message = CoreMessage.parse(raw)
        encoded = bytes(raw[message._body_end + 13 : message._user_id_at]) if message.address else b""
        if len(encoded) != len(self._encoded_address):
            self._read_headers = _layout(len(encoded)).unpack_from
        self._encoded_address = encoded
        self._address = message.address
        return message
