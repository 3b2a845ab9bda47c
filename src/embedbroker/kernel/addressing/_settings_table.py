"""The settings that management adds to those of the configuration: of addresses, and of permissions.

Responsible for records, so that they survive a restart, and for their precedence: settings of a match that management
set take the place of those that the configuration has for the same match. Does not depend on permissions of a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import asdict, fields

from embedbroker.config import (
    AddressFullPolicy,
    AddressSettings,
    AddressSettingsRepository,
    Matches,
    SecuritySetting,
    WildcardConfiguration,
)

from .._definitions import SettingsDefinition, SettingsRemoved
from .._ids import Ids
from .._observer import Observers
from .._store import Store
from ._address import Address

__all__ = ["SettingsTable"]

_ADDRESS, _SECURITY = "address", "security"


class SettingsTable:
    """Change address settings and security settings of a running broker.

    Args:
        addresses: Address settings in force, which this changes.
        security: Security settings of the configuration, by match text.
        wildcards: Characters of wildcards in match texts.
        uuid_namespace: Namespace of addresses whose name is a UUID.
        store: Receives the records.
        ids: Numbers of records.
        observers: Are called when security settings change.
        bound: Addresses of the broker by name, which keep what they found in their settings.
        log: Receives a line about recorded settings that cannot be used.
    """

    def __init__(
        self,
        addresses: AddressSettingsRepository,
        security: Mapping[str, SecuritySetting],
        wildcards: WildcardConfiguration,
        uuid_namespace: str,
        store: Store,
        ids: Ids,
        observers: Observers,
        bound: Mapping[str, Address],
        log: Callable[[str], None],
    ) -> None:
        self.addresses = addresses
        self._security = dict(security)
        self._matches = Matches(self._security, wildcards, uuid_namespace)
        self._wildcards = wildcards
        self._uuid_namespace = uuid_namespace
        self._store = store
        self._ids = ids
        self._observers = observers
        self._bound = bound
        self._log = log
        # Numbers of the records by kind and match.
        self._recorded: dict[tuple[str, str], int] = {}
        # What management set and is in force, by match.
        self._set_addresses: dict[str, AddressSettings] = {}
        self._set_security: dict[str, SecuritySetting] = {}

    def security_of(self, address: str) -> SecuritySetting | None:
        """Return the security setting that counts for an address; None without one."""
        return next(iter(self._matches.of(address)), None)

    def set_address(self, match: str, settings: AddressSettings) -> None:
        """Use other settings for the addresses of a match.

        Raises:
            ValueError: The text is not a match; nothing is changed.
        """
        self._replace_address(match, settings)
        self._set_addresses[match] = settings
        values = {
            name: value.value if isinstance(value, AddressFullPolicy) else value
            for name, value in asdict(settings).items()
            if value is not None
        }
        self._record(_ADDRESS, match, values)

    def remove_address(self, match: str) -> None:
        """Remove the settings of a match; those of the configuration are back after a restart."""
        if match in self.addresses.entries:
            self._replace_address(match, None)
        self._set_addresses.pop(match, None)
        self._forget(_ADDRESS, match)

    def set_security(self, match: str, setting: SecuritySetting) -> None:
        """Grant permissions on the addresses of a match to other roles.

        Raises:
            ValueError: The text is not a match; nothing is changed.
        """
        self._replace_security(match, setting)
        self._set_security[match] = setting
        values: dict[str, object] = {
            each.name: sorted(roles) for each in fields(SecuritySetting) if (roles := getattr(setting, each.name))
        }
        self._record(_SECURITY, match, values)

    def remove_security(self, match: str) -> None:
        """Remove the permissions of a match; those of the configuration are back after a restart."""
        if match in self._security:
            self._replace_security(match, None)
        self._set_security.pop(match, None)
        self._forget(_SECURITY, match)

    def reload(
        self, addresses: Mapping[str, AddressSettings] | None, security: Mapping[str, SecuritySetting] | None
    ) -> None:
        """Adopt the settings of a configuration that has changed; None keeps those of one kind.

        As in Artemis, what management set stays in force, and a match that management removed is back.

        Raises:
            ValueError: A text is not a match; nothing is changed.
        """
        matches = None
        try:
            if security is not None:
                matches = Matches({**security, **self._set_security}, self._wildcards, self._uuid_namespace)
            if addresses is not None:
                self.addresses.replace_all({**addresses, **self._set_addresses})
                self._forget_found()
        except ValueError as error:
            # The configuration itself was checked with its own characters.
            raise ValueError(
                f"{error}; until a restart, literal_match_markers and wildcard_addresses are those of the start"
            ) from error
        if security is not None and matches is not None:
            self._use_security({**security, **self._set_security}, matches)

    def restore(self, definition: SettingsDefinition) -> None:
        """Restore settings from the journal, without writing them again.

        Settings that this configuration, or this version, cannot use are left in the journal.
        """
        self._recorded[definition.kind, definition.match] = definition.id
        values = definition.values
        try:
            if definition.kind == _ADDRESS:
                settings = _address_settings(values)
                self._replace_address(definition.match, settings)
                self._set_addresses[definition.match] = settings
            else:
                setting = SecuritySetting(**values)
                self._replace_security(definition.match, setting)
                self._set_security[definition.match] = setting
        except (TypeError, ValueError) as error:
            self._log(f"{definition.kind} settings of {definition.match!r} in the journal are not used: {error}")

    def _replace_address(self, match: str, settings: AddressSettings | None) -> None:
        self.addresses.replace(match, settings)
        self._forget_found()

    def _forget_found(self) -> None:
        # A match with wildcards may fit any of them.
        for address in self._bound.values():
            address.is_plain = None
        for observed in self._observers.decision.address_settings_changed:
            observed()

    def _replace_security(self, match: str, setting: SecuritySetting | None) -> None:
        changed = {known: each for known, each in self._security.items() if known != match}
        if setting is not None:
            changed[match] = setting
        self._use_security(changed, Matches(changed, self._wildcards, self._uuid_namespace))

    def _use_security(self, settings: dict[str, SecuritySetting], matches: Matches[SecuritySetting]) -> None:
        self._matches = matches
        self._security = settings
        self._observers.call(self._observers.commit.security_changed, settings)

    def _record(self, kind: str, match: str, values: dict[str, object]) -> None:
        key = kind, match
        if key not in self._recorded:
            self._recorded[key] = self._ids.take()
        self._store.note(SettingsDefinition(self._recorded[key], kind, match, values))

    def _forget(self, kind: str, match: str) -> None:
        number = self._recorded.pop((kind, match), None)
        if number is not None:
            self._store.note(SettingsRemoved(number))


def _address_settings(values: Mapping[str, object]) -> AddressSettings:
    known = dict(values)
    policy = known.get("address_full_policy")
    if policy is not None:
        known["address_full_policy"] = AddressFullPolicy(policy)
    return AddressSettings(**known)  # type: ignore[arg-type]  # the class checks each value
