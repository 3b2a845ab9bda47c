"""The control ``bridge``: one bridge to another broker.

Responsible for the attributes and operations of Artemis, and for pause and resume, which only this broker has. Does not
depend on connections: a `BridgeView` is all that is seen of a bridge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from embedbroker.config import ADD_HEADERS
from embedbroker.kernel import BridgeView, Kernel

from ._registry import Attribute, Call, Control, ManagementRefused, Operation

__all__ = ["BRIDGE", "bridge_names"]


def _of(call: Call) -> BridgeView:
    return call.kernel.bridges.running[call.name]


def bridge_names(call: Call) -> list[str]:
    """Return the names of all bridges."""
    return list(call.kernel.bridges.running)


def _transformer(call: Call) -> str | None:
    config = _of(call).config
    transformer = config.transformer
    if transformer is not None:
        return getattr(transformer, "__qualname__", type(transformer).__qualname__)
    return ADD_HEADERS if config.properties else None


def _properties(call: Call) -> dict[str, str]:
    return dict(_of(call).config.properties)


def _properties_as_json(call: Call) -> str:
    return json.dumps(_properties(call), ensure_ascii=False, separators=(",", ":"))


def _metrics(call: Call) -> Mapping[str, int]:
    bridge = _of(call)
    return {"messagesPendingAcknowledgement": bridge.pending_count, "messagesAcknowledged": bridge.acknowledged_count}


def _switch(call: Call, switch: Callable[[], str | None], line: str) -> None:
    refused = switch()
    if refused is not None:
        raise ManagementRefused(refused)
    call.kernel.inform(f"management: {call.caller} {line} bridge {call.name!r}")


def _start(call: Call) -> None:
    _switch(call, _of(call).start, "started")


def _stop(call: Call) -> None:
    _switch(call, _of(call).stop, "stopped")


def _pause(call: Call) -> None:
    _switch(call, _of(call).pause, "paused")


def _resume(call: Call) -> None:
    _switch(call, _of(call).resume, "resumed")


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.bridges.running


BRIDGE = Control(
    "bridge",
    (
        Attribute("Name", "String", lambda call: call.name, "Name."),
        Attribute("QueueName", "String", lambda call: _of(call).config.queue, "Queue whose messages it takes."),
        Attribute(
            "ForwardingAddress",
            "String",
            lambda call: _of(call).config.forwarding_address,
            "Address at the other broker; null: that of each message.",
        ),
        Attribute(
            "FilterString", "String", lambda call: _of(call).config.filter, "Selector; null takes every message."
        ),
        Attribute("TransformerClassName", "String", _transformer, "Name of the transformer; null without one."),
        Attribute("TransformerProperties", "Map", _properties, "Properties added to each message."),
        Attribute("TransformerPropertiesAsJSON", "String", _properties_as_json, "The same as JSON."),
        Attribute(
            "StaticConnectors",
            "String[]",
            lambda call: list(_of(call).config.static_connectors),
            "Connectors of the other broker.",
        ),
        Attribute(
            "DiscoveryGroupName",
            "String",
            lambda call: _of(call).config.discovery_group,
            "Discovery group of the other broker; null without one.",
        ),
        Attribute(
            "RetryInterval", "long", lambda call: _of(call).config.retry_interval_ms, "Pause before a retry, in ms."
        ),
        Attribute(
            "RetryIntervalMultiplier",
            "double",
            lambda call: _of(call).config.retry_interval_multiplier,
            "Factor by which that pause grows.",
        ),
        Attribute(
            "MaxRetryInterval",
            "long",
            lambda call: _of(call).config.max_retry_interval_ms,
            "Longest such pause, in ms.",
        ),
        Attribute(
            "ReconnectAttempts",
            "int",
            lambda call: _of(call).config.reconnect_attempts,
            "Repeated attempts after a lost connection; -1: no limit.",
        ),
        Attribute(
            "UseDuplicateDetection",
            "boolean",
            lambda call: _of(call).config.use_duplicate_detection,
            "Messages carry an id by which repeated ones are dropped.",
        ),
        Attribute("HA", "boolean", lambda call: _of(call).config.ha, "It follows the other broker to its backup."),
        Attribute("Started", "boolean", lambda call: _of(call).is_started, "It is started."),
        Attribute("Connected", "boolean", lambda call: _of(call).is_connected, "It has a connection and sends."),
        Attribute(
            "MessagesPendingAcknowledgement", "long", lambda call: _of(call).pending_count, "Sent and not confirmed."
        ),
        Attribute(
            "MessagesAcknowledged", "long", lambda call: _of(call).acknowledged_count, "Confirmed since its start."
        ),
        Attribute("Metrics", "Map", _metrics, "Both figures together."),
    ),
    (
        Operation("start", (), "void", _start, "Start it, or try again after it gave up.", changes=True),
        Operation("stop", (), "void", _stop, "Stop it; what was sent has a time to be confirmed.", changes=True),
        Operation("pause", (), "void", _pause, "Stop it for a while, as `stop` does.", changes=True),
        Operation("resume", (), "void", _resume, "Start it again after a pause.", changes=True),
    ),
    _exists,
)
