"""What the broker does on its own from time to time: expiry scans and removal of idle queues and addresses.

Responsible for when that is due and for doing it in bounded slices. Refuses to know how a message is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._queue import Queue

if TYPE_CHECKING:
    from ._kernel import Kernel

__all__ = ["Housekeeping"]

_SLICE = 1000


class Housekeeping:
    """Two periodic scans; a period of -1 switches one off. Times are monotonic seconds."""

    __slots__ = ("_expiry_due", "_expiry_period", "_idle_due", "_idle_period", "_kernel", "_scan")

    def __init__(self, kernel: Kernel, expiry_period_ms: int, idle_period_ms: int) -> None:
        self._kernel = kernel
        self._expiry_period = expiry_period_ms / 1000
        self._idle_period = idle_period_ms / 1000
        self._expiry_due: float | None = None
        self._idle_due: float | None = None
        self._scan: Iterator[bool] | None = None

    def start(self, now: float) -> None:
        """Count the periods from now."""
        self._expiry_due = now + self._expiry_period if self._expiry_period > 0 else None
        self._idle_due = now + self._idle_period if self._idle_period > 0 else None

    def next_deadline(self, now: float) -> float | None:
        """When `run` has something to do."""
        if self._scan is not None:
            return now
        return min((due for due in (self._expiry_due, self._idle_due) if due is not None), default=None)

    def run(self, now: float) -> None:
        """Do what is due: at most one slice of an expiry scan, and one sweep."""
        if self._scan is None and self._expiry_due is not None and now >= self._expiry_due:
            self._expiry_due = now + self._expiry_period
            self._scan = self._expire_all(list(self._kernel.catalog.queues.values()), self._kernel.now_ms)
        if self._scan is not None and next(self._scan, None) is None:
            self._scan = None
        if self._idle_due is not None and now >= self._idle_due:
            self._idle_due = now + self._idle_period
            self._sweep()

    def _expire_all(self, queues: list[Queue], before_ms: int) -> Iterator[bool]:
        """Move every waiting message whose time has passed; yields after each slice."""
        looked_at = 0
        for queue in queues:
            if queue.deleted or not self._kernel.expires(queue):
                continue
            doomed = queue.backlog.remove_if(
                lambda reference: 0 < reference.message.expiration <= before_ms, expired_before=before_ms
            )
            for reference in doomed:
                if reference is not None:
                    self._kernel.move_expired(queue, reference)
                looked_at += 1 if reference is not None else 16
                if looked_at >= _SLICE:
                    looked_at = 0
                    yield True

    def _sweep(self) -> None:
        """First sight of an idle queue or address marks it, the next sweep deletes it."""
        kernel = self._kernel
        for queue in list(kernel.catalog.queues.values()):
            definition = queue.definition
            left = queue.message_count + queue.waiting_visible
            allowed = definition.auto_delete_message_count
            idle = (
                definition.auto_delete
                and queue.used
                and not queue.consumers
                and not queue.browsers
                and (allowed == -1 or left <= allowed)
                and kernel.now_ms - queue.idle_since_ms >= definition.auto_delete_delay
            )
            if idle and queue.swept:
                kernel.log(f"queue {queue.name!r} is deleted: it was auto-created and is not used any more")
                kernel.delete_queue(queue)
            queue.swept = idle
        for address in list(kernel.catalog.addresses.values()):
            settings = kernel.settings.of(address.name)
            delay = settings.auto_delete_addresses_delay
            idle = (
                bool(settings.auto_delete_addresses)
                and address.definition.auto_created
                and address.used
                and not address.queues
                and kernel.now_ms - address.idle_since_ms >= (delay or 0)
            )
            if idle and address.swept:
                kernel.catalog.remove_address(address)
            address.swept = idle
