"""``bridges``: the bridges to other brokers.

Responsible for their elements. Does not depend on the grammar of filters.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from embedbroker.config import BridgeConfig, BridgeRoutingType

from ._discovery import discovery_group_ref
from ._diverts import transformer_properties
from ._document import Element
from ._findings import Findings
from ._mapping import Fields, built, named_once, required_attribute, store, values_of
from ._security import Codec
from ._transports import connector_refs
from ._values import boolean, number, one_of, size, text, whole

__all__ = ["bridges"]

_FIELDS: Fields = {
    "queue-name": ("queue", text),
    "forwarding-address": ("forwarding_address", text),
    "routing-type": ("routing_type", one_of(BridgeRoutingType.__members__)),
    "user": ("user", text),
    "client-id": ("client_id", text),
    "ha": ("ha", boolean),
    "concurrency": ("concurrency", whole),
    "use-duplicate-detection": ("use_duplicate_detection", boolean),
    "confirmation-window-size": ("confirmation_window_size", size),
    "producer-window-size": ("producer_window_size", size),
    "min-large-message-size": ("min_large_message_size", size),
    "check-period": ("check_period_ms", whole),
    "connection-ttl": ("connection_ttl_ms", whole),
    "retry-interval": ("retry_interval_ms", whole),
    "retry-interval-multiplier": ("retry_interval_multiplier", number),
    "max-retry-interval": ("max_retry_interval_ms", whole),
    "initial-connect-attempts": ("initial_connect_attempts", whole),
    "reconnect-attempts": ("reconnect_attempts", whole),
    "reconnect-attempts-same-node": ("reconnect_attempts_same_node", whole),
    "pending-ack-timeout": ("pending_ack_timeout_ms", whole),
}


def bridges(
    core: Element, connectors: Collection[str], groups: Collection[str], codec: Codec, findings: Findings
) -> tuple[BridgeConfig, ...]:
    """Return all bridges."""
    found: list[BridgeConfig] = []
    names: dict[str, BridgeConfig] = {}
    holder = core.take("bridges")
    for element in [] if holder is None else holder.take_all("bridge"):
        bridge = _bridge(element, connectors, groups, codec, findings)
        if bridge is not None:
            found.append(bridge)
            for each in bridge.each():
                named_once(names, each.name, each, element.place, findings)
    return tuple(found)


def _bridge(
    element: Element, connectors: Collection[str], groups: Collection[str], codec: Codec, findings: Findings
) -> BridgeConfig | None:
    errors_before = len(findings.errors)
    values: dict[str, Any] = values_of(element, _FIELDS, BridgeConfig, findings)
    store(values, "name", required_attribute(element, "name", findings), BridgeConfig, element.place, findings)
    selector = element.take("filter")
    if selector is not None:
        is_empty = selector.attribute("string") == ""
        values["filter"] = None if is_empty else required_attribute(selector, "string", findings)
    password = element.take("password")
    if password is not None:
        store(values, "password", codec.password(password), BridgeConfig, password.place, findings)
    values["properties"] = transformer_properties(element, "BridgeConfig", findings)
    static = element.take("static-connectors")
    if static is not None:
        values["static_connectors"] = connector_refs(static, connectors, findings)
    discovery_group_ref(element, values, BridgeConfig, groups, findings)
    missing = ["queue-name"] if "queue" not in values else []
    if "static_connectors" not in values and "discovery_group" not in values:
        missing.append("static-connectors or discovery-group-ref")
    if missing:
        findings.refuse(element.place, f"has no {' and no '.join(missing)}")
    if len(findings.errors) > errors_before:
        return None
    return built(BridgeConfig, values, element.place, findings)
