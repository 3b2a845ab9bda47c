"""The datagram by which a broker announces its connectors to a multicast group (cluster-and-ha 6.1).

Responsible for its bytes. Does not depend on sockets, or on the time at which a datagram is sent.
"""

from __future__ import annotations

from typing import Final

from ...errors import LocalProtocolError, RemoteProtocolError
from ...model import TransportConfiguration
from .._buffer import Reader
from ._packet_table import Record, connector, of_kind, sequence, string

__all__ = ["DATAGRAM_BYTES_MAX", "DiscoveryDatagram", "decode_discovery_datagram", "encode_discovery_datagram"]

# The content of the largest UDP datagram over IPv4.
DATAGRAM_BYTES_MAX: Final = 65_507

# Two empty strings and no parameter.
_CONNECTOR_BYTES_MIN: Final = 12

connectors = sequence(connector, _CONNECTOR_BYTES_MIN)


class DiscoveryDatagram(Record):
    """The connectors of a broker. ``unique_id`` is new for each start of its broadcast group."""

    node_id: str = string()
    unique_id: str = string()
    connectors: tuple[TransportConfiguration, ...] = of_kind(connectors)


def encode_discovery_datagram(datagram: DiscoveryDatagram) -> bytes:
    """Return the bytes of a datagram.

    Raises:
        LocalProtocolError: a value does not fit, or all of them together do not fit into one datagram.
    """
    out = bytearray()
    datagram.append_body(out, 0)
    if len(out) > DATAGRAM_BYTES_MAX:
        raise LocalProtocolError(
            f"{len(datagram.connectors)} connectors of node {datagram.node_id} take {len(out)} bytes, and a datagram "
            f"holds {DATAGRAM_BYTES_MAX}: announce fewer connectors, or shorten their parameters"
        )
    return bytes(out)


def decode_discovery_datagram(data: bytes) -> DiscoveryDatagram:
    """Return the content of a datagram. Bytes behind the connectors are ignored, as Artemis ignores them.

    Raises:
        RemoteProtocolError: the bytes are not a datagram of a broker; the text has their number and what is wrong.
    """
    try:
        return DiscoveryDatagram.read_body(Reader(data), 0)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"a datagram of {len(data)} bytes is not from a broadcast group: {error}") from error
