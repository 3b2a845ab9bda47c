"""Connectors and branch ids: what they cannot be is refused with the field's name."""

from __future__ import annotations

from typing import Any

import pytest

from embedclient import TransportConfiguration, Xid

CONNECTOR: dict[str, object] = {"name": "a"}
XID: dict[str, object] = {"format_id": 1, "branch_qualifier": b"b", "global_transaction_id": b"g"}


@pytest.mark.parametrize(
    ("kind", "right", "field", "wrong", "error"),
    [
        (TransportConfiguration, CONNECTOR, "name", None, TypeError),
        (TransportConfiguration, CONNECTOR, "factory", b"netty", TypeError),
        (TransportConfiguration, CONNECTOR, "parameters", [("host", "a")], TypeError),
        (TransportConfiguration, CONNECTOR, "parameters", {"host": None}, TypeError),
        (TransportConfiguration, CONNECTOR, "extra", {1: "one"}, TypeError),
        (Xid, XID, "format_id", "7", TypeError),
        (Xid, XID, "format_id", True, TypeError),
        (Xid, XID, "format_id", 1 << 31, ValueError),
        (Xid, XID, "branch_qualifier", "text", TypeError),
        (Xid, XID, "global_transaction_id", bytearray(b"g"), TypeError),
    ],
)
def test_the_field_that_is_wrong_is_named(
    kind: Any, right: dict[str, object], field: str, wrong: object, error: type[Exception]
) -> None:
    kind(**right)
    with pytest.raises(error, match=f"^{field} must"):
        kind(**{**right, field: wrong})
