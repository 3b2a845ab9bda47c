"""Unit of work: what settling needs of a transaction. `Transaction` of ``transactions`` provides it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeAlias

from ..queueing._backlog import Reference
from ..queueing._queue import Consumer, Queue
from ._outcome import Outcome

__all__ = ["Taken", "UnitOfWork"]

Taken: TypeAlias = tuple[Queue, Collection[Reference], Outcome, Consumer | None]
"""Deliveries of one queue, and the consumer for which they are undeliverable if that is their outcome."""


class UnitOfWork(Protocol):
    """Gather decisions about deliveries in a transaction.

    ``recorded`` is True once the journal has the id. ``unsettled`` counts large settlements that are being recorded.
    """

    id: int
    recorded: bool
    unsettled: int

    @property
    def is_ended(self) -> bool:
        """Return True if it was committed or rolled back."""

    def take(
        self, queue: Queue, references: Collection[Reference], outcome: Outcome, consumer: Consumer | None = None
    ) -> None:
        """Gather deliveries whose outcome takes effect with the commit."""

    def commit(self) -> None:
        """Carry everything out."""
