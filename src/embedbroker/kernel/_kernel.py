"""The broker itself, sync and protocol-blind: routing, settling, transactions, dead letters, expiry.

Responsible for everything that happens to a message between a send and its last acknowledgement. Refuses to know wire
formats, files, sockets and clocks: time is set by whoever steps it, records go to a `Store`, deliveries to ports.

The hot path (send, route, deliver, acknowledge) is plain method calls on slotted objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator

from embedbroker.config import AddressFullPolicy, AddressSettingsRepository, BrokerConfig
from embedclient.errors import ErrorCode
from embedclient.model import Message

from ._authority import ALLOW_ALL, Access, Authority
from ._deferred import AT_ONCE_MAX, DeferredWork, drained
from ._housekeeping import Housekeeping
from ._ids import Ids
from ._memory import MemoryAccount
from ._observer import Leaving, Observers
from ._refusal import Refused
from ._store import MemoryStore, Store
from .addressing._address import Address
from .addressing._addresses import AddressManager, split_fqqn
from .cursors._cursors import Cursors
from .queueing._backlog import Reference, Restore
from .queueing._backpressure import Backpressure
from .queueing._consumer import Consumer
from .queueing._queue import Queue
from .selector._selector import SelectorCache
from .settling._dead_letters import MOVE_COST, DeadLetterRouting
from .settling._expiry_settings import adjusts_expiration, with_expiry_settings
from .settling._outcome import Outcome
from .settling._removal import Removal
from .settling._settlement import Settlement
from .transactions._duplicate_ids import DuplicateIds, Identified
from .transactions._transaction import Sending, Transaction, TransactionState
from .transactions._visibility import VisibilityQueue, references_of
from .xa._branches import XaBranches
from .xa._commit_set import CommitSets
from .xa._fencing_token import FencingTokens

__all__ = ["Kernel"]

# Names of addresses come from clients: which of them were warned of is forgotten when it is too much.
_GROUPED_MAX = 1000


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
        self.now_ms = 0
        self.monotonic = 0.0
        self.store: Store = store if store is not None else MemoryStore()
        self.ids = Ids(self.store)
        shares = config.memory_shares(memory_limit_bytes)
        self.memory = MemoryAccount(shares.messages, shares.margin)
        self.deferred = DeferredWork()
        self.observers = Observers(self.deferred)
        self.removal = Removal(self.store, self.memory, self.observers)
        self.visibility = VisibilityQueue(self.removal)
        self.settings = AddressSettingsRepository(config.address_settings)
        self.duplicates = DuplicateIds(
            config, self.settings, self.store, self.ids, log, shares.duplicate_ids, self.inform
        )
        self.selectors = SelectorCache()
        self.address_manager = AddressManager(
            self.settings,
            self.store,
            self.ids,
            self,
            restore,
            self.selectors,
            config.addresses_max,
            config.queues_max,
            self.observers,
        )
        self.housekeeping = Housekeeping(
            self, config.message_expiry_scan_period_ms, config.address_queue_scan_period_ms
        )
        self._grouped: set[str] = set()
        self._woken: dict[Queue, None] = {}
        self._expired: list[tuple[Queue, Reference]] = []
        self._relieved: dict[Backpressure, None] = {}
        self.dead_letters = DeadLetterRouting(self)
        self.settlement = Settlement(self)
        # Without a call in between: each acknowledgement comes this way.
        self.settle = self.settlement.settle
        self.branches = XaBranches(self)
        self.fencing_tokens = FencingTokens(self)
        self.commit_sets = CommitSets(self)
        self.cursors = Cursors(self)

    # -- stepping ------------------------------------------------------------------------------------------------

    def run(self, budget: int) -> None:
        """Do what the inputs made possible, about ``budget`` messages of it; see `has_work`."""
        # Nothing that goes on for long keeps the queues from their turn.
        share = max(budget // 3, 1) if self._woken else budget
        moves = max(budget // MOVE_COST, 1)
        if self.visibility.next_point <= self.store.reached:
            budget -= share - self.visibility.publish(self.store.reached, share)
        if self._relieved:
            for backpressure in list(self._relieved):
                backpressure.let_through()
        if self.deferred.waiting:
            budget -= self.deferred.run(min(share, budget))
        if self._woken:
            # One turn each: what wakes again goes on in the next step.
            woken, self._woken = self._woken, {}
            for queue in list(woken):
                if budget <= 0:
                    break
                del woken[queue]
                if not queue.deleted:
                    budget = queue.dispatch(budget)
            # Those that had no turn come first in the next step.
            woken.update(self._woken)
            self._woken = woken
        if self._expired:
            expired = self._expired[:moves]
            del self._expired[:moves]
            for queue, reference in expired:
                self.dead_letters.move_expired(queue, reference)
        if self.memory.relieved:
            self.memory.grant_waiting()

    @property
    def has_work(self) -> bool:
        """Whether `run` would do something at once."""
        return (
            self.visibility.next_point <= self.store.reached
            or bool(self._woken or self._expired or self.deferred.waiting or self._relieved)
            or (bool(self.memory.relieved) and self.memory.can_grant)
        )

    @property
    def is_publishing(self) -> bool:
        """Whether messages that are safe still wait for their turn to become visible."""
        return self.visibility.next_point <= self.store.reached

    def make_backpressure(self) -> Backpressure:
        """For the consumers of one connection."""
        return Backpressure(self._relieved)

    def wake(self, queue: Queue) -> None:
        """Dispatch this queue before the step ends."""
        self._woken[queue] = None

    # -- sending -------------------------------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        routing_type: int | None,
        transaction: Transaction | None,
        duplicate_id: bytes | None = None,
        access: Access | None = None,
    ) -> Refused | None:
        """Route one message, now or at the commit of its transaction.

        The message gets its id here. A message that no queue takes is accepted and dropped, as in Artemis, and so is
        one with the ``duplicate_id`` of an earlier one. ``access`` limits what is created on the
        way; None is for the broker itself.
        """
        ids = self.ids
        message_id = ids.next_id
        if message_id < ids.limit:
            ids.next_id = message_id + 1
        else:
            message_id = ids.take()
        message.assign_id(message_id)
        address = self.address_manager.addresses.get(message.address)
        # `queues_exist` is asked only where there is no queue at all.
        if address is None or not (address.anycast or address.multicast or address.queues_exist(routing_type)):
            refused = self.address_manager.prepare_send(message, routing_type, access)
            if refused is not None:
                if transaction is not None:
                    transaction.fail(refused.text)
                return refused
            address = self.address_manager.addresses.get(message.address)
        # The address of ``address::queue`` is the sender's as much as one without a queue: its settings hold.
        owner = address if address is not None else self.address_manager.addresses.get(split_fqqn(message.address)[0])
        identified: Identified | None = None
        if owner is not None:
            if duplicate_id is not None:
                admitted = self.duplicates.admit(message, owner, duplicate_id, transaction)
                if not isinstance(admitted, Identified):
                    return admitted
                identified = admitted
            if owner.is_plain is not True:
                adjusted = self._apply_settings(owner, message)
                if isinstance(adjusted, Refused):
                    if transaction is not None:
                        transaction.fail(adjusted.text)
                    return adjusted
                message = adjusted
            owner.routed_count += 1
        if address is None:
            targets = self.address_manager.qualified_queues(message, routing_type)
        else:
            targets = address.route(message, routing_type)
        if targets:
            self.store_routed(message, targets, transaction, identified)
        elif address is not None:
            self.dead_letters.unrouted(message, address, transaction)
        if identified is not None:
            self.duplicates.accept(identified, transaction)
        return None

    def warn_of_groups(self, address: str) -> None:
        """Log once for each address that the group ids of its messages have no effect."""
        if address in self._grouped:
            return
        if len(self._grouped) >= _GROUPED_MAX:
            self._grouped.clear()
        self._grouped.add(address)
        self.log(
            f"messages to {address!r} have a group id (JMSXGroupID), which has no effect: this broker has no message "
            "groups yet, so several consumers of a queue share the messages of a group"
        )

    def _apply_settings(self, address: Address, message: Message) -> Message | Refused:
        """What settings say about a send: limits that refuse, expirations that change."""
        settings = self.settings.of(address.name)
        limit = settings.max_size_bytes
        assert limit is not None
        fails = settings.address_full_policy is AddressFullPolicy.FAIL
        adjusts = adjusts_expiration(settings)
        address.is_plain = not (fails or adjusts)
        if fails and self.memory.is_full(address.name, limit):
            return Refused(ErrorCode.ADDRESS_FULL, f"address {address.name!r} is full")
        return with_expiry_settings(message, settings, self.now_ms) if adjusts else message

    def store_routed(
        self,
        message: Message,
        targets: list[Queue],
        transaction: Transaction | None,
        identified: Identified | None = None,
    ) -> None:
        """Write what has to survive, and make the message visible when its time has come."""
        for queue in targets:
            if queue.definition.purge_on_no_consumers and not queue.consumers:
                targets = [
                    target for target in targets if not target.definition.purge_on_no_consumers or target.consumers
                ]
                if not targets:
                    return
                break
        message_id = message.message_id
        self.memory.hold(message_id, targets[0].definition.address, len(message.raw), len(targets))
        durable = False
        if message.durable:
            position = transaction.places if transaction is not None else message_id
            if len(targets) == 1:
                references = [(targets[0].id, position)] if targets[0].durable else []
            else:
                references = [(queue.id, position) for queue in targets if queue.durable]
            if references:
                durable = True
                if identified is None or transaction is not None or not identified.entry.number:
                    self.store.add_message(message, transaction.id if transaction is not None else 0, references)
                else:
                    self.store.add_message_once(message, references, identified.entry)
                    identified.recorded = True
        observers = self.observers
        if observers.decision.routed:
            self._observe_routed(message, targets, transaction)
        if transaction is not None:
            transaction.recorded = transaction.recorded or durable
            transaction.add(message, targets)
            return
        visibility = self.visibility
        if observers.commit.routed:
            self._show_and_observe(message, targets, self.store.point() if durable else 0)
            return
        if durable:
            point = self.store.point()
            if point > self.store.reached or visibility.pending:
                for queue in targets:
                    visibility.add(point, queue, Reference(message, message_id))
                return
        elif visibility.pending:
            for queue in targets:
                if queue.waiting_visible:
                    visibility.add(0, queue, Reference(message, message_id))
                else:
                    queue.publish(Reference(message, message_id))
            return
        for queue in targets:
            queue.publish(Reference(message, message_id))

    def _observe_routed(self, message: Message, targets: list[Queue], transaction: Transaction | None) -> None:
        transaction_id = transaction.id if transaction is not None else 0
        for queue in targets:
            for observe in self.observers.decision.routed:
                observe(queue, message.message_id, message.durable and queue.durable, transaction_id)

    def _show_and_observe(self, message: Message, targets: list[Queue], point: int) -> None:
        """Place a message, then call its observers: what they send must have a higher position."""
        observers, visibility = self.observers, self.visibility
        for queue in targets:
            visibility.add(point, queue, Reference(message, message.message_id))
        observers.call(observers.commit.routed, message, targets, None)
        if visibility.next_point <= self.store.reached:
            visibility.publish(self.store.reached, len(targets))

    def reply(self, message: Message, *, promises: bool) -> None:
        """Send the broker's own answer to the queues of an address that is there; else it is gone.

        An answer that ``promises`` is seen once everything is durable that is recorded by now.
        """
        message.assign_id(self.ids.take())
        address = self.address_manager.addresses.get(message.address)
        targets = address.route(message, None) if address is not None else ()
        if not targets:
            return
        self.memory.hold(message.message_id, message.address, len(message.raw), len(targets))
        point = self.store.point() if promises else 0
        for queue in targets:
            for observe in self.observers.decision.routed:
                observe(queue, message.message_id, False, 0)
            reference = Reference(message, message.message_id)
            if point > self.store.reached or queue.waiting_visible:
                self.visibility.add(point, queue, reference)
            else:
                queue.publish(reference)

    # -- for queues ----------------------------------------------------------------------------------------------

    def settle_delivered(self, queue: Queue, reference: Reference) -> None:
        """A consumer with pre-acknowledge took a message."""
        self.settle(queue, (reference,), Outcome.ACCEPTED)

    def expire(self, queue: Queue, reference: Reference) -> bool:
        """Remember a message that was found expired; it moves when the current dispatch is over.

        False for queues of the expiry address itself: what is there is delivered.
        """
        if not self.dead_letters.expires_in(queue):
            return False
        self._expired.append((queue, reference))
        return True

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

    # -- queues --------------------------------------------------------------------------------------------------

    def delete_queue(self, queue: Queue, *, keep_address: bool = False) -> None:
        """Delete a queue with what it holds; consumers that are left are told.

        An auto-created address without other queues goes too, unless ``keep_address``.
        """
        # From here on, what consumers give back is gone.
        queue.deleted = True
        for observe in self.observers.decision.queue_removed:
            observe(queue)
        for consumer in [*queue.consumers, *queue.browsers]:
            self._take_back(consumer, Outcome.FAILED)
            consumer.port.closed_by_broker(consumer)
        self._woken.pop(queue, None)
        self.cursors.forget(queue)
        self.address_manager.drop_queue(queue)
        if not keep_address:
            self.address_manager.drop_idle_address(queue.definition)
        self._remove_waiting(queue)

    def delete_temporary(self, name: str, identifier: int) -> None:
        """Delete the temporary queue of a connection that ended, unless it is gone or another one has its name."""
        queue = self.address_manager.queues.get(name)
        if queue is not None and queue.id == identifier:
            self.delete_queue(queue)

    def _remove_waiting(self, queue: Queue) -> None:
        """Take out everything that waits now; messages that come while this goes on stay."""
        limit = self.ids.next_id

        def removal() -> Iterator[None]:
            doomed = queue.backlog.remove_if(
                lambda waiting: waiting.position < limit, exempt_through=lambda: self.cursors.exempt_through(queue)
            )
            for reference in doomed:
                if reference is not None:
                    self.removal.leave(queue, (reference,), Leaving.REMOVED)
                yield

        if queue.backlog.size <= AT_ONCE_MAX and not queue.is_held:
            deque(removal(), maxlen=0)
        else:
            self.deferred.add_holding((queue,), removal())

    def detach(self, consumer: Consumer, outcome: Outcome) -> None:
        """Remove a consumer; what it had not settled goes back.

        It is released when the client closed it in an orderly way, and has failed when its connection was lost.
        """
        queue = consumer.queue
        self._take_back(consumer, outcome)
        if consumer.browse or queue.consumers or queue.deleted:
            return
        if queue.definition.transient:
            self.delete_queue(queue)
        elif queue.definition.purge_on_no_consumers:
            self._remove_waiting(queue)

    def _take_back(self, consumer: Consumer, outcome: Outcome) -> None:
        """Remove a consumer from its queue, with what it had not settled."""
        queue = consumer.queue
        queue.remove_consumer(consumer)
        self.observers.call(self.observers.commit.consumer_removed, consumer)
        self.settle(queue, consumer.unsettled.take_all(), outcome)
