"""Message ids are version 1 UUIDs that only move forward."""

from __future__ import annotations

import itertools
from random import Random
from uuid import RFC_4122, UUID

from embedclient._client._message_ids import MessageIds

NOON_MS = 1_700_000_000_000


class Noise:
    def random_bytes(self, count: int) -> bytes:
        return Random(count).randbytes(count)

    def random(self) -> float:
        return 0.5


def ticks(value: bytes) -> int:
    return UUID(bytes=value).time


def test_an_id_is_a_uuid_of_its_moment_and_of_no_network_card() -> None:
    found = UUID(bytes=MessageIds(Noise()).next(NOON_MS))
    assert (found.version, found.variant) == (1, RFC_4122)
    assert found.node >> 40 & 1 == 1
    assert (found.time - 0x01B21DD213814000) // 10_000 == NOON_MS


def test_ids_grow_within_a_millisecond_beyond_it_and_when_the_clock_steps_back() -> None:
    ids = MessageIds(Noise())
    moments = [NOON_MS] * 3 + [NOON_MS + 1] + [NOON_MS - 5_000] * 2 + [NOON_MS] * 10_010 + [NOON_MS + 1, NOON_MS + 60]
    found = [ticks(ids.next(moment)) for moment in moments]
    assert all(before < after for before, after in itertools.pairwise(found))
    assert found[-1] == (NOON_MS + 60) * 10_000 + 0x01B21DD213814000


def test_the_lower_part_carries_over() -> None:
    ids = MessageIds(Noise())
    # The last whole millisecond in front of a carry: it comes in the middle of its ten thousand ids.
    start = (NOON_MS * 10_000 + 0x01B21DD213814000 | 0xFFFF_FFFF) - 0x01B21DD213814000
    found = [ticks(ids.next(start // 10_000)) for _ in range(10_001)]
    assert found == list(range(found[0], found[0] + 10_001))
    assert found[0] >> 32 < found[-1] >> 32
