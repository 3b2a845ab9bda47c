"""The control ``clusterconnection``: the bridges of a broker to the other members of its cluster.

Responsible for the attributes and operations of Artemis, and for the members that were given up, which only this broker
has. Does not depend on connections: a `ClusterConnectionView` is all that is seen of a cluster connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from embedbroker.kernel import ClusterConnectionView, Kernel

from ._registry import Attribute, Call, Control, Kind, Operation, Parameter

__all__ = ["CLUSTER_CONNECTION", "cluster_connection_names"]


def _of(call: Call) -> ClusterConnectionView:
    return call.kernel.cluster_connections[call.name]


def cluster_connection_names(call: Call) -> list[str]:
    """Return the names of all cluster connections."""
    return list(call.kernel.cluster_connections)


def _connectors_as_json(call: Call) -> str:
    return json.dumps(list(_of(call).settings.static_connectors), ensure_ascii=False, separators=(",", ":"))


def _total(call: Call) -> tuple[int, int]:
    return _of(call).counts() or (0, 0)


def _metrics(counts: tuple[int, int] | None) -> Mapping[str, int] | None:
    if counts is None:
        return None
    return {"messagesPendingAcknowledgement": counts[0], "messagesAcknowledged": counts[1]}


def _metrics_of_bridge(call: Call, node_id: str | None) -> Mapping[str, int] | None:
    return _metrics(_of(call).counts(node_id)) if node_id is not None else None


def _start(call: Call) -> None:
    _of(call).start()
    call.kernel.inform(f"management: {call.caller} started cluster connection {call.name!r}")


def _stop(call: Call) -> None:
    _of(call).stop()
    call.kernel.inform(f"management: {call.caller} stopped cluster connection {call.name!r}")


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.cluster_connections


CLUSTER_CONNECTION = Control(
    "clusterconnection",
    (
        Attribute("Name", "String", lambda call: call.name, "Name."),
        Attribute(
            "Address",
            "String",
            lambda call: ",".join(_of(call).settings.addresses),
            "Prefixes of the addresses that it forwards, `!` excludes one; empty: all.",
        ),
        Attribute("NodeID", "String", lambda call: call.broker.node_id, "Node id of this broker."),
        Attribute(
            "DuplicateDetection",
            "boolean",
            lambda call: _of(call).settings.use_duplicate_detection,
            "Messages carry an id by which repeated ones are dropped.",
        ),
        Attribute(
            "MessageLoadBalancingType",
            "String",
            lambda call: _of(call).settings.message_load_balancing.value,
            "`OFF`, `STRICT`, `ON_DEMAND` or `OFF_WITH_REDISTRIBUTION`.",
        ),
        Attribute("Topology", "String", lambda call: _of(call).describe_topology(), "All members of the cluster."),
        Attribute("MaxHops", "int", lambda call: _of(call).settings.max_hops, "Longest way of a message, in brokers."),
        Attribute(
            "StaticConnectors",
            "String[]",
            lambda call: list(_of(call).settings.static_connectors),
            "Connectors by which it finds the others.",
        ),
        Attribute("StaticConnectorsAsJSON", "String", _connectors_as_json, "The same as JSON."),
        Attribute(
            "DiscoveryGroupName",
            "String",
            lambda call: getattr(_of(call).settings, "discovery_group", None),
            "Discovery group by which it finds the others; null without one.",
        ),
        Attribute(
            "RetryInterval", "long", lambda call: _of(call).settings.retry_interval_ms, "Pause before a retry, in ms."
        ),
        Attribute(
            "Nodes",
            "Map",
            lambda call: _of(call).connected_nodes,
            "Places of the members to which there is a connection, by node id.",
        ),
        Attribute(
            "NodesDown",
            "String[]",
            lambda call: _of(call).nodes_down,
            "Members that were given up, until they announce themselves again. Not in Artemis.",
        ),
        Attribute("Started", "boolean", lambda call: _of(call).is_started, "It bridges to the other members."),
        Attribute("MessagesPendingAcknowledgement", "long", lambda call: _total(call)[0], "Sent and not confirmed."),
        Attribute("MessagesAcknowledged", "long", lambda call: _total(call)[1], "Confirmed by members with a bridge."),
        Attribute("Metrics", "Map", lambda call: _metrics(_total(call)), "Both figures together."),
    ),
    (
        Operation(
            "getBridgeMetrics",
            (Parameter("nodeId", Kind.TEXT),),
            "Map",
            _metrics_of_bridge,
            "Return the figures of one member; null without a bridge to it.",
        ),
        Operation("start", (), "void", _start, "Bridge to the members again after a stop.", changes=True),
        Operation("stop", (), "void", _stop, "End all bridges: nothing goes to other members.", changes=True),
    ),
    _exists,
)
