"""The broker itself, sync and protocol-blind: routing, settling, transactions, dead letters, expiry.

Responsible for everything that happens to a message between a send and its last acknowledgement. Refuses to know wire
formats, files, sockets and clocks: time is set by whoever steps it, records go to a `Store`, deliveries to ports.

The hot path (send, route, deliver, acknowledge) is plain method calls on slotted objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from embedbroker.config import AddressSettingsRepository, BrokerConfig
from embedclient.errors import ErrorCode
from embedclient.model import Message, PropertyType, PropertyValue, TypedValue

from ._address import Address
from ._backlog import Reference, Restore
from ._catalog import Catalog, split_fqqn
from ._consumer import Consumer
from ._housekeeping import Housekeeping
from ._ids import Ids
from ._memory import MemoryAccount
from ._publications import Publications
from ._queue import Queue
from ._refusal import Refused
from ._selector import SelectorCache
from ._store import MemoryStore, Store
from ._transaction import Transaction, TransactionState

__all__ = ["Kernel"]

_ROUTING_TYPE = "_AMQ_ROUTING_TYPE"
_ORIGINAL_ROUTING_TYPE = "_AMQ_ORIG_ROUTING_TYPE"


class Kernel:
    """One broker's messages and queues.

    ``log`` takes one line for the operator. ``memory_limit_bytes`` is where producers begin to wait.
    """

    def __init__(
        self,
        config: BrokerConfig,
        restore: Restore,
        log: Callable[[str], None],
        memory_limit_bytes: int,
        store: Store | None = None,
    ) -> None:
        self.config = config
        self.log = log
        self.now_ms = 0
        self.store: Store = store if store is not None else MemoryStore()
        self.ids = Ids(self.store)
        self.memory = MemoryAccount(memory_limit_bytes)
        self.publications = Publications()
        self.settings = AddressSettingsRepository(config.address_settings)
        self.selectors = SelectorCache()
        self.catalog = Catalog(self.settings, self.store, self.ids, self, restore, self.selectors)
        self.housekeeping = Housekeeping(
            self, config.message_expiry_scan_period_ms, config.address_queue_scan_period_ms
        )
        self._woken: dict[Queue, None] = {}
        self._expired: list[tuple[Queue, Reference]] = []
        self._unroutable_logged: set[str] = set()

    # -- stepping ------------------------------------------------------------------------------------------------

    def run(self, budget: int) -> bool:
        """Do what the inputs made possible; returns whether work is left for the next step."""
        if self.publications.is_due(self.store.reached):
            budget = self.publications.publish(self.store.reached, budget)
        woken = self._woken
        while woken and budget > 0:
            queue = next(iter(woken))
            del woken[queue]
            if not queue.deleted:
                budget = queue.dispatch(budget)
        if self._expired:
            expired, self._expired = self._expired, []
            for queue, reference in expired:
                self.move_expired(queue, reference)
        if self.memory.has_waiting:
            self.memory.grant_waiting()
        return bool(woken) or bool(self._expired) or self.publications.is_due(self.store.reached)

    def wake(self, queue: Queue) -> None:
        """Dispatch this queue before the step ends."""
        self._woken[queue] = None

    # -- sending -------------------------------------------------------------------------------------------------

    def send(self, message: Message, routing_type: int | None, transaction: Transaction | None) -> Refused | None:
        """Route one message, now or at the commit of its transaction.

        The message gets its id here. A message that no queue takes is accepted and dropped, as in Artemis.
        """
        ids = self.ids
        message_id = ids.next_id
        if message_id < ids.limit:
            ids.next_id = message_id + 1
        else:
            message_id = ids.take()
        message.assign_id(message_id)
        address = self.catalog.addresses.get(message.address)
        if address is None or not address.queues_exist(routing_type):
            refused = self._prepare_route(message, routing_type)
            if refused is not None:
                if transaction is not None:
                    transaction.fail(refused.text)
                return refused
            address = self.catalog.addresses.get(message.address)
        if address is None:
            targets = self._fully_qualified(message, routing_type)
        else:
            if address.adjusts_expiration is None:
                settings = self.settings.of(address.name)
                address.adjusts_expiration = (
                    not settings.expiry_delay == settings.min_expiry_delay == settings.max_expiry_delay == -1
                )
            if address.adjusts_expiration:
                message = self.apply_expiry_settings(message)
            targets = address.route(message, routing_type)
            address.routed_count += 1
        if targets:
            self.store_routed(message, targets, transaction)
        elif address is not None:
            self._unrouted(message, address)
        return None

    def _prepare_route(self, message: Message, routing_type: int | None) -> Refused | None:
        if not message.address:
            return Refused(ErrorCode.ILLEGAL_STATE, "the message has no address and the session has no default address")
        address_name, queue_name = split_fqqn(message.address)
        return self.catalog.auto_create(address_name, queue_name, routing_type)

    def _fully_qualified(self, message: Message, routing_type: int | None) -> list[Queue]:
        """The queue that ``address::queue`` names, if it is bound there and takes the message."""
        address_name, queue_name = split_fqqn(message.address)
        queue = self.catalog.queues.get(queue_name) if queue_name is not None else None
        if queue is None or queue.definition.address != address_name:
            return []
        if routing_type is not None and routing_type != queue.definition.routing_type:
            return []
        return [queue] if queue.filter is None or queue.filter.matches(message) else []

    def _unrouted(self, message: Message, address: Address) -> None:
        settings = self.settings.of(address.name)
        if not settings.send_to_dla_on_no_route or address.queues or not settings.dead_letter_address:
            return
        changes: dict[str, PropertyValue | TypedValue] = {
            "_AMQ_ORIG_ADDRESS": message.address,
            "_AMQ_ORIG_MESSAGE_ID": message.message_id,
        }
        copy = message.copy_for(settings.dead_letter_address, changes=changes, removals=(_ROUTING_TYPE,), expiration=0)
        copy.assign_id(self.ids.take())
        target = self.catalog.addresses.get(settings.dead_letter_address)
        if target is not None and (queues := target.route(copy, None)):
            self.store_routed(copy, queues, None)

    def apply_expiry_settings(self, message: Message) -> Message:
        """Apply expiry-delay, min- and max-expiry-delay of the address (broker-semantics 4.6)."""
        settings = self.settings.of(message.address)
        delay, shortest, longest = settings.expiry_delay, settings.min_expiry_delay, settings.max_expiry_delay
        assert delay is not None and shortest is not None and longest is not None
        expiration = message.expiration
        if expiration == 0:
            chosen = next((value for value in (delay, longest, shortest) if value >= 0), None)
            wanted = 0 if chosen is None else self.now_ms + chosen
        elif longest >= 0 and expiration > self.now_ms + longest:
            wanted = self.now_ms + longest
        elif shortest >= 0 and expiration < self.now_ms + shortest and delay < 0:
            wanted = self.now_ms + shortest
        else:
            wanted = expiration
        if wanted == expiration:
            return message
        copy = message.copy_for(message.address, changes={}, removals=(), expiration=wanted)
        copy.assign_id(message.message_id)
        return copy

    def store_routed(self, message: Message, targets: list[Queue], transaction: Transaction | None) -> None:
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
            position = 0 if transaction is not None else message_id
            references = [(queue.id, position) for queue in targets if queue.durable]
            if references:
                durable = True
                self.store.add_message(message, transaction.id if transaction is not None else 0, references)
        if transaction is not None:
            transaction.recorded = transaction.recorded or durable
            transaction.sent.append((message, targets))
            return
        publications = self.publications
        if durable:
            point = self.store.point()
            if point > self.store.reached or publications:
                for queue in targets:
                    publications.add(point, queue, Reference(message, message_id))
                return
        elif publications:
            for queue in targets:
                if queue.waiting_visible:
                    publications.add(0, queue, Reference(message, message_id))
                else:
                    queue.publish(Reference(message, message_id))
            return
        for queue in targets:
            queue.publish(Reference(message, message_id))

    # -- settling ------------------------------------------------------------------------------------------------

    def settle(self, queue: Queue, reference: Reference) -> None:
        """One queue is done with a delivered message, outside a transaction."""
        message = reference.message
        if message.durable and queue.durable:
            self.store.acknowledge(message.message_id, queue.id, 0)
        self._gone(queue, message)

    def settle_delivered(self, queue: Queue, reference: Reference) -> None:
        """A consumer with pre-acknowledge took a message."""
        self.settle(queue, reference)

    def _gone(self, queue: Queue, message: Message) -> None:
        queue.delivering_count -= 1
        queue.acknowledged_count += 1
        queue.used = True
        self.memory.release(message.message_id, queue.definition.address, len(message.raw))
        assert queue.delivering_count >= 0, queue.name

    def settle_in(self, transaction: Transaction, queue: Queue, reference: Reference) -> None:
        """One queue will be done with a delivered message when the transaction commits."""
        message = reference.message
        if message.durable and queue.durable:
            self.store.acknowledge(message.message_id, queue.id, transaction.id)
            transaction.recorded = True
        transaction.acknowledged.append((queue, reference))

    def discard(self, queue: Queue, reference: Reference) -> None:
        """Drop a message that is in no list any more and was not in delivery."""
        message = reference.message
        if message.durable and queue.durable:
            self.store.acknowledge(message.message_id, queue.id, 0)
        queue.used = True
        self.memory.release(message.message_id, queue.definition.address, len(message.raw))

    # -- coming back ---------------------------------------------------------------------------------------------

    def give_back(self, queue: Queue, reference: Reference, *, seen: bool) -> None:
        """A delivered message returns: to its old place, or to the dead letter address after too many deliveries.

        ``seen`` False undoes the delivery count: the application never had the message.
        """
        queue.delivering_count -= 1
        if not seen:
            reference.delivery_count -= 1
        message = reference.message
        if queue.deleted:
            self.memory.release(message.message_id, queue.definition.address, len(message.raw))
            return
        attempts_max = self.settings.of(queue.definition.address).max_delivery_attempts
        assert attempts_max is not None
        if seen and message.durable and queue.durable:
            self.store.update_delivery_count(message.message_id, queue.id, reference.delivery_count)
        if 0 < attempts_max <= reference.delivery_count:
            self._move_dead(queue, reference)
            return
        queue.backlog.give_back(reference)
        self.wake(queue)

    def expire(self, queue: Queue, reference: Reference) -> bool:
        """Remember a message that was found expired; it moves when the current dispatch is over.

        False for queues of the expiry address itself: what is there is delivered.
        """
        if not self.expires(queue):
            return False
        self._expired.append((queue, reference))
        return True

    def expires(self, queue: Queue) -> bool:
        """Whether messages expire in this queue: not on an expiry address."""
        address = queue.definition.address
        return self.settings.of(address).expiry_address != address

    def move_expired(self, queue: Queue, reference: Reference) -> None:
        """Move an expired message that is in no list any more to the expiry address, or drop it."""
        message = reference.message
        if queue.deleted:
            self.memory.release(message.message_id, queue.definition.address, len(message.raw))
            return
        target = self.settings.of(message.address).expiry_address
        if target is None:
            self._log_once(
                f"expiry:{queue.name}",
                f"queue {queue.name!r}: expired messages are dropped, there is no expiry address",
            )
            self.discard(queue, reference)
            return
        self._move(queue, reference, target, {"_AMQ_ACTUAL_EXPIRY": self.now_ms})

    def _move_dead(self, queue: Queue, reference: Reference) -> None:
        message = reference.message
        target = self.settings.of(queue.definition.address).dead_letter_address
        if target is None:
            self._log_once(
                f"dead:{queue.name}",
                f"queue {queue.name!r}: undeliverable messages are dropped, there is no dead letter address",
            )
            self.discard(queue, reference)
            return
        self.log(
            f"queue {queue.name!r}: message {message.message_id} goes to {target!r} "
            f"after {reference.delivery_count} deliveries"
        )
        self._move(queue, reference, target, {})

    def _move(
        self, queue: Queue, reference: Reference, target: str, extra: dict[str, PropertyValue | TypedValue]
    ) -> None:
        """Copy to another address and be done with the original, as one transaction."""
        message = reference.message
        changes: dict[str, PropertyValue | TypedValue] = {
            "_AMQ_ORIG_ADDRESS": message.address,
            "_AMQ_ORIG_QUEUE": queue.name,
            "_AMQ_ORIG_MESSAGE_ID": message.message_id,
            **extra,
        }
        original_type = message.property(_ROUTING_TYPE)
        if original_type is not None:
            changes[_ORIGINAL_ROUTING_TYPE] = TypedValue(original_type, PropertyType.BYTE)
        earlier_type = message.property(_ORIGINAL_ROUTING_TYPE)
        if earlier_type is not None:
            # Second hop (a dead letter expires): the type of the first send is put back, as Artemis does.
            changes[_ROUTING_TYPE] = TypedValue(earlier_type, PropertyType.BYTE)
        removals = () if _ROUTING_TYPE in changes else (_ROUTING_TYPE,)
        copy = message.copy_for(target, changes=changes, removals=removals, expiration=0)
        address = self.catalog.addresses.get(target)
        copy.assign_id(self.ids.take())
        targets = address.route(copy, None) if address is not None else []
        if not targets:
            self._log_once(f"move:{target}", f"messages for {target!r} are dropped: no queue is bound there")
            self.discard(queue, reference)
            return
        queue.delivering_count += 1
        transaction = self.begin()
        self.store_routed(copy, targets, transaction)
        self.settle_in(transaction, queue, reference)
        self.commit(transaction)

    def _log_once(self, key: str, text: str) -> None:
        if key not in self._unroutable_logged:
            self._unroutable_logged.add(key)
            self.log(text)

    # -- transactions --------------------------------------------------------------------------------------------

    def begin(self) -> Transaction:
        """Open a transaction."""
        return Transaction(self.ids.take())

    def commit(self, transaction: Transaction) -> None:
        """Carry an active transaction out: its messages become visible together once that is durable."""
        assert transaction.state is not TransactionState.ROLLBACK_ONLY
        first = self.ids.take(len(transaction.sent)) if transaction.sent else 0
        next_position: dict[Queue, int] = {}
        references: list[tuple[Queue, Reference]] = []
        for message, targets in transaction.sent:
            for queue in targets:
                if queue.deleted:
                    self.memory.release(message.message_id, queue.definition.address, len(message.raw))
                    continue
                position = next_position.get(queue, first)
                next_position[queue] = position + 1
                references.append((queue, Reference(message, position)))
        if transaction.recorded:
            self.store.commit(transaction.id, [(queue.id, first) for queue in next_position if queue.durable])
        for queue, reference in transaction.acknowledged:
            self._gone(queue, reference.message)
        point = self.store.point() if transaction.recorded else 0
        waits = point > self.store.reached or bool(self.publications)
        for queue, reference in references:
            if waits:
                self.publications.add(point, queue, reference)
            else:
                queue.publish(reference)

    def rollback(self, transaction: Transaction) -> None:
        """Undo a transaction: nothing was sent, and what was acknowledged returns with its delivery counted."""
        if transaction.recorded:
            self.store.rollback(transaction.id)
        for message, targets in transaction.sent:
            for queue in targets:
                self.memory.release(message.message_id, queue.definition.address, len(message.raw))
        for queue, reference in transaction.acknowledged:
            self.give_back(queue, reference, seen=True)

    # -- queues --------------------------------------------------------------------------------------------------

    def delete_queue(self, queue: Queue) -> None:
        """Delete a queue with what it holds; consumers that are left are told."""
        for consumer in [*queue.consumers, *queue.browsers]:
            self._take_back(consumer, seen=True)
            consumer.port.closed_by_broker(consumer)
        self._release_all(queue, self.publications.withdraw(queue))
        self._release_all(
            queue, (reference for reference in queue.backlog.remove_if(lambda _reference: True) if reference)
        )
        self._woken.pop(queue, None)
        self.catalog.drop_queue(queue)
        self._drop_idle_address(queue)

    def _drop_idle_address(self, queue: Queue) -> None:
        address = self.catalog.addresses.get(queue.definition.address)
        if address is None or address.queues or not address.definition.auto_created:
            return
        if queue.definition.temporary or self.settings.of(address.name).auto_delete_addresses_delay == 0:
            self.catalog.remove_address(address)

    def _release_all(self, queue: Queue, references: Iterable[Reference]) -> None:
        for reference in references:
            message = reference.message
            self.memory.release(message.message_id, queue.definition.address, len(message.raw))

    def detach(self, consumer: Consumer, *, seen: bool) -> None:
        """Remove a consumer and return what it had not settled.

        ``seen`` is False when the client closed it in an orderly way and True when its connection was lost.
        """
        queue = consumer.queue
        self._take_back(consumer, seen=seen)
        if consumer.browse or queue.consumers or queue.deleted:
            return
        if queue.definition.transient:
            self.delete_queue(queue)
        elif queue.definition.purge_on_no_consumers:
            for waiting in queue.backlog.remove_if(lambda _reference: True):
                if waiting is not None:
                    self.discard(queue, waiting)

    def _take_back(self, consumer: Consumer, *, seen: bool) -> None:
        """Remove a consumer from its queue, with what it had not settled."""
        queue = consumer.queue
        queue.remove_consumer(consumer)
        unsettled = list(consumer.unsettled.values())
        consumer.unsettled.clear()
        for reference in unsettled:
            self.give_back(queue, reference, seen=seen)
