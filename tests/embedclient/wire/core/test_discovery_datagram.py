"""Datagrams of broadcast groups: those that Artemis sent, byte for byte, and bytes that are none."""

from __future__ import annotations

import pytest

from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.model import TCP_CONNECTOR_FACTORY, TransportConfiguration
from embedclient.wire.core import (
    DATAGRAM_BYTES_MAX,
    DiscoveryDatagram,
    decode_discovery_datagram,
    encode_discovery_datagram,
)
from tests.vectors.captures import captured_datagrams

A, B = captured_datagrams()


def connector(name: str, port: str) -> TransportConfiguration:
    return TransportConfiguration(name, TCP_CONNECTOR_FACTORY, {"port": port, "host": "127.0.0.1"})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            A,
            DiscoveryDatagram(
                "cd62e589-e554-11f1-aef7-02fc00000001",
                "cd77f42a-e554-11f1-aef7-02fc00000001",
                (connector("A", "64617"),),
            ),
        ),
        (
            B,
            DiscoveryDatagram(
                "cfa9eec6-e554-11f1-ac5e-02fc00000001",
                "cfbdc4e7-e554-11f1-ac5e-02fc00000001",
                (connector("B", "64717"),),
            ),
        ),
    ],
    ids=["A", "B"],
)
def test_a_datagram_of_artemis_is_read_and_written_byte_for_byte(data: bytes, expected: DiscoveryDatagram) -> None:
    assert decode_discovery_datagram(data) == expected
    assert encode_discovery_datagram(expected) == data


def test_several_connectors_keep_their_order_and_their_parameters() -> None:
    datagram = DiscoveryDatagram(
        "n", "u", (connector("a", "1"), TransportConfiguration("b", "F", {"tcpNoDelay": True, "x": 1 << 40}, {"e": 5}))
    )
    again = decode_discovery_datagram(encode_discovery_datagram(datagram))
    assert again == datagram
    assert [one.name for one in again.connectors] == ["a", "b"]
    assert again.connectors[1].extra == {"e": 5}


def test_bytes_behind_the_connectors_are_ignored() -> None:
    assert decode_discovery_datagram(A + b"of a later release") == decode_discovery_datagram(A)


def test_a_datagram_that_was_cut_off_is_an_error_with_its_size() -> None:
    for size in range(len(A)):
        with pytest.raises(RemoteProtocolError, match=f"a datagram of {size} bytes is not from a broadcast group: "):
            decode_discovery_datagram(A[:size])


@pytest.mark.parametrize("count", [-1, 1 << 20, (1 << 31) - 1])
def test_a_number_of_connectors_that_cannot_be_is_an_error_before_memory_is_taken(count: int) -> None:
    # Behind two texts of 36 characters, each with its length twice.
    data = A[: 2 * (4 + 2 + 36)] + count.to_bytes(4, "big", signed=True) + A[2 * (4 + 2 + 36) + 4 :]
    with pytest.raises(RemoteProtocolError, match=f"{count} entries promised"):
        decode_discovery_datagram(data)


def test_connectors_that_do_not_fit_into_a_datagram_are_an_error_with_both_sizes() -> None:
    many = DiscoveryDatagram("n", "u", tuple(connector(str(number), "61616") for number in range(600)))
    with pytest.raises(LocalProtocolError, match=rf"600 connectors of node n take \d+ bytes.*{DATAGRAM_BYTES_MAX}"):
        encode_discovery_datagram(many)


def test_a_parameter_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be encoded"):
        encode_discovery_datagram(DiscoveryDatagram("n", "u", (TransportConfiguration("a", "F", {"x": 1 << 64}),)))
