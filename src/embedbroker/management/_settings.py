"""Operations of ``broker`` on address settings and security settings of a running broker.

Responsible for the names and the JSON of Artemis. Does not depend on how settings survive a restart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import fields

from embedbroker.config import AddressFullPolicy, AddressSettings, SecuritySetting
from embedclient.model import did_you_mean

from ._queue_requests import json_object
from ._registry import Call, Kind, ManagementRefused, Operation, Parameter
from ._texts import ROUTING_TYPES

__all__ = ["SETTINGS_OPERATIONS"]

_SHOWN_MAX = 200
_RENAMED = {
    "redelivery_delay_multiplier": "redeliveryMultiplier",
    "address_full_policy": "addressFullMessagePolicy",
    "send_to_dla_on_no_route": "sendToDLAOnNoRoute",
}
_POLICIES = {"BLOCK": AddressFullPolicy.BLOCK, "FAIL": AddressFullPolicy.FAIL}
_DELETION = {"OFF": False, "FORCE": True}
# Role lists in the order of Artemis' parameters.
_PERMISSIONS = (
    "send", "consume", "create_durable_queue", "delete_durable_queue", "create_non_durable_queue",
    "delete_non_durable_queue", "manage", "browse", "create_address", "delete_address", "view", "edit",
)  # fmt: skip


def _java_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_NAMES = {each.name: _RENAMED.get(each.name, _java_name(each.name)) for each in fields(AddressSettings)}
_FIELDS = {shown: name for name, shown in _NAMES.items()}


# -- address settings ------------------------------------------------------------------------------------------------


def _shown(name: str, value: object) -> object:
    if isinstance(value, AddressFullPolicy):
        return value.value
    if name == "default_queue_routing_type" and isinstance(value, int):
        return ROUTING_TYPES[value]
    if name == "config_delete_diverts":
        return "FORCE" if value else "OFF"
    return value


def _as_json(settings: AddressSettings) -> str:
    values = {shown: getattr(settings, name) for name, shown in _NAMES.items()}
    rows = {shown: _shown(_FIELDS[shown], value) for shown, value in values.items() if value is not None}
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _value(name: str, shown: str, value: object) -> object:
    words: dict[str, object] | None = None
    if name == "address_full_policy":
        words = dict(_POLICIES)
    elif name == "default_queue_routing_type":
        words = {word: number for number, word in enumerate(ROUTING_TYPES)}
    elif name == "config_delete_diverts":
        words = dict(_DELETION)
    if words is None or value is None:
        return value
    if not isinstance(value, str) or value not in words:
        raise ManagementRefused(f"the address settings: {shown} must be one of {', '.join(words)}, not {value!r:.200}")
    return words[value]


def _settings_of(text: str | None) -> AddressSettings:
    given = json_object(text, "the configuration of address settings")
    for shown in given:
        if shown not in _FIELDS:
            hint = did_you_mean(shown, set(_FIELDS))
            raise ManagementRefused(f"the address settings have an unknown or unavailable field {shown[:200]!r}{hint}")
    values = {_FIELDS[shown]: _value(_FIELDS[shown], shown, value) for shown, value in given.items()}
    try:
        return AddressSettings(**values)  # type: ignore[arg-type]  # the class checks each value
    except (TypeError, ValueError) as error:
        raise ManagementRefused(f"the address settings: {error}"[:_SHOWN_MAX]) from None


def _get_address(call: Call, address: str | None) -> str:
    return _as_json(call.kernel.settings.given(address or ""))


def _add_address(call: Call, match: str | None, text: str | None) -> str:
    settings = _settings_of(text)
    try:
        call.kernel.settings_table.set_address(match or "", settings)
    except ValueError as error:
        raise ManagementRefused(str(error)[:_SHOWN_MAX]) from None
    # As at the start: what is moved there would be lost.
    call.kernel.address_manager.provide_targets(settings)
    return _as_json(settings)


def _remove_address(call: Call, match: str | None) -> None:
    call.kernel.settings_table.remove_address(match or "")


# -- security settings -----------------------------------------------------------------------------------------------


def _rows(call: Call, match: str | None) -> list[list[object]]:
    """Return name and permissions of each role of the settings that apply to an address."""
    setting = call.kernel.settings_table.security_of(match or "")
    if setting is None:
        return []
    lists = [getattr(setting, permission) for permission in _PERMISSIONS]
    return [[role, *(role in names for names in lists)] for role in sorted(frozenset().union(*lists))]


def _roles(call: Call, match: str | None) -> list[list[object]]:
    return _rows(call, match)


def _roles_as_json(call: Call, match: str | None) -> str:
    titles = ("name", *map(_java_name, _PERMISSIONS))
    rows = [dict(zip(titles, row, strict=True)) for row in _rows(call, match)]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _add_security(call: Call, match: str | None, *lists: str | None) -> None:
    roles: Sequence[list[str]] = [(text or "").replace(",", " ").split() for text in lists]
    values = dict(zip(_PERMISSIONS[: len(roles)], roles, strict=True))
    try:
        call.kernel.settings_table.set_security(match or "", SecuritySetting(**values))
    except ValueError as error:
        raise ManagementRefused(str(error)[:_SHOWN_MAX]) from None


def _remove_security(call: Call, match: str | None) -> None:
    call.kernel.settings_table.remove_security(match or "")


_ADDRESS = Parameter("address", Kind.TEXT)
_MATCH = Parameter("addressMatch", Kind.TEXT)
_LISTS = tuple(Parameter(f"{_java_name(permission)}Roles", Kind.TEXT) for permission in _PERMISSIONS)

SETTINGS_OPERATIONS = (
    Operation(
        "getAddressSettingsAsJSON", (_ADDRESS,), "String", _get_address, "Settings of an address that a match sets."
    ),
    Operation(
        "addAddressSettings",
        (_MATCH, Parameter("addressSettings", Kind.TEXT)),
        "String",
        _add_address,
        "Replace the settings of a match from JSON; return them. They survive a restart.",
        changes=True,
    ),
    Operation(
        "removeAddressSettings",
        (_MATCH,),
        "void",
        _remove_address,
        "Remove the settings of a match. Those of the configuration are back after a restart.",
        changes=True,
    ),
    Operation("getRoles", (_ADDRESS,), "Object[]", _roles, "Roles of an address with their permissions."),
    Operation("getRolesAsJSON", (_ADDRESS,), "String", _roles_as_json, "The same as JSON."),
    *(
        Operation(
            "addSecuritySettings",
            (_MATCH, *_LISTS[:count]),
            "void",
            _add_security,
            "Replace the permissions of a match: lists of roles with commas. They survive a restart.",
            changes=True,
        )
        for count in (7, 8, 10, 12)
    ),
    Operation(
        "removeSecuritySettings",
        (_MATCH,),
        "void",
        _remove_security,
        "Remove the permissions of a match. Those of the configuration are back after a restart.",
        changes=True,
    ),
)
