"""``cluster-connections``: by which connectors a broker is found, and finds the others.

Does not depend on the exchange between brokers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from embedbroker.config import ClusterConnection, MessageLoadBalancing, overlap
from embedclient.model import TransportConfiguration

from ._cluster_uri import connection_of_uri
from ._discovery import discovery_group_ref
from ._document import Element
from ._findings import Findings
from ._mapping import Fields, attribute_of, built, named_once, required_attribute, store, value_of, values_of
from ._tls import TLSParameters
from ._transports import connector_refs, is_connector
from ._values import boolean, number, one_of, prefixes, size, text, whole

__all__ = ["cluster_connections"]


def _by_consumers(value: str | None) -> MessageLoadBalancing:
    """Return the meaning of the older element, which had two of the ways only."""
    return MessageLoadBalancing.STRICT if boolean(value) else MessageLoadBalancing.ON_DEMAND


_FIELDS: Fields = {
    "address": ("addresses", prefixes),
    "message-load-balancing": ("message_load_balancing", one_of(MessageLoadBalancing.__members__)),
    "forward-when-no-consumers": ("message_load_balancing", _by_consumers),
    "max-hops": ("max_hops", whole),
    "use-duplicate-detection": ("use_duplicate_detection", boolean),
    "min-large-message-size": ("min_large_message_size", size),
    "confirmation-window-size": ("confirmation_window_size", size),
    "producer-window-size": ("producer_window_size", size),
    "client-id": ("client_id", text),
    "check-period": ("check_period_ms", whole),
    "connection-ttl": ("connection_ttl_ms", whole),
    "call-timeout": ("call_timeout_ms", whole),
    "call-failover-timeout": ("call_failover_timeout_ms", whole),
    "retry-interval": ("retry_interval_ms", whole),
    "retry-interval-multiplier": ("retry_interval_multiplier", number),
    "max-retry-interval": ("max_retry_interval_ms", whole),
    "initial-connect-attempts": ("initial_connect_attempts", whole),
    "reconnect-attempts": ("reconnect_attempts", whole),
    "notification-interval": ("notification_interval_ms", whole),
    "notification-attempts": ("notification_attempts", whole),
}


def cluster_connections(
    core: Element,
    connectors: dict[str, TransportConfiguration],
    groups: Collection[str],
    tls: TLSParameters,
    findings: Findings,
) -> tuple[ClusterConnection, ...]:
    """Return the cluster connections. Two that would both forward a message are an error at the second one.

    Connectors inside a URL are added to those of the file.
    """
    holder = core.take("cluster-connections")
    children = {} if holder is None else holder.children
    found: dict[str, ClusterConnection] = {}
    for element in (*children.get("cluster-connection-uri", ()), *children.get("cluster-connection", ())):
        if element.name == "cluster-connection-uri":
            connection = connection_of_uri(element, connectors, groups, tls, findings)
        else:
            connection = _connection(element, connectors, groups, findings)
        if connection is None:
            continue
        for other in found.values():
            text = overlap(other, connection) if other.name != connection.name else None
            if text is not None:
                findings.refuse(element.place, text)
        named_once(found, connection.name, connection, element.place, findings)
    return tuple(found.values())


def _connection(
    element: Element, connectors: Collection[str], groups: Collection[str], findings: Findings
) -> ClusterConnection | None:
    element.taken = True
    values: dict[str, Any] = values_of(element, _FIELDS, ClusterConnection, findings)
    store(values, "name", required_attribute(element, "name", findings), ClusterConnection, element.place, findings)
    ref = element.take("connector-ref")
    if ref is None:
        findings.refuse(element.place, "has no connector-ref: others would not know how to reach this broker")
    else:
        connector = value_of(ref, text, findings)
        if isinstance(connector, str) and is_connector(connector, ref, connectors, findings):
            values["connector"] = connector
    discovery_group_ref(element, values, ClusterConnection, groups, findings)
    static = element.take("static-connectors")
    if static is not None:
        values["static_connectors"] = connector_refs(static, connectors, findings)
        only = attribute_of(static, "allow-direct-connections-only", boolean, findings)
        store(values, "allow_direct_connections_only", only, ClusterConnection, static.place, findings)
    return built(ClusterConnection, values, element.place, findings)
