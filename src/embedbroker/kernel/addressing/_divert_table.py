"""The diverts of a broker: creation, change and removal, and what survives a restart.

Responsible for names, refusals and records. As in Artemis, diverts of the configuration are recorded, too: one that is
later missing there stays, unless the address settings remove it. Does not depend on the routing of messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from embedbroker.config import DivertConfiguration, Transformer, forwarding_addresses
from embedclient.errors import ErrorCode

from .._definitions import DivertDefinition, DivertRemoved
from .._ids import Ids
from .._refusal import Refused
from .._store import Store
from ..selector._selector import Selector
from ._addresses import AddressManager
from ._diverts import Divert

__all__ = ["DivertTable"]


class DivertTable:
    """Create and remove diverts. A divert with a transformer is not recorded: a record cannot hold it."""

    __slots__ = ("_ids", "_manager", "_store")

    def __init__(self, manager: AddressManager, store: Store, ids: Ids) -> None:
        self._manager = manager
        self._store = store
        self._ids = ids

    @property
    def by_name(self) -> Mapping[str, Divert]:
        """Return all diverts by name."""
        return self._manager.resolution.diverts

    def create(self, name: str, wanted: DivertConfiguration) -> Divert | Refused:
        """Create a divert. Its name must differ from those of all queues and diverts."""
        if name in self.by_name or name in self._manager.queues:
            kind = "divert" if name in self.by_name else "queue"
            return Refused(ErrorCode.ILLEGAL_STATE, f"divert {name!r}: a {kind} has this name; choose another one")
        selector = self._selector_of(name, wanted)
        if isinstance(selector, Refused):
            return selector
        definition = _definition(self._ids.take(), name, wanted)
        divert = self._bind(definition, selector, wanted.transformer)
        observers = self._manager.observers
        observers.call(observers.commit.divert_added, divert)
        return divert

    def _selector_of(self, name: str, wanted: DivertConfiguration) -> Selector | Refused | None:
        """Return the filter, or why there can be no such divert."""
        for address in (wanted.address, *forwarding_addresses(wanted.forwarding_address)):
            if self._manager.is_reserved(address):
                return Refused(
                    ErrorCode.ILLEGAL_STATE, f"divert {name!r}: {address!r} is an address of the broker itself"
                )
        return self._filter(name, wanted.filter)

    def _filter(self, name: str, text: str | None) -> Selector | Refused | None:
        selector = self._manager.selector(text)
        return (
            Refused(selector.code, f"divert {name!r}: {selector.text}") if isinstance(selector, Refused) else selector
        )

    def _bind(self, definition: DivertDefinition, selector: Selector | None, transformer: Transformer | None) -> Divert:
        divert = Divert(definition, selector, transformer)
        self._manager.resolution.add_divert(divert)
        if transformer is None:
            self._store.note(definition)
        return divert

    def update(
        self,
        name: str,
        *,
        forwarding_address: str | None = None,
        filter: str | None = None,
        properties: Mapping[str, str] | None = None,
        routing_type: str | None = None,
    ) -> Divert | Refused:
        """Change a divert, as Artemis does: None keeps a value, except for the filter, which None removes."""
        divert = self.by_name.get(name)
        if divert is None:
            return _missing(name)
        selector = self._filter(name, filter)
        if isinstance(selector, Refused):
            return selector
        old = divert.definition
        changed = evolve(
            old,
            forwarding_address=old.forwarding_address if forwarding_address is None else forwarding_address,
            filter=filter or None,
            properties=old.properties if properties is None else dict(properties),
            routing_type=old.routing_type if routing_type is None else routing_type,
        )
        if changed.address in forwarding_addresses(changed.forwarding_address):
            return Refused(
                ErrorCode.ILLEGAL_STATE,
                f"divert {name!r}: forwarding address {changed.forwarding_address!r} contains its own address",
            )
        self._manager.resolution.remove_divert(divert)
        return self._bind(changed, selector, divert.transformer)

    def remove(self, name: str) -> Divert | Refused:
        """Remove a divert, and return it."""
        divert = self.by_name.get(name)
        if divert is None:
            return _missing(name)
        self._manager.resolution.remove_divert(divert)
        if divert.transformer is None:
            self._store.note(DivertRemoved(divert.definition.id))
        return divert

    def restore(self, definition: DivertDefinition) -> None:
        """Restore a divert from the journal, without writing it again."""
        selector = self._manager.selector(definition.filter)
        assert not isinstance(selector, Refused), selector
        self._manager.resolution.add_divert(Divert(definition, selector, None))

    def declare(self, wanted: Mapping[str, DivertConfiguration], *, deletes_missing: bool = True) -> list[Refused]:
        """Ensure that the diverts of the configuration exist with its values; return the refusals.

        Must run once, at the start, before clients come. Without ``deletes_missing``, missing diverts stay.
        """
        if deletes_missing:
            self._remove_missing(wanted)
        refusals: list[Refused] = []
        for name, each in wanted.items():
            known = self.by_name.get(name)
            if known is not None:
                if each.transformer is None and known.definition == _definition(known.definition.id, name, each):
                    continue
                self.remove(name)
            created = self.create(name, each)
            if isinstance(created, Refused):
                refusals.append(created)
        return refusals

    def reload(self, wanted: Mapping[str, DivertConfiguration]) -> list[Refused]:
        """Adopt the diverts of a configuration that has changed, as Artemis does; return the refusals.

        A new address, routing name or ``exclusive`` replaces a divert; other values change in place. A divert for which
        the configuration names no properties, or no transformer, keeps those that it has.
        """
        self._remove_missing(wanted)
        answers = [self._reload(name, each) for name, each in wanted.items()]
        return [answer for answer in answers if isinstance(answer, Refused)]

    def _reload(self, name: str, wanted: DivertConfiguration) -> Divert | Refused:
        divert = self.by_name.get(name)
        selector = self._selector_of(name, wanted)
        if divert is None or isinstance(selector, Refused):
            return self.create(name, wanted) if not isinstance(selector, Refused) else selector
        old = divert.definition
        changed = _definition(old.id, name, wanted)
        if (changed.address, changed.routing_name, changed.exclusive) != (old.address, old.routing_name, old.exclusive):
            self.remove(name)
            return self.create(name, wanted)
        changed = evolve(changed, properties=changed.properties or old.properties)
        transformer = wanted.transformer or divert.transformer
        if (changed, transformer) == (old, divert.transformer):
            return divert
        self._manager.resolution.remove_divert(divert)
        if transformer is not None and divert.transformer is None:
            self._store.note(DivertRemoved(old.id))
        return self._bind(changed, selector, transformer)

    def _remove_missing(self, wanted: Mapping[str, DivertConfiguration]) -> None:
        for name, divert in list(self.by_name.items()):
            settings = self._manager.settings.of(divert.definition.address)
            if name not in wanted and settings.config_delete_diverts:
                self.remove(name)


def _definition(number: int, name: str, wanted: DivertConfiguration) -> DivertDefinition:
    return DivertDefinition(
        number,
        name,
        wanted.address,
        wanted.forwarding_address,
        wanted.routing_name or name,
        wanted.exclusive,
        wanted.filter or None,
        wanted.routing_type.value,
        dict(wanted.properties),
    )


def _missing(name: str) -> Refused:
    return Refused(ErrorCode.ILLEGAL_STATE, f"divert {name!r} does not exist")
