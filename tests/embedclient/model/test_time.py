"""UUIDs that survive an Artemis decoder, from time and randomness that are handed in."""

from __future__ import annotations

import uuid
from random import Random

from embedclient.model import Instant, TransportConfiguration, make_uuid, uuid_text


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()


def test_uuids_are_time_based_and_distinct() -> None:
    entropy = SeededEntropy(1)
    instant = Instant(5.0, 1_700_000_000_123)
    values = [make_uuid(entropy, instant) for _ in range(1000)]
    assert len(set(values)) == 1000
    for value in values:
        parsed = uuid.UUID(bytes=value)
        assert (parsed.version, parsed.variant) == (1, uuid.RFC_4122)
        milliseconds = (parsed.time - 0x01B21DD213814000) // 10_000
        assert milliseconds == instant.wall_ms
        assert uuid_text(value) == str(parsed)


def test_equal_randomness_gives_equal_uuids() -> None:
    instant = Instant(5.0, 1_700_000_000_123)
    assert make_uuid(SeededEntropy(1), instant) == make_uuid(SeededEntropy(1), instant)
    assert make_uuid(SeededEntropy(1), instant) != make_uuid(SeededEntropy(2), instant)


def test_connectors_read_their_port_from_text_or_number() -> None:
    assert TransportConfiguration("a", parameters={"host": "h", "port": "5445"}).port == 5445
    connector = TransportConfiguration("a")
    assert (connector.host, connector.port) == ("localhost", 61616)
