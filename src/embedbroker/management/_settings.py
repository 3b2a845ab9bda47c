"""Operations of ``broker`` on address settings and security settings of a running broker.

Responsible for the names and the JSON of Artemis. Does not depend on how settings survive a restart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from embedbroker.config import (
    PERMISSIONS,
    AddressSettings,
    SecuritySetting,
    address_settings_as_json,
    address_settings_of_json,
)

from ._queue_requests import json_object
from ._registry import Call, Kind, ManagementRefused, Operation, Parameter

__all__ = ["SETTINGS_OPERATIONS", "roles_as_json", "roles_of"]

_REFUSAL_MAX = 300


# -- address settings ------------------------------------------------------------------------------------------------


def _as_json(settings: AddressSettings) -> str:
    return json.dumps(address_settings_as_json(settings), ensure_ascii=False, separators=(",", ":"))


def _settings_of(text: str | None) -> AddressSettings:
    given = json_object(text, "the configuration of address settings")
    try:
        return address_settings_of_json(given)
    except ValueError as error:
        raise ManagementRefused(_cut(error)) from None


def _cut(error: ValueError) -> str:
    return str(error)[:_REFUSAL_MAX]


def _get_address(call: Call, address: str | None) -> str:
    return _as_json(call.kernel.settings.given(address or ""))


def _add_address(call: Call, match: str | None, text: str | None) -> str:
    settings = _settings_of(text)
    try:
        call.kernel.settings_table.set_address(match or "", settings)
    except ValueError as error:
        raise ManagementRefused(_cut(error)) from None
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
    lists = [getattr(setting, permission) for permission in PERMISSIONS]
    return [[role, *(role in names for names in lists)] for role in sorted(frozenset().union(*lists))]


def roles_of(call: Call, match: str | None) -> list[list[object]]:
    """Return the roles of an address, each with its permissions in the order of Artemis."""
    return _rows(call, match)


def roles_as_json(call: Call, match: str | None) -> str:
    """Return the same as JSON."""
    titles = ("name", *PERMISSIONS.values())
    rows = [dict(zip(titles, row, strict=True)) for row in _rows(call, match)]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _add_security(call: Call, match: str | None, *lists: str | None) -> None:
    roles: Sequence[list[str]] = [(text or "").replace(",", " ").split() for text in lists]
    values = dict(zip(list(PERMISSIONS)[: len(roles)], roles, strict=True))
    try:
        call.kernel.settings_table.set_security(match or "", SecuritySetting(**values))
    except ValueError as error:
        raise ManagementRefused(_cut(error)) from None


def _remove_security(call: Call, match: str | None) -> None:
    call.kernel.settings_table.remove_security(match or "")


_ADDRESS = Parameter("address", Kind.TEXT)
_MATCH = Parameter("addressMatch", Kind.TEXT)
_LISTS = tuple(Parameter(f"{shown}Roles", Kind.TEXT) for shown in PERMISSIONS.values())

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
    Operation("getRoles", (_ADDRESS,), "Object[]", roles_of, "Roles of an address with their permissions."),
    Operation("getRolesAsJSON", (_ADDRESS,), "String", roles_as_json, "The same as JSON."),
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
