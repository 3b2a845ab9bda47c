"""Resolution: which diverts, queues of wildcard addresses and remote queues take the messages of an address.

Responsible for the index of wildcard addresses, and for one cached result per address. The result is resolved at the
first message, and again after a change of bindings. Does not depend on the routing of a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from embedbroker.config import WildcardConfiguration

from .._definitions import AddressDefinition
from ..queueing._queue import Queue
from ._address import Address
from ._bindings import OtherBindings
from ._diverts import Divert
from ._remote_binding import RemoteBinding
from ._rotation import GroupDecisions, Rotation, Shared
from ._wildcards import WildcardIndex

__all__ = ["Resolution"]

# Addresses that do not exist are named by clients: their results are cleared when there are this many.
_UNLISTED_MAX = 1000


class Resolution:
    """Resolve the bindings of addresses beside their own queues."""

    __slots__ = (
        "_addresses", "_at", "_patterns", "_remote_at", "_resolved", "_unlisted", "_wildcards", "decisions", "diverts",
    )  # fmt: skip

    def __init__(self, wildcards: WildcardConfiguration, addresses: dict[str, Address]) -> None:
        self._wildcards = wildcards
        self._addresses = addresses
        self.diverts: dict[str, Divert] = {}
        # Diverts by the address that they are bound to, and by their name.
        self._at: dict[str, dict[str, Divert]] = {}
        # Decisions on message groups; None without a grouping handler.
        self.decisions: GroupDecisions | None = None
        # Remote bindings by their address, and by their id.
        self._remote_at: dict[str, dict[int, RemoteBinding]] = {}
        self._patterns = WildcardIndex(wildcards)
        # Addresses whose result is valid. A change forgets all of them: each resolution pays for one such step.
        self._resolved: dict[Address, None] = {}
        # Results for names without an address.
        self._unlisted: dict[str, Address] = {}

    def is_wild(self, name: str) -> bool:
        """Return True if a binding of this address takes messages of others."""
        return self._wildcards.routing_enabled and self._wildcards.is_wild(name)

    # -- changes -------------------------------------------------------------------------------------------------

    def on_queue(self, address: Address) -> None:
        """Handle a queue that was bound to an address, or unbound."""
        if self.is_wild(address.name):
            self._change(address.name)
        elif address.others is not None and address.others.rotation is not None:
            # The queue may belong to a group.
            self._forget(address)

    def on_address(self, address: Address) -> None:
        """Handle an address that was added or removed."""
        self._unlisted.pop(address.name, None)
        self._resolved.pop(address, None)

    def add_divert(self, divert: Divert) -> None:
        """Bind a divert."""
        self.diverts[divert.name] = divert
        self._at.setdefault(divert.definition.address, {})[divert.name] = divert
        self._change(divert.definition.address)

    def remove_divert(self, divert: Divert) -> None:
        """Unbind a divert."""
        address = divert.definition.address
        del self.diverts[divert.name]
        del self._at[address][divert.name]
        if not self._at[address]:
            del self._at[address]
        self._change(address)

    def diverts_at(self, name: str) -> list[Divert]:
        """Return the diverts that are bound to exactly this address."""
        return list(self._at.get(name, {}).values())

    def add_remote(self, binding: RemoteBinding) -> None:
        """Bind a queue of another broker."""
        self._remote_at.setdefault(binding.address, {})[binding.id] = binding
        self._change(binding.address)

    def remove_remote(self, binding: RemoteBinding) -> None:
        """Unbind a queue of another broker."""
        bindings = self._remote_at[binding.address]
        del bindings[binding.id]
        if not bindings:
            del self._remote_at[binding.address]
        self._change(binding.address)

    @property
    def remote(self) -> list[RemoteBinding]:
        """Return all remote bindings."""
        return [binding for bindings in self._remote_at.values() for binding in bindings.values()]

    @property
    def has_remote(self) -> bool:
        """Return True if any queue of another broker is bound."""
        return bool(self._remote_at)

    def remote_at(self, name: str) -> list[RemoteBinding]:
        """Return the remote bindings of exactly this address, in order of their addition."""
        return list(self._remote_at.get(name, {}).values())

    def _change(self, name: str) -> None:
        """Forget what was resolved with the bindings of an address."""
        self._unlisted.clear()
        if not self.is_wild(name):
            address = self._addresses.get(name)
            if address is not None:
                self._forget(address)
            return
        address = self._addresses.get(name)
        if name in self._at or name in self._remote_at or (address is not None and address.has_queues):
            self._patterns.add(name)
        else:
            self._patterns.remove(name)
        for resolved in self._resolved:
            resolved.forget_others()
        self._resolved.clear()

    def _forget(self, address: Address) -> None:
        address.forget_others()
        self._resolved.pop(address, None)

    # -- resolving -----------------------------------------------------------------------------------------------

    def resolve(self, address: Address) -> None:
        """Set `Address.others`. An address with wildcards has its own bindings only, as in Artemis."""
        name = address.name
        patterns = self._patterns.matching(name) if len(self._patterns) and not self.is_wild(name) else []
        diverts, remote = self.diverts_at(name), self.remote_at(name)
        multicast: list[Queue] = []
        anycast: dict[str, list[Queue]] = {}
        for pattern in patterns:
            diverts += self.diverts_at(pattern)
            remote += self.remote_at(pattern)
            wild = self._addresses.get(pattern)
            if wild is not None:
                multicast += wild.multicast
                if wild.anycast:
                    anycast[pattern] = list(wild.anycast)
        before = address.others
        turns = before.turns if before is not None else {}
        rotation: Rotation | None = None
        if remote:
            groups = _groups(remote, address, multicast, anycast)
            known = {binding for bindings in groups.values() for binding in bindings}
            # Queues of wildcard addresses need `Placement.place_at`.
            is_complete = not (multicast or anycast) and known.issuperset(chain(address.multicast, address.anycast))
            last = before.rotation if before is not None else None
            rotation = Rotation(groups, last, is_complete=is_complete, decisions=self.decisions)
        if diverts or multicast or anycast or rotation is not None:
            by_name: dict[str, list[Divert]] = {}
            for divert in diverts:
                if not divert.definition.exclusive:
                    by_name.setdefault(divert.routing_name, []).append(divert)
            exclusive = [divert for divert in diverts if divert.definition.exclusive]
            address.others = OtherBindings(exclusive, by_name, multicast, anycast, turns, rotation)
        else:
            address.others = None
        address.is_resolved = True
        if address.definition.id:
            self._resolved[address] = None

    def find(self, name: str) -> Address | None:
        """Return an address with what is bound to it, also one that does not exist here.

        Wildcards match it, or it has a divert, or a queue of another broker. Such an address is not listed: no queue
        can be bound to it.
        """
        address = self._addresses.get(name)
        if address is None:
            if not len(self._patterns) and name not in self._at and name not in self._remote_at:
                return None
            address = self._unlisted.get(name)
            if address is None:
                address = Address(AddressDefinition(0, name, False, False))
                if len(self._unlisted) >= _UNLISTED_MAX:
                    self._unlisted.clear()
                self._unlisted[name] = address
        if not address.is_resolved:
            self.resolve(address)
        return address if address.others is not None or address.name in self._addresses else None


def _groups(
    remote: list[RemoteBinding], address: Address, multicast: Iterable[Queue], anycast: Mapping[str, Sequence[Queue]]
) -> dict[str, list[Shared]]:
    """Return the bindings that share messages with remote ones, by routing name, in order of their addition.

    Args:
        remote: Remote bindings that take messages of the address.
        address: The address, with its own queues.
        multicast: Multicast queues of wildcard addresses that match.
        anycast: Anycast queues of those, by wildcard address.
    """
    groups: dict[str, list[Shared]] = {}
    for binding in remote:
        groups.setdefault(binding.routing_name, []).append(binding)
    for queue in chain(address.multicast, multicast):
        if queue.name in groups:
            groups[queue.name].append(queue)
    for name, queues in ((address.name, address.anycast), *anycast.items()):
        if name in groups:
            groups[name] += queues
    for bindings in groups.values():
        bindings.sort(key=lambda binding: binding.id)
    return groups
