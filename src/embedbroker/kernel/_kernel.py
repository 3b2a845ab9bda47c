"""The broker itself, sync and protocol-blind: the parts of it, put together.

Responsible for the order in which parts are made and for what each receives. It has no logic of its own: routing is in
`Router`, settling in `Settlement`, the work of a step in `Schedule`. Does not depend on wire formats, files, sockets
and clocks: the caller of a step sets the time, records go to a `Store`, deliveries to ports.

The hot path (send, route, deliver, acknowledge) is plain method calls on slotted objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator

from embedbroker.config import AddressSettingsRepository, BrokerConfig

from ._authority import ALLOW_ALL, Authority
from ._clock import Clock
from ._deferred import AT_ONCE_MAX, DeferredWork, drained
from ._housekeeping import Housekeeping
from ._ids import Ids
from ._memory import MemoryAccount
from ._observer import Observers
from ._router import Router
from ._schedule import Schedule
from ._store import MemoryStore, Store
from ._teardown import Teardown
from .addressing._addresses import AddressManager
from .cursors._cursors import Cursors
from .queueing._backlog import Restore
from .queueing._queue import Queue
from .selector._selector import SelectorCache
from .settling._dead_letters import DeadLetterRouting
from .settling._removal import Removal
from .settling._settlement import Settlement
from .transactions._duplicate_ids import DuplicateIds
from .transactions._placement import Placement
from .transactions._transaction import Sending, Transaction, TransactionState
from .transactions._visibility import VisibilityQueue, references_of
from .xa._branches import XaBranches
from .xa._commit_set import CommitSets
from .xa._fencing_token import FencingTokens

__all__ = ["Kernel"]


class Kernel:
    """One broker's messages and queues.

    ``log`` takes one line of warning for the operator, ``inform`` one about an ordinary event; without ``inform``,
    ``log`` takes both. ``memory_limit_bytes`` is where producers begin to wait.
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
    ) -> None:
        self.config = config
        self.authority = authority
        self.log = log
        self.inform = log if inform is None else inform
        self.clock = Clock()
        self.store: Store = store if store is not None else MemoryStore()
        self.ids = Ids(self.store)
        shares = config.memory_shares(memory_limit_bytes)
        self.memory = MemoryAccount(shares.messages, shares.margin)
        self.deferred = DeferredWork()
        self.observers = Observers(self.deferred)
        self.removal = Removal(self.store, self.memory, self.observers)
        self.visibility = VisibilityQueue(self.removal)
        self.placement = Placement(self.store, self.memory, self.observers, self.visibility)
        self.settings = AddressSettingsRepository(config.address_settings)
        self.duplicates = DuplicateIds(
            config, self.settings, self.store, self.ids, log, shares.duplicate_ids, self.inform
        )
        self.selectors = SelectorCache()
        self.schedule = Schedule(self.clock, self.store, self.memory, self.deferred, self.visibility)
        self.address_manager = AddressManager(
            self.settings, self.store, self.ids, self.schedule, restore, self.selectors,
            config.addresses_max, config.queues_max, self.observers,
        )  # fmt: skip
        self.dead_letters = DeadLetterRouting(self)
        self.settlement = Settlement(self)
        self.schedule.connect(self.dead_letters, self.settlement)
        self.router = Router(
            self.ids, self.clock, self.memory, self.settings, self.address_manager, self.duplicates, self.placement,
            self.dead_letters, log,
        )  # fmt: skip
        self.branches = XaBranches(self)
        self.fencing_tokens = FencingTokens(self)
        self.commit_sets = CommitSets(self)
        self.cursors = Cursors(self)
        self.teardown = Teardown(
            self.address_manager, self.cursors, self.settlement, self.removal, self.observers, self.ids, self.deferred,
            self.schedule,
        )  # fmt: skip
        self.housekeeping = Housekeeping(
            config, self.settings, self.clock, self.address_manager, self.cursors, self.branches, self.dead_letters,
            self.teardown, log, self.inform,
        )  # fmt: skip

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

    # -- transactions --------------------------------------------------------------------------------------------

    def begin(self) -> Transaction:
        """Open a transaction."""
        return Transaction(self.ids.take())

    def commit(self, transaction: Transaction) -> None:
        """Carry an active transaction out: its messages become visible together once that is durable."""
        assert transaction.state not in (TransactionState.ROLLBACK_ONLY, TransactionState.ENDED)
        transaction.end()
        if transaction.identified:
            self._carry_out(self.duplicates.commit(transaction), len(transaction.identified))
        sent, counts, visibility = transaction.sent, transaction.counts, self.visibility
        first = self.ids.take(transaction.places) if sent else 0
        if transaction.recorded:
            positions = [(queue.id, first) for queue in counts if queue.durable and not queue.deleted]
            self.store.commit(transaction.id, positions)
        if sent or transaction.acknowledged:
            for observe in self.observers.decision.committed:
                observe((transaction.id,), self.ids.next_id - 1)
        point = self.store.point() if transaction.recorded else 0
        waits = len(sent) > AT_ONCE_MAX or point > self.store.reached or bool(visibility.pending)
        # Followers may send, and what goes back may be moved: what comes of that has higher positions.
        if waits or transaction.returning or self.observers.follow_messages:
            waits = True
            visibility.add_commit(point, drained(sent), counts, first)
        self.observers.call_committed(transaction)
        self._carry_out(self.settlement.committed(transaction), transaction.taken_count, transaction.returning)
        if waits:
            return
        for queue, reference in references_of(sent, first):
            if queue.deleted:
                self.removal.drop(queue, reference.message)
            else:
                queue.publish(reference)

    def rollback(self, transaction: Transaction) -> None:
        """Undo a transaction: nothing was sent, and what was acknowledged returns with its delivery counted."""
        assert transaction.state is not TransactionState.ENDED
        transaction.end()
        if transaction.identified:
            self._carry_out(self.duplicates.let_go(transaction), len(transaction.identified))
        if transaction.recorded:
            self.store.rollback(transaction.id)
        self._carry_out(self._all_released(transaction.sent), len(transaction.sent))
        self._carry_out(self.settlement.rolled_back(transaction), transaction.taken_count, transaction.taken_from)

    def _carry_out(self, effects: Iterator[None], count: int, held: Collection[Queue] = ()) -> None:
        """At once if they are few, over the next steps otherwise, in which queues that get some back are held."""
        if count <= AT_ONCE_MAX:
            deque(effects, maxlen=0)
        else:
            self.deferred.add_holding(held, effects)

    def _all_released(self, sent: list[Sending]) -> Iterator[None]:
        for message, targets, _place in drained(sent):
            for queue in targets:
                self.removal.drop(queue, message)
            yield
