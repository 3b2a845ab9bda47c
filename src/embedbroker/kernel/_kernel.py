"""The broker itself, sync and protocol-blind: the composition of its parts.

Responsible for the order in which parts are created and for what each receives. It contains no logic: routing is in
`Router`, settling in `Settlement`, the work of a step in `Schedule`. Does not depend on wire formats, files, sockets
and clocks: the caller of a step sets the time, records go to a `Store`, deliveries to ports.

The hot path (send, route, deliver, acknowledge) is plain method calls on slotted objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from embedbroker.config import AddressSettingsRepository, BrokerConfig

from ._authority import ALLOW_ALL, Authority
from ._bridge_table import BridgeTable
from ._bridge_view import BroadcastGroupView, ClusterConnectionView
from ._clients import Clients
from ._clock import Clock
from ._deferred import DeferredWork
from ._housekeeping import Housekeeping
from ._ids import Ids
from ._invariants import check_memory, check_queue, check_visibility
from ._large_bodies import LargeBodies
from ._log_once import LogSometimes
from ._memory import MemoryAccount
from ._message_counters import MessageCounters
from ._observer import Observers
from ._redistribution import Redistribution
from ._router import Router
from ._schedule import Schedule
from ._statistics import KernelStatistics
from ._store import MemoryStore, Store
from ._teardown import Teardown
from .addressing._addresses import AddressManager
from .addressing._cluster_groups import ClusterGroups
from .addressing._configured_addresses import ConfiguredAddresses
from .addressing._divert_table import DivertTable
from .addressing._late_bindings import LateBindings
from .addressing._settings_table import SettingsTable
from .cursors._cursors import Cursors
from .message._body_store import MemoryBodies
from .queueing._backlog import Restore
from .selector._selector import SelectorCache
from .settling._dead_letters import DeadLetters
from .settling._diversion import Diversion
from .settling._expiry import Expiry
from .settling._forwarding import Forwarding, RouteCopiers, copiers_by
from .settling._move import MessageMover
from .settling._removal import Removal
from .settling._settlement import Settlement
from .transactions._adoption import Adoption
from .transactions._copy_placement import CopyPlacement
from .transactions._duplicate_ids import DuplicateIds
from .transactions._packed_moves import PackedMoves
from .transactions._placement import Placement
from .transactions._transaction import Transactions
from .transactions._visibility import VisibilityQueue
from .xa._branches import XaBranches
from .xa._commit_set import CommitSets
from .xa._fencing_token import FencingTokens

__all__ = ["Kernel"]


# How often the log has a line about the same address at which producers wait, in seconds.
_FULL_LOGGED_EVERY_S = 60.0
_FULL_SUBJECT = "producers get no credit at many addresses, because these or the memory are full; consume messages"


class Kernel:
    """Hold one broker's messages and queues.

    ``bridges``, ``cluster_connections`` and ``broadcast_groups`` are for management: they run outside of the kernel.

    Args:
        config: Configuration of the broker.
        restore: Builds a message from its encoding tag and its bytes.
        log: Receives one line of warning for the operator.
        memory_limit_bytes: Bytes of messages at which producers begin to wait.
        store: Receives durable facts; None keeps nothing.
        inform: Receives one line about an ordinary event; None: `log` does.
        authority: Decides the permissions of sessions; by default everything is allowed.
        route_copiers: Build copies for other brokers from stored bytes; None: by restored messages.
    """

    def __init__(
        self,
        config: BrokerConfig,
        restore: Restore,
        log: Callable[[str], None],
        memory_limit_bytes: int,
        store: Store | None = None,
        inform: Callable[[str], None] | None = None,
        authority: Authority = ALLOW_ALL,
        route_copiers: RouteCopiers | None = None,
    ) -> None:
        self.config = config
        self.authority = authority
        self.log = log
        self.inform = log if inform is None else inform
        self.clock = Clock()
        #: Reports addresses at which producers wait, or are refused.
        self.log_full = LogSometimes(log, self.clock, _FULL_LOGGED_EVERY_S, _FULL_SUBJECT)
        shares = config.memory_shares(memory_limit_bytes)
        self.store: Store = store if store is not None else MemoryStore(bodies=MemoryBodies(shares.messages))
        self.ids = Ids(self.store)
        self.large_bodies = LargeBodies(self.store)
        self.memory = MemoryAccount(shares.messages, shares.margin, large_bodies=self.large_bodies)
        self.deferred = DeferredWork()
        self.observers = Observers(self.deferred)
        self.clients = Clients(self.observers)
        self.removal = Removal(self.store, self.memory, self.observers)
        self.visibility = VisibilityQueue(self.removal)
        self.placement = Placement(self.store, self.memory, self.observers, self.visibility)
        self.settings = AddressSettingsRepository(
            config.address_settings,
            config.wildcard_addresses,
            config.uuid_namespace,
            config.literal_match_markers,
        )
        self.duplicates = DuplicateIds(
            config, self.settings, self.store, self.ids, log, shares.duplicate_ids, self.inform, self.deferred
        )
        self.selectors = SelectorCache()
        self.schedule = Schedule(self.clock, self.store, self.memory, self.deferred, self.visibility)
        self.address_manager = AddressManager(
            self.settings, self.store, self.ids, self.schedule, restore, self.selectors,
            config.addresses_max, config.queues_max, self.observers, config.wildcard_addresses,
            self.memory,
        )  # fmt: skip
        self.cluster_groups = ClusterGroups(self.clock)
        self.diverts = DivertTable(self.address_manager, self.store, self.ids)
        self.settings_table = SettingsTable(
            self.settings, config.permissions, config.wildcard_addresses, config.uuid_namespace, self.store, self.ids,
            self.observers, self.address_manager.addresses, log,
        )  # fmt: skip
        self._compose_settling(copiers_by(restore) if route_copiers is None else route_copiers)
        self.router = Router(
            self.ids, self.clock, self.memory, self.settings, self.address_manager, self.duplicates, self.placement,
            self.dead_letters, self.diversion, self.forwarding, self.transactions, log,
        )  # fmt: skip
        self._compose_branches()
        self.cursors = Cursors(self.address_manager, self.store, self.ids, self.deferred, self.removal, self.clock)
        self._compose_teardown()
        self._compose_housekeeping()

    def _compose_teardown(self) -> None:
        """Create the parts that follow consumers and queues as they come and go."""
        self.redistribution = Redistribution(
            self.address_manager, self.settings, self.clock, self.forwarding, self.placement, self.settlement,
            PackedMoves(self.forwarding, self.placement, self.removal, self.observers), self.transactions,
            self.deferred, self.schedule, self.log,
        )  # fmt: skip
        events = self.observers.commit
        events.queue_added.append(self.redistribution.on_queue)
        events.remote_consumer_added.append(self.redistribution.on_remote_consumer)
        self.late_bindings = LateBindings(self.address_manager, self.clock)
        events.remote_binding_added.append(self.forwarding.on_binding)
        events.remote_binding_added.append(self.late_bindings.on_binding)
        self.observers.decision.queue_removed.append(self.forwarding.on_queue_removed)
        events.remote_binding_updated.append(self.redistribution.on_remote_consumer)
        events.remote_binding_removed.append(self.redistribution.on_remote_end)
        events.remote_consumer_removed.append(self.redistribution.on_remote_end)
        self.observers.decision.address_settings_changed.append(self.redistribution.on_settings)
        self.teardown = Teardown(
            self.address_manager, self.cursors, self.settlement, self.removal, self.observers, self.ids, self.deferred,
            self.schedule, self.redistribution, self.duplicates,
        )  # fmt: skip

    def _compose_housekeeping(self) -> None:
        """Create the parts that work by time, and the place of those that work outside of the kernel."""
        self.cluster_connections: Mapping[str, ClusterConnectionView] = {}
        self.broadcast_groups: Mapping[str, BroadcastGroupView] = {}
        self.bridges = BridgeTable(self.config, self.store, self.ids, self.address_manager, self.log)
        self.message_counters = MessageCounters(self.config, self.clock, self.address_manager)
        self.observers.decision.queue_removed.append(self.message_counters.forget)
        self.configured_addresses = ConfiguredAddresses(self.address_manager, self.teardown, self.inform)
        self.housekeeping = Housekeeping(
            self.config, self.settings, self.clock, self.address_manager, self.configured_addresses, self.diverts,
            self.cursors, self.branches, self.expiry, self.teardown, self.schedule, self.message_counters,
            self.redistribution, self.log, self.inform,
        )  # fmt: skip
        self.redistribution.on_due = self.housekeeping.reschedule

    def _compose_branches(self) -> None:
        """Create the parts that keep XA branches, and sets of them."""
        self.branches = XaBranches(self.config, self.clock, self.store, self.deferred, self.transactions, self.log)
        self.fencing_tokens = FencingTokens(self.store, self.ids)
        self.commit_sets = CommitSets(self.branches, self.fencing_tokens, self.transactions, self.store, self.deferred)

    def _compose_settling(self, route_copiers: RouteCopiers) -> None:
        """Create the parts through which messages leave their queues, with transactions."""
        self.transactions = Transactions(
            self.store, self.ids, self.duplicates, self.removal, self.visibility, self.deferred, self.observers
        )
        self.forwarding = Forwarding(self.address_manager, self.ids, route_copiers)
        self.diversion = Diversion(
            self.address_manager, self.settings, self.ids, self.clock, self.memory, self.forwarding, self.log
        )
        self.mover = MessageMover(
            self.address_manager, self.settings, self.ids, self.clock, self.removal,
            CopyPlacement(self.transactions, self.placement, self.duplicates), self.diversion, self.log,
        )  # fmt: skip
        self.dead_letters = DeadLetters(self.mover, self.settings, self.log)
        self.expiry = Expiry(self.mover, self.removal, self.settings, self.clock)
        self.settlement = Settlement(
            self.store, self.removal, self.dead_letters, self.expiry, self.settings, self.deferred, self.observers,
            counts_first=self.config.persist_delivery_count_before_delivery,
        )  # fmt: skip
        self.adoption = Adoption(self.address_manager, self.store, self.ids, self.memory, self.observers, self.removal)
        self.transactions.connect(self.settlement)
        self.schedule.connect(self.expiry, self.settlement)

    def statistics(self) -> KernelStatistics:
        """Return the current figures."""
        memory = self.memory.statistics()
        return KernelStatistics(
            queues=tuple([queue.statistics() for queue in self.address_manager.queues.values()]),
            used_bytes=memory.used_bytes,
            reserved_bytes=memory.reserved_bytes,
            shared_messages=len(memory.shared),
            addresses_with_messages=tuple(memory.by_address),
            claimed_duplicate_ids=self.duplicates.claimed_count,
            pending_visibility=len(self.visibility.pending),
            has_deferred_work=bool(self.deferred.waiting),
        )

    def check(self) -> None:
        """Raise AssertionError unless the invariants between two steps hold. Examines every message."""
        for queue in self.address_manager.queues.values():
            check_queue(queue)
            self.schedule.check(queue)
        check_memory(self.memory)
        check_visibility(self.visibility)
        assert self.ids.next_id <= max(self.ids.limit, 1), (self.ids.next_id, self.ids.limit)

    # -- the step ------------------------------------------------------------------------------------------------

    def run(self, budget: int) -> None:
        """Do what the inputs made possible, about ``budget`` messages of it; see `has_work`."""
        self.schedule.run(budget)

    @property
    def has_work(self) -> bool:
        """Return True if `run` would do something at once."""
        return self.schedule.has_work

    @property
    def now_ms(self) -> int:
        """Return the wall time of the step in Unix milliseconds."""
        return self.clock.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.clock.now_ms = now_ms

    @property
    def monotonic(self) -> float:
        """Return the monotonic time of the step in seconds."""
        return self.clock.monotonic

    @monotonic.setter
    def monotonic(self, monotonic: float) -> None:
        self.clock.monotonic = monotonic
