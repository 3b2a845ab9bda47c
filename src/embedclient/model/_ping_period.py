"""The period of pings on a connection, for clients and for brokers of a cluster.

1. A connection counts as lost when nothing came for its time to live.
2. A quiet one carries pings alone: with pauses longer than the time to live it is lost, and made again, each time.

So the time to live is the stronger setting. Two pings fit into it, because an answer takes time. Does not depend on
clocks or packets.
"""

from __future__ import annotations

__all__ = ["ping_period_ms"]


def ping_period_ms(check_period_ms: int, connection_ttl_ms: int) -> int:
    """Return the pause between two pings: `check_period_ms`, but at most half of the time to live.

    -1 is never, for both arguments and for the result.
    """
    if connection_ttl_ms >= 0:
        half_ms = connection_ttl_ms // 2
        check_period_ms = half_ms if check_period_ms < 0 else min(check_period_ms, half_ms)
    elif check_period_ms < 0:
        return -1
    return max(1, check_period_ms)
