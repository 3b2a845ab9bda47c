"""Timed work of the broker: scheduled messages, expiry scans, removal of what is idle, delays, message counters.

Responsible for when that is due and for doing it in bounded slices. Does not depend on how a message is moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from embedbroker.config import AddressSettingsRepository, BrokerConfig

from ._clock import Clock
from ._message_counters import MessageCounters
from ._redistribution import Redistribution
from ._schedule import Schedule
from ._teardown import Teardown
from .addressing._address import Address
from .addressing._addresses import AddressManager
from .addressing._configured_addresses import ConfiguredAddresses
from .addressing._divert_table import DivertTable
from .cursors._cursors import Cursors
from .queueing._queue import Queue
from .settling._expiry import Expiry
from .settling._move import MOVE_COST
from .xa._branches import XaBranches

__all__ = ["Housekeeping"]

# Share of a step's work that examining a queue, or a chunk of its messages, takes.
_QUEUE_COST = 8
_CHUNK_COST = 128
_NEVER = math.inf


class Housekeeping:
    """Run periodic scans; a period of -1 switches one off. Times are monotonic seconds."""

    __slots__ = (
        "_address_manager",
        "_branches",
        "_calls",
        "_clock",
        "_config",
        "_configured",
        "_counters",
        "_counting",
        "_cursors",
        "_diverts",
        "_due",
        "_expiry",
        "_expiry_due",
        "_expiry_period",
        "_idle_due",
        "_idle_period",
        "_inform",
        "_log",
        "_redistribution",
        "_scan",
        "_schedule",
        "_settings",
        "_sweep",
        "_teardown",
    )

    def __init__(
        self,
        config: BrokerConfig,
        settings: AddressSettingsRepository,
        clock: Clock,
        address_manager: AddressManager,
        configured: ConfiguredAddresses,
        diverts: DivertTable,
        cursors: Cursors,
        branches: XaBranches,
        expiry: Expiry,
        teardown: Teardown,
        schedule: Schedule,
        counters: MessageCounters,
        redistribution: Redistribution,
        log: Callable[[str], None],
        inform: Callable[[str], None],
    ) -> None:
        self._config = config
        self._settings = settings
        self._clock = clock
        self._address_manager = address_manager
        self._configured = configured
        self._diverts = diverts
        self._cursors = cursors
        self._branches = branches
        self._expiry = expiry
        self._teardown = teardown
        self._schedule = schedule
        self._calls = schedule.calls
        self._counters = counters
        self._redistribution = redistribution
        self._log = log
        self._inform = inform
        self._expiry_period = config.message_expiry_scan_period_ms / 1000
        self._idle_period = config.address_queue_scan_period_ms / 1000
        self._expiry_due = _NEVER
        self._idle_due = _NEVER
        # The earliest of them, of the message counters and of redistribution: each step compares it with the time.
        self._due = _NEVER
        self._scan: Iterator[bool] | None = None
        self._sweep: Iterator[bool] | None = None
        self._counting: Iterator[None] | None = None

    def start(self, now: float) -> None:
        """Count the periods from now."""
        self._expiry_due = now + self._expiry_period if self._expiry_period > 0 else _NEVER
        self._idle_due = now + self._idle_period if self._idle_period > 0 else _NEVER
        self._counters.restart_period()
        self.reschedule()

    def reschedule(self) -> None:
        """Follow a changed time of one of the scans."""
        self._due = min(self._expiry_due, self._idle_due, self._counters.due, self._redistribution.due)

    def at_start(self, *, deletes_missing: bool = True) -> None:
        """Drop what was auto-created and is empty, and provide what is configured. Must run once, before clients come.

        Without ``deletes_missing``, all that the configuration does not contain stays: the configuration may be older
        than what another broker, or an earlier life of this one, adopted.

        Clients that still want an auto-created queue create it again when they reconnect. Dead letter and expiry
        addresses exist from the start, as in a broker that ``artemis create`` made. Without a queue there, what is
        moved to them would be lost.
        """
        for refused in self._diverts.declare(self._config.diverts, deletes_missing=deletes_missing):
            self._log(f"diverts of the configuration: {refused.text}")
        for queue in list(self._address_manager.queues.values()):
            in_use = queue.message_count or queue.pledged or self._cursors.holds(queue)
            if queue.definition.auto_delete and not in_use:
                self._teardown.delete_queue(queue, keep_address=True)
        for address in list(self._address_manager.addresses.values()):
            # Ids serve clients that send unconfirmed messages again: they come back right after a restart.
            if self._goes(address) and not self._address_manager.is_bound(address) and not address.duplicate_ids:
                self._address_manager.remove_address(address)
        if deletes_missing:
            # First: a configured queue may have moved to another address.
            self._configured.remove_missing(self._config.addresses)
        for address_name, wanted in self._config.addresses.items():
            for refused in self._address_manager.declare(address_name, wanted):
                self._log(f"address {address_name!r} of the configuration: {refused.text}")
        for settings in self._settings.entries.values():
            self._address_manager.provide_targets(settings)

    def _goes(self, address: Address) -> bool:
        """Return True if an address is deleted when it is not used."""
        return address.definition.auto_created and bool(self._settings.of(address.name).auto_delete_addresses)

    def next_deadline(self, now: float) -> float:
        """Return when `run` has work to do; infinity for never."""
        if self._scan is not None or self._sweep is not None or self._counting is not None:
            return now
        earliest, branches = self._due, self._branches
        if branches.unprepared:
            due = branches.next_deadline()
            if due is not None and due < earliest:
                earliest = due
        if self._calls:
            # Wall time may jump: the rest is counted from the time of this step.
            earliest = min(earliest, now + max(self._calls[0][0] - self._clock.now_ms, 0) / 1000)
        return earliest

    def run(self, now: float) -> None:
        """Do what is due: at most one slice of scheduled messages, and one of each scan."""
        self._schedule.release_due(self._config.work_per_step_max)
        self._branches.run(now)
        if now >= self._redistribution.due:
            self._redistribution.run_due()
        if self._scan is None and now >= self._expiry_due:
            self._expiry_due = now + self._expiry_period
            self._scan = self._expire_all(list(self._address_manager.queues.values()), self._clock.now_ms)
        if self._scan is not None and next(self._scan, None) is None:
            self._scan = None
        if self._sweep is None and now >= self._idle_due:
            self._idle_due = now + self._idle_period
            address_manager = self._address_manager
            self._sweep = self._drop_idle(
                list(address_manager.queues.values()), list(address_manager.addresses.values())
            )
        if self._sweep is not None and next(self._sweep, None) is None:
            self._sweep = None
        if self._counting is None and now >= self._counters.due:
            self._counting = self._counters.sample()
        if self._counting is not None:
            queues_at_once = max(self._config.work_per_step_max // _QUEUE_COST, 1)
            if sum(1 for _ in islice(self._counting, queues_at_once)) < queues_at_once:
                self._counting = None
        self.reschedule()

    def _expire_all(self, queues: list[Queue], before_ms: int) -> Iterator[bool]:
        """Move every waiting message whose time has passed; yield after each slice."""
        limit = self._config.work_per_step_max
        done = 0
        for queue in queues:
            done += _QUEUE_COST
            if done >= limit:
                done = 0
                yield True
            if queue.deleted or not self._expiry.applies_to(queue):
                continue
            doomed = queue.backlog.remove_if(
                lambda reference: 0 < reference.message.expiration <= before_ms,
                expired_before=before_ms,
                exempt_through=partial(self._cursors.exempt_through, queue),
            )
            for reference in doomed:
                if reference is not None:
                    self._expiry.move(queue, reference)
                done += MOVE_COST if reference is not None else _CHUNK_COST
                if done >= limit:
                    done = 0
                    yield True

    def _drop_idle(self, queues: list[Queue], addresses: list[Address]) -> Iterator[bool]:
        """Mark an idle queue or address at first sight, and delete it in the next sweep; yield after each slice."""
        at_once = max(self._config.work_per_step_max // _QUEUE_COST, 1)
        for index, queue in enumerate(queues, 1):
            if not queue.deleted:
                self._look_at_queue(queue)
            if not index % at_once:
                yield True
        for index, address in enumerate(addresses, 1):
            if self._address_manager.addresses.get(address.name) is address:
                self._look_at_address(address)
            if not index % at_once:
                yield True

    def _look_at_queue(self, queue: Queue) -> None:
        definition = queue.definition
        left = queue.message_count + queue.waiting_visible + queue.pledged
        allowed = definition.auto_delete_message_count
        idle = bool(
            definition.auto_delete
            and (queue.used or self._settings.of(definition.address).auto_delete_queues_skip_usage_check)
            and not queue.consumers
            and not queue.browsers
            and not self._cursors.holds(queue)
            and (allowed == -1 or left <= allowed)
            and self._clock.now_ms - queue.idle_since_ms >= definition.auto_delete_delay
        )
        if idle and queue.swept:
            self._inform(f"queue {queue.name!r} is deleted: it was auto-created and is not used any more")
            # The address must be found idle twice after its queue.
            self._teardown.delete_queue(queue, keep_address=True)
        queue.swept = idle

    def _look_at_address(self, address: Address) -> None:
        """Delete an address without queues, also one that never had any; a send to it counts as use."""
        delay = self._settings.of(address.name).auto_delete_addresses_delay_ms
        idle = (
            self._goes(address)
            and not self._address_manager.is_in_use(address)
            and self._clock.now_ms - address.idle_since_ms >= (delay or 0)
        )
        if idle and address.swept and address.routed_count == address.swept_count:
            self._teardown.discard_address(address)
        address.swept = idle
        address.swept_count = address.routed_count
