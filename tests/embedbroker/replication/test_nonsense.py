"""What makes no sense in a stream of disk work: both ends say so, and nothing is touched."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.replication import EndingKind, ReplicaState, ReplicatorState
from embedbroker.replication._stream_packets import sealed
from embedbroker.testing._disk import SimulatedDisk
from embedclient.wire.core import (
    CopiedFile,
    CopyBegin,
    CopyMark,
    Farewell,
    OperationCode,
    Packet,
    ReplicaAccepted,
    StreamAnswer,
    StreamChunk,
    StreamFarewell,
    StreamMark,
    StreamOperation,
    StreamWork,
    encode_chunk,
    encode_work,
)
from tests.embedbroker.replication.pair import (
    Backup,
    Pair,
    WireEnd,
)


@pytest.fixture
def pair() -> Pair:
    pair = Pair.new(Random(1))
    pair.primary.recorded.call("reserve_ids", 1_000)
    pair.settle()
    return pair


# -- what makes no sense -----------------------------------------------------------------------------------------

ACCEPTED = ReplicaAccepted(1, "node", 1, 1, True)
BEGIN = CopyBegin(True, (CopiedFile("segment-0000000001.journal", 0, 4096),))


def _work(operation: StreamOperation, lane: int = 0, number: int = 1, after: tuple[int, int] = (0, 0)) -> bytes:
    return b"".join(encode_work(StreamWork(lane, number, after, [operation]), 2))


SYNC_NAMES = StreamOperation(OperationCode.SYNC_NAMES, "")
NONSENSE: dict[str, list[Packet | bytes]] = {
    "an answer": [ACCEPTED, StreamAnswer(0, 1)],
    "another format": [ReplicaAccepted(9, "node", 1, 1, True)],
    "a copy before it was accepted": [BEGIN],
    "accepted twice": [ACCEPTED, ACCEPTED],
    "work before the copy": [ACCEPTED, _work(SYNC_NAMES)],
    "a mark before the copy": [ACCEPTED, CopyMark(StreamMark.SYNC, 1)],
    "work with a number that is not next": [ACCEPTED, BEGIN, _work(SYNC_NAMES, number=2)],
    "work in a lane that is none": [ACCEPTED, BEGIN, _work(SYNC_NAMES, lane=2)],
    "work behind work that did not come": [ACCEPTED, BEGIN, _work(SYNC_NAMES, after=(0, 1))],
    "a file of somebody else": [ACCEPTED, BEGIN, _work(StreamOperation(OperationCode.REMOVE, "../data"))],
    "a new name of somebody else": [
        *(ACCEPTED, BEGIN),
        _work(StreamOperation(OperationCode.RENAME, "compacting.journal", other="unfinished.copy")),
    ],
    "a copy of a file of somebody else": [ACCEPTED, CopyBegin(True, (CopiedFile("server.lock", 0, 1),))],
    "a copy of which more is kept than there is": [
        *(ACCEPTED, CopyBegin(False, (CopiedFile("compacting.journal", 2, 1),))),
    ],
    "a chunk of a file that is none": [ACCEPTED, BEGIN, b"".join(encode_chunk(StreamChunk(2, 1, 0, b"x"), 2))],
    "a chunk behind the end": [ACCEPTED, BEGIN, b"".join(encode_chunk(StreamChunk(2, 0, 4096, b"x"), 2))],
    "a chunk that is not next": [ACCEPTED, BEGIN, b"".join(encode_chunk(StreamChunk(3, 0, 0, b"x"), 2))],
    "a mark of another kind": [ACCEPTED, BEGIN, CopyMark(3, 2)],
    "a chunk behind the hand-over": [
        *(ACCEPTED, BEGIN, CopyMark(StreamMark.HAND_OVER, 2)),
        b"".join(encode_chunk(StreamChunk(3, 0, 0, b"x"), 2)),
    ],
    "damage": [ACCEPTED, BEGIN, _work(SYNC_NAMES)[:-1] + b"\x09"],
}


@pytest.mark.parametrize("said", NONSENSE.values(), ids=list(NONSENSE))
def test_a_primary_that_makes_no_sense_is_left_with_a_reason(said: list[Packet | bytes]) -> None:
    backup, line, far = Backup(SimulatedDisk(), Random(1)), WireEnd("primary"), WireEnd("backup")
    backup.join(line)
    line.far, far.far = far, line
    for packet in said:
        line.receive(packet if isinstance(packet, bytes) else sealed(packet))
    while backup.step():
        pass
    assert [(ending.kind, ending.in_sync) for ending in backup.endings] == [(EndingKind.BROKEN, False)]
    assert line.failure is not None
    assert said[0] == ACCEPTED or "install the same version on both" in line.failure or said[0] == BEGIN
    assert not any("data" in name or "lock" in name for name in backup.disk.names)


@pytest.mark.parametrize(
    "packet",
    [
        StreamAnswer(0, 7),
        StreamAnswer(3, 1),
        StreamAnswer(9, 1),
        StreamAnswer(0, 0),
        ACCEPTED,
        StreamFarewell(Farewell.BROKEN, "its disk is full"),
    ],
)
def test_a_backup_that_makes_no_sense_is_lost_with_a_reason(pair: Pair, packet: Packet) -> None:
    pair.synchronise()
    pair.settle()
    assert pair.ends is not None
    pair.ends[0].receive(sealed(packet))
    assert len(pair.primary.lost) == 1
    assert pair.ends[0].failure is not None
    pair.settle()
    assert pair.primary.replicator.state is ReplicatorState.ALONE
    assert pair.backup.replica is not None and pair.backup.replica.state is ReplicaState.OVER
