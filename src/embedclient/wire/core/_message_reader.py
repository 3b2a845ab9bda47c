"""Reading the messages of one stream, which mostly look alike: those of a client, and those of a bridge.

Responsible for detecting that a message has the headers of the one before in the same places: then one read is enough
for all of them. Does not depend on the layout of any other message: that is ``CoreMessage.parse``.

Hot: ``MessageReader.read`` runs once per message that a client receives, ``BridgedReader.read`` once per message of a
bridge.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from ._message import CoreMessage

__all__ = ["BridgedReader", "MessageReader"]

_END_OF_BODY = Struct(">i").unpack_from
_I64 = Struct(">q")
# Type, durable, expiration, timestamp and priority, in front of the properties.
_FIXED = Struct(">bBqqb")
# Bytes between the flag of the user id and the flag of the properties, with and without a user id.
_PROPERTIES_AFTER_USER_ID = 1 + 16 + _FIXED.size
_PROPERTIES_AFTER_FLAG = 1 + _FIXED.size


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


class BridgedReader:
    """Read messages of a bridge as they are without its properties.

    They have one address and the same properties, but for one value that is not kept.

    Args:
        known: Their address; see `CoreMessage.parse`.
        prefix: Bytes of the properties in front of that value.
        suffix: Bytes behind it.
        size: Size of all properties.
        kept: The properties that are left.
    """

    __slots__ = ("_kept", "_prefix", "_size", "_suffix", "known")

    def __init__(self, known: tuple[bytes, str], prefix: bytes, suffix: bytes, size: int, kept: bytes) -> None:
        self.known = known
        self._prefix = prefix
        self._suffix = suffix
        self._size = size
        self._kept = kept

    def read(self, buffer: bytes | bytearray, start: int, end: int) -> CoreMessage | None:
        """Return the message between these offsets, as `CoreMessage.cut_properties` leaves it; None for any other."""
        encoded, address = self.known
        body_end: int = _END_OF_BODY(buffer, start)[0] - 9
        at = start + body_end + 8
        if body_end < 4 or not buffer.startswith(encoded, at):
            return None
        at += len(encoded)
        flag_at = at + (_PROPERTIES_AFTER_USER_ID if buffer.startswith(b"\1", at) else _PROPERTIES_AFTER_FLAG)
        if flag_at + self._size != end or not buffer.startswith(self._prefix, flag_at):
            return None
        if not buffer.endswith(self._suffix, flag_at, end):
            return None
        raw = bytearray().join((memoryview(buffer)[start:flag_at], self._kept))
        message = CoreMessage()
        message.type, durable, message.expiration, message.timestamp, priority = _FIXED.unpack_from(
            buffer, flag_at - _FIXED.size
        )
        message.durable = durable != 0
        message.priority = priority if 0 <= priority <= 9 else max(0, min(9, priority))
        message.raw = raw
        message.encoded_size = message.memory_size = len(raw)
        message.message_id = _I64.unpack_from(buffer, start + body_end)[0]
        message.address = address
        message._body_end = body_end
        message._user_id_at = at - start
        message._properties = None
        return message
