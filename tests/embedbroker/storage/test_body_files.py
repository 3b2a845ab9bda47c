"""The files of large bodies: which operations of the disk they take."""

from __future__ import annotations

from embedbroker.storage import BodyFiles, WriteAt, body_file

CHUNK = bytes(100 * 1024)


def test_chunks_of_bodies_that_arrive_in_turn_are_one_write_each() -> None:
    bodies = BodyFiles(lambda text: None)
    for _ in range(5):
        for number in (1, 2, 3):
            assert bodies.append(number, CHUNK)
    operations = bodies.take(0)
    assert operations == tuple([WriteAt(body_file(number), 0, (CHUNK,) * 5) for number in (1, 2, 3)])
    # What arrives while they are written is behind them.
    bodies.append(2, CHUNK)
    bodies.done((None,) * 3)
    assert bodies.take(0) == (WriteAt(body_file(2), 5 * len(CHUNK), (CHUNK,)),)
