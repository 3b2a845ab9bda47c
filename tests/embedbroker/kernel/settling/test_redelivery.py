"""The formula of redelivery delays."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings, AddressSettingsRepository
from embedbroker.kernel.settling._redelivery import redelivery_delay_ms


def settings(**values: object) -> AddressSettings:
    return AddressSettingsRepository({"#": AddressSettings(**values)}).of("q")  # type: ignore[arg-type]  # real fields


@pytest.mark.parametrize(
    ("values", "deliveries", "expected"),
    [
        ({}, 3, 0),
        ({"redelivery_delay_ms": 300}, 0, 300),
        ({"redelivery_delay_ms": 300}, 7, 300),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 2}, 3, 1200),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 1.5}, 3, 675),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 2}, 5, 3000),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 2, "max_redelivery_delay_ms": 500}, 3, 500),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 2, "max_redelivery_delay_ms": 0}, 3, 0),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 0}, 3, 0),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 1e200}, 10, 3000),
        ({"redelivery_delay_ms": 300, "redelivery_delay_multiplier": 2}, 1 << 31, 3000),
    ],
)
def test_the_delay_grows_by_the_multiplier_up_to_the_maximum(
    values: dict[str, object], deliveries: int, expected: int
) -> None:
    assert redelivery_delay_ms(settings(**values), deliveries, 17) == expected


def test_collision_avoidance_spreads_delays_on_both_sides_and_repeats_them() -> None:
    """Artemis' RedeliveryConsumerTest.testRedeliveryCollisionAvoidance."""
    spread = settings(redelivery_delay_ms=1000, redelivery_collision_avoidance_factor=0.5)
    delays = [redelivery_delay_ms(spread, 1, message_id) for message_id in range(1000)]
    assert delays == [redelivery_delay_ms(spread, 1, message_id) for message_id in range(1000)]
    assert 500 <= min(delays) < 520 and 1480 < max(delays) <= 1500
    assert 450 < sum([delay < 1000 for delay in delays]) < 550
    assert redelivery_delay_ms(spread, 2, 7) != redelivery_delay_ms(spread, 1, 7)
