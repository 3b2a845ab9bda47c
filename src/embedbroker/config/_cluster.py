"""How a broker finds the others of its cluster, what it announces to them, and what it forwards to them.

Responsible for the vocabulary of Artemis' ``cluster-connection`` element, for connectors, and for their defaults. Does
not depend on the exchange between brokers, nor on how messages move from one to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from attrs import evolve, field, frozen

from embedclient.model import (
    CONNECTOR_PARAMETERS,
    IN_VM_CONNECTOR_FACTORY,
    TransportConfiguration,
    describe_name,
    describe_url,
    is_host_name,
    ping_period_ms,
    unsupported_scheme,
    url_parameters,
)

from ._checks import instance, named, number, optional, whole
from ._nested import listed

__all__ = [
    "DEFAULT_CLUSTER_PASSWORD",
    "DEFAULT_CLUSTER_USER",
    "ClusterConnection",
    "MessageLoadBalancing",
    "as_cluster_connections",
    "as_connectors",
    "overlap",
]

# Artemis' defaults: brokers without configuration find each other, and these two texts are public.
DEFAULT_CLUSTER_USER = "ACTIVEMQ.CLUSTER.ADMIN.USER"
DEFAULT_CLUSTER_PASSWORD = "CHANGE ME!!"

_DEFAULT_PORT = 61616
_PLAIN_URLS_MAX = 256


class MessageLoadBalancing(Enum):
    """Define which messages a broker forwards to the other members of a cluster."""

    #: Messages stay, but multicast queues of other members get their copies.
    OFF = "OFF"
    #: Members with a queue of that name get messages in turn, with consumers or without.
    STRICT = "STRICT"
    #: Members with a matching consumer get messages in turn, and redistribution moves the rest.
    ON_DEMAND = "ON_DEMAND"
    #: As OFF, but redistribution moves messages that have no consumer.
    OFF_WITH_REDISTRIBUTION = "OFF_WITH_REDISTRIBUTION"


def _prefixes(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"addresses must be a list of prefixes of addresses, not {value!r}")
    for prefix in value:
        if not isinstance(prefix, str):
            raise TypeError(f"addresses must be a list of prefixes of addresses, not of {prefix!r}")
        if not prefix.removeprefix("!") or "," in prefix:
            raise ValueError(f"addresses must be prefixes of addresses, one per entry, not {prefix!r}")
    return tuple(dict.fromkeys(value))


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"static_connectors must be a list of connector names, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise TypeError(f"static_connectors must be a list of connector names, not of {name!r}")
    return tuple(dict.fromkeys(value))


@frozen
class ClusterConnection:
    """Define a broker's membership in a cluster, or in a group of one live broker and its backups.

    Attributes:
        name: Name of the cluster connection.
        connector: Name of the broker's connector by which others and clients reach it; None: where it listens.
        static_connectors: Names of the connectors by which it finds the others.
        discovery_group: Name of the discovery group by which it finds others, beside ``static_connectors``; None: none.
        allow_direct_connections_only: Whether it connects only to brokers at these places, and not to those that it
            learns of later.
        addresses: Prefixes of the addresses whose messages it forwards; ``!prefix`` excludes some. Empty: all.
        message_load_balancing: Which messages it forwards.
        max_hops: Longest way of a message, in brokers; 0: nothing is forwarded.
        use_duplicate_detection: Whether forwarded messages carry an id by which the other broker drops repeated ones.
            Without, one message at a time is sent, and a lost connection may double one.
        min_large_message_size: Bytes; longer bodies are forwarded in chunks of this size.
        confirmation_window_size: Bytes of forwarded messages that may wait for their confirmation.
        producer_window_size: Bytes of credit that are requested at a time; -1: no flow control.
        client_id: Client id of the connections that forward; None: they have none.
        check_period_ms: Pause between two pings, at least two pings per ``connection_ttl_ms``; -1: never.
        connection_ttl_ms: Silence after which a peer counts as lost; -1: never.
        call_timeout_ms: Longest wait for the answer to the cluster password.
        call_failover_timeout_ms: Accepted, as in Artemis, and without effect: no request waits for a failover, because
            a bridge that loses its connection begins anew.
        retry_interval_ms: Pause before a lost peer is tried again.
        retry_interval_multiplier: Factor by which that pause grows, at least 1.
        max_retry_interval_ms: Longest such pause.
        initial_connect_attempts: Attempts to connect to a broker that was never reached; then it counts as permanently
            down; -1: no limit.
        reconnect_attempts: Attempts after a lost connection; then the broker counts as permanently down; -1: no limit.
        notification_interval_ms: Pause between two announcements of a live broker.
        notification_attempts: Number of repetitions of an announcement.
    """

    name: str = field(default="cluster", validator=named)
    connector: str | None = field(default=None, validator=optional(named))
    static_connectors: tuple[str, ...] = field(default=(), converter=_names)
    discovery_group: str | None = field(default=None, validator=optional(named))
    allow_direct_connections_only: bool = field(default=False, validator=instance(bool))
    addresses: tuple[str, ...] = field(default=(), converter=_prefixes)
    message_load_balancing: MessageLoadBalancing = field(
        default=MessageLoadBalancing.ON_DEMAND, validator=instance(MessageLoadBalancing)
    )
    max_hops: int = field(default=1, validator=whole(0))
    use_duplicate_detection: bool = field(default=True, validator=instance(bool))
    min_large_message_size: int = field(default=100 * 1024, validator=whole(1))
    confirmation_window_size: int = field(default=10 * 1024 * 1024, validator=whole(1))
    producer_window_size: int = field(default=1024 * 1024, validator=whole(-1))
    client_id: str | None = field(default=None, validator=optional(named))
    check_period_ms: int = field(default=30_000, validator=whole(-1))
    connection_ttl_ms: int = field(default=60_000, validator=whole(-1))
    call_timeout_ms: int = field(default=30_000, validator=whole(1))
    call_failover_timeout_ms: int = field(default=-1, validator=whole(-1))
    retry_interval_ms: int = field(default=500, validator=whole(1))
    retry_interval_multiplier: float = field(default=1.0, validator=number(1))
    max_retry_interval_ms: int = field(default=2_000, validator=whole(1))
    initial_connect_attempts: int = field(default=-1, validator=whole(-1))
    reconnect_attempts: int = field(default=-1, validator=whole(-1))
    notification_interval_ms: int = field(default=1_000, validator=whole(1))
    notification_attempts: int = field(default=2, validator=whole(0))

    @property
    def ping_period_ms(self) -> int:
        """Return the pause between two pings: ``check_period_ms``, at most half of ``connection_ttl_ms``.

        -1 is never.
        """
        return ping_period_ms(self.check_period_ms, self.connection_ttl_ms)


def as_cluster_connections(value: object) -> tuple[ClusterConnection, ...]:
    """Return cluster connections, whose names differ and which have no address in common; one stands for itself."""
    if isinstance(value, ClusterConnection):
        return (value,)
    value = listed(ClusterConnection, [value] if isinstance(value, Mapping) else value, "cluster_connections")
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise TypeError(f"cluster_connections must be a ClusterConnection or a list of them, not {value!r}")
    known: list[ClusterConnection] = []
    for connection in value:
        if not isinstance(connection, ClusterConnection):
            raise TypeError(f"cluster_connections must be a list of ClusterConnections, not of {connection!r}")
        for other in known:
            if connection.name == other.name:
                raise ValueError(
                    f"cluster_connections: there are two of the name {describe_name(connection.name)!r};"
                    " give each another one"
                )
            text = overlap(other, connection)
            if text is not None:
                raise ValueError(f"cluster_connections: {describe_name(connection.name)!r} {text}")
        known.append(connection)
    return tuple(known)


def overlap(one: ClusterConnection, other: ClusterConnection) -> str | None:
    """Return what is wrong with the second of two cluster connections that would forward one message; None: nothing."""
    prefix = _common_prefix(one, other)
    if prefix is None:
        return None
    addresses = f"addresses that begin with {prefix!r}" if prefix else "addresses"
    return (
        f"has {addresses} in common with cluster connection {describe_name(one.name)!r}: a message could arrive twice;"
        " exclude them in one of the two with !, or change its addresses"
    )


def _common_prefix(one: ClusterConnection, other: ClusterConnection) -> str | None:
    """Return a prefix whose addresses two cluster connections have in common; empty: any address. None: no address.

    Messages of such an address would be forwarded over both, and perhaps arrive twice.
    """
    excluded = [each[1:] for each in (*one.addresses, *other.addresses) if each.startswith("!")]
    for first in _included(one):
        for second in _included(other):
            if not first.startswith(second) and not second.startswith(first):
                continue
            longer = max(first, second, key=len)
            # An exclusion that is longer than the prefix leaves other addresses with it.
            if not any(longer.startswith(each) for each in excluded):
                return longer
    return None


def _included(connection: ClusterConnection) -> list[str]:
    return [each for each in connection.addresses if not each.startswith("!")] or [""]


def as_connectors(value: object) -> dict[str, TransportConfiguration]:
    """Return connectors by name; a URL stands for its value, and every connector carries the name it has here."""
    if not isinstance(value, Mapping):
        raise TypeError(
            f"connectors must map names to URLs or TransportConfigurations, not be of type {type(value).__name__}"
        )
    connectors: dict[str, TransportConfiguration] = {}
    for name, connector in value.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"connectors must map names to URLs or TransportConfigurations, {name!r} is no name")
        if isinstance(connector, str):
            # Brokers of one process often name the same places. Parameters may hold passwords, which are not kept.
            connector = _from_url(name, connector) if "?" in connector else _copied(_from_plain_url(name, connector))
        elif not isinstance(connector, TransportConfiguration):
            kind = type(connector).__name__
            raise TypeError(f"connector {name!r} must be a URL or a TransportConfiguration, not of type {kind}")
        connectors[name] = connector if connector.name == name else evolve(connector, name=name)
    return connectors


def _from_url(name: str, url: str) -> TransportConfiguration:
    advice = unsupported_scheme(url)
    if advice is not None:
        raise ValueError(f"connector {name!r}: {advice}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # the text of the error names the value
        raise ValueError(f"connector {name!r}: {describe_url(url)!r} has a host or port that cannot be read") from None
    if "@" in parts.netloc:
        raise ValueError(f"connector {name!r} has a user in front of its host; write {describe_url(url)}")
    if not is_host_name(parts.netloc.translate({91: None, 93: None})):
        raise ValueError(f"connector {name!r}: {describe_url(url)!r} has a sign that no host has")
    if parts.scheme == "vm" and parts.netloc and ":" not in parts.netloc:
        return TransportConfiguration(name, IN_VM_CONNECTOR_FACTORY, {"serverId": unquote(parts.netloc)})
    if parts.scheme != "tcp" or not host:
        raise ValueError(
            f"connector {name!r} must be a URL such as 'tcp://host:61616' or 'vm://name', not {describe_url(url)!r}"
        )
    # As it was written: `hostname` is in small letters.
    start = parts.netloc.lower().index(host)
    host = parts.netloc[start : start + len(host)]
    parameters = {}
    for parameter in url_parameters(parts.query):
        if parameter.value is None:
            shown = parameter.shown(CONNECTOR_PARAMETERS)
            raise ValueError(f"connector {name!r}: parameter {shown} in {describe_url(url)} has no value")
        parameters[parameter.name] = parameter.value
    # As text, like everything that Java peers read from a configuration file.
    address = {"host": host, "port": str(port if port is not None else _DEFAULT_PORT)}
    return TransportConfiguration(name, parameters={**address, **parameters})


_from_plain_url = lru_cache(_PLAIN_URLS_MAX)(_from_url)


def _copied(connector: TransportConfiguration) -> TransportConfiguration:
    """Return a connector whose parameters a program may change, as no other broker has them."""
    return TransportConfiguration(connector.name, connector.factory, dict(connector.parameters))
