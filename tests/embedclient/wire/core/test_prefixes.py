"""Every prefix of every captured frame gives a packet or RemoteProtocolError."""

from __future__ import annotations

import pytest

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import SessionReceiveMessage, SessionSend, decode_packet
from tests.vectors.captures import CapturedFrame, all_frames

TYPES = sorted({frame.type for frame in all_frames()})


@pytest.mark.search
@pytest.mark.parametrize("packet_type", TYPES)
def test_every_prefix_is_read_or_refused(packet_type: int) -> None:
    distinct = {(frame.data, frame.version): frame for frame in all_frames() if frame.type == packet_type}
    for frame in distinct.values():
        refused = [length for length in range(len(frame.data)) if not reads(frame, length)]
        assert refused[: min(13, len(frame.data))] == list(range(13))


def reads(frame: CapturedFrame, length: int) -> bool:
    """Decode a prefix that lies inside a larger buffer, as it would in a stream."""
    try:
        packet = decode_packet(frame.data, 0, length, frame.version, frame.from_client)
        if isinstance(packet, SessionSend | SessionReceiveMessage):
            _ = packet.message.properties
    except RemoteProtocolError:
        return False
    return True
