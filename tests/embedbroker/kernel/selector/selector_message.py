"""A message as selectors see it, for the selector tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import frozen

from embedclient.model import Encoding, PropertyValue, TypedValue


@frozen
class Letter:
    """Implements the message port with fields that a test fills in."""

    properties: Mapping[str, PropertyValue] = {}
    address: str = "orders"
    durable: bool = True
    priority: int = 4
    expiration: int = 0
    timestamp: int = 0
    size: int = 100
    user_id: bytes | str | None = None
    message_id: int = 1
    raw: bytes = b""
    encoding: int = Encoding.CORE
    duplicate_id: bytes | None = None

    def property(self, name: str) -> PropertyValue:
        return self.properties.get(name)

    def assign_id(self, message_id: int) -> None:
        raise AssertionError("a selector assigns no ids")

    def copy_for(
        self,
        address: str,
        *,
        changes: Mapping[str, PropertyValue | TypedValue],
        removals: Collection[str],
        expiration: int,
    ) -> Letter:
        raise AssertionError("a selector copies nothing")
