"""All addresses and queues of a broker: creation, deletion, look-up and what is created on demand.

Responsible for names, routing types, defaults from address settings, auto-creation rules and their refusals. Does not
depend on sessions, messages in flight and protocols; the kernel empties a queue before it is dropped here.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

from attrs import define, evolve, field

from embedbroker.config import AddressConfiguration, AddressSettings, AddressSettingsRepository, WildcardConfiguration
from embedclient.errors import ErrorCode

from .._authority import Access, Permission, Principal
from .._definitions import AddressDefinition, QueueDefinition
from .._ids import Ids
from .._memory import MemoryAccount
from .._observer import Observers
from .._refusal import Refused, name_in_text
from .._store import Store
from ..message._message import Message
from ..queueing._backlog import Restore
from ..queueing._queue import Queue, QueueOwner
from ..selector._selector import InvalidSelector, Selector, SelectorCache
from ._address import Address
from ._internal_bindings import InternalBinding
from ._remote_binding import RemoteBinding
from ._resolution import Resolution
from ._views import AddressView, QueueRequest, QueueUpdate, QueueView

__all__ = ["AddressManager", "names_of", "serves", "split_fqqn"]

_MULTICAST, _ANYCAST = 0, 1

# Clients choose random names for temporary destinations, so such a name has no other use.
_RANDOM_NAME = re.compile(r"(jms\.temp(queue|topic)\.)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Clients before release 2.0 begin the names of temporary destinations with these.
_OLD_TEMPORARY_PREFIXES = ("jms.tempqueue.", "jms.temptopic.")
GONE_MAX = 10_000

# Attributes of a queue, and the address setting that holds unless a request has the attribute.
_DEFAULTS = {
    "max_consumers": "default_max_consumers",
    "exclusive": "default_exclusive_queue",
    "purge_on_no_consumers": "default_purge_on_no_consumers",
    "auto_delete_delay": "auto_delete_queues_delay_ms",
    "auto_delete_message_count": "auto_delete_queues_message_count",
    "group_buckets": "default_group_buckets",
    "group_rebalance": "default_group_rebalance",
    "group_rebalance_pause_dispatch": "default_group_rebalance_pause_dispatch",
}
_requested, _default_values = attrgetter(*_DEFAULTS), attrgetter(*_DEFAULTS.values())


def split_fqqn(name: str) -> tuple[str, str | None]:
    """Split ``address::queue`` into its two names. Return None as the queue if ``::`` is missing."""
    address, separator, queue = name.partition("::")
    return (address, queue) if separator else (name, None)


@define(eq=False)
class AddressManager:
    """Hold addresses by name and queues by name; names are case sensitive and queue names unique in the broker."""

    settings: AddressSettingsRepository
    store: Store
    ids: Ids
    owner: QueueOwner
    restore: Restore
    selectors: SelectorCache
    addresses_max: int
    queues_max: int
    observers: Observers
    wildcards: WildcardConfiguration
    memory: MemoryAccount
    addresses: dict[str, Address] = field(factory=dict)
    queues: dict[str, Queue] = field(factory=dict)
    internal: dict[str, InternalBinding] = field(factory=dict, init=False)
    resolution: Resolution = field(init=False)
    # Names of removed temporary destinations, the oldest first: nothing is created for late replies.
    _gone: dict[str, None] = field(factory=dict, init=False)
    #: The durability point that covers the records of all queues.
    queues_point: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.resolution = Resolution(self.wildcards, self.addresses)

    def selector(self, text: str | None) -> Selector | Refused | None:
        """Parse a filter; empty text is no filter."""
        if text is None or not text.strip():
            return None
        try:
            return self.selectors.find(text)
        except InvalidSelector as error:
            return Refused(ErrorCode.INVALID_FILTER_EXPRESSION, str(error))

    # -- internal bindings ---------------------------------------------------------------------------------------

    def bind_internal(self, binding: InternalBinding) -> None:
        """Bind a part of the broker that takes what is sent to an address. Must come before the first session."""
        assert binding.address not in self.internal, binding.address
        self.internal[binding.address] = binding

    def is_reserved(self, name: str) -> bool:
        """Return True if an address is reserved for a part of the broker."""
        binding = self.internal.get(name)
        return binding is not None and binding.is_reserved

    # -- queues of other brokers ---------------------------------------------------------------------------------

    def add_remote_binding(self, binding: RemoteBinding) -> None:
        """Bind a queue of another broker, so that messages are routed to it. It must not be bound.

        Args:
            binding: Binding; receives its id.
        """
        assert not binding.id, binding.cluster_name
        binding.id = self.ids.take()
        self.resolution.add_remote(binding)

    def remove_remote_binding(self, binding: RemoteBinding) -> None:
        """Unbind a queue of another broker. What is in the store-and-forward queue stays there.

        Args:
            binding: Binding that is bound.
        """
        self.resolution.remove_remote(binding)
        binding.id = 0

    def remote_bindings_of(self, address_name: str) -> list[RemoteBinding]:
        """Return the queues of other brokers that are bound to exactly this address, in order of their addition.

        Args:
            address_name: Name of the address, which need not exist here.
        """
        return self.resolution.remote_at(address_name)

    # -- addresses -----------------------------------------------------------------------------------------------

    def create_address(
        self, name: str, *, anycast: bool, multicast: bool, auto_created: bool, limited: bool = True
    ) -> Address | Refused:
        """Create an address, or replace the routing types of an existing one.

        ``limited`` False is for names of the configuration, here and below: they may exceed the maximum.
        """
        if self.is_reserved(name):
            return _is_reserved(name)
        existing = self.addresses.get(name)
        if existing is not None:
            existing.definition = evolve(existing.definition, anycast=anycast, multicast=multicast)
            self._record_change(existing)
            return existing
        if not name:
            return _has_no_name()
        if limited and len(self.addresses) >= self.addresses_max:
            return self._too_many_addresses(name)
        return self._add_address(AddressDefinition(self.ids.take(), name, anycast, multicast, auto_created))

    def _too_many_addresses(self, name: str) -> Refused:
        return Refused(
            ErrorCode.ILLEGAL_STATE, f"address {name!r}: the broker has {self.addresses_max} addresses, addresses_max"
        )

    def _too_many_queues(self, name: str) -> Refused:
        return Refused(ErrorCode.ILLEGAL_STATE, f"queue {name!r}: the broker has {self.queues_max} queues, queues_max")

    def _add_address(self, definition: AddressDefinition) -> Address:
        address = self.addresses[definition.name] = Address(definition)
        address.idle_since_ms = self.owner.now_ms
        self.resolution.on_address(address)
        self.store.add_address(definition)
        self.observers.call(self.observers.commit.address_added, address)
        return address

    def _record_change(self, address: Address) -> None:
        """Record that an address changed."""
        self.store.add_address(address.definition)
        self.observers.call(self.observers.commit.address_changed, address)

    def restore_address(self, definition: AddressDefinition) -> None:
        """Restore an address from the journal, without writing it again."""
        address = self.addresses[definition.name] = Address(definition)
        self.resolution.on_address(address)

    def remove_address(self, address: Address) -> None:
        """Forget an address without queues, and its duplicate ids."""
        assert not address.has_queues, address.name
        del self.addresses[address.name]
        address.removed = True
        self.resolution.on_address(address)
        if address.duplicate_ids is not None:
            address.duplicate_ids.owner.clear(address.duplicate_ids)
        self.memory.unblock(address.name)
        self.store.remove_address(address.definition.id)
        self.observers.call(self.observers.commit.address_removed, address)

    def is_bound(self, address: Address) -> bool:
        """Return True if queues or diverts are bound to exactly this address."""
        return address.has_queues or bool(self.resolution.diverts_at(address.name))

    def is_in_use(self, address: Address) -> bool:
        """Return True if an address stays: it is bound, or has ids of messages that pass to other brokers.

        Such a message may be sent again, while nothing is bound here any more.
        """
        return self.is_bound(address) or bool(address.duplicate_ids and self.remote_bindings_of(address.name))

    def ensure_address(self, name: str, routing_type: int, *, allowed: bool, limited: bool = True) -> Address | Refused:
        """Return the address with this routing type, creating either on demand when ``allowed``."""
        if self.is_reserved(name):
            return _is_reserved(name)
        address = self.addresses.get(name)
        if address is not None and address.serves(routing_type):
            return address
        if not allowed:
            if address is None:
                return Refused(
                    ErrorCode.ADDRESS_DOES_NOT_EXIST, f"address {name!r} does not exist and is not auto-created"
                )
            return Refused(
                ErrorCode.INTERNAL_ERROR,
                f"address {name!r} does not have routing type {'ANYCAST' if routing_type == _ANYCAST else 'MULTICAST'}",
            )
        anycast = routing_type == _ANYCAST
        if address is None:
            if not name:
                return _has_no_name()
            if limited and len(self.addresses) >= self.addresses_max:
                return self._too_many_addresses(name)
            return self._add_address(AddressDefinition(self.ids.take(), name, anycast, not anycast, True))
        address.definition = evolve(
            address.definition,
            anycast=address.definition.anycast or anycast,
            multicast=address.definition.multicast or not anycast,
        )
        self._record_change(address)
        return address

    # -- queues --------------------------------------------------------------------------------------------------

    def find_queue(self, name: str) -> Queue | None:
        """Return the queue with this name or FQQN."""
        _address, qualified = split_fqqn(name)
        return self.queues.get(name if qualified is None else qualified)

    def create_queue(self, request: QueueRequest, *, limited: bool = True) -> Queue | Refused:
        """Create a queue by the rules of Artemis (broker-semantics 1.4); an FQQN in either name is split."""
        address_name, name = names_of(request)
        if not name:
            return Refused(ErrorCode.INVALID_QUEUE_CONFIGURATION, "a queue needs a name")
        for each in (name, address_name):
            if self.is_reserved(each):
                return _is_reserved(each)
        selector = self.selector(request.filter)
        if isinstance(selector, Refused):
            return selector
        existing = self.queues.get(name)
        if existing is not None:
            return self._existing(existing, request, address_name)
        if name in self.resolution.diverts:
            return Refused(
                ErrorCode.ILLEGAL_STATE, f"AMQ229235: queue {name!r}: a divert has this name; choose another one"
            )
        if request.auto_created and not request.temporary and self._is_gone(address_name):
            return _temporary_is_gone(address_name)
        if limited and len(self.queues) >= self.queues_max:
            return self._too_many_queues(name)
        settings = self.settings.of(address_name)
        routing_type = self.routing_type(request)
        address = self.ensure_address(
            address_name,
            routing_type,
            allowed=request.temporary or bool(settings.auto_create_addresses),
            limited=limited,
        )
        if isinstance(address, Refused):
            return address
        definition = self._definition(request, address_name, name, routing_type, settings)
        queue = Queue(definition, selector, self.owner, self.restore)
        queue.idle_since_ms = self.owner.now_ms
        self.queues[name] = queue
        self._gone.pop(address_name, None)
        address.add(queue)
        if address.paused:
            queue.set_paused(with_address=True)
        self.resolution.on_queue(address)
        if queue.durable:
            self._record_queue(definition)
        self.observers.call(self.observers.commit.queue_added, queue)
        return queue

    def _record_queue(self, definition: QueueDefinition) -> None:
        self.store.add_queue(definition)
        self.queues_point = self.store.point()

    # -- changes -------------------------------------------------------------------------------------------------

    def pause_queue(self, queue: Queue, *, persist: bool) -> None:
        """Pause a queue. With ``persist``, a durable one is paused after a restart, too."""
        queue.set_paused(itself=True)
        if persist and queue.durable:
            self._record_pause(queue, True)

    def resume_queue(self, queue: Queue) -> None:
        """Resume a queue. One whose address is paused stays paused with it, as in Artemis."""
        queue.set_paused(itself=False)
        self._record_pause(queue, False)

    def _record_pause(self, queue: Queue, paused: bool) -> None:
        if queue.definition.paused != paused:
            queue.definition = evolve(queue.definition, paused=paused)
            self._record_queue(queue.definition)

    def pause_address(self, address: Address, *, persist: bool) -> None:
        """Pause the queues of an address, and those that it gets later."""
        address.paused = True
        for queue in address.queues:
            queue.set_paused(with_address=True)
        if persist and not address.definition.paused:
            address.definition = evolve(address.definition, paused=True)
            self._record_change(address)

    def resume_address(self, address: Address) -> None:
        """Resume an address with all its queues, also those that were paused by themselves, as in Artemis."""
        address.paused = False
        for queue in address.queues:
            queue.set_paused(with_address=False)
            self.resume_queue(queue)
        if address.definition.paused:
            address.definition = evolve(address.definition, paused=False)
            self._record_change(address)

    def update_queue(self, queue: Queue, update: QueueUpdate) -> Refused | None:
        """Change settings of a queue, or return why none is changed. Its id and its messages stay."""
        definition = update.of(queue.definition)
        selector = self.selector(definition.filter)
        if isinstance(selector, Refused):
            return selector
        limit = definition.max_consumers
        if limit != -1 and queue.consumer_count > limit:
            return Refused(
                ErrorCode.ILLEGAL_STATE,
                f"AMQ229210: Can't update queue {queue.name} with maxConsumers: {limit}. Current consumers are "
                f"{queue.consumer_count}.",
            )
        address = self.addresses[definition.address]
        if not address.serves(definition.routing_type):
            names = ("MULTICAST", "ANYCAST")
            wanted = names[definition.routing_type]
            supported = ", ".join([name for number, name in enumerate(names) if address.serves(number)])
            return Refused(
                ErrorCode.ILLEGAL_STATE,
                f"AMQ229211: Can't update queue {queue.name} with routing type: {wanted}, Supported routing types for "
                f"address: {address.name} are [{supported}]",
            )
        if definition == queue.definition:
            return None
        has_new_filter = definition.filter != queue.definition.filter
        is_bound_anew = definition.routing_type != queue.definition.routing_type
        if is_bound_anew:
            address.remove(queue, self.owner.now_ms)
        queue.update(definition, selector)
        if is_bound_anew:
            address.add(queue)
            self.resolution.on_queue(address)
        if queue.durable:
            self._record_queue(definition)
        if has_new_filter:
            self.observers.call(self.observers.commit.queue_updated, queue)
        return None

    def refusal_by_limit(self, principal: Principal, name: str) -> Refused | None:
        """Return why a user must not create one more queue; None if it may."""
        limit = principal.queues_max
        if limit < 0 or name in self.queues:
            return None
        # Only users with a limit pay for the count, and they have few queues.
        if sum(queue.definition.user == principal.user for queue in self.queues.values()) < limit:
            return None
        return Refused(
            ErrorCode.SECURITY_EXCEPTION,
            f"AMQ229111: Too many queues created by user '{name_in_text(principal.user)}'. Queues allowed: {limit}.",
        )

    def routing_type(self, request: QueueRequest) -> int:
        """Return the routing type of a requested queue: the one it names, or the default of its address."""
        if request.routing_type is not None:
            return request.routing_type
        default = self.settings.of(names_of(request)[0]).default_queue_routing_type
        assert default is not None
        return default

    def declare(self, name: str, wanted: AddressConfiguration) -> list[Refused]:
        """Ensure that an address and its queues exist, and are never auto-deleted; return the refusals.

        An existing queue keeps its settings. Routing types of an existing address stay, too: its queues may need them.
        """
        if self.is_reserved(name):
            return [_is_reserved(name)]
        existing = self.addresses.get(name)
        anycast = wanted.anycast is not None or (existing is not None and existing.definition.anycast)
        multicast = wanted.multicast is not None or (existing is not None and existing.definition.multicast)
        if existing is None:
            self._add_address(AddressDefinition(self.ids.take(), name, anycast, multicast, False))
        else:
            definition = evolve(existing.definition, anycast=anycast, multicast=multicast, auto_created=False)
            if definition != existing.definition:
                existing.definition = definition
                self._record_change(existing)
        requests = [
            QueueRequest(
                name,
                queue,
                filter=configured.filter,
                durable=configured.durable,
                routing_type=routing_type,
                max_consumers=configured.max_consumers,
                purge_on_no_consumers=configured.purge_on_no_consumers,
                exclusive=configured.exclusive,
                group_buckets=configured.group_buckets,
                group_rebalance=configured.group_rebalance,
                group_rebalance_pause_dispatch=configured.group_rebalance_pause_dispatch,
                group_first_key=configured.group_first_key,
                enabled=configured.enabled,
                auto_delete=False,
                ignore_if_exists=True,
                user=configured.user,
                configuration_managed=True,
            )
            for routing_type, queues in ((_ANYCAST, wanted.anycast), (_MULTICAST, wanted.multicast))
            for queue, configured in (queues or {}).items()
        ]
        made = [self.create_queue(request, limited=False) for request in requests]
        for queue in made:
            if isinstance(queue, Queue) and queue.definition.address == name:
                self._note_configured(queue)
        return [each for each in made if isinstance(each, Refused)]

    def _note_configured(self, queue: Queue) -> None:
        if not queue.definition.configuration_managed:
            queue.definition = evolve(queue.definition, configuration_managed=True)
            if queue.durable:
                self._record_queue(queue.definition)

    def provide_targets(self, settings: AddressSettings) -> None:
        """Ensure that the dead letter and expiry addresses of settings exist, with their queues."""
        # Where each address gets its queue there, a common one would take everything once more.
        if settings.dead_letter_address and not settings.auto_create_dead_letter_resources:
            self._provide(settings.dead_letter_address)
        if settings.expiry_address and not settings.auto_create_expiry_resources:
            self._provide(settings.expiry_address)

    def _provide(self, name: str) -> None:
        """Ensure that an address keeps its messages.

        In a durable anycast queue of its name, if it has no other queue.
        """
        address = self.addresses.get(name)
        if name in self.queues or self.is_reserved(name) or (address is not None and address.has_queues):
            return
        multicast = address is not None and address.definition.multicast
        self.create_address(name, anycast=True, multicast=multicast, auto_created=False, limited=False)
        self.create_queue(QueueRequest(name, name, routing_type=_ANYCAST), limited=False)

    def _existing(self, queue: Queue, request: QueueRequest, address_name: str) -> Queue | Refused:
        if not request.shared and not request.ignore_if_exists:
            return Refused(
                ErrorCode.QUEUE_EXISTS, f"queue {queue.name!r} already exists on address {queue.definition.address!r}"
            )
        if request.shared:
            if queue.definition.address != address_name:
                return Refused(
                    ErrorCode.INVALID_TRANSIENT_QUEUE_USE,
                    f"queue {queue.name!r} exists on address {queue.definition.address!r}, not {address_name!r}",
                )
            if (queue.definition.filter or None) != (request.filter or None):
                return Refused(
                    ErrorCode.INVALID_TRANSIENT_QUEUE_USE,
                    f"queue {queue.name!r} exists with filter {queue.definition.filter!r}, not {request.filter!r}",
                )
        queue.swept = False
        return queue

    def _definition(
        self, request: QueueRequest, address: str, name: str, routing_type: int, settings: AddressSettings
    ) -> QueueDefinition:
        auto_delete = settings.auto_delete_queues if request.auto_created else settings.auto_delete_created_queues
        wanted = zip(_DEFAULTS, _requested(request), _default_values(settings), strict=True)
        chosen: dict[str, Any] = {name: default if value is None else value for name, value, default in wanted}
        return QueueDefinition(
            id=self.ids.take(),
            name=name,
            address=address,
            routing_type=routing_type,
            durable=request.durable and not request.temporary,
            temporary=request.temporary,
            transient=request.shared and not request.durable,
            filter=request.filter or None,
            auto_created=request.auto_created,
            auto_delete=bool(auto_delete if request.auto_delete is None else request.auto_delete),
            user=request.user,
            group_first_key=request.group_first_key or settings.default_group_first_key or None,
            enabled=request.enabled is not False,
            configuration_managed=request.configuration_managed,
            internal=request.internal,
            **chosen,
        )

    def drop_queue(self, queue: Queue) -> None:
        """Forget an emptied queue without consumers; its address stays."""
        assert not queue.consumers, queue.name
        queue.deleted = True
        if queue.keeper is not None:
            queue.keeper.discard(queue)
        del self.queues[queue.name]
        if queue.definition.temporary and queue.name == queue.definition.address and _RANDOM_NAME.fullmatch(queue.name):
            while len(self._gone) >= GONE_MAX:
                del self._gone[next(iter(self._gone))]
            self._gone[queue.name] = None
        address = self.addresses.get(queue.definition.address)
        if address is not None:
            address.remove(queue, self.owner.now_ms)
            self.resolution.on_queue(address)
        if queue.durable:
            self.store.remove_queue(queue.id)
        self.observers.call(self.observers.commit.queue_removed, queue)

    def restore_queue(self, definition: QueueDefinition) -> Queue:
        """Restore a queue from the journal, without writing it again."""
        selector = self.selector(definition.filter)
        assert not isinstance(selector, Refused), selector
        queue = Queue(definition, selector, self.owner, self.restore)
        self.queues[definition.name] = queue
        address = self.addresses.get(definition.address)
        if address is None:
            anycast = definition.routing_type == _ANYCAST
            address = self._add_address(
                AddressDefinition(self.ids.take(), definition.address, anycast, not anycast, True)
            )
        address.add(queue)
        queue.set_paused(itself=definition.paused, with_address=address.paused)
        self.resolution.on_queue(address)
        return queue

    def _is_gone(self, name: str) -> bool:
        """Return True if a name can only be that of a temporary destination, which no longer exists."""
        return name in self._gone or (name.startswith(_OLD_TEMPORARY_PREFIXES) and name not in self.queues)

    # -- on demand -----------------------------------------------------------------------------------------------

    def _auto_create(
        self, address_name: str, queue_name: str | None, routing_type: int | None, access: Access | None = None
    ) -> Refused | None:
        """Create what a send needs (broker-semantics 1.3), as far as ``access`` allows it.

        Return None if the send can continue, with or without a queue.
        """
        if routing_type is None:
            return None
        settings = self.settings.of(address_name)
        wants_queue = routing_type == _ANYCAST or queue_name is not None
        if wants_queue and address_name not in self.addresses and len(self.queues) >= self.queues_max:
            return self._too_many_queues(queue_name or address_name)
        allowed = bool(settings.auto_create_addresses)
        if access is not None and allowed and not serves(self.addresses.get(address_name), routing_type):
            denied = access.refusal(Permission.CREATE_ADDRESS, address_name)
            if denied is not None:
                return denied
        address = self.ensure_address(address_name, routing_type, allowed=allowed)
        if isinstance(address, Refused):
            if allowed:
                return address
            return Refused(
                ErrorCode.ADDRESS_DOES_NOT_EXIST, f"no queue or address {address_name!r}: it is not auto-created"
            )
        if not wants_queue:
            return None
        name = queue_name if queue_name is not None else address_name
        existing = self.queues.get(name)
        if existing is not None:
            if existing.definition.routing_type != _ANYCAST and queue_name is None:
                return Refused(ErrorCode.ADDRESS_DOES_NOT_EXIST, f"queue {name!r} exists but is not an ANYCAST queue")
            return None
        if queue_name is None and address.has_queues:
            return None
        if not settings.auto_create_queues:
            return Refused(ErrorCode.ADDRESS_DOES_NOT_EXIST, f"queue {name!r} does not exist and is not auto-created")
        user: str | None = None
        if access is not None:
            user = access.principal.user or None
            denied = access.refusal(Permission.CREATE_DURABLE_QUEUE, address_name, name)
            denied = denied or self.refusal_by_limit(access.principal, name)
            if denied is not None:
                return denied
        request = QueueRequest(
            address_name, name, routing_type=routing_type, auto_created=True, ignore_if_exists=True, user=user
        )
        created = self.create_queue(request)
        return created if isinstance(created, Refused) else None

    # -- sends ---------------------------------------------------------------------------------------------------

    def prepare_send(self, message: Message, routing_type: int | None, access: Access | None = None) -> Refused | None:
        """Create what a send to an address, or to ``address::queue``, needs. Temporary destinations are never created.

        The creator of a temporary destination is its only consumer: what is sent to it later has no reader. An address
        that has queues of wildcard addresses needs no other queue, as in Artemis.
        """
        name = message.address
        address = self.resolution.find(name) if name in self.addresses else None
        if address is not None and address.others is not None and address.others.has_queues:
            return None
        if not name:
            return Refused(ErrorCode.ILLEGAL_STATE, "the message has no address and the session has no default address")
        if self._is_gone(name) or message.is_to_temporary:
            # That of a client of another broker has a remote binding.
            return None if self.resolution.remote_at(name) else _temporary_is_gone(name)
        return self._auto_create(*split_fqqn(name), routing_type, access)

    def qualified_queues(self, message: Message, routing_type: int | None) -> list[Queue]:
        """Return the queue that ``address::queue`` names, if it is bound there and takes the message."""
        address_name, queue_name = split_fqqn(message.address)
        queue = self.queues.get(queue_name) if queue_name is not None else None
        if queue is None:
            return []
        if queue.definition.address != address_name:
            address = self.resolution.find(address_name)
            if address is None or address.others is None or not address.others.takes(queue):
                return []
        if routing_type is not None and routing_type != queue.definition.routing_type:
            return []
        return [queue] if queue.filter is None or queue.filter.matches(message) else []

    # -- queries -------------------------------------------------------------------------------------------------

    def view_queue(self, name: str) -> QueueView:
        """Describe a queue, existing or not; an FQQN names its queue part."""
        address_name, queue_name = split_fqqn(name)
        wanted = queue_name if queue_name is not None else name
        queue = self.queues.get(wanted)
        address = queue.definition.address if queue is not None else address_name
        settings = self.settings.of(address)
        assert settings.default_queue_routing_type is not None
        assert settings.default_consumer_window_size is not None
        if queue is not None:
            definition, consumers, messages = queue.definition, queue.consumer_count, queue.message_count
            is_creatable = True
        else:
            request = QueueRequest(address_name, wanted)
            definition = evolve(
                self._missing_definition(request, address_name, wanted, settings), durable=True, auto_delete=False
            )
            consumers = messages = 0
            is_creatable = not self._is_gone(address_name)
        # As Artemis answers for its management address: JMS clients send to no queue that does not exist.
        is_own = self.is_reserved(wanted)
        if is_own:
            definition = evolve(definition, routing_type=_ANYCAST)
            consumers = messages = -1
        return QueueView(
            queue is not None or is_own,
            definition,
            consumers,
            messages,
            bool(settings.auto_create_queues) and not is_own and is_creatable,
            settings.default_consumer_window_size,
        )

    def _missing_definition(
        self, request: QueueRequest, address: str, name: str, settings: AddressSettings
    ) -> QueueDefinition:
        assert settings.default_queue_routing_type is not None
        return QueueDefinition(
            id=0,
            name=name,
            address=address,
            routing_type=settings.default_queue_routing_type,
            max_consumers=-1 if settings.default_max_consumers is None else settings.default_max_consumers,
            exclusive=bool(settings.default_exclusive_queue),
            purge_on_no_consumers=bool(settings.default_purge_on_no_consumers),
            group_buckets=-1 if settings.default_group_buckets is None else settings.default_group_buckets,
            group_rebalance=bool(settings.default_group_rebalance),
            group_rebalance_pause_dispatch=bool(settings.default_group_rebalance_pause_dispatch),
            group_first_key=settings.default_group_first_key or None,
        )

    def view_address(self, name: str) -> AddressView:
        """Describe an address with the names of its queues; ``#`` lists all of them."""
        address_name, _queue = split_fqqn(name)
        settings = self.settings.of(address_name)
        address = self.addresses.get(address_name)
        names = [queue.name for queue in address.queues] if address is not None else []
        names += [binding.cluster_name for binding in self.resolution.remote_at(address_name)]
        if address_name == "#":
            names = list(self.queues)
        is_reserved = self.is_reserved(address_name)
        is_creatable = not is_reserved and not self._is_gone(address_name)
        return AddressView(
            address is not None or is_reserved,
            names,
            bool(settings.auto_create_queues) and is_creatable,
            bool(settings.auto_create_addresses) and is_creatable,
            bool(settings.default_purge_on_no_consumers),
            -1 if settings.default_max_consumers is None else settings.default_max_consumers,
            bool(settings.default_exclusive_queue),
            address is not None and address.definition.multicast,
            is_reserved or (address is not None and address.definition.anycast),
        )


def serves(address: Address | None, routing_type: int) -> bool:
    """Return True if an address exists and has this routing type."""
    return address is not None and address.serves(routing_type)


def _is_reserved(name: str) -> Refused:
    return Refused(
        ErrorCode.ILLEGAL_STATE, f"{name!r} is an address of the broker itself: choose another name for the queue"
    )


def _has_no_name() -> Refused:
    return Refused(ErrorCode.ILLEGAL_STATE, "an address needs a name: this one is empty")


def _temporary_is_gone(name: str) -> Refused:
    text = (
        f"the temporary destination {name!r} does not exist: it was deleted, or the connection that made it has ended"
    )
    return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, text)


def names_of(request: QueueRequest) -> tuple[str, str]:
    """Return the address and the name of a requested queue; either field may be an FQQN."""
    address, from_address = split_fqqn(request.address)
    name_address, from_name = split_fqqn(request.name)
    if from_name is not None:
        return name_address or address, from_name
    return address, from_address if from_address is not None and not request.name else request.name
