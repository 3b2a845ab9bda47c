"""A message as selectors see it, for the selector tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import frozen

from embedclient.model import Encoding, Origin, PropertyValue


@frozen
class Letter:
    """Implements the stored message with fields that a test fills in."""

    properties: Mapping[str, PropertyValue] = {}
    address: str = "orders"
    durable: bool = True
    priority: int = 4
    expiration: int = 0
    timestamp: int = 0
    encoded_size: int = 100
    memory_size: int = 100
    user_id: bytes | str | None = None
    group_id: PropertyValue = None
    message_id: int = 1
    encoding: int = Encoding.CORE
    duplicate_id: bytes | None = None
    is_to_temporary: bool = False
    deliver_at: int = 0
    body_number: int = 0
    is_directed: bool = False
    is_grouped: bool = False
    closes_group: bool = False

    def property(self, name: str) -> PropertyValue:
        return self.properties.get(name)

    def assign_id(self, message_id: int) -> None:
        raise AssertionError("a selector assigns no ids")

    def stored_bytes(self) -> bytes:
        raise AssertionError("a selector stores nothing")

    def to_core(self, body: bytes = b"") -> Letter:
        raise AssertionError("a selector converts nothing")

    def annotate(self, origin: Origin, address: str) -> Letter:
        raise AssertionError("a selector copies nothing")

    def directed(self, deliver_at: int = 0) -> Letter:
        raise AssertionError("a selector directs nothing")

    def with_property(self, name: str, value: PropertyValue) -> Letter:
        raise AssertionError("a selector copies nothing")

    def copy_to(self, address: str, priority: int | None = None, expiration: int = 0) -> Letter:
        raise AssertionError("a selector copies nothing")

    def with_changes(
        self,
        address: str,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str] = (),
    ) -> Letter:
        raise AssertionError("a selector copies nothing")

    def with_route(self, queue_name: str, queue_ids: bytes) -> Letter:
        raise AssertionError("a selector routes nothing")

    def with_expiration(self, expiration: int) -> Letter:
        raise AssertionError("a selector copies nothing")
