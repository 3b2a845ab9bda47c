"""What the broker does on its own from time to time: expiry scans, removal of idle queues and addresses, time-outs.

Responsible for when that is due and for doing it in bounded slices. Refuses to know how a message is moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from .addressing._address import Address
from .queueing._queue import Queue
from .settling._dead_letters import MOVE_COST

if TYPE_CHECKING:
    from ._kernel import Kernel

__all__ = ["Housekeeping"]

# What looking at a queue, or at a chunk of its messages, takes of the work of a step.
_QUEUE_COST = 8
_CHUNK_COST = 128
_NEVER = math.inf


class Housekeeping:
    """Two periodic scans; a period of -1 switches one off. Times are monotonic seconds."""

    __slots__ = ("_due", "_expiry_due", "_expiry_period", "_idle_due", "_idle_period", "_kernel", "_scan", "_sweep")

    def __init__(self, kernel: Kernel, expiry_period_ms: int, idle_period_ms: int) -> None:
        self._kernel = kernel
        self._expiry_period = expiry_period_ms / 1000
        self._idle_period = idle_period_ms / 1000
        self._expiry_due = _NEVER
        self._idle_due = _NEVER
        # The earlier of the two: it is asked for at each step.
        self._due = _NEVER
        self._scan: Iterator[bool] | None = None
        self._sweep: Iterator[bool] | None = None

    def start(self, now: float) -> None:
        """Count the periods from now."""
        self._expiry_due = now + self._expiry_period if self._expiry_period > 0 else _NEVER
        self._idle_due = now + self._idle_period if self._idle_period > 0 else _NEVER
        self._due = min(self._expiry_due, self._idle_due)

    def at_start(self) -> None:
        """What is done once, before clients come: drop what was auto-created and is empty, provide what is configured.

        Clients that still want an auto-created queue create it again when they reconnect. Dead letter and expiry
        addresses exist from the start, as in a broker that ``artemis create`` made: without a queue there, what is
        moved to them would be lost.
        """
        kernel = self._kernel
        for queue in list(kernel.address_manager.queues.values()):
            in_use = queue.message_count or queue.pledged or kernel.cursors.holds(queue)
            if queue.definition.auto_delete and not in_use:
                kernel.delete_queue(queue, keep_address=True)
        for address in list(kernel.address_manager.addresses.values()):
            # Ids are for those who send again what was in doubt: they come back right after a restart.
            if self._goes(address) and not address.has_queues and not address.duplicate_ids:
                kernel.address_manager.remove_address(address)
        for address_name, wanted in kernel.config.addresses.items():
            for refused in kernel.address_manager.declare(address_name, wanted):
                kernel.log(f"address {address_name!r} of the configuration: {refused.text}")
        for settings in kernel.config.address_settings.values():
            for name in (settings.dead_letter_address, settings.expiry_address):
                if name:
                    kernel.address_manager.provide(name)

    def _goes(self, address: Address) -> bool:
        """Whether an address is of those that go when nobody uses them."""
        return address.definition.auto_created and bool(self._kernel.settings.of(address.name).auto_delete_addresses)

    def next_deadline(self, now: float) -> float:
        """When `run` has something to do; infinity: never."""
        if self._scan is not None or self._sweep is not None:
            return now
        branches = self._kernel.branches
        due = branches.next_deadline() if branches.unprepared else None
        return self._due if due is None or self._due < due else due

    def run(self, now: float) -> None:
        """Do what is due: at most one slice of an expiry scan, and one of a sweep."""
        self._kernel.branches.run(now)
        if self._scan is None and now >= self._expiry_due:
            self._expiry_due = now + self._expiry_period
            self._scan = self._expire_all(list(self._kernel.address_manager.queues.values()), self._kernel.now_ms)
        if self._scan is not None and next(self._scan, None) is None:
            self._scan = None
        if self._sweep is None and now >= self._idle_due:
            self._idle_due = now + self._idle_period
            address_manager = self._kernel.address_manager
            self._sweep = self._drop_idle(
                list(address_manager.queues.values()), list(address_manager.addresses.values())
            )
        if self._sweep is not None and next(self._sweep, None) is None:
            self._sweep = None
        self._due = min(self._expiry_due, self._idle_due)

    def _expire_all(self, queues: list[Queue], before_ms: int) -> Iterator[bool]:
        """Move every waiting message whose time has passed; yields after each slice."""
        limit = self._kernel.config.work_per_step_max
        done = 0
        for queue in queues:
            done += _QUEUE_COST
            if done >= limit:
                done = 0
                yield True
            if queue.deleted or not self._kernel.dead_letters.expires_in(queue):
                continue
            doomed = queue.backlog.remove_if(
                lambda reference: 0 < reference.message.expiration <= before_ms,
                expired_before=before_ms,
                exempt_through=partial(self._kernel.cursors.exempt_through, queue),
            )
            for reference in doomed:
                if reference is not None:
                    self._kernel.dead_letters.move_expired(queue, reference)
                done += MOVE_COST if reference is not None else _CHUNK_COST
                if done >= limit:
                    done = 0
                    yield True

    def _drop_idle(self, queues: list[Queue], addresses: list[Address]) -> Iterator[bool]:
        """First sight of an idle queue or address marks it, the next sweep deletes it; yields after each slice."""
        kernel = self._kernel
        at_once = max(kernel.config.work_per_step_max // _QUEUE_COST, 1)
        for index, queue in enumerate(queues, 1):
            if not queue.deleted:
                self._look_at_queue(queue)
            if not index % at_once:
                yield True
        for index, address in enumerate(addresses, 1):
            if kernel.address_manager.addresses.get(address.name) is address:
                self._look_at_address(address)
            if not index % at_once:
                yield True

    def _look_at_queue(self, queue: Queue) -> None:
        kernel, definition = self._kernel, queue.definition
        left = queue.message_count + queue.waiting_visible + queue.pledged
        allowed = definition.auto_delete_message_count
        idle = (
            definition.auto_delete
            and queue.used
            and not queue.consumers
            and not queue.browsers
            and not kernel.cursors.holds(queue)
            and (allowed == -1 or left <= allowed)
            and kernel.now_ms - queue.idle_since_ms >= definition.auto_delete_delay
        )
        if idle and queue.swept:
            kernel.inform(f"queue {queue.name!r} is deleted: it was auto-created and is not used any more")
            # Its address has to be seen idle twice by itself.
            kernel.delete_queue(queue, keep_address=True)
        queue.swept = idle

    def _look_at_address(self, address: Address) -> None:
        """An address without queues goes, also one that never had any; a send to it counts as use."""
        kernel = self._kernel
        delay = kernel.settings.of(address.name).auto_delete_addresses_delay
        idle = self._goes(address) and not address.has_queues and kernel.now_ms - address.idle_since_ms >= (delay or 0)
        if idle and address.swept and address.routed_count == address.swept_count:
            kernel.address_manager.remove_address(address)
        address.swept = idle
        address.swept_count = address.routed_count
