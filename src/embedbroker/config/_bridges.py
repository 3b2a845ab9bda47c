"""Bridges that a broker has from its start, as frozen values.

Responsible for the fields of a bridge and for what is wrong with them. Does not depend on the grammar of filters and on
the exchange with the other broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, TypeAlias

from attrs import Attribute, evolve, field, fields, frozen

from embedclient.model import did_you_mean, ping_period_ms

from ._checks import instance, named, number, optional, text, whole
from ._discovery import DiscoveryGroup, check_discovery_group
from ._diverts import as_properties
from ._nested import listed

__all__ = [
    "ADD_HEADERS",
    "BridgeConfig",
    "BridgeRoutingType",
    "BridgeTransformer",
    "as_bridges",
    "bridge_as_json",
    "check_bridges",
]

ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
"""The transformer of Artemis that exists here: it adds properties."""

# Names in the JSON of Artemis that differ from those of the fields by more than hyphens.
_JSON_NAMES = {
    "queue": "queue-name",
    "filter": "filter-string",
    "check_period_ms": "client-failure-check-period",
    "discovery_group": "discovery-group-name",
    "reconnect_attempts_same_node": "reconnect-attempts-on-same-node",
}

BridgeTransformer: TypeAlias = Callable[[Any], None]
"""Change a `BridgedMessage` before it is sent."""


class BridgeRoutingType(Enum):
    """Define the routing type of a message that a bridge sends."""

    #: That of the message.
    PASS = "PASS"  # not a password
    #: The message has none: queues of both types take it.
    STRIP = "STRIP"
    #: The message is for anycast queues.
    ANYCAST = "ANYCAST"
    #: The message is for multicast queues.
    MULTICAST = "MULTICAST"


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"static_connectors must be a list of connector names, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise TypeError(f"static_connectors must be a list of connector names, not of {name!r}")
    return tuple(dict.fromkeys(value))


def _has_target(config: BridgeConfig | None, _attribute: Attribute[Any], value: str | None) -> None:
    if value is None and config is not None and not config.static_connectors:
        raise ValueError(
            "static_connectors must name one connector or more, or discovery_group a group: without one the bridge has"
            " no target"
        )


def _transformer(_config: BridgeConfig, _attribute: Attribute[Any], value: object) -> None:
    if value is not None and not callable(value):
        raise TypeError(f"transformer must be a callable that takes a BridgedMessage, not {value!r}")


@frozen
class BridgeConfig:
    """Define a bridge: it moves the messages of a queue to an address of another broker.

    Attributes:
        name: Name of the bridge.
        queue: Name of the queue whose messages it takes.
        static_connectors: Names of the connectors of the other broker; several are tried in their order.
        discovery_group: Name of the discovery group by which it finds the other broker, behind ``static_connectors``.
        forwarding_address: Address of the other broker that gets the messages; None: the address of each message.
        filter: A selector: the bridge takes the messages that it matches.
        properties: Properties added to each message, as text.
        transformer: Changes each message before it is sent.
        routing_type: Routing type of the messages that are sent.
        user: User of the other broker; None: the ``cluster_user`` of this broker, with its password.
        password: Password of ``user``.
        client_id: Client id of the bridge's connection; None: it has none.
        ha: Whether the bridge follows the other broker to its backup.
        concurrency: Number of bridges that share the queue, each with a connection; above 1, order is lost.
        use_duplicate_detection: Whether messages carry an id by which the other broker drops repeated ones. Without,
            the bridge sends one message at a time, and a lost connection may double one.
        confirmation_window_size: Bytes of messages that may wait for their confirmation.
        producer_window_size: Bytes of credit that are requested at a time; -1: no flow control.
        min_large_message_size: Bytes; longer bodies are sent in chunks of this size.
        check_period_ms: Pause between two pings, at least two pings per ``connection_ttl_ms``; -1: never.
        connection_ttl_ms: Silence after which the other broker counts as lost; -1: never.
        retry_interval_ms: Pause before a lost broker is tried again.
        retry_interval_multiplier: Factor by which that pause grows, at least 1.
        max_retry_interval_ms: Longest such pause.
        initial_connect_attempts: Repeated attempts before the first connection; then the bridge gives up; -1: no limit.
        reconnect_attempts: Repeated attempts after a lost connection; then the bridge gives up; -1: no limit.
        reconnect_attempts_same_node: Attempts after a lost connection that lead to the same node; then all connectors
            are tried; -1: no limit.
        pending_ack_timeout_ms: Longest wait of a stop or a pause for the confirmations of what was sent.
    """

    name: str = field(validator=named)
    queue: str = field(validator=named)
    static_connectors: tuple[str, ...] = field(default=(), converter=_names)
    discovery_group: str | None = field(default=None, validator=[optional(named), _has_target])
    forwarding_address: str | None = field(default=None, validator=optional(named))
    filter: str | None = field(default=None, validator=optional(text))
    properties: dict[str, str] = field(factory=dict, converter=as_properties)
    transformer: BridgeTransformer | None = field(default=None, validator=_transformer)
    routing_type: BridgeRoutingType = field(default=BridgeRoutingType.PASS, validator=instance(BridgeRoutingType))
    user: str | None = field(default=None, validator=optional(named))
    password: str | None = field(default=None, validator=optional(text), repr=False)
    client_id: str | None = field(default=None, validator=optional(named))
    ha: bool = field(default=False, validator=instance(bool))
    concurrency: int = field(default=1, validator=whole(1, 1_000))
    use_duplicate_detection: bool = field(default=True, validator=instance(bool))
    confirmation_window_size: int = field(default=10 * 1024 * 1024, validator=whole(1))
    producer_window_size: int = field(default=1024 * 1024, validator=whole(-1))
    min_large_message_size: int = field(default=100 * 1024, validator=whole(1))
    check_period_ms: int = field(default=30_000, validator=whole(-1))
    connection_ttl_ms: int = field(default=60_000, validator=whole(-1))
    retry_interval_ms: int = field(default=2_000, validator=whole(1))
    retry_interval_multiplier: float = field(default=1.0, validator=number(1))
    max_retry_interval_ms: int = field(default=2_000, validator=whole(1))
    initial_connect_attempts: int = field(default=-1, validator=whole(-1))
    reconnect_attempts: int = field(default=-1, validator=whole(-1))
    reconnect_attempts_same_node: int = field(default=10, validator=whole(-1))
    pending_ack_timeout_ms: int = field(default=60_000, validator=whole(0))

    @property
    def ping_period_ms(self) -> int:
        """Return the pause between two pings: ``check_period_ms``, at most half of ``connection_ttl_ms``.

        -1 is never.
        """
        return ping_period_ms(self.check_period_ms, self.connection_ttl_ms)

    def each(self) -> list[BridgeConfig]:
        """Return one configuration per connection: with a ``concurrency`` of 2, ``name-0`` and ``name-1``."""
        if self.concurrency == 1:
            return [self]
        return [evolve(self, name=f"{self.name}-{number}", concurrency=1) for number in range(self.concurrency)]


def bridge_as_json(config: BridgeConfig) -> dict[str, object]:
    """Return the values of a bridge that are not defaults, under the names that Artemis has in its JSON.

    Raises:
        ValueError: It has a transformer, which JSON cannot hold.
    """
    if config.transformer is not None:
        raise ValueError(f"bridge {config.name!r}: a transformer cannot be recorded; use properties, or bridges=[...]")
    shown: dict[str, object] = {}
    for each in fields(BridgeConfig):
        value = getattr(config, each.name)
        if each.name == "properties":
            if value:
                shown["transformer-configuration"] = {"class-name": ADD_HEADERS, "properties": dict(value)}
        elif value != each.default:
            name = _JSON_NAMES.get(each.name, each.name.removesuffix("_ms").replace("_", "-"))
            shown[name] = value.value if isinstance(value, Enum) else value
    return shown


def as_bridges(value: object) -> tuple[BridgeConfig, ...]:
    """Return bridges, whose names differ."""
    value = listed(BridgeConfig, value, "bridges")
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"bridges must be a list of BridgeConfigs, not {value!r}")
    names: set[str] = set()
    for bridge in value:
        if not isinstance(bridge, BridgeConfig):
            raise TypeError(f"bridges must be a list of BridgeConfigs, not of {bridge!r}")
        for each in bridge.each():
            if each.name in names:
                raise ValueError(f"bridges: there are two of the name {each.name!r}; give each its own")
            names.add(each.name)
    return tuple(value)


def check_bridges(
    bridges: Collection[BridgeConfig], connectors: Collection[str], groups: Collection[DiscoveryGroup]
) -> None:
    """Check the connectors and discovery groups that bridges name.

    Raises:
        ValueError: a connector or a group does not exist; the text names the bridge.
    """
    for bridge in bridges:
        check_discovery_group(f"bridges: bridge {bridge.name!r}", bridge.discovery_group, groups)
        for name in bridge.static_connectors:
            if name not in connectors:
                raise ValueError(
                    f"bridges: bridge {bridge.name!r}: there is no connector {name!r}{did_you_mean(name, connectors)}"
                )
