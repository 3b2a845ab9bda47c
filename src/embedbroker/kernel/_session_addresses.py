"""The verbs of a client session for addresses, queues and diverts: create, change, delete, pause, look.

Responsible for the permission that each verb requires. Does not depend on messages and consumers, which `Session` has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from embedbroker.config import DivertConfiguration
from embedclient.errors import ErrorCode

from ._authority import Access, Permission
from ._memory import MemoryAccount
from ._refusal import Refused
from ._teardown import Teardown
from .addressing._address import Address
from .addressing._addresses import AddressManager, names_of, serves, split_fqqn
from .addressing._cluster_groups import ClusterGroups
from .addressing._divert_table import DivertTable
from .addressing._diverts import Divert
from .addressing._views import AddressView, QueueRequest, QueueUpdate, QueueView
from .cursors._cursors import Cursors
from .message._message import Message
from .queueing._queue import Queue
from .transactions._duplicate_ids import DuplicateIds

__all__ = ["SessionAddresses"]

_ALL_QUEUES: frozenset[int] = frozenset()


class SessionAddresses:
    """Carry out a session's verbs for addresses, queues and diverts.

    Args:
        access: Permissions of the session's user.
        manager: Addresses and queues of the broker.
        teardown: Removes queues with what depends on them.
        diverts: Diverts of the broker.
        cursors: Cursors, which keep queues from being deleted.
        memory: Grants credit to producers.
        duplicates: Duplicate ids of all addresses.
    """

    __slots__ = ("_access", "_cursors", "_diverts", "_duplicates", "_manager", "_memory", "_teardown")

    def __init__(
        self,
        access: Access,
        manager: AddressManager,
        teardown: Teardown,
        diverts: DivertTable,
        cursors: Cursors,
        memory: MemoryAccount,
        duplicates: DuplicateIds,
    ) -> None:
        self._access = access
        self._manager = manager
        self._teardown = teardown
        self._diverts = diverts
        self._cursors = cursors
        self._memory = memory
        self._duplicates = duplicates

    def create_address(
        self, name: str, *, anycast: bool, multicast: bool, auto_created: bool = False
    ) -> Address | Refused:
        """Create an address, or replace the routing types of an existing one.

        Args:
            name: Name of the address; an FQQN names its address part.
            anycast: Whether the address serves anycast.
            multicast: Whether the address serves multicast.
            auto_created: Whether the client creates it on demand, which the address settings must allow.
        """
        name, _queue = split_fqqn(name)
        if auto_created and not self._manager.settings.of(name).auto_create_addresses:
            return Refused(ErrorCode.ADDRESS_DOES_NOT_EXIST, f"address {name!r} does not exist and is not auto-created")
        refused = self._access.refusal(Permission.CREATE_ADDRESS, name)
        if refused is not None:
            return refused
        return self._manager.create_address(name, anycast=anycast, multicast=multicast, auto_created=auto_created)

    def prepare_group(self, message: Message, routing_type: int | None, groups: ClusterGroups) -> frozenset[int]:
        """Make sure that the group of a message has its queues in the cluster, before it is sent.

        What a first message creates is created here. Reasons to refuse the message are left to `Session.send`.

        Args:
            message: Message of a group.
            routing_type: 0 for multicast, 1 for anycast; None if the sender named none.
            groups: Groups of the cluster.

        Returns:
            Ids of the queues that the message is for; empty: all that take it.

        Raises:
            RoutingUndecided: Another broker has yet to decide. The message must wait, and is then sent anew.
        """
        manager, name = self._manager, message.address
        if groups.handler is None or "::" in name or name in manager.internal:
            return _ALL_QUEUES
        if not self._access.allows(Permission.SEND, name):
            return _ALL_QUEUES
        address = manager.resolution.find(name)
        if address is None or not (address.has_queues or address.queues_exist(routing_type)):
            if manager.prepare_send(message, routing_type, self._access) is not None:
                return _ALL_QUEUES
            address = manager.resolution.find(name)
        return _ALL_QUEUES if address is None else groups.prepare(message, address, routing_type)

    def create_queue(self, request: QueueRequest) -> Queue | Refused:
        """Create a queue, and its address where settings allow that."""
        address, name = names_of(request)
        kept = request.durable and not request.temporary
        refused = self._access.refusal(
            Permission.CREATE_DURABLE_QUEUE if kept else Permission.CREATE_NON_DURABLE_QUEUE, address, name
        )
        if (
            refused is None
            and not request.shared
            and not serves(self._manager.addresses.get(address), self._manager.routing_type(request))
        ):
            refused = self._access.refusal(Permission.CREATE_ADDRESS, address)
        if refused is None:
            refused = self._manager.refusal_by_limit(self._access.principal, name)
        return self._manager.create_queue(request) if refused is None else refused

    def delete_queue(
        self, name: str, *, closes_consumers: bool = False, deletes_address: bool = False
    ) -> Queue | Refused:
        """Delete a queue, and return it; an FQQN names its queue part.

        Args:
            name: Name or FQQN of the queue.
            closes_consumers: Whether its consumers are closed; by default a queue with consumers is refused.
            deletes_address: Whether an auto-created address without other bindings is deleted at once, although its
                settings keep it for a while. That requires the permission to delete it.
        """
        queue = self._manager.find_queue(name)
        if queue is None:
            # Artemis answers without a text here, and its clients display the text they receive.
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, "")
        refused = self._deletion_refusal(queue, closes_consumers=closes_consumers)
        address = self._address_kept_after(queue) if deletes_address else None
        if refused is None and address is not None:
            refused = self._access.refusal(Permission.DELETE_ADDRESS, address.name)
        if refused is not None:
            return refused
        self._teardown.delete_queue(queue)
        if address is not None:
            self._manager.remove_address(address)
        return queue

    def _address_kept_after(self, queue: Queue) -> Address | None:
        """Return the auto-created address that stays without bindings if this queue is deleted, which is its last one.

        None if it has other bindings, or if the deletion of the queue deletes it, too.
        """
        address = self._manager.addresses.get(queue.definition.address)
        if address is None or not address.definition.auto_created or queue.definition.temporary:
            return None
        if self._manager.settings.of(address.name).auto_delete_addresses_delay_ms == 0:
            return None
        is_last = address.queues == [queue] and not self._manager.resolution.diverts_at(address.name)
        return address if is_last else None

    def _deletion_refusal(self, queue: Queue, *, closes_consumers: bool) -> Refused | None:
        """Return why a queue must not be deleted; None if it may."""
        kept = queue.definition.durable
        refused = self._access.refusal(
            Permission.DELETE_DURABLE_QUEUE if kept else Permission.DELETE_NON_DURABLE_QUEUE,
            queue.definition.address,
            queue.name,
        )
        if refused is None and queue.consumers and not closes_consumers:
            refused = Refused(
                ErrorCode.ILLEGAL_STATE,
                f"queue {queue.name!r} has {queue.consumer_count} consumers and cannot be deleted",
            )
        return refused or self._cursors.refusal(queue)

    def delete_address(self, name: str, *, deletes_queues: bool = False) -> Address | Refused:
        """Delete an address, and return it. A refusal of one of its queues refuses the whole deletion.

        Args:
            name: Name of the address.
            deletes_queues: Whether its queues are deleted with it; by default an address with queues is refused.
        """
        address = self._manager.addresses.get(name)
        if address is None:
            return Refused(ErrorCode.ADDRESS_DOES_NOT_EXIST, f"address {name!r} does not exist")
        refused = self._access.refusal(Permission.DELETE_ADDRESS, name)
        if refused is None and address.has_queues and not deletes_queues:
            names = ", ".join(sorted(queue.name for queue in address.queues))
            refused = Refused(ErrorCode.ILLEGAL_STATE, f"address {name!r} has queues: {names}")
        diverts = self._manager.resolution.diverts_at(name)
        if refused is None and diverts and not deletes_queues:
            names = ", ".join(sorted(divert.name for divert in diverts))
            refused = Refused(ErrorCode.ILLEGAL_STATE, f"address {name!r} has diverts: {names}")
        queues = address.queues
        for queue in queues:
            refused = refused or self._deletion_refusal(queue, closes_consumers=True)
        if refused is not None:
            return refused
        for queue in queues:
            self._teardown.delete_queue(queue)
        # An auto-created address is gone with its last queue.
        if self._manager.addresses.get(name) is address:
            self._manager.remove_address(address)
        return address

    def pause_queue(self, name: str, *, persist: bool = False) -> Queue | Refused:
        """Deliver nothing from a queue until it is resumed; browsing, acknowledging and sending go on.

        Args:
            name: Name or FQQN of the queue.
            persist: Whether a durable queue is paused after a restart, too.
        """
        queue = self.use_queue(name, Permission.CONSUME)
        if isinstance(queue, Queue):
            self._manager.pause_queue(queue, persist=persist)
        return queue

    def resume_queue(self, name: str) -> Queue | Refused:
        """Resume a queue. One whose address is paused stays paused with it, as in Artemis."""
        queue = self.use_queue(name, Permission.CONSUME)
        if isinstance(queue, Queue):
            self._manager.resume_queue(queue)
        return queue

    def pause_address(self, name: str, *, persist: bool = False) -> Address | Refused:
        """Pause the queues of an address, and those that it gets later; see `pause_queue`."""
        address = self._address_to_pause(name)
        if isinstance(address, Address):
            self._manager.pause_address(address, persist=persist)
        return address

    def resume_address(self, name: str) -> Address | Refused:
        """Resume an address with all its queues, also those that were paused by themselves, as in Artemis."""
        address = self._address_to_pause(name)
        if isinstance(address, Address):
            self._manager.resume_address(address)
        return address

    def block_address(self, name: str) -> Address | Refused:
        """Grant producers of an address no credit until it is unblocked, or the broker restarts."""
        address = self._address_to_pause(name)
        if isinstance(address, Address):
            self._memory.block(name)
        return address

    def unblock_address(self, name: str) -> Address | Refused:
        """Grant producers of an address credit again."""
        address = self._address_to_pause(name)
        if isinstance(address, Address):
            self._memory.unblock(name)
        return address

    def forget_duplicate_ids(self, name: str) -> Address | Refused:
        """Forget the duplicate ids in force at an address, for good."""
        address = self._address_to_pause(name)
        if isinstance(address, Address):
            self._duplicates.forget_all(address)
        return address

    def adopt_duplicate_ids(self, name: str, values: Collection[bytes]) -> Address | Refused:
        """Bring duplicate ids into force at an address that another broker has seen there, the oldest first."""
        address = self._address_to_pause(name)
        if isinstance(address, Address):
            for value in values:
                self._duplicates.adopt(address, value)
        return address

    def _address_to_pause(self, name: str) -> Address | Refused:
        address = self._manager.addresses.get(name)
        if address is None:
            return Refused(ErrorCode.ADDRESS_DOES_NOT_EXIST, f"address {name!r} does not exist")
        refused = self._access.refusal(Permission.CONSUME, name)
        return address if refused is None else refused

    def update_queue(self, name: str, update: QueueUpdate) -> Queue | Refused:
        """Change settings of a queue, which keeps its id and its messages. Requires the permission to create it."""
        queue = self._manager.find_queue(name)
        if queue is None:
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, f"queue {name!r} does not exist")
        kept = queue.definition.durable
        refused = self._access.refusal(
            Permission.CREATE_DURABLE_QUEUE if kept else Permission.CREATE_NON_DURABLE_QUEUE,
            queue.definition.address,
            queue.name,
        )
        refused = refused or self._manager.update_queue(queue, update)
        return queue if refused is None else refused

    def create_divert(self, name: str, wanted: DivertConfiguration) -> Divert | Refused:
        """Create a divert. Diverts require no permission beyond that of the management message, as in Artemis."""
        return self._diverts.create(name, wanted)

    def update_divert(
        self,
        name: str,
        *,
        forwarding_address: str | None = None,
        filter: str | None = None,
        properties: Mapping[str, str] | None = None,
        routing_type: str | None = None,
    ) -> Divert | Refused:
        """Change a divert: None keeps a value, except for the filter, which None removes."""
        return self._diverts.update(
            name,
            forwarding_address=forwarding_address,
            filter=filter,
            properties=properties,
            routing_type=routing_type,
        )

    def remove_divert(self, name: str) -> Divert | Refused:
        """Remove a divert, and return it."""
        return self._diverts.remove(name)

    def query_queue(self, name: str) -> QueueView:
        """Describe a queue, or what it would be."""
        return self._manager.view_queue(name)

    def query_address(self, name: str) -> AddressView:
        """Describe an address with the names of its queues."""
        return self._manager.view_address(name)

    def queue_names(self) -> list[str]:
        """Return the names of all queues, in order; `find_viewable_queue` decides for each whether it may be listed."""
        return sorted(self._manager.queues)

    def find_viewable_queue(self, name: str) -> Queue | None:
        """Return a queue for a list; None if it does not exist, or must be left out, which is no refusal."""
        queue = self._manager.find_queue(name)
        if queue is None or not self._access.allows(Permission.VIEW, queue.definition.address, queue.name):
            return None
        return queue

    def use_queue(self, name: str, permission: Permission) -> Queue | Refused:
        """Return a queue for work that requires a permission, such as BROWSE for its contents, CONSUME for removals."""
        queue = self._manager.find_queue(name)
        if queue is None:
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, f"queue {name!r} does not exist")
        refused = self._access.refusal(permission, queue.definition.address, queue.name)
        return queue if refused is None else refused

    def admit_method(self, permission: Permission, name: str) -> Refused | None:
        """Return why a management method must not be called; None if it may.

        Args:
            permission: VIEW or EDIT.
            name: Address that stands for the method, such as ``mops.queue.orders.getMessageCount``.
        """
        return self._access.refusal(permission, name)
