"""``cluster-connections``: by which connectors a broker is found, and finds the others.

Responsible for the one cluster connection that a broker has. Does not depend on the exchange between brokers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from embedbroker.config import ClusterConnection

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, attribute_of, built, required_attribute, store, value_of, values_of
from ._transports import connector_refs, is_connector
from ._values import boolean, number, text, whole

__all__ = ["cluster_connection"]

_FIELDS: Fields = {
    "check-period": ("check_period_ms", whole),
    "connection-ttl": ("connection_ttl_ms", whole),
    "call-timeout": ("call_timeout_ms", whole),
    "retry-interval": ("retry_interval_ms", whole),
    "retry-interval-multiplier": ("retry_interval_multiplier", number),
    "max-retry-interval": ("max_retry_interval_ms", whole),
    "notification-interval": ("notification_interval_ms", whole),
    "notification-attempts": ("notification_attempts", whole),
}


def cluster_connection(
    core: Element, wanted: str | None, connectors: Collection[str], findings: Findings
) -> ClusterConnection | None:
    """Return the cluster connection called ``wanted``, or the first one. The others are left for a warning."""
    holder = core.take("cluster-connections")
    candidates = [] if holder is None else holder.children.get("cluster-connection", [])
    named = [each for each in candidates if wanted is not None and each.attributes.get("name") == wanted]
    if holder is not None and wanted is not None and not named:
        findings.refuse(holder.place, f"there is no cluster-connection {wanted!r}, which the ha-policy names")
    chosen = next(iter(named or candidates), None)
    return None if chosen is None else _connection(chosen, connectors, findings)


def _connection(element: Element, connectors: Collection[str], findings: Findings) -> ClusterConnection | None:
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
    static = element.take("static-connectors")
    if static is not None:
        values["static_connectors"] = connector_refs(static, connectors, findings)
        only = attribute_of(static, "allow-direct-connections-only", boolean, findings)
        store(values, "allow_direct_connections_only", only, ClusterConnection, static.place, findings)
    return built(ClusterConnection, values, element.place, findings)
