"""Operations of ``broker`` that create and destroy bridges, and add and remove the connectors that bridges name.

Responsible for the names and the JSON of Artemis, and for its forms with many positions. Does not depend on connections
and on how a bridge survives a restart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from embedbroker.config import BridgeConfig, BridgeRoutingType
from embedbroker.kernel import Permission
from embedclient.model import did_you_mean

from ._diverts import added_properties
from ._queue_requests import json_object
from ._registry import Call, Kind, ManagementRefused, Operation, Parameter, done

__all__ = ["BRIDGE_OPERATIONS"]

_SHOWN_MAX = 300
_TRUE, _FALSE = "true", "false"
# Settings that Artemis prints, and that have no effect in a request here.
_WITHOUT_EFFECT = {"configuration-managed", "call-timeout"}


def _flag(value: object) -> bool:
    if isinstance(value, str) and value.lower() in (_TRUE, _FALSE):
        return value.lower() == _TRUE
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _whole(value: object) -> int:
    if isinstance(value, str):
        try:
            return int(value) if len(value) <= 20 else int("")
        except ValueError:
            raise ValueError(f"must be a whole number, not {_shown(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be a whole number, not {_shown(value)}")
    return value


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else float("")
    except (ValueError, OverflowError):
        raise ValueError(f"must be a number, not {_shown(value)}") from None


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {_shown(value)}")
    return value or None


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("must be a JSON array of names of connectors")
    return value


def _routing_type(value: object) -> BridgeRoutingType:
    if not isinstance(value, str) or value not in BridgeRoutingType.__members__:
        raise ValueError(f"must be one of {', '.join(BridgeRoutingType.__members__)}, not {_shown(value)}")
    return BridgeRoutingType[value]


def _transformer(value: object) -> dict[str, str]:
    if isinstance(value, str):
        value = json_object(value, "the transformer configuration")
    class_name = value.get("class-name") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(class_name, str):
        raise ValueError("must be an object of JSON with a class-name")
    return added_properties(class_name, value.get("properties"))


def _shown(value: object) -> str:
    return json.dumps(value)[:_SHOWN_MAX] if isinstance(value, str | int | float | None) else type(value).__name__


_Read = Callable[[object], object]
# Field of the JSON: field of the class, and how it is read. Artemis takes numbers and flags as texts, too.
_FIELDS: Mapping[str, tuple[str, _Read]] = {
    "name": ("name", _text),
    "queue-name": ("queue", _text),
    "forwarding-address": ("forwarding_address", _text),
    "filter-string": ("filter", _text),
    "static-connectors": ("static_connectors", _names),
    "discovery-group-name": ("discovery_group", _text),
    "ha": ("ha", _flag),
    "transformer-configuration": ("properties", _transformer),
    "retry-interval": ("retry_interval_ms", _whole),
    "retry-interval-multiplier": ("retry_interval_multiplier", _number),
    "initial-connect-attempts": ("initial_connect_attempts", _whole),
    "reconnect-attempts": ("reconnect_attempts", _whole),
    "reconnect-attempts-on-same-node": ("reconnect_attempts_same_node", _whole),
    "use-duplicate-detection": ("use_duplicate_detection", _flag),
    "confirmation-window-size": ("confirmation_window_size", _whole),
    "producer-window-size": ("producer_window_size", _whole),
    "client-failure-check-period": ("check_period_ms", _whole),
    "user": ("user", _text),
    "password": ("password", _text),
    "connection-ttl": ("connection_ttl_ms", _whole),
    "max-retry-interval": ("max_retry_interval_ms", _whole),
    "min-large-message-size": ("min_large_message_size", _whole),
    "routing-type": ("routing_type", _routing_type),
    "concurrency": ("concurrency", _whole),
    "pending-ack-timeout": ("pending_ack_timeout_ms", _whole),
    "client-id": ("client_id", _text),
}


def _create_from_json(call: Call, text: str | None) -> None:
    fields = json_object(text, "the bridge configuration")
    known = {*_FIELDS, *_WITHOUT_EFFECT}
    values: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in known:
            shown = key[:_SHOWN_MAX]
            raise ManagementRefused(
                f"the bridge configuration has an unknown field {shown!r}{did_you_mean(key, known)}"
            )
        if key in _WITHOUT_EFFECT or value is None:
            continue
        name, read = _FIELDS[key]
        try:
            found = read(value)
        except ValueError as error:
            raise ManagementRefused(f"field {key!r} of the bridge configuration {error}") from None
        if name and found is not None:
            values[name] = found
    _create(call, values)


def _create(call: Call, values: dict[str, Any]) -> None:
    for name, key in (("name", "name"), ("queue", "queue-name")):
        if not values.get(name):
            raise ManagementRefused(f"the bridge configuration has no {key}")
    if not values.get("static_connectors") and not values.get("discovery_group"):
        raise ManagementRefused("the bridge configuration has no static-connectors and no discovery-group-name")
    try:
        config = BridgeConfig(**values)
    except (TypeError, ValueError) as error:
        raise ManagementRefused(f"bridge {values['name']!r:.200}: {error!s:.300}") from None
    # A bridge takes messages, as a consumer does.
    done(call.session.addresses.use_queue(config.queue, Permission.CONSUME))
    done(call.kernel.bridges.create(config))
    call.kernel.inform(f"management: {call.caller} created bridge {config.name!r}")


def _create_by_position(call: Call, *arguments: Any, parameters: tuple[Parameter, ...]) -> None:
    given = {parameter.name: argument for parameter, argument in zip(parameters, arguments, strict=True)}
    properties = given.get("transformerProperties") or given.get("transformerPropertiesAsJSON")
    if isinstance(properties, str):
        properties = json_object(properties, "the properties of the transformer")
    values = {
        _POSITIONS[name]: value for name, value in given.items() if name in _POSITIONS and value not in (None, "")
    }
    names = given["staticConnectorNames"] or ""
    if given["useDiscoveryGroup"]:
        values["discovery_group"] = names.strip() or None
    else:
        values["static_connectors"] = [name for each in names.split(",") if (name := each.strip())]
    values["properties"] = added_properties(given["transformerClassName"], properties)
    if "retry_interval_multiplier" in values:
        values["retry_interval_multiplier"] = _number(values["retry_interval_multiplier"])
    _create(call, values)


def _destroy(call: Call, name: str | None) -> None:
    done(call.kernel.bridges.remove(name or ""))
    call.kernel.inform(f"management: {call.caller} destroyed bridge {name!r}")


# -- connectors ------------------------------------------------------------------------------------------------------


def _add_connector(call: Call, name: str | None, url: str | None) -> None:
    if not name:
        raise ManagementRefused("a connector needs a name")
    try:
        call.kernel.bridges.add_connector(name, url or "")
    except ValueError as error:
        raise ManagementRefused(str(error)[:_SHOWN_MAX]) from None
    call.kernel.inform(f"management: {call.caller} added connector {name!r}")


def _remove_connector(call: Call, name: str | None) -> None:
    done(call.kernel.bridges.remove_connector(name or ""))
    call.kernel.inform(f"management: {call.caller} removed connector {name!r}")


# Parameter of the forms with positions: field of the class.
_POSITIONS = {
    "name": "name",
    "queueName": "queue",
    "forwardingAddress": "forwarding_address",
    "filterString": "filter",
    "retryInterval": "retry_interval_ms",
    "retryIntervalMultiplier": "retry_interval_multiplier",
    "initialConnectAttempts": "initial_connect_attempts",
    "reconnectAttempts": "reconnect_attempts",
    "useDuplicateDetection": "use_duplicate_detection",
    "confirmationWindowSize": "confirmation_window_size",
    "producerWindowSize": "producer_window_size",
    "clientFailureCheckPeriod": "check_period_ms",
    "ha": "ha",
    "user": "user",
    "password": "password",
}
_NAME = Parameter("name", Kind.TEXT)
_FIRST = (
    _NAME,
    Parameter("queueName", Kind.TEXT),
    Parameter("forwardingAddress", Kind.TEXT),
    Parameter("filterString", Kind.TEXT),
    Parameter("transformerClassName", Kind.TEXT),
)
_RETRIES = (
    Parameter("retryInterval", Kind.LONG),
    Parameter("retryIntervalMultiplier", Kind.DOUBLE),
    Parameter("initialConnectAttempts", Kind.INTEGER),
    Parameter("reconnectAttempts", Kind.INTEGER),
    Parameter("useDuplicateDetection", Kind.BOOLEAN),
    Parameter("confirmationWindowSize", Kind.INTEGER),
)
_WINDOW = Parameter("producerWindowSize", Kind.INTEGER)
_LAST = (
    Parameter("clientFailureCheckPeriod", Kind.LONG),
    Parameter("staticConnectorNames", Kind.TEXT),
    Parameter("useDiscoveryGroup", Kind.BOOLEAN),
    Parameter("ha", Kind.BOOLEAN),
    Parameter("user", Kind.TEXT),
    Parameter("password", Kind.TEXT),
)
_MAP = Parameter("transformerProperties", Kind.MAP)
_MAP_TEXT = Parameter("transformerPropertiesAsJSON", Kind.TEXT)


def _by_position(*parameters: Parameter, meaning: str) -> Operation:
    def run(call: Call, *arguments: object) -> None:
        _create_by_position(call, *arguments, parameters=parameters)

    return Operation("createBridge", parameters, "void", run, meaning, changes=True)


BRIDGE_OPERATIONS = (
    Operation(
        "createBridge",
        (Parameter("bridgeConfiguration", Kind.TEXT),),
        "void",
        _create_from_json,
        "Create a bridge from JSON.",
        changes=True,
    ),
    _by_position(*_FIRST, *_RETRIES, *_LAST, meaning="Create a bridge."),
    _by_position(*_FIRST, *_RETRIES, _WINDOW, *_LAST, meaning="Create a bridge."),
    _by_position(*_FIRST, _MAP, *_RETRIES, _WINDOW, *_LAST, meaning="Create a bridge that adds properties."),
    _by_position(
        *_FIRST,
        _MAP_TEXT,
        *_RETRIES,
        _WINDOW,
        *_LAST,
        meaning="Create a bridge that adds properties, given as JSON.",
    ),
    Operation("destroyBridge", (_NAME,), "void", _destroy, "End a bridge, and forget it.", changes=True),
    Operation(
        "addConnector",
        (_NAME, Parameter("url", Kind.TEXT)),
        "void",
        _add_connector,
        "Add a connector, or replace one, for bridges that are created later.",
        changes=True,
    ),
    Operation("removeConnector", (_NAME,), "void", _remove_connector, "Forget a connector.", changes=True),
)
