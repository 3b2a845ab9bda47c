"""Redelivery delay: how long a message waits in its queue after a rollback.

Responsible for the formula (broker-semantics 4.2). Does not depend on queues and clocks.
"""

from __future__ import annotations

import math

from embedbroker.config import AddressSettings

__all__ = ["redelivery_delay_ms"]

# By default, the longest delay is this many times the first one.
_LONGEST_FACTOR = 10
_WORD = 1 << 64
_MIX = 0x9E3779B97F4A7C15


def redelivery_delay_ms(settings: AddressSettings, deliveries: int, message_id: int) -> int:
    """Return the delay in milliseconds of a message that a rollback returns; 0 for none.

    Args:
        settings: Settings of the address of the queue.
        deliveries: Delivery count of the message, this return included.
        message_id: Id of the message. Collision avoidance spreads messages by it, so that a delay is reproducible.
    """
    first, multiplier = settings.redelivery_delay_ms, settings.redelivery_delay_multiplier
    factor, longest = settings.redelivery_collision_avoidance_factor, settings.max_redelivery_delay_ms
    assert first is not None and multiplier is not None and factor is not None and longest is not None
    if first <= 0:
        return 0
    try:
        # As a float: a whole number would be computed to its last digit.
        delay = float(math.floor(first * float(multiplier) ** (max(deliveries, 1) - 1)))
    except OverflowError:
        delay = math.inf
    limit = longest if longest >= 0 else _LONGEST_FACTOR * first
    if factor and delay < math.inf:
        delay += delay * factor * _spread(message_id, deliveries)
    return max(int(min(delay, limit)), 0)


def _spread(message_id: int, deliveries: int) -> float:
    """Return a number in [-1, 1) that looks random, always the same for the same arguments."""
    mixed = (message_id * _MIX + deliveries * 0xBF58476D1CE4E5B9) % _WORD
    mixed = ((mixed ^ (mixed >> 31)) * 0x94D049BB133111EB) % _WORD
    return ((mixed ^ (mixed >> 29)) % _WORD) / (_WORD // 2) - 1
