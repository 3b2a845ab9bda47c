"""Diversion: where the copies of one message go that the diverts of its address make, and theirs in turn.

Responsible for the copies, for what they need to exist, for the settings of their addresses, and for an end of loops.
Nothing is placed here: a message that cannot be diverted leaves no trace. Does not depend on records, transactions and
permissions to send, which a divert does not need.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.config import AddressFullPolicy, AddressSettingsRepository
from embedclient.errors import ErrorCode

from .._clock import Clock
from .._ids import Ids
from .._log_once import LogOnce
from .._memory import MemoryAccount
from .._refusal import Refused
from ..addressing._address import Address
from ..addressing._addresses import AddressManager, split_fqqn
from ..addressing._diverts import Divert
from ..addressing._routing_context import Route, RoutingContext
from ..message._message import Message
from ..queueing._queue import Queue
from ._expiry_settings import with_expiry_settings
from ._forwarding import Copy, Forwarding

__all__ = ["DIVERTED_MAX", "DIVERT_DEPTH_MAX", "Diversion"]

DIVERT_DEPTH_MAX = 32
"""Maximum number of diverts, one behind the other, that a message passes."""

DIVERTED_MAX = 10_000
"""Maximum number of copies of one message that diverts make."""

# Addresses of a loop that its error names.
_SHOWN_MAX = 8


class Diversion:
    """Route messages of addresses that have diverts."""

    __slots__ = ("_addresses", "_clock", "_forwarding", "_ids", "_log_once", "_memory", "_settings")

    def __init__(
        self,
        addresses: AddressManager,
        settings: AddressSettingsRepository,
        ids: Ids,
        clock: Clock,
        memory: MemoryAccount,
        forwarding: Forwarding,
        log: Callable[[str], None],
    ) -> None:
        self._addresses = addresses
        self._settings = settings
        self._ids = ids
        self._clock = clock
        self._memory = memory
        self._forwarding = forwarding
        self._log_once = LogOnce(log)

    def route(self, message: Message, address: Address, context: RoutingContext) -> list[Route] | Refused:
        """Return the routes of a message and of all its copies, the message first; or why it is refused.

        Args:
            message: Message with its id, to which the settings of its address are applied.
            address: Its address, resolved.
            context: How it is sent; receives the routes.
        """
        refused = self._route(context, message, address)
        if refused is None:
            return context.routes
        # Once for each cause: producers repeat what is refused.
        self._log_once(refused.text, f"a message to {address.name!r} is refused: {refused.text}")
        return refused

    def _route(self, context: RoutingContext, message: Message, address: Address) -> Refused | None:
        others, routing_type = address.others, context.routing_type
        diverts, is_exclusive = others.diverts_for(message) if others is not None else ([], False)
        queues: list[Queue] = []
        copies: list[Copy] = []
        if not is_exclusive:
            if context.chosen is not None and any(context.chosen):
                # Another broker has chosen no diverts.
                diverts = []
            queues, remote = self._forwarding.bound(message, address, routing_type, context.chosen)
            made = self._forwarding.copies(message, remote)
            if isinstance(made, Refused):
                return made
            copies = made
        context.add(message, address, queues, is_taken=bool(queues or copies or diverts))
        for copy, queue in copies:
            context.routes.append(Route(copy, address, [queue], is_taken=True, is_forwarded=True))
        return self._route_diverts(context, message, address, diverts) if diverts else None

    def _route_diverts(
        self, context: RoutingContext, message: Message, address: Address, diverts: list[Divert]
    ) -> Refused | None:
        passed = (*context.passed, address.name)
        if len(passed) > DIVERT_DEPTH_MAX or len(context.routes) > DIVERTED_MAX:
            way = " -> ".join(passed[:_SHOWN_MAX])
            return Refused(
                ErrorCode.ILLEGAL_STATE,
                f"the diverts of address {passed[0]!r} form a loop or are too many: {way} ...; change a forwarding "
                "address or add a filter",
            )
        for divert in diverts:
            divert.diverted_count += 1
            for forwarding in divert.forwarding:
                copied = divert.copy(message, forwarding, context.routing_type)
                if isinstance(copied, Refused):
                    return copied
                copy, kind = copied
                refused = self._route_copy(context.behind(passed, kind), copy)
                if refused is not None:
                    return refused
        return None

    def _route_copy(self, context: RoutingContext, copy: Message) -> Refused | None:
        copy.assign_id(self._ids.take())
        manager = self._addresses
        name = split_fqqn(copy.address)[0]
        address = manager.resolution.find(name)
        is_qualified = name != copy.address
        if context.creates and (address is None or is_qualified or not (address.anycast or address.multicast)):
            refused = manager.prepare_send(copy, context.routing_type, context.access)
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
        admitted = context.admit(copy, address)
        if admitted is not True:
            return admitted if isinstance(admitted, Refused) else None
        return self._route(context, copy, address)
