"""A demo's parameters and its findings: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import define, field, frozen

from ..drill import Ha
from ._orders import Orders, Total

__all__ = ["DemoPlan", "Findings", "Moment", "Progress", "RoleChange"]

_TRANSACTION_MAX, _BATCH_ROWS_MAX, _AHEAD_MAX = 1_000, 50_000, 200_000


@frozen
class DemoPlan:
    """The size of a demo. ``directory`` is empty and used by this demo only."""

    orders: Orders
    ha: Ha
    directory: Path

    @property
    def transaction(self) -> int:
        """Orders in one transaction."""
        return min(_TRANSACTION_MAX, max(10, self.orders.count // 50))

    @property
    def batch_rows(self) -> int:
        """Rows that Spark reads at once: a failover finds several batches before and behind it."""
        return min(_BATCH_ROWS_MAX, max(100, self.orders.count // 8))

    @property
    def ahead_max(self) -> int:
        """By how many orders the producer may be ahead of Spark; this bounds the brokers' memory."""
        return min(_AHEAD_MAX, 2 * self.orders.count // 5)

    @property
    def kill_at(self) -> int:
        """The confirmed order behind which the live broker is killed."""
        return self.orders.count // 2


@frozen
class Moment:
    """The progress of all parts at a moment, in seconds from the beginning of the producer."""

    at: float
    confirmed: int
    read: int


@frozen
class RoleChange:
    """A broker has another state from ``at`` on."""

    at: float
    broker: str
    standing: str


@define
class Progress:
    """What is known while the demo runs; for the line of progress, and for the page."""

    confirmed: int = 0
    again: int = 0
    read: int = 0
    batches: int = 0
    published: int = 0
    phase: str = "starting brokers and Spark"
    killed_at: float | None = None
    confirmed_at_kill: int = 0
    read_at_kill: int = 0
    #: From the kill to the first confirmation of a transaction that was begun after it.
    producer_gap_s: float | None = None
    #: From the kill to the end of the first batch of rows that was begun after it.
    query_gap_s: float | None = None
    ended_at: float = 0.0
    moments: list[Moment] = field(factory=list)
    roles: list[RoleChange] = field(factory=list)


@frozen
class Findings:
    """The results. ``objections`` are sentences about what is wrong; empty if no order was lost and none came twice."""

    plan: DemoPlan
    progress: Progress
    expected: Mapping[tuple[int, int], Total]
    parquet: Mapping[tuple[int, int], Total]
    audited: tuple[str, ...]
    objections: tuple[str, ...]

    @property
    def rows_per_second(self) -> float:
        """Orders per second, from the first to the end of the last batch that read some, the failover included."""
        return self.plan.orders.count / self.progress.ended_at
