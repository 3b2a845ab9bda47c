"""Diversion: where the copies of one message go that the diverts of its address make, and theirs in turn.

Responsible for the copies, for what they need to exist, for the settings of their addresses, and for an end of loops.
Nothing is placed here: a message that cannot be diverted leaves no trace. Does not depend on records, transactions and
permissions to send, which a divert does not need.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from embedbroker.config import AddressFullPolicy, AddressSettingsRepository
from embedclient.errors import ErrorCode

from .._authority import Access
from .._clock import Clock
from .._ids import Ids
from .._log_once import LogOnce
from .._memory import MemoryAccount
from .._refusal import Refused
from ..addressing._address import Address
from ..addressing._addresses import AddressManager, split_fqqn
from ..message._message import Message
from ..queueing._queue import Queue
from ._expiry_settings import with_expiry_settings

__all__ = ["DIVERTED_MAX", "DIVERT_DEPTH_MAX", "Admit", "Diversion", "Routed"]

DIVERT_DEPTH_MAX = 32
"""Maximum number of diverts, one behind the other, that a message passes."""

DIVERTED_MAX = 10_000
"""Maximum number of copies of one message that diverts make."""

Admit = Callable[[Message, Address], "bool | Refused"]
"""Decide whether a copy may come to its address: False for a duplicate, which is left out."""

# Addresses of a loop that its error names.
_SHOWN_MAX = 8


@frozen
class Routed:
    """State the queues of one message or copy. ``is_taken`` is True if a queue or a divert takes it."""

    message: Message
    address: Address
    targets: list[Queue]
    is_taken: bool


class _Plan:
    """Gather the copies of one message. ``path`` holds the addresses up to the present copy."""

    __slots__ = ("access", "admit", "creates", "path", "routed")

    def __init__(self, access: Access | None, admit: Admit, creates: bool) -> None:
        self.creates = creates
        self.access = access
        self.admit = admit
        self.path: list[str] = []
        self.routed: list[Routed] = []


class Diversion:
    """Route messages of addresses that have diverts."""

    __slots__ = ("_addresses", "_clock", "_ids", "_log_once", "_memory", "_settings")

    def __init__(
        self,
        addresses: AddressManager,
        settings: AddressSettingsRepository,
        ids: Ids,
        clock: Clock,
        memory: MemoryAccount,
        log: Callable[[str], None],
    ) -> None:
        self._addresses = addresses
        self._settings = settings
        self._ids = ids
        self._clock = clock
        self._memory = memory
        self._log_once = LogOnce(log)

    def route(
        self,
        message: Message,
        address: Address,
        routing_type: int | None,
        access: Access | None,
        admit: Admit,
        *,
        creates: bool = True,
    ) -> list[Routed] | Refused:
        """Return the queues of a message and of all its copies, the message first; or why it is refused.

        Args:
            message: Message with its id, to which the settings of its address are applied.
            address: Its address, resolved.
            routing_type: Routing type of the send; None if the sender named none.
            access: Limits what is created on the way; None for the broker itself.
            admit: Decides about each copy.
            creates: Whether addresses and queues are created on demand.
        """
        plan = _Plan(access, admit, creates)
        refused = self._route(plan, message, address, routing_type)
        if refused is None:
            return plan.routed
        # Once for each cause: producers repeat what is refused.
        self._log_once(refused.text, f"a message to {address.name!r} is refused: {refused.text}")
        return refused

    def _route(self, plan: _Plan, message: Message, address: Address, routing_type: int | None) -> Refused | None:
        others = address.others
        diverts, is_exclusive = others.diverts_for(message) if others is not None else ([], False)
        if is_exclusive:
            targets = []
        elif "::" in message.address:
            targets = self._addresses.qualified_queues(message, routing_type)
        else:
            targets = address.route_all(message, routing_type)
        plan.routed.append(Routed(message, address, targets, bool(targets or diverts)))
        if not diverts:
            return None
        plan.path.append(address.name)
        if len(plan.path) > DIVERT_DEPTH_MAX or len(plan.routed) > DIVERTED_MAX:
            way = " -> ".join(plan.path[:_SHOWN_MAX])
            return Refused(
                ErrorCode.ILLEGAL_STATE,
                f"the diverts of address {plan.path[0]!r} form a loop or are too many: {way} ...; change a forwarding "
                "address or add a filter",
            )
        for divert in diverts:
            divert.diverted_count += 1
            for forwarding in divert.forwarding:
                copied = divert.copy(message, forwarding, routing_type)
                refused = copied if isinstance(copied, Refused) else self._route_copy(plan, *copied)
                if refused is not None:
                    return refused
        plan.path.pop()
        return None

    def _route_copy(self, plan: _Plan, copy: Message, routing_type: int | None) -> Refused | None:
        copy.assign_id(self._ids.take())
        manager = self._addresses
        name = split_fqqn(copy.address)[0]
        address = manager.resolution.find(name)
        is_qualified = name != copy.address
        if plan.creates and (address is None or is_qualified or not (address.anycast or address.multicast)):
            refused = manager.prepare_send(copy, routing_type, plan.access)
            if refused is not None:
                return refused
            address = manager.resolution.find(name)
        if address is None:
            # Without a routing type nothing is created: the copy is dropped, as in Artemis.
            return None
        settings = self._settings.of(address.name)
        limit = settings.max_size_bytes
        assert limit is not None
        if settings.address_full_policy is AddressFullPolicy.FAIL and self._memory.is_full(address.name, limit):
            return Refused(ErrorCode.ADDRESS_FULL, f"address {address.name!r} is full")
        copy = with_expiry_settings(copy, settings, self._clock.now_ms)
        admitted = plan.admit(copy, address)
        if admitted is not True:
            return admitted if isinstance(admitted, Refused) else None
        return self._route(plan, copy, address, routing_type)
