"""Stored messages of encodings other than CORE: a header of the broker in front of the encoded bytes.

Responsible for the layout of that header. Records of every encoding are then alike: their bytes hold the id, the
address, durability, priority and times, whether or not the encoding has a place for them. Does not depend on any
encoding: a `Codec` reads and rewrites the bytes behind the header.

The header, little-endian:

    0   version u8 | flags u8 (1: durable) | priority u8 | kind of the body u8
    4   message id i64
    12  expiration i64 | timestamp i64, both in Unix milliseconds
    28  number of the body u64 | size of the body u64, both 0 if it is resident
    44  size of the address u32
    48  in version 2 the CRC-32 of the body u32; version 1 is of bodies without one
    then the address in UTF-8
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct
from struct import error as StructError
from typing import Protocol

from embedclient.errors import RemoteProtocolError
from embedclient.model import Origin, PropertyValue

from ._body import RESIDENT, Body
from ._message import Message

__all__ = ["Codec", "StoredMessage", "body_of"]

_VERSION = 1
_VERSION_WITH_CHECKSUM = 2
_DURABLE = 1
_HEADER = Struct("<BBBBqqqQQI")
_CHECKSUM = Struct("<I")
_ID = Struct("<q")
_ID_AT = 4


def body_of(stored: bytes | bytearray) -> Body:
    """Return where the body of a message is, from the bytes of its record in an encoding other than CORE.

    Raises:
        RemoteProtocolError: The header is malformed.
    """
    try:
        version, _flags, _priority, kind, _id, _expiration, _timestamp, number, size, _ = _HEADER.unpack_from(stored)
        return Body(kind, number, size, _checksum(version, stored)) if kind else RESIDENT
    except StructError as error:
        raise RemoteProtocolError(f"stored message: the header is malformed: {error}") from error


def _checksum(version: int, stored: bytes | bytearray) -> int | None:
    if version < _VERSION_WITH_CHECKSUM:
        return None
    (checksum,) = _CHECKSUM.unpack_from(stored, _HEADER.size)
    assert isinstance(checksum, int)
    return checksum


class Codec(Protocol):
    """Read and rewrite the encoded bytes of one encoding.

    Methods receive the message: its ``content`` holds the encoded bytes, and its ``decoded`` may keep what the codec
    decoded from them. All of them raise RemoteProtocolError if the bytes are malformed.
    """

    @property
    def encoding(self) -> int:
        """Return an ``Encoding`` number."""

    def user_id(self, message: StoredMessage) -> bytes | str | None:
        """Return the sender's id of the message, as `Message.user_id`."""

    def group_id(self, message: StoredMessage) -> PropertyValue:
        """Return the id of the message group, None for a message without a group."""

    def duplicate_id(self, message: StoredMessage) -> bytes | None:
        """Return the duplicate detection id, None when it is absent."""

    def is_to_temporary(self, message: StoredMessage) -> bool:
        """Return True if the sender named a temporary destination."""

    def property(self, message: StoredMessage, name: str) -> PropertyValue:
        """Return the value that a selector reads under this name, None when it is missing."""

    def annotated(self, message: StoredMessage, origin: Origin) -> bytes | bytearray:
        """Return the encoded bytes of a copy that states its origin, under the names of the encoding."""

    def changed(
        self,
        message: StoredMessage,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str],
    ) -> bytes | bytearray:
        """Return the encoded bytes of a copy with other properties, as `Message.with_changes`."""

    def with_property(self, message: StoredMessage, name: str, value: PropertyValue) -> bytes | bytearray:
        """Return the encoded bytes of a copy that has another property."""

    def with_route(self, message: StoredMessage, queue_name: str, queue_ids: bytes) -> bytes | bytearray:
        """Return the encoded bytes of a copy for a store-and-forward queue, as `Message.with_route`."""

    def to_core(self, message: StoredMessage, body: bytes) -> Message:
        """Return the message in the CORE encoding, with the same id, as `Message.to_core`."""


class StoredMessage:
    """Implement `Message` for one encoding. Attributes repeat values of the header: change them by methods only."""

    __slots__ = (
        "_content_at",
        "_stored",
        "address",
        "body",
        "codec",
        "decoded",
        "deliver_at",
        "durable",
        "encoded_size",
        "expiration",
        "is_directed",
        "memory_size",
        "message_id",
        "priority",
        "timestamp",
    )

    def __init__(
        self,
        codec: Codec,
        content: bytes | bytearray | memoryview,
        *,
        address: str,
        durable: bool,
        priority: int,
        expiration: int,
        timestamp: int,
        message_id: int = 0,
        body: Body = RESIDENT,
        deliver_at: int = 0,
        is_directed: bool = False,
    ) -> None:
        assert 0 <= priority <= 9, priority
        encoded_address = address.encode("utf-8", "surrogatepass")
        flags = _DURABLE if durable else 0
        version = _VERSION if body.checksum is None else _VERSION_WITH_CHECKSUM
        fixed = _HEADER.pack(
            version, flags, priority, body.kind, message_id, expiration, timestamp, body.number, body.size,
            len(encoded_address),
        )  # fmt: skip
        if body.checksum is not None:
            fixed += _CHECKSUM.pack(body.checksum)
        self._stored = bytearray().join((fixed, encoded_address, content))
        self._content_at = len(fixed) + len(encoded_address)
        self.codec = codec
        self.address = address
        self.durable = durable
        self.priority = priority
        self.expiration = expiration
        self.timestamp = timestamp
        self.message_id = message_id
        self.body = body
        self.deliver_at = deliver_at
        self.is_directed = is_directed
        self.decoded: object = None
        self.memory_size = len(self._stored)
        self.encoded_size = len(content) + body.size

    @classmethod
    def restore(cls, codec: Codec, stored: bytes | bytearray) -> StoredMessage:
        """Return the message that `stored_bytes` returned these bytes for.

        Raises:
            RemoteProtocolError: The header is malformed, or of a later version.
        """
        try:
            version, flags, priority, kind, message_id, expiration, timestamp, number, size, address_size = (
                _HEADER.unpack_from(stored)
            )
            if not _VERSION <= version <= _VERSION_WITH_CHECKSUM:
                raise RemoteProtocolError(
                    f"stored message of version {version}: only versions up to {_VERSION_WITH_CHECKSUM} are supported"
                )
            address_at = _HEADER.size if version == _VERSION else _HEADER.size + _CHECKSUM.size
            content_at = address_at + address_size
            if content_at > len(stored) or priority > 9:
                raise RemoteProtocolError(f"stored message: address of {address_size} bytes, priority {priority}")
            address = str(stored[address_at:content_at], "utf-8", "surrogatepass")
            body = Body(kind, number, size, _checksum(version, stored)) if kind else RESIDENT
        except (StructError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"stored message: the header is malformed: {error}") from error
        return cls(
            codec, memoryview(stored)[content_at:], address=address, durable=bool(flags & _DURABLE), priority=priority,
            expiration=expiration, timestamp=timestamp, message_id=message_id, body=body,
        )  # fmt: skip

    @property
    def encoding(self) -> int:
        return self.codec.encoding

    @property
    def body_number(self) -> int:
        return self.body.number

    @property
    def content(self) -> memoryview:
        """Return the encoded bytes that are resident, not copied."""
        return memoryview(self._stored)[self._content_at :]

    @property
    def user_id(self) -> bytes | str | None:
        return self.codec.user_id(self)

    @property
    def group_id(self) -> PropertyValue:
        return self.codec.group_id(self)

    @property
    def duplicate_id(self) -> bytes | None:
        return self.codec.duplicate_id(self)

    @property
    def is_grouped(self) -> bool:
        return self.is_directed and isinstance(self.group_id, str)

    @property
    def closes_group(self) -> bool:
        return self.to_core().closes_group

    @property
    def is_to_temporary(self) -> bool:
        return self.codec.is_to_temporary(self)

    def stored_bytes(self) -> bytearray:
        return self._stored

    def to_core(self, body: bytes = b"") -> Message:
        return self.codec.to_core(self, body)

    def assign_id(self, message_id: int) -> None:
        self.message_id = message_id
        _ID.pack_into(self._stored, _ID_AT, message_id)

    def annotate(self, origin: Origin, address: str) -> StoredMessage:
        return self._copy(self.codec.annotated(self, origin), address, expiration=0, message_id=0)

    def directed(self, deliver_at: int = 0) -> StoredMessage:
        copy = self._copy(self.content, self.address, self.expiration, self.message_id)
        copy.is_directed = True
        copy.deliver_at = deliver_at
        return copy

    def copy_to(self, address: str, priority: int | None = None, expiration: int = 0) -> StoredMessage:
        return self._copy(self.content, address, expiration, 0, priority)

    def with_changes(
        self,
        address: str,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str] = (),
    ) -> StoredMessage:
        content = self.codec.changed(self, routing_type, changes, removals)
        return self._copy(content, address, self.expiration, message_id=0)

    def with_property(self, name: str, value: PropertyValue) -> StoredMessage:
        content = self.codec.with_property(self, name, value)
        return self._copy(content, self.address, self.expiration, self.message_id)

    def with_route(self, queue_name: str, queue_ids: bytes) -> StoredMessage:
        content = self.codec.with_route(self, queue_name, queue_ids)
        copy = self._copy(content, self.address, self.expiration, message_id=0)
        copy.is_directed, copy.deliver_at = False, 0
        return copy

    def with_expiration(self, expiration: int) -> StoredMessage:
        return self._copy(self.content, self.address, expiration, self.message_id)

    def _copy(
        self,
        content: bytes | bytearray | memoryview,
        address: str,
        expiration: int,
        message_id: int,
        priority: int | None = None,
    ) -> StoredMessage:
        return StoredMessage(
            self.codec, content, address=address, durable=self.durable,
            priority=self.priority if priority is None else priority, expiration=expiration,
            timestamp=self.timestamp, message_id=message_id, body=self.body, deliver_at=self.deliver_at,
            is_directed=self.is_directed,
        )  # fmt: skip

    # Below every @property: from here on the name means this method inside the class.
    def property(self, name: str) -> PropertyValue:
        return self.codec.property(self, name)

    def __repr__(self) -> str:
        return f"<StoredMessage {self.message_id} to {self.address!r} in encoding {self.encoding}>"
