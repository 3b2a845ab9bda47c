"""Address settings and permissions under the names that management messages of Artemis use.

Responsible for names and values in JSON. Does not depend on how settings reach a broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import fields

from embedclient.model import did_you_mean

from ._address_settings import AddressFullPolicy, AddressSettings
from ._security import SecuritySetting

__all__ = [
    "PERMISSIONS",
    "address_settings_as_json",
    "address_settings_of_json",
    "security_setting_of_json",
]

_RENAMED = {
    "redelivery_delay_multiplier": "redeliveryMultiplier",
    "address_full_policy": "addressFullMessagePolicy",
    "send_to_dla_on_no_route": "sendToDLAOnNoRoute",
}
_POLICIES = {"BLOCK": AddressFullPolicy.BLOCK, "FAIL": AddressFullPolicy.FAIL}
_DELETION = {"OFF": False, "FORCE": True}
_DELETIONS = ("config_delete_queues", "config_delete_addresses", "config_delete_diverts")
# By the number of a routing type.
_ROUTING_TYPES = ("MULTICAST", "ANYCAST")


def _java_name(name: str) -> str:
    first, *rest = name.removesuffix("_ms").split("_")
    return first + "".join(word.capitalize() for word in rest)


_NAMES = {each.name: _RENAMED.get(each.name, _java_name(each.name)) for each in fields(AddressSettings)}
_FIELDS = {shown: name for name, shown in _NAMES.items()}
PERMISSIONS = {
    permission: _java_name(permission)
    for permission in (
        "send", "consume", "create_durable_queue", "delete_durable_queue", "create_non_durable_queue",
        "delete_non_durable_queue", "manage", "browse", "create_address", "delete_address", "view", "edit",
    )
}  # fmt: skip
"""Fields of `SecuritySetting` with Artemis' names, in the order of the parameters of ``addSecuritySettings``."""


# -- address settings ------------------------------------------------------------------------------------------------


def address_settings_as_json(settings: AddressSettings) -> dict[str, object]:
    """Return the values that are set, by the names of Artemis."""
    values = {name: getattr(settings, name) for name in _NAMES}
    return {_NAMES[name]: _shown(name, value) for name, value in values.items() if value is not None}


def _shown(name: str, value: object) -> object:
    if isinstance(value, AddressFullPolicy):
        return value.value
    if name == "default_queue_routing_type" and isinstance(value, int):
        return _ROUTING_TYPES[value]
    if name in _DELETIONS:
        return "FORCE" if value else "OFF"
    return value


def address_settings_of_json(given: Mapping[str, object]) -> AddressSettings:
    """Return address settings from values by the names of Artemis.

    Raises:
        ValueError: A name is unknown, or a value is out of its range; the text names it.
    """
    for shown in given:
        if shown not in _FIELDS:
            hint = did_you_mean(shown, set(_FIELDS))
            raise ValueError(f"the address settings have an unknown or unavailable field {shown[:200]!r}{hint}")
    values = {_FIELDS[shown]: _value(_FIELDS[shown], shown, value) for shown, value in given.items()}
    try:
        return AddressSettings(**values)  # type: ignore[arg-type]  # the class checks each value
    except (TypeError, ValueError) as error:
        raise ValueError(f"the address settings: {error}") from None


def _value(name: str, shown: str, value: object) -> object:
    words: dict[str, object] | None = None
    if name == "address_full_policy":
        words = dict(_POLICIES)
    elif name == "default_queue_routing_type":
        words = {word: number for number, word in enumerate(_ROUTING_TYPES)}
    elif name in _DELETIONS:
        words = dict(_DELETION)
    if words is None or value is None:
        return value
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"the address settings: {shown} must be one of {', '.join(words)}, not {value!r:.200}")
    return words[value]


# -- security settings -----------------------------------------------------------------------------------------------


def security_setting_of_json(rows: list[dict[str, object]]) -> SecuritySetting:
    """Return the permissions of a list of roles, each with its name and a flag for each permission."""
    return SecuritySetting(
        **{
            permission: [str(row["name"]) for row in rows if row.get(shown) is True]
            for permission, shown in PERMISSIONS.items()
        }
    )
