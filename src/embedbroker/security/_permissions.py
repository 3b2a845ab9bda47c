"""The roles that have a permission on an address or on one of its queues.

Responsible for the match that counts, and for the cache of grants. Does not depend on users and passwords.
"""

from __future__ import annotations

from collections.abc import Mapping

from embedbroker.config import ANY_ROLE, Matches, SecuritySetting, WildcardConfiguration
from embedbroker.kernel import Permission

__all__ = ["Permissions"]

_FIELDS = {permission: permission.name.lower() for permission in Permission}
_READING = (Permission.CONSUME, Permission.BROWSE)
# A longer address is decided each time, so that the cache is bounded in bytes, too.
_CACHED_NAME_MAX = 1024


class Permissions:
    """Decide what roles may do.

    Args:
        settings: Security settings by match text.
        cache_size: Grants that are kept; 0: none.
        wildcards: Characters of wildcards in match texts; None: the usual ones.
        uuid_namespace: Namespace of addresses whose name is a UUID; empty: none.
    """

    def __init__(
        self,
        settings: Mapping[str, SecuritySetting],
        cache_size: int,
        wildcards: WildcardConfiguration | None = None,
        uuid_namespace: str = "",
    ) -> None:
        wildcards = WildcardConfiguration() if wildcards is None else wildcards
        self._matches = Matches(settings, wildcards, uuid_namespace)
        self._cache_size = cache_size
        self._granted: set[tuple[frozenset[str], Permission, str, str | None]] = set()

    @property
    def cached(self) -> int:
        """Return the number of grants that are kept."""
        return len(self._granted)

    def clear_cache(self) -> None:
        """Decide each permission again."""
        self._granted.clear()

    def allows(self, roles: frozenset[str], permission: Permission, address: str, queue: str | None) -> bool:
        """Return True if one of the roles has the permission."""
        question = roles, permission, address, queue
        if question in self._granted:
            return True
        if not self._decide(roles, permission, address, queue):
            return False
        if self._cache_size and len(address) + len(queue or "") <= _CACHED_NAME_MAX:
            if len(self._granted) >= self._cache_size:
                self._granted.clear()
            self._granted.add(question)
        return True

    def _decide(self, roles: frozenset[str], permission: Permission, address: str, queue: str | None) -> bool:
        matches = self._matches
        setting = matches.exact(f"{address}::{queue}") if queue is not None else None
        if setting is None:
            setting = next(iter(matches.of(address)), None)
        if setting is not None and _grants(setting, roles, permission):
            return True
        if queue is None or permission not in _READING:
            return False
        # As in Artemis: releases before 2.0 wrote the queue of an address in this form.
        older = matches.exact(f"{address}.{queue}")
        return older is not None and _grants(older, roles, permission)


def _grants(setting: SecuritySetting, roles: frozenset[str], permission: Permission) -> bool:
    granted: frozenset[str] = getattr(setting, _FIELDS[permission])
    return not granted.isdisjoint(roles) or (ANY_ROLE in granted and bool(roles))
