"""``cluster-connections``: by which connectors a broker is found, and finds the others.

Responsible for the one cluster connection that a broker has. Does not depend on the exchange between brokers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from embedbroker.config import ClusterConnection, MessageLoadBalancing, common_prefix
from embedclient.model import describe_name

from ._discovery import discovery_group_ref
from ._document import Element
from ._findings import Findings
from ._mapping import Fields, attribute_of, built, required_attribute, store, value_of, values_of
from ._transports import connector_refs, is_connector
from ._values import boolean, number, one_of, size, text, text_or_nothing, whole

__all__ = ["cluster_connection"]


def _prefixes(value: str | None) -> tuple[str, ...]:
    """Return the entries of a list with commas."""
    return tuple(entry for each in text_or_nothing(value).split(",") if (entry := each.strip()))


def _by_consumers(value: str | None) -> MessageLoadBalancing:
    """Return the meaning of the older element, which had two of the ways only."""
    return MessageLoadBalancing.STRICT if boolean(value) else MessageLoadBalancing.ON_DEMAND


_FIELDS: Fields = {
    "address": ("addresses", _prefixes),
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


def cluster_connection(
    core: Element, wanted: str | None, connectors: Collection[str], groups: Collection[str], findings: Findings
) -> ClusterConnection | None:
    """Return the cluster connection called ``wanted``, or the first one. The others are left for a warning."""
    holder = core.take("cluster-connections")
    candidates = [] if holder is None else holder.children.get("cluster-connection", [])
    named = [each for each in candidates if wanted is not None and each.attributes.get("name") == wanted]
    if holder is not None and wanted is not None and not named:
        findings.refuse(holder.place, f"there is no cluster-connection {wanted!r}, which the ha-policy names")
    _refuse_overlaps(candidates, findings)
    chosen = next(iter(named or candidates), None)
    return None if chosen is None else _connection(chosen, connectors, groups, findings)


def _refuse_overlaps(elements: list[Element], findings: Findings) -> None:
    """Refuse two cluster connections that would both forward a message, although only one of them is used here."""
    known: list[ClusterConnection] = []
    for element in elements:
        texts = [child.text for child in element.children.get("address", ())]
        connection = ClusterConnection(
            element.attributes.get("name") or "without a name",
            addresses=[each for each in _prefixes(next(iter(texts), None)) if each != "!"],
        )
        for other in known:
            prefix = common_prefix(other, connection)
            if prefix is not None:
                addresses = f"addresses that begin with {prefix!r}" if prefix else "addresses"
                findings.refuse(
                    element.place,
                    f"has {addresses} in common with cluster-connection {describe_name(other.name)!r}: a message could"
                    " arrive twice; exclude them in one of the two with !, or change its address",
                )
        known.append(connection)


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
