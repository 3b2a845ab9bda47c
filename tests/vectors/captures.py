"""Reads captured traffic: frames in order, each with the protocol version its connection had reached.

Responsible for the files of this folder. Refuses to judge what they say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    ClusterTopologyV4,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    SubscribeTopologyV2,
    decode_packet,
)

FOLDER = Path(__file__).parent


@frozen
class CapturedFrame:
    """One frame. ``version`` is what both ends use, 0 before either side has sent its version."""

    file: str
    line: int
    connection: int
    from_client: bool
    channel: int
    type: int
    name: str
    data: bytes
    version: int
    lost: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


class _Version:
    """What a connection has agreed on: the smaller of the two versions, once both are known."""

    def __init__(self) -> None:
        self.client = 0
        self.server = 0

    @property
    def agreed(self) -> int:
        return min(self.client or self.server, self.server or self.client)

    def observe(self, data: bytes, from_client: bool) -> None:
        try:
            packet = decode_packet(data, 0, len(data), self.agreed, from_client)
        except RemoteProtocolError:
            return
        match packet:
            case SubscribeTopologyV2():
                self.client = packet.client_version
            case CreateSession() | CreateSessionV2():
                self.client = packet.version
            case CreateSessionResponse() | ClusterTopologyV4():
                self.server = packet.server_version


def frames_of(path: Path) -> Iterator[CapturedFrame]:
    """Yield the frames of one file."""
    versions: dict[int, _Version] = {}
    for number, text in enumerate(path.read_text().splitlines(), 1):
        line = json.loads(text)
        if "hex" not in line or line.get("raw"):
            continue
        version = versions.setdefault(line["conn"], _Version())
        data = bytes.fromhex(line["hex"])
        from_client = line["from"] == "client"
        yield CapturedFrame(
            path.name,
            number,
            line["conn"],
            from_client,
            line["channel"],
            line["type"],
            line["name"],
            data,
            version.agreed,
            bool(line.get("lost")),
        )
        version.observe(data, from_client)


def core_files() -> list[Path]:
    """Return the files of clients and standalone brokers."""
    return sorted((FOLDER / "core").glob("*.jsonl"))


@cache
def captured_datagrams() -> tuple[bytes, ...]:
    """Return the datagrams that two broadcast groups sent, each once, in the order in which they came first."""
    lines = (FOLDER / "discovery-udp-datagrams.jsonl").read_text().splitlines()
    found = [bytes.fromhex(line["hex"]) for line in map(json.loads, lines) if line.get("name") == "DATAGRAM"]
    return tuple(dict.fromkeys(found))


@cache
def all_frames() -> tuple[CapturedFrame, ...]:
    """Return every frame of every file."""
    return tuple(frame for path in (*core_files(), FOLDER / "cluster-packets.jsonl") for frame in frames_of(path))


@cache
def representative_frames(per_shape: int = 2) -> tuple[CapturedFrame, ...]:
    """Return the smallest few decodable frames of every type in every version."""
    shapes: dict[tuple[int, int], list[CapturedFrame]] = {}
    for frame in sorted(all_frames(), key=lambda each: len(each.data)):
        same = shapes.setdefault((frame.type, frame.version), [])
        if len(same) < per_shape and frame.data not in [other.data for other in same] and not is_broken(frame):
            same.append(frame)
    return tuple(frame for same in shapes.values() for frame in same)


def is_broken(frame: CapturedFrame) -> bool:
    """Return whether a frame was sent broken on purpose."""
    return frame.file == "raw-odd-frames.jsonl"
