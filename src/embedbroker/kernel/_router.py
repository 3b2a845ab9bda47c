"""Routing: which queues a sent message goes to, after its address settings and its duplicate id are applied.

Responsible for message ids, for what is created on demand, and for messages that no queue takes. Does not depend on
permissions, which `Session` checks, and on records, which `Placement` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embedbroker.config import AddressFullPolicy, AddressSettingsRepository
from embedclient.errors import ErrorCode

from ._authority import Access
from ._clock import Clock
from ._ids import Ids
from ._log_once import LogOnce
from ._memory import MemoryAccount
from ._refusal import Refused, name_in_text
from .addressing._address import Address
from .addressing._addresses import AddressManager, split_fqqn
from .addressing._bindings import Chosen
from .addressing._remote_binding import RemoteBinding, common_routing_type
from .addressing._routing_context import RoutingContext
from .message._message import Message
from .queueing._queue import Queue
from .settling._dead_letters import DeadLetters
from .settling._diversion import Diversion
from .settling._expiry_settings import adjusts_expiration, with_expiry_settings
from .settling._forwarding import Forwarding
from .transactions._duplicate_ids import DuplicateIds, Identified, sender_of
from .transactions._placement import Placement
from .transactions._transaction import Transaction, Transactions

__all__ = ["Router"]

# What another broker chose, and what does not exist any more.
_GONE = (ErrorCode.QUEUE_DOES_NOT_EXIST, ErrorCode.ADDRESS_DOES_NOT_EXIST)


class Router:
    """Route messages that are sent. Moves of messages that are in a queue are for `MessageMover`."""

    __slots__ = (
        "_address_manager",
        "_addresses",
        "_clock",
        "_dead_letters",
        "_diversion",
        "_duplicates",
        "_forwarding",
        "_ids",
        "_log_once",
        "_memory",
        "_placement",
        "_settings",
        "_transactions",
    )

    def __init__(
        self,
        ids: Ids,
        clock: Clock,
        memory: MemoryAccount,
        settings: AddressSettingsRepository,
        address_manager: AddressManager,
        duplicates: DuplicateIds,
        placement: Placement,
        dead_letters: DeadLetters,
        diversion: Diversion,
        forwarding: Forwarding,
        transactions: Transactions,
        log: Callable[[str], None],
    ) -> None:
        self._ids = ids
        self._clock = clock
        self._memory = memory
        self._settings = settings
        self._address_manager = address_manager
        # The resolution of a name, for each message: an address holds the queues that take what is sent to it.
        self._addresses = address_manager.addresses
        self._duplicates = duplicates
        self._placement = placement
        self._dead_letters = dead_letters
        self._diversion = diversion
        self._forwarding = forwarding
        self._transactions = transactions
        self._log_once = LogOnce(log)

    def send(
        self,
        message: Message,
        routing_type: int | None,
        transaction: Transaction | None,
        duplicate_id: bytes | None = None,
        access: Access | None = None,
        queue_ids: frozenset[int] = frozenset(),
    ) -> Refused | None:
        """Route one message, now or at the commit of its transaction.

        The message gets its id here. A message that no queue takes is accepted and dropped, as in Artemis, and so is
        one with the ``duplicate_id`` of an earlier one. ``access`` limits what is created on the way; None is for the
        broker itself. ``queue_ids`` are the queues that another broker has chosen.
        """
        ids = self._ids
        message_id = ids.next_id
        if message_id < ids.limit:
            ids.next_id = message_id + 1
        else:
            message_id = ids.take()
        message.assign_id(message_id)
        address = self._addresses.get(message.address)
        # `queues_exist` is called only where there is no queue at all.
        if address is None or not (address.anycast or address.multicast or address.queues_exist(routing_type)):
            refused = self._prepare(message, routing_type, access, queue_ids, sender_of(duplicate_id))
            if refused is not None:
                return self._refuse(message, refused, transaction, queue_ids)
            address = self._addresses.get(message.address)
        # The settings of the address hold for a send to ``address::queue``, too.
        owner = address if address is not None else self._addresses.get(split_fqqn(message.address)[0])
        identified: Identified | None = None
        if owner is not None:
            if duplicate_id is not None:
                admitted = self._duplicates.admit(message, owner, duplicate_id, transaction)
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
            if queue_ids or owner.others is not None:
                chosen = self._chosen(message, owner, queue_ids, sender_of(duplicate_id)) if queue_ids else None
                return self._send_to_others(message, owner, routing_type, transaction, identified, access, chosen)
        elif self._address_manager.resolution.find(split_fqqn(message.address)[0]) is not None:
            return self._send_unlisted(message, routing_type, transaction, duplicate_id, access, queue_ids)
        if address is None:
            targets = self._address_manager.qualified_queues(message, routing_type)
        else:
            targets = address.route(message, routing_type)
        if targets:
            self._placement.place(message, targets, transaction, identified)
        elif address is not None:
            address.unrouted_count += 1
            self._dead_letters.take_unrouted(message, address, transaction)
        if identified is not None:
            self._duplicates.accept(identified, transaction)
        return None

    def send_run(self, messages: Sequence[Message], duplicate_ids: Sequence[bytes], queue_ids: frozenset[int]) -> bool:
        """Send messages to one address, outside a transaction, to the one queue that another broker has chosen.

        All of them are durable, or none is. Their ids follow each other.

        Returns:
            False, without effect: send each by itself.
        """
        address = self._addresses.get(messages[0].address)
        if address is None or address.is_plain is not True or len(queue_ids) != 1:
            return False
        queues, remote = address.chosen(queue_ids)
        others = address.others
        if remote or len(queues) != 1 or not self._placement.takes_runs(queues[0]):
            return False
        if others is not None and (others.has_diverts or others.has_queues):
            return False
        entries = self._duplicates.admit_run(address, duplicate_ids)
        if entries is None:
            return False
        for message_id, message in enumerate(messages, self._ids.take(len(messages))):
            message.assign_id(message_id)
        address.routed_count += len(messages)
        self._placement.place_run_once(messages, queues[0], entries)
        self._duplicates.enforce_run(address, entries)
        return True

    def _apply_settings(self, address: Address, message: Message) -> Message | Refused:
        """Apply address settings to a send: limits refuse it, expirations change. Resolve other bindings, if needed."""
        if not address.is_resolved:
            self._address_manager.resolution.resolve(address)
        settings = self._settings.of(address.name)
        limit = settings.max_size_bytes
        assert limit is not None
        fails = settings.address_full_policy is AddressFullPolicy.FAIL
        adjusts = adjusts_expiration(settings)
        address.is_plain = not (fails or adjusts)
        if fails and self._memory.is_full(address.name, limit):
            return Refused(ErrorCode.ADDRESS_FULL, f"address {address.name!r} is full")
        return with_expiry_settings(message, settings, self._clock.now_ms) if adjusts else message

    def _chosen(self, message: Message, address: Address, ids: frozenset[int], sender: bytes | None) -> Chosen:
        """Return the bindings that another broker has chosen for a message, and log once that some are gone."""
        chosen = self._forwarding.chosen(message, address, ids, sender)
        if sum(map(len, chosen)) < len(ids):
            name = name_in_text(address.name)
            self._log_once(
                address.name,
                f"address {name!r}: another broker of the cluster sent a message for a queue that does not exist any "
                "more; its other queues get it, or without any an anycast queue here that takes it",
            )
        return chosen

    def _prepare(
        self,
        message: Message,
        routing_type: int | None,
        access: Access | None,
        queue_ids: frozenset[int],
        sender: bytes | None,
    ) -> Refused | None:
        """Create what a send needs. A binding that another broker chose, and that is left, needs nothing."""
        if queue_ids:
            address = self._address_manager.resolution.find(split_fqqn(message.address)[0])
            if address is not None and any(self._forwarding.chosen(message, address, queue_ids, sender)):
                return None
        return self._address_manager.prepare_send(message, routing_type, access)

    def _refuse(
        self, message: Message, refused: Refused, transaction: Transaction | None, queue_ids: frozenset[int]
    ) -> Refused | None:
        """Refuse a message, or drop it if another broker chose its queues: that one would send it for ever."""
        if queue_ids and refused.code in _GONE:
            name = name_in_text(message.address)
            self._log_once(
                message.address,
                f"address {name!r}: messages that another broker of the cluster sent for a queue here are dropped: "
                f"{refused.text}",
            )
            return None
        if transaction is not None:
            transaction.fail(refused.text)
        return refused

    def _send_unlisted(
        self,
        message: Message,
        routing_type: int | None,
        transaction: Transaction | None,
        duplicate_id: bytes | None,
        access: Access | None,
        queue_ids: frozenset[int],
    ) -> Refused | None:
        """Send to an address that does not exist, but that other brokers have, wildcards match, or a divert."""
        address = self._address_manager.resolution.find(split_fqqn(message.address)[0])
        assert address is not None
        adjusted = self._apply_settings(address, message)
        if isinstance(adjusted, Refused):
            if transaction is not None:
                transaction.fail(adjusted.text)
            return adjusted
        address.is_plain = None
        chosen = self._chosen(adjusted, address, queue_ids, sender_of(duplicate_id)) if queue_ids else None
        identified: Identified | None = None
        remote = chosen[1] if chosen is not None else self._address_manager.remote_bindings_of(address.name)
        # The address of the queue in which it waits for the other broker keeps its id: it exists as long.
        keeper = self._addresses.get(remote[0].store_and_forward.definition.address) if remote else None
        if duplicate_id is not None and keeper is not None:
            admitted = self._duplicates.admit(adjusted, keeper, duplicate_id, transaction, address.name)
            if not isinstance(admitted, Identified):
                return admitted
            identified = admitted
        return self._send_to_others(adjusted, address, routing_type, transaction, identified, access, chosen)

    def _send_to_others(
        self,
        message: Message,
        address: Address,
        routing_type: int | None,
        transaction: Transaction | None,
        identified: Identified | None,
        access: Access | None,
        chosen: Chosen | None = None,
    ) -> Refused | None:
        """Send to an address that has more than queues, or what another broker sent to the ``chosen`` bindings."""
        others, forwarding = address.others, self._forwarding
        if chosen is None and others is not None and others.rotation is not None and not others.has_diverts:
            home = others.rotation.home_for(message, routing_type) if message.address == address.name else None
            if home is not None:
                self._placement.place(message, [home], transaction, identified)
                if identified is not None:
                    self._duplicates.accept(identified, transaction)
                return None
        is_chosen = chosen is not None and any(chosen)
        if others is None or not others.has_diverts or (is_chosen and not others.exclusive):
            queues, remote = forwarding.bound(message, address, routing_type, chosen)
            if remote:
                return self._send_to_brokers(message, address, queues, remote, transaction, identified)
            self._place(message, address, queues, transaction, identified, is_taken=bool(queues))
            return None
        return self._send_to_diverts(message, address, routing_type, transaction, identified, access, chosen)

    def _send_to_brokers(
        self,
        message: Message,
        address: Address,
        queues: list[Queue],
        remote: Sequence[RemoteBinding],
        transaction: Transaction | None,
        identified: Identified | None,
    ) -> Refused | None:
        """Send to queues of this broker, if there are any, and to queues of others."""
        copies = self._forwarding.copies(message, remote)
        if isinstance(copies, Refused):
            if transaction is not None:
                transaction.fail(copies.text)
            return copies
        # Stored as a whole: an id on the disk without the copies would have the sender's second attempt dropped.
        is_one = len(copies) + bool(queues) == 1
        alone = self._transactions.begin() if transaction is None and message.durable and not is_one else None
        within = alone or transaction
        if queues:
            self._placement.place_at(message, address, queues, within, identified)
        for copy, queue in copies:
            self._placement.place(copy, [queue], within, identified if is_one else None)
        if identified is not None:
            self._duplicates.accept(identified, within)
        if alone is not None:
            alone.commit()
        return None

    def _send_to_diverts(
        self,
        message: Message,
        address: Address,
        routing_type: int | None,
        transaction: Transaction | None,
        identified: Identified | None,
        access: Access | None,
        chosen: Chosen | None,
    ) -> Refused | None:
        """Send to an address that has diverts."""
        ids: dict[int, Identified | None] = {message.message_id: identified}
        seen: set[tuple[str, bytes]] = set()

        def admit(copy: Message, target: Address) -> bool | Refused:
            duplicate_id = copy.duplicate_id
            ids[copy.message_id] = None
            if duplicate_id is None or target.definition.id == 0:
                return True
            if (target.name, duplicate_id) in seen and transaction is None:
                return False
            seen.add((target.name, duplicate_id))
            admitted = self._duplicates.admit(copy, target, duplicate_id, transaction)
            if isinstance(admitted, Identified):
                ids[copy.message_id] = admitted
                return True
            return False if admitted is None else admitted

        context = RoutingContext(routing_type, access, admit, chosen=chosen)
        routes = self._diversion.route(message, address, context)
        if isinstance(routes, Refused):
            if transaction is not None:
                transaction.fail(routes.text)
            return routes
        # Stored as a whole: an id on the disk without the copies would have the sender's second attempt dropped.
        alone = self._transactions.begin() if transaction is None and message.durable and len(routes) > 1 else None
        for each in routes:
            if each.is_forwarded:
                self._placement.place(each.message, each.queues, alone or transaction)
                continue
            if each.message is not message:
                each.address.routed_count += 1
            found = ids[each.message.message_id]
            self._place(each.message, each.address, each.queues, alone or transaction, found, is_taken=each.is_taken)
        if alone is not None:
            alone.commit()
        return None

    def _place(
        self,
        message: Message,
        address: Address,
        targets: list[Queue],
        transaction: Transaction | None,
        identified: Identified | None,
        *,
        is_taken: bool,
    ) -> None:
        """Place a message in queues that may have other addresses than its own."""
        if targets:
            if address.others is not None and address.others.has_queues:
                self._placement.place_at(message, address, targets, transaction, identified)
            else:
                self._placement.place(message, targets, transaction, identified)
        elif not is_taken:
            address.unrouted_count += 1
            self._dead_letters.take_unrouted(message, address, transaction)
        if identified is not None:
            self._duplicates.accept(identified, transaction)

    def send_on(
        self,
        message: Message,
        routing_type: int | None,
        remote_ids: frozenset[int],
        node_id: str | None,
        duplicate_id: bytes | None,
    ) -> Refused | None:
        """Send a message to queues of other brokers alone, as a broker that scales down had chosen them."""
        bindings = [
            binding
            for binding in self._address_manager.remote_bindings_of(message.address)
            if binding.remote_queue_id in remote_ids and (node_id is None or binding.cluster_name.endswith(node_id))
        ]
        if not bindings:
            text = f"a queue of {message.address!r} at another broker is not known here"
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, text)
        address = self._addresses.get(message.address) or self._create_address_of(message.address, routing_type)
        if isinstance(address, Refused):
            return address
        message.assign_id(self._ids.take())
        identified: Identified | None = None
        if duplicate_id is not None:
            admitted = self._duplicates.admit(message, address, duplicate_id, None)
            if not isinstance(admitted, Identified):
                return admitted
            identified = admitted
        copies = self._forwarding.copies(message, bindings)
        if isinstance(copies, Refused):
            return copies
        transaction = self._transactions.begin()
        for copy, queue in copies:
            self._placement.place(copy, [queue], transaction)
        if identified is not None:
            self._duplicates.accept(identified, transaction)
        transaction.commit()
        return None

    def _create_address_of(self, name: str, stated: int | None) -> Address | Refused:
        """Create the address of a queue of another broker, if the settings allow that, as for any send."""
        manager, settings = self._address_manager, self._settings.of(name)
        routing_type = common_routing_type(manager.remote_bindings_of(name), stated, settings)
        return manager.ensure_address(name, routing_type, allowed=bool(settings.auto_create_addresses))

    def announce(self, message: Message) -> None:
        """Send a notification of the broker itself about what it has recorded; it is visible once that is durable.

        Other brokers send messages to what is announced. After a crash it must still be there.
        """
        address = self._addresses.get(message.address)
        if address is not None and not address.is_resolved:
            self._address_manager.resolution.resolve(address)
        if address is None or address.others is not None:
            self.send(message, None, None)
            return
        message.assign_id(self._ids.take())
        if address.is_plain is not True:
            adjusted = self._apply_settings(address, message)
            if isinstance(adjusted, Refused):
                return
            message = adjusted
        address.routed_count += 1
        targets = address.route(message, None)
        if targets:
            self._placement.place(message, targets, None, waits=True)
        else:
            address.unrouted_count += 1
            self._dead_letters.take_unrouted(message, address, None)

    def reaches_queues(self, name: str) -> bool:
        """Return True if an address has queues."""
        address = self._address_manager.resolution.find(name)
        return address is not None and (address.has_queues or address.others is not None)

    def reply(self, message: Message, *, promises: bool) -> None:
        """Send an answer of the broker itself to the queues of an existing address; without one, it is dropped.

        An answer that ``promises`` is visible once everything is durable that is recorded by now.
        """
        message.assign_id(self._ids.take())
        address = self._address_manager.resolution.find(message.address)
        targets = address.route_all(message, None) if address is not None else None
        if targets:
            self._placement.place_reply(message, targets, self._address_manager.store.point() if promises else 0)

    def send_to_queue(self, message: Message, queue: Queue) -> None:
        """Send a message of the broker itself to one queue, without a record, whatever its address and its filter.

        It is visible once all queues are durable that are recorded by now: it may tell of them.
        """
        message.assign_id(self._ids.take())
        self._placement.place_reply(message, [queue], self._address_manager.queues_point)
