"""The control ``divert``: one divert; and the operations of ``broker`` that create, change and remove diverts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from embedbroker.config import ADD_HEADERS, DivertConfiguration, DivertRoutingType
from embedbroker.kernel import Divert, Kernel
from embedclient.model import did_you_mean

from ._queue_requests import json_object
from ._registry import Attribute, Call, Control, Kind, ManagementRefused, Operation, Parameter, done

__all__ = ["DIVERT", "OPERATIONS", "added_properties", "divert_names", "divert_text"]

_FIELDS = (
    "name", "routing-name", "address", "forwarding-address", "exclusive", "filter-string", "transformer-configuration",
    "routing-type",
)  # fmt: skip
_SHOWN_MAX = 200
_TRUE, _FALSE = "true", "false"


def _of(call: Call) -> Divert:
    return call.kernel.diverts.by_name[call.name]


def divert_names(call: Call) -> list[str]:
    """Return the names of all diverts."""
    return list(call.kernel.diverts.by_name)


def divert_text(divert: Divert) -> str:
    """Describe a divert in a line."""
    made = divert.definition
    values = {
        "id": made.id,
        "name": made.name,
        "address": made.address,
        "forwardingAddress": made.forwarding_address,
        "exclusive": str(made.exclusive).lower(),
        "filter": made.filter,
    }
    return f"DivertBinding [{', '.join(f'{name}={value}' for name, value in values.items() if value is not None)}]"


def _class_name(call: Call) -> str | None:
    divert = _of(call)
    if divert.transformer is not None:
        return getattr(divert.transformer, "__qualname__", type(divert.transformer).__qualname__)
    return ADD_HEADERS if divert.definition.properties else None


def _properties(call: Call) -> dict[str, str]:
    return dict(_of(call).definition.properties)


def _properties_as_json(call: Call) -> str:
    return json.dumps(_properties(call), ensure_ascii=False, separators=(",", ":"))


_ATTRIBUTES = (
    Attribute("UniqueName", "String", lambda call: _of(call).name, "Name."),
    Attribute("RoutingName", "String", lambda call: _of(call).routing_name, "Diverts of one routing name take turns."),
    Attribute("Address", "String", lambda call: _of(call).definition.address, "Address whose messages it takes."),
    Attribute(
        "ForwardingAddress", "String", lambda call: _of(call).definition.forwarding_address, "Where they are sent."
    ),
    Attribute("Filter", "String", lambda call: _of(call).definition.filter, "Selector; null takes every message."),
    Attribute(
        "Exclusive",
        "boolean",
        lambda call: _of(call).definition.exclusive,
        "What it takes does not go to the queues of its address.",
    ),
    Attribute("RoutingType", "String", lambda call: _of(call).definition.routing_type, "Routing type of the copy."),
    Attribute("TransformerClassName", "String", _class_name, "Name of the transformer; null without one."),
    Attribute("TransformerProperties", "Map", _properties, "Properties added to the copy."),
    Attribute("TransformerPropertiesAsJSON", "String", _properties_as_json, "The same as JSON."),
    Attribute("RetroactiveResource", "boolean", lambda call: False, "Belongs to a retroactive address; none exists."),
)


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.diverts.by_name


DIVERT = Control("divert", _ATTRIBUTES, (), _exists)


# -- operations of the broker ----------------------------------------------------------------------------------------


def _routing_type(text: str | None) -> DivertRoutingType:
    name = text or "STRIP"
    if name not in DivertRoutingType.__members__:
        raise ManagementRefused(
            "No enum constant org.apache.activemq.artemis.core.server.ComponentConfigurationRoutingType."
            f"{name[:_SHOWN_MAX]}"
        )
    return DivertRoutingType[name]


def added_properties(class_name: str | None, properties: object) -> dict[str, str]:
    """Return the properties that a transformer adds. Other classes of Java do not exist here."""
    if class_name and class_name != ADD_HEADERS:
        raise ManagementRefused(
            f"the transformer {class_name[:_SHOWN_MAX]!r} is a class of Java; only {ADD_HEADERS} exists here"
        )
    if not class_name or properties is None:
        return {}
    if not isinstance(properties, Mapping):
        raise ManagementRefused("the properties of a transformer must be an object of JSON")
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()}


def _create(call: Call, name: str | None, **values: object) -> None:
    if not name:
        raise ManagementRefused("AMQ229015: Must specify a name for each divert. This one will not be deployed.")
    try:
        wanted = DivertConfiguration(**values)  # type: ignore[arg-type]  # the class checks each value
    except (TypeError, ValueError) as error:
        raise ManagementRefused(f"divert {name[:_SHOWN_MAX]!r}: {error}") from None
    done(call.session.addresses.create_divert(name, wanted))


def _create_by_position(
    call: Call,
    name: str | None,
    routing_name: str | None,
    address: str | None,
    forwarding_address: str | None,
    exclusive: bool | None,
    filter: str | None,
    class_name: str | None,
    *more: object,
) -> None:
    properties, routing_type = more if len(more) == 2 else (None, more[0] if more else None)
    assert routing_type is None or isinstance(routing_type, str)
    if isinstance(properties, str):
        properties = json_object(properties, "the properties of the transformer") if properties else None
    _create(
        call,
        name,
        address=address,
        forwarding_address=forwarding_address,
        routing_name=routing_name or None,
        exclusive=bool(exclusive),
        filter=filter or None,
        routing_type=_routing_type(routing_type),
        properties=added_properties(class_name, properties),
    )


def _fields(text: str | None) -> dict[str, object]:
    fields = json_object(text, "the divert configuration")
    for key in fields:
        if key not in _FIELDS:
            shown = key[:_SHOWN_MAX]
            raise ManagementRefused(
                f"the divert configuration has an unknown field {shown!r}{did_you_mean(key, set(_FIELDS))}"
            )
    exclusive = fields.get("exclusive")
    if isinstance(exclusive, str) and exclusive.lower() in (_TRUE, _FALSE):
        fields["exclusive"] = exclusive.lower() == _TRUE
    for key in ("name", "routing-type"):
        if not isinstance(fields.get(key), str | None):
            raise ManagementRefused(f"field {key!r} of the divert configuration must be a text")
    return fields


def _of_transformer(fields: Mapping[str, object]) -> dict[str, str]:
    given = fields.get("transformer-configuration")
    if isinstance(given, str):
        given = json_object(given, "the transformer configuration")
    if given is None:
        return {}
    class_name = given.get("class-name") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(class_name, str):
        raise ManagementRefused("the transformer configuration must be an object of JSON with a class-name")
    return added_properties(class_name, given.get("properties"))


def _create_from_json(call: Call, text: str | None) -> None:
    fields = _fields(text)
    name, routing_type = fields.get("name"), fields.get("routing-type")
    assert isinstance(name, str | None) and isinstance(routing_type, str | None)
    _create(
        call,
        name,
        address=fields.get("address"),
        forwarding_address=fields.get("forwarding-address"),
        routing_name=fields.get("routing-name") or None,
        exclusive=fields.get("exclusive") or False,
        filter=fields.get("filter-string") or None,
        routing_type=_routing_type(routing_type),
        properties=_of_transformer(fields),
    )


def _update(
    call: Call,
    name: str | None,
    forwarding_address: str | None,
    filter: str | None,
    class_name: str | None,
    properties: Mapping[str, object] | None,
    routing_type: str | None,
) -> None:
    if name is None or name not in call.kernel.diverts.by_name:
        raise ManagementRefused(f"AMQ229231: Divert Does Not Exist: {(name or '')[:_SHOWN_MAX]}")
    done(
        call.session.addresses.update_divert(
            name,
            forwarding_address=forwarding_address,
            filter=filter,
            properties=added_properties(class_name, properties) if class_name else None,
            routing_type=None if routing_type is None else _routing_type(routing_type).value,
        )
    )


def _update_from_json(call: Call, text: str | None) -> None:
    fields = _fields(text)
    texts: dict[str, str | None] = {}
    for key in ("name", "forwarding-address", "filter-string", "routing-type"):
        value = fields.get(key)
        if not isinstance(value, str | None):
            raise ManagementRefused(f"field {key!r} of the divert configuration must be a text")
        texts[key] = value
    has_transformer = fields.get("transformer-configuration") is not None
    _update(
        call,
        texts["name"],
        texts["forwarding-address"],
        texts["filter-string"],
        ADD_HEADERS if has_transformer else None,
        _of_transformer(fields),
        texts["routing-type"],
    )


def _destroy(call: Call, name: str | None) -> None:
    if name is not None and name in call.kernel.address_manager.queues:
        raise ManagementRefused(f"AMQ229013: Binding {name[:_SHOWN_MAX]} is not a divert")
    if name is None or name not in call.kernel.diverts.by_name:
        raise ManagementRefused(f"AMQ229012: No binding for divert {(name or '')[:_SHOWN_MAX]}")
    done(call.session.addresses.remove_divert(name))


_NAME = Parameter("name", Kind.TEXT)
_JSON = Parameter("configuration", Kind.TEXT)
_TYPE = Parameter("routingType", Kind.TEXT)
_FORWARDING = Parameter("forwardingAddress", Kind.TEXT)
_FILTER = Parameter("filterString", Kind.TEXT)
_CLASS = Parameter("transformerClassName", Kind.TEXT)
_MAP = Parameter("transformerProperties", Kind.MAP)
_PLAIN = (
    _NAME,
    Parameter("routingName", Kind.TEXT),
    Parameter("address", Kind.TEXT),
    _FORWARDING,
    Parameter("exclusive", Kind.BOOLEAN),
    _FILTER,
    _CLASS,
)

OPERATIONS = (
    Operation("createDivert", (_JSON,), "void", _create_from_json, "Create a divert from JSON.", changes=True),
    Operation("createDivert", _PLAIN, "void", _create_by_position, "Create a divert.", changes=True),
    Operation("createDivert", (*_PLAIN, _TYPE), "void", _create_by_position, "Create a divert.", changes=True),
    Operation(
        "createDivert",
        (*_PLAIN, Parameter("transformerPropertiesAsJSON", Kind.TEXT), _TYPE),
        "void",
        _create_by_position,
        "Create a divert that adds properties, given as JSON.",
        changes=True,
    ),
    Operation(
        "createDivert",
        (*_PLAIN, _MAP, _TYPE),
        "void",
        _create_by_position,
        "Create a divert that adds properties.",
        changes=True,
    ),
    Operation("updateDivert", (_JSON,), "void", _update_from_json, "Change a divert from JSON.", changes=True),
    Operation(
        "updateDivert",
        (_NAME, _FORWARDING, _FILTER, _CLASS, _MAP, _TYPE),
        "void",
        _update,
        "Change a divert; null keeps a value, but removes the filter.",
        changes=True,
    ),
    Operation("listDivertNames", (), "String[]", divert_names, "Names of all diverts."),
    Operation("destroyDivert", (_NAME,), "void", _destroy, "Remove a divert.", changes=True),
)
