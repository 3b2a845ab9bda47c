"""The lease of a replicating broker, with the epoch that it keeps beside it.

Responsible for its `LeaseActivation`, whose key is the node of the data here. Writes the epochs that it claims into
the record before it goes on. Does not depend on what follows from an outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import evolve

from embedbroker import locks

from .._inputs import LockDone, LockFailed
from .._record_file import RecordFile

__all__ = ["LeaseHolder"]


class LeaseHolder:
    """The lease of one start of a broker that has a lock manager. ``on_change`` is called when an epoch was written."""

    def __init__(self, record_file: RecordFile, on_change: Callable[[], None]) -> None:
        self._record_file = record_file
        self._on_change = on_change
        #: An active broker keeps its lease when an attempt fails.
        self.is_live = False
        self._activation: locks.LeaseActivation | None = None

    @property
    def failure(self) -> str | None:
        """Return why its broker must not be active any more."""
        return self._activation.failure if self._activation is not None else None

    def meet(self, node_id: str) -> None:
        """Use the node of the data here as key."""
        if self._activation is None:
            self._activation = locks.LeaseActivation(node_id)
        elif self._activation.key != node_id:
            self._activation.change_key(node_id)

    def try_to_activate(self, now: float) -> None:
        """Request the right to be active, with the epoch of the record."""
        assert self._activation is not None
        self._activation.try_to_activate(self._record_file.record.epoch, now)

    def renew(self, now: float) -> None:
        """Renew the right, to go on without a backup."""
        assert self._activation is not None
        self._activation.renew(self._record_file.record.epoch, now)

    def take_attempt(self) -> locks.ActivationAttempt | None:
        """Return the outcome of an attempt, once."""
        activation = self._activation
        if activation is None:
            return None
        epoch = activation.epoch_to_write()
        if epoch is not None:
            noted = partial(self._on_written, activation, epoch)
            self._record_file.write(evolve(self._record_file.record, epoch=epoch), noted)
        attempt = activation.take_attempt()
        if attempt is not None and attempt.verdict is not locks.AttemptResult.GRANTED and not self.is_live:
            activation.drop()
        return attempt

    def _on_written(self, activation: locks.LeaseActivation, epoch: int) -> None:
        activation.on_written(epoch)
        self._on_change()

    def leave(self) -> bool:
        """Give the lease back; return True if that is done."""
        activation = self._activation
        if activation is None or activation.failure is not None:
            return True
        if not activation.is_leaving:
            activation.leave()
        return activation.is_over

    # -- work and time -------------------------------------------------------------------------------------------

    def take_work(self, now: float) -> locks.LeaseWork | None:
        """Return the next batch for the lock manager, one at a time."""
        return self._activation.take_work(now) if self._activation is not None else None

    def on_answer(self, answer: LockDone | LockFailed, now: float) -> None:
        """Handle the answer of the lock manager to a batch."""
        assert self._activation is not None
        if isinstance(answer, LockDone):
            self._activation.on_done(answer.batch, answer.results, now)
        else:
            self._activation.on_failed(answer.batch, answer.fault, now)

    def next_deadline(self) -> float | None:
        """Return when `on_time` or work is due, in monotonic seconds."""
        return self._activation.next_deadline() if self._activation is not None else None

    def on_time(self, now: float) -> None:
        """Check whether a right has ended."""
        if self._activation is not None:
            self._activation.on_time(now)
