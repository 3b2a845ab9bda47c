"""Recorded traffic with bytes changed, dropped and repeated: a node closes connections, and does nothing else.

Every mutation runs beside a client that behaves: it must not notice.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from embedbroker.node import NodeState
from embedclient.wire.core import SessionReceiveMessage, SessionSend
from tests.embedbroker.node.recording import Line, read
from tests.embedbroker.node.scripted import Peer, Stage, letter, text_of
from tests.vectors.captures import core_files

# Every seventh file by name, so that this takes seconds. No campaign plays the others: that of `tests.fuzz` changes
# single packets, of every type and version that was captured, and gives them to decoders, without a node.
FILES = core_files()[::7]
MUTATIONS_PER_FILE = 6


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    match random.randrange(7):
        case 0:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        case 1:
            at = random.randrange(len(changed))
            changed[at : at + 4] = random.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"])
        case 2:
            del changed[random.randrange(len(changed)) :]
            changed[:4] = max(len(changed) - 4, 0).to_bytes(4, "big")
        case 3:
            changed += random.randbytes(random.randrange(1, 9))
            changed[:4] = (len(changed) - 4).to_bytes(4, "big")
        case 4:
            changed[4] = random.randrange(256)
        case 5:
            changed[12] = random.choice([0, 1, 2, 3, 4, 10, 11, 12, 99])
        case 6:
            changed = changed * 2
    return bytes(changed)


class Witness:
    """A client that goes on sending, receiving and asking."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.peer = stage.connect().open_session("witness", pre_acknowledge=True)
        self.peer.create_queue("witness")
        self.peer.consume("witness")
        self.count = 0

    def look(self) -> None:
        self.count += 1
        self.peer.clear()
        self.peer.send(SessionSend(letter(str(self.count), "witness"), True, -2))
        self.stage.run()
        assert "NullResponse" in [type(packet).__name__ for _channel, packet in self.peer.received]
        assert [text_of(packet.message) for packet in self.peer.packets(SessionReceiveMessage)] == [str(self.count)]
        assert self.peer.state() == "open"


def play(stage: Stage, lines: list[Line], random: Random) -> None:
    """One recorded client half, with one frame in ten changed."""
    peers: dict[int, Peer] = {}
    for line in lines:
        if line.kind == "open":
            peers[line.connection] = stage.accept()
            # Its version may be changed on the way, so the answers cannot be decoded reliably.
            peers[line.connection].listens = False
        elif line.kind in ("handshake", "frame") and line.from_client:
            peer = peers[line.connection]
            if peer.closed is None:
                change = line.kind == "frame" and random.random() < 0.1
                peer.send_bytes(mutated(line.data, random) if change else line.data)
                stage.run()
    for peer in peers.values():
        if peer.closed is None:
            peer.lose()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_changed_frames_end_connections_only(path: Path) -> None:
    random = Random(path.stem)
    stage = Stage()
    witness = Witness(stage)
    lines = read(path)
    for _ in range(MUTATIONS_PER_FILE):
        play(stage, lines, random)
        witness.look()
    stage.advance(130)
    assert stage.node.state is NodeState.RUNNING
    assert set(stage.node.core.sessions) <= {"witness"}
    assert all(not queue.definition.temporary for queue in stage.node.kernel.address_manager.queues.values())
