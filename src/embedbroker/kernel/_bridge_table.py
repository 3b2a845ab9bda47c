"""The bridges and connectors that management adds to those of the configuration.

Responsible for their names, for refusals, and for records, so that they survive a restart. Does not depend on the
exchange with other brokers: a `BridgeHost` runs the bridges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

from attrs import Attribute, asdict, fields

from embedbroker.config import BridgeConfig, BridgeRoutingType, BrokerConfig, as_connectors, check_bridges
from embedclient.errors import ErrorCode
from embedclient.model import TransportConfiguration

from ._bridge_view import BridgeView
from ._definitions import SettingsDefinition, SettingsRemoved
from ._ids import Ids
from ._refusal import Refused
from ._store import Store
from .addressing._addresses import AddressManager

__all__ = ["BridgeHost", "BridgeTable"]

_BRIDGE, _CONNECTOR = "bridge", "connector"
_DEFAULTS: Final = {each.name: each.default for each in fields(BridgeConfig)}


class BridgeHost(Protocol):
    """Run the bridges of a broker."""

    def add(self, config: BridgeConfig) -> None:
        """Make a bridge, and start it."""

    def remove(self, config: BridgeConfig) -> None:
        """End a bridge: what is not confirmed returns to its queue."""


class BridgeTable:
    """One instance per kernel.

    Attributes:
        running: The bridges that run, by name; one with a ``concurrency`` of 2 has two of them.
        connectors: The connectors of the configuration and those that management added.
        added: The bridges that management added, by name.
    """

    #: The kinds of settings that this table records.
    KINDS: Final = (_BRIDGE, _CONNECTOR)

    def __init__(
        self, config: BrokerConfig, store: Store, ids: Ids, addresses: AddressManager, log: Callable[[str], None]
    ) -> None:
        self.running: Mapping[str, BridgeView] = {}
        self.connectors: dict[str, TransportConfiguration] = dict(config.connectors)
        self.added: dict[str, BridgeConfig] = {}
        self._configured: dict[str, BridgeConfig] = {bridge.name: bridge for bridge in config.bridges}
        self._discovery_groups = config.discovery_groups
        self._store = store
        self._ids = ids
        self._addresses = addresses
        self._log = log
        self._host: BridgeHost | None = None
        # Numbers of the records by kind and name.
        self._recorded: dict[tuple[str, str], int] = {}

    def connect(self, host: BridgeHost) -> None:
        """Let a host run the bridges. Must come before the first client."""
        self._host = host

    @property
    def all(self) -> list[BridgeConfig]:
        """Return the bridges of the configuration and those that management added; the former win by their names."""
        names = {each.name for bridge in self._configured.values() for each in bridge.each()}
        usable = [bridge for bridge in self.added.values() if names.isdisjoint(each.name for each in bridge.each())]
        return [*self._configured.values(), *(bridge for bridge in usable if self._has_connectors(bridge))]

    def _has_connectors(self, bridge: BridgeConfig) -> bool:
        try:
            check_bridges([bridge], self.connectors, self._discovery_groups)
        except ValueError as error:
            self._log(f"{error}; the bridge does not run: add the connector, and start the broker again")
            return False
        return True

    # -- bridges -------------------------------------------------------------------------------------------------

    def create(self, config: BridgeConfig) -> Refused | None:
        """Create a bridge, which is recorded; return why that is not possible."""
        for each in config.each():
            if each.name in self.running:
                return _refused(f"bridge {each.name!r} exists already; choose another name")
        if config.name in self.added or config.name in self._configured:
            return _refused(f"bridge {config.name!r} exists already; choose another name")
        if config.queue not in self._addresses.queues:
            return _refused(f"bridge {config.name!r}: queue {config.queue!r} does not exist; create it first")
        selector = self._addresses.selector(config.filter)
        if isinstance(selector, Refused):
            return Refused(selector.code, f"bridge {config.name!r}: filter: {selector.text}")
        try:
            check_bridges([config], self.connectors, self._discovery_groups)
        except ValueError as error:
            return _refused(str(error))
        assert self._host is not None
        self._record(_BRIDGE, config.name, asdict(config, filter=_is_recorded, value_serializer=_plain))
        self.added[config.name] = config
        self._host.add(config)
        return None

    def remove(self, name: str) -> Refused | None:
        """End a bridge, and forget it; one of the configuration is back after a restart. Return why not."""
        config = self.added.pop(name, None) or self._configured.pop(name, None)
        if config is None:
            whole = [bridge.name for bridge in self.all if name in {each.name for each in bridge.each()}]
            hint = f"; it is one of bridge {whole[0]!r}" if whole else ""
            return _refused(f"bridge {name!r} does not exist{hint}")
        assert self._host is not None
        self._forget(_BRIDGE, name)
        self._host.remove(config)
        return None

    # -- connectors ----------------------------------------------------------------------------------------------

    def add_connector(self, name: str, url: str) -> None:
        """Add a connector for bridges, or replace one for those that are created from now on.

        Raises:
            ValueError: The URL is not that of a connector; nothing is changed.
        """
        self.connectors |= as_connectors({name: url})
        self._record(_CONNECTOR, name, {"url": url})

    def remove_connector(self, name: str) -> Refused | None:
        """Forget a connector; one of the configuration is back after a restart. Bridges that use it go on."""
        if self.connectors.pop(name, None) is None:
            return _refused(f"connector {name!r} does not exist")
        self._forget(_CONNECTOR, name)
        return None

    # -- records -------------------------------------------------------------------------------------------------

    def restore(self, definition: SettingsDefinition) -> None:
        """Restore a bridge or a connector from the journal, without writing it again.

        What this version cannot use is left in the journal.
        """
        name, values = definition.match, dict(definition.values)
        self._recorded[definition.kind, name] = definition.id
        try:
            if definition.kind == _CONNECTOR:
                self.connectors |= as_connectors({name: values["url"]})
            else:
                if "routing_type" in values:
                    values["routing_type"] = BridgeRoutingType(values["routing_type"])
                self.added[name] = BridgeConfig(**values)  # type: ignore[arg-type]  # the class checks each value
        except (KeyError, TypeError, ValueError) as error:
            self._log(f"{definition.kind} {name!r} in the journal is not used: {error}")

    def _record(self, kind: str, name: str, values: dict[str, object]) -> None:
        key = kind, name
        if key not in self._recorded:
            self._recorded[key] = self._ids.take()
        self._store.note(SettingsDefinition(self._recorded[key], kind, name, values))

    def _forget(self, kind: str, name: str) -> None:
        number = self._recorded.pop((kind, name), None)
        if number is not None:
            self._store.note(SettingsRemoved(number))


def _is_recorded(attribute: Attribute[object], value: object) -> bool:
    return value != _DEFAULTS[attribute.name] and bool(value or attribute.name != "properties")


def _plain(_instance: object, _attribute: object, value: object) -> object:
    return value.value if isinstance(value, Enum) else list(value) if isinstance(value, tuple) else value


def _refused(text: str) -> Refused:
    return Refused(ErrorCode.ILLEGAL_STATE, text)
