"""Connectors and branch ids: what they cannot be is refused with the field's name."""

from __future__ import annotations

from typing import Any

import pytest

from embedclient import TransportConfiguration, Xid
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY, can_be_dialled

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


@pytest.mark.parametrize(
    ("factory", "parameters", "expected"),
    [
        (TCP_CONNECTOR_FACTORY, {"host": "h", "port": "61616"}, True),
        (TCP_CONNECTOR_FACTORY, {"host": "h", "port": 61616}, True),
        (TCP_CONNECTOR_FACTORY, {}, True),
        (TCP_CONNECTOR_FACTORY, {"port": "0"}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "65536"}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "-1"}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "http"}, False),
        (TCP_CONNECTOR_FACTORY, {"port": ""}, False),
        # Python converts no text of more than 4300 digits.
        (TCP_CONNECTOR_FACTORY, {"port": "1" * 5_000}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "1", "localPort": "0", "tcpSendBufferSize": "-1"}, True),
        (TCP_CONNECTOR_FACTORY, {"port": "1", "localPort": "any"}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "1", "localPort": 65_536}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "1", "tcpSendBufferSize": "large"}, False),
        (TCP_CONNECTOR_FACTORY, {"port": "1", "tcpReceiveBufferSize": 1 << 31}, False),
        (IN_VM_CONNECTOR_FACTORY, {"serverId": "0"}, True),
        (IN_VM_CONNECTOR_FACTORY, {}, False),
        ("com.example.Factory", {"host": "h", "port": 1}, False),
    ],
)
def test_a_connector_of_a_peer_can_be_dialled_or_not(
    factory: str, parameters: dict[str, bool | int | str], expected: bool
) -> None:
    assert can_be_dialled(TransportConfiguration("c", factory, parameters)) is expected
