"""A stream of which one byte was changed on its way, or which ended there: no end believes in a broken copy."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from embedbroker.replication import ReplicatorState
from embedbroker.storage import JournalState
from embedbroker.testing._disk import SimulatedDisk
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import FRAME_HEADER, FRAME_HEADER_SIZE, decode_chunk
from tests.embedbroker.replication.pair import Backup, Pair, WireEnd, opened
from tests.embedbroker.replication.test_pair import append, files_of

pytestmark = pytest.mark.search

Files = dict[str, bytes]
# Larger than every frame but the one that is a part of a file. In that one, most bytes are tried at its decoder alone.
WHOLE_BYTES_MAX = 1_000
SAMPLED_EVERY = 997


def talk(pair: Pair, there_and_back: tuple[list[bytes], list[bytes]], change: tuple[int, int] | None = None) -> None:
    """Until both have nothing more to send. ``change`` is a place in what the backup sends, and a mask."""
    assert pair.ends is not None
    here, there = pair.ends
    forth, back = there_and_back
    while True:
        if here.out and there.alive:
            data = bytes(here.out)
            del here.out[:]
            forth.append(data)
            there.receive(data)
        elif there.out and here.alive:
            data = bytes(there.out)
            del there.out[:]
            position = sum(map(len, back))
            back.append(data)
            if change is not None and position <= change[0] < position + len(data):
                data = changed(data, change[0] - position, change[1])
            here.receive(data)
            pair.primary.settle_journal()
            check(pair)
        elif not (pair.primary.step() | pair.backup.step()):
            return


def check(pair: Pair) -> None:
    """As long as the primary has its backup, that has everything that was ever confirmed."""
    if pair.primary.replicator.state is ReplicatorState.SYNCHRONISED:
        pair.check(pair.backup.disk)


def changed(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def history(change: tuple[int, int] | None = None) -> tuple[Pair, list[bytes], list[bytes]]:
    """A backup joins, gets in sync, and is sent three pieces of work; with what was sent in both directions."""
    pair = Pair.new(Random(1))
    pair.primary.recorded.call("reserve_ids", 1_000)
    pair.settle()
    pair.join()
    said: tuple[list[bytes], list[bytes]] = [], []
    talk(pair, said, change)
    for _ in range(3):
        append(pair)
        talk(pair, said, change)
    return pair, *said


def frames(data: bytes) -> list[bytes]:
    found, start = [], 0
    while start < len(data):
        size = FRAME_HEADER.unpack_from(data, start)[0] + 4
        found.append(data[start : start + size])
        start += size
    return found


def replayed(pieces: list[bytes]) -> tuple[Backup, WireEnd, list[Files]]:
    """A backup that receives what a primary once sent; with what its files held whenever it was in sync."""
    backup, line, far = Backup(SimulatedDisk(), Random(1)), WireEnd("primary"), WireEnd("backup")
    backup.join(line)
    line.far, far.far = far, line
    states: list[Files] = []
    for piece in pieces:
        if line.alive:
            line.receive(piece)
        while backup.step():
            pass
        if backup.in_sync:
            states.append(files_of(backup.disk))
    if line.alive:
        line.break_off()
    while backup.step():
        pass
    return backup, line, states


def places(said: list[bytes]) -> Iterator[tuple[int, int]]:
    """Every byte, as a frame and a place in it; of a large frame the head, and some."""
    for index, frame in enumerate(said):
        for place in range(len(frame)):
            if len(frame) <= WHOLE_BYTES_MAX or place < 50 or place % SAMPLED_EVERY == 0:
                yield index, place


def is_safe(backup: Backup, states: list[Files]) -> bool:
    """A copy counts only with what a whole one held at some moment, and a journal starts on nothing else."""
    (ending,) = backup.endings
    if ending.in_sync:
        return files_of(backup.disk) in states
    return not files_of(backup.disk) or opened(backup.disk.copy()).state is JournalState.FAILED


def test_a_byte_that_changed_on_its_way_to_the_backup_brings_nothing_else_into_sync() -> None:
    _pair, forth, _back = history()
    said = frames(b"".join(forth))
    whole, _line, states = replayed(said)
    assert is_safe(whole, states) and len(states) == 4
    broken = 0
    for index, place in places(said):
        piece = changed(said[index], place, 1 << place % 8)
        backup, line, _states = replayed([*said[:index], piece, *said[index + 1 :]])
        assert is_safe(backup, states), (index, place)
        failure = line.failure or ""
        broken += bool(failure)
        assert not failure or "frame" in failure or "look for what changes bytes" in failure
    assert broken > sum(map(len, said[-3:]))


def test_no_byte_of_a_part_of_a_file_changes_unnoticed() -> None:
    _pair, forth, _back = history()
    (chunk,) = [frame for frame in frames(b"".join(forth)) if len(frame) > WHOLE_BYTES_MAX]
    decode_chunk(chunk, 0, len(chunk))
    for place in range(FRAME_HEADER_SIZE, len(chunk)):
        piece = changed(chunk, place, 1 << place % 8)
        with pytest.raises(RemoteProtocolError, match="checksum"):
            decode_chunk(piece, 0, len(piece))


def test_a_stream_that_ends_at_any_byte_leaves_a_whole_copy_or_none() -> None:
    _pair, forth, _back = history()
    said = frames(b"".join(forth))
    _whole, _line, states = replayed(said)
    for index, place in places(said):
        backup, _line, _states = replayed([*said[:index], said[index][:place]])
        assert is_safe(backup, states), (index, place)


def test_a_byte_that_changed_on_its_way_to_the_primary_confirms_nothing_that_the_backup_has_not() -> None:
    _pair, _forth, back = history()
    lost = 0
    for place in range(sum(map(len, back))):
        pair, _there, _again = history((place, 1 << place % 8))
        check(pair)
        lost += bool(pair.primary.lost)
    assert lost > sum(map(len, back)) // 2
