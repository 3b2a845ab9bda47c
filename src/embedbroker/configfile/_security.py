"""Security of a broker.xml: permissions by match, role mappings, limits of users, and masked passwords.

Responsible for the elements about security, and for when security is enabled. Does not depend on login modules, which
are in `_login_config`, and on the decision for one user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedbroker.config import ANY_ROLE, ResourceLimits, SecuritySetting
from embedclient.model import did_you_mean

from ._document import Element
from ._findings import Findings
from ._login_config import FILE_NAME, LoginConfig, LoginFiles, read_login_config
from ._mapping import named_once, required_attribute, value_of
from ._values import boolean, secret, whole

__all__ = ["Codec", "security_values"]

_PERMISSIONS = {
    "send": "send",
    "consume": "consume",
    "browse": "browse",
    "createAddress": "create_address",
    "deleteAddress": "delete_address",
    "createDurableQueue": "create_durable_queue",
    "deleteDurableQueue": "delete_durable_queue",
    "createNonDurableQueue": "create_non_durable_queue",
    "deleteNonDurableQueue": "delete_non_durable_queue",
    "manage": "manage",
    "view": "view",
    "edit": "edit",
    # Names of older releases.
    "createTempQueue": "create_non_durable_queue",
    "deleteTempQueue": "delete_non_durable_queue",
}
_ENCLOSED = re.compile(r"ENC\((.*)\)", re.DOTALL)
_DEFAULT_CODEC = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec"
_KEY_PROPERTY = "artemis.default.sensitive.string.codec.key"


class Codec:
    """Decode the passwords of one file.

    Args:
        core: Element with the settings of the codec.
        properties: Properties given for the file.
        environment: Variables of the environment.
        findings: Receives errors.
    """

    def __init__(
        self, core: Element, properties: Mapping[str, str], environment: Mapping[str, str], findings: Findings
    ) -> None:
        self._findings = findings
        masked = core.take("mask-password")
        value = None if masked is None else value_of(masked, boolean, findings)
        #: None leaves it to ``ENC()`` around a password.
        self._masked = value if isinstance(value, bool) else None
        codec = core.take("password-codec")
        name, _, options = ("" if codec is None else codec.text or "").partition(";")
        self._other = name.strip() if name.strip() not in ("", _DEFAULT_CODEC) else ""
        given = dict(option.split("=", 1) for option in options.split(";") if "=" in option)
        self._key = (
            given.get("key")
            or properties.get(_KEY_PROPERTY)
            or environment.get(_KEY_PROPERTY.upper().replace(".", "_"))
        )

    def password(self, element: Element) -> str | None:
        """Return the password of an element; None if it is wrong. It never appears in messages about it."""
        found = value_of(element, secret, self._findings)
        return self.plain(found, element.place, self._masked) if isinstance(found, str) else None

    def plain(self, found: str, place: str, masked: bool | None) -> str | None:
        """Return a password of any place in the file; None if it is wrong.

        Args:
            found: the password in its written form.
            place: place of an error.
            masked: Whether it is masked; None leaves it to ``ENC()`` around it.
        """
        enclosed = _ENCLOSED.fullmatch(found)
        if masked is False or (masked is None and enclosed is None):
            return found
        if self._other:
            self._findings.refuse(place, f"is masked for the codec {self._other}, which is not there yet")
            return None
        from embedbroker.security import DEFAULT_KEY, InvalidMask, unmask

        try:
            return unmask(found if enclosed is None else enclosed[1], self._key or DEFAULT_KEY)
        except InvalidMask as error:
            self._findings.refuse(place, str(error))
            return None


def security_values(core: Element, folder: Path, properties: Mapping[str, str], findings: Findings) -> dict[str, Any]:
    """Return the fields of a configuration that concern users and permissions.

    Args:
        core: Element ``core``.
        folder: Directory of the file, with ``login.config``.
        properties: Values for references in files.
        findings: Receives errors and warnings.
    """
    settings = _settings(core, findings)
    values: dict[str, Any] = {"resource_limits": _limits(core, findings)}
    if settings is not None:
        values["security_settings"] = settings
    element = core.take("security-enabled")
    enabled = None if element is None else value_of(element, boolean, findings)
    if enabled is False:
        values["security_enabled"] = False
        return values
    login = read_login_config(folder, properties, findings)
    if enabled is None and login is None and settings is None:
        findings.warn(
            f"{core.place}/security-enabled",
            f"is missing, and so are {FILE_NAME} and security-settings: each client may do everything",
        )
        return values
    if login is None:
        findings.warn(str(folder / FILE_NAME), "is missing, so there are no users, and every login is refused")
    if not settings:
        findings.warn(f"{core.place}/security-settings", "are missing, so every operation of a user is refused")
    source = None if login is None else LoginFiles(folder, properties, login)
    login = login or LoginConfig()
    return values | {
        "security_enabled": True,
        "security_settings": settings or {},
        "users": login.users,
        "guest": login.guest,
        "user_source": source,
    }


def _settings(core: Element, findings: Findings) -> dict[str, SecuritySetting] | None:
    holder = core.take("security-settings")
    if holder is None:
        return None
    mappings = _mappings(holder, findings)
    found: dict[str, SecuritySetting] = {}
    for element in holder.take_all("security-setting"):
        match = required_attribute(element, "match", findings)
        roles: dict[str, set[str]] = {}
        for permission in element.take_all("permission"):
            field = _permission(permission, findings)
            if field is not None:
                names = _names(permission.attribute("roles"), mappings)
                if ANY_ROLE in names:
                    findings.warn_of(permission, "role '*' grants nothing, as in Artemis; list the roles")
                roles.setdefault(field, set()).update(names - {ANY_ROLE})
        if match is not None:
            named_once(found, match, SecuritySetting(**roles), element.place, findings)
    return found


def _permission(element: Element, findings: Findings) -> str | None:
    name = required_attribute(element, "type", findings)
    if element.attribute("roles") is None:
        findings.refuse(element.place, "has no roles: write <permission type='...' roles='...'>")
    if name is not None and name not in _PERMISSIONS:
        findings.refuse(element.place, f"there is no permission {name!r}{did_you_mean(name, _PERMISSIONS)}")
    return _PERMISSIONS.get(name or "")


def _names(roles: str | None, mappings: Mapping[str, set[str]]) -> set[str]:
    """Return the roles of a list, with those that are mapped to them."""
    listed = {name.strip() for name in (roles or "").split(",") if name.strip()}
    return listed.union(*(mappings.get(name, ()) for name in listed))


def _mappings(holder: Element, findings: Findings) -> dict[str, set[str]]:
    """Return the roles of users that count as each role of the settings."""
    found: dict[str, set[str]] = {}
    for element in holder.take_all("role-mapping"):
        source = required_attribute(element, "from", findings)
        targets = required_attribute(element, "to", findings)
        for target in (targets or "").split(","):
            if source is not None and target.strip():
                found.setdefault(target.strip(), set()).add(source)
    return found


def _limits(core: Element, findings: Findings) -> dict[str, ResourceLimits]:
    found: dict[str, ResourceLimits] = {}
    holder = core.take("resource-limit-settings")
    for element in [] if holder is None else holder.take_all("resource-limit-setting"):
        user = required_attribute(element, "match", findings)
        numbers = {}
        for name in ("max-connections", "max-sessions", "max-queues"):
            child = element.take(name)
            value = None if child is None else value_of(child, whole, findings)
            numbers[name] = value if isinstance(value, int) else -1
        # In Artemis 2.44 max-connections limits sessions, and max-sessions has no effect.
        sessions = [limit for limit in (numbers["max-connections"], numbers["max-sessions"]) if limit >= 0]
        limits = ResourceLimits(max_sessions=min(sessions, default=-1), max_queues=max(numbers["max-queues"], -1))
        if user is not None:
            named_once(found, user, limits, element.place, findings)
    return found
