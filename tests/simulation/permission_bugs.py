"""Bugs of a broker with permissions, put in one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker.kernel import Permission, Refused, Session
from embedbroker.kernel._definitions import SettingsDefinition
from embedbroker.kernel.addressing._settings_table import SettingsTable
from embedbroker.security._permissions import Permissions

from .fault_points import fault_point, replace
from .hunting import Bug

__all__ = ["PERMISSION_BUGS"]


def check_no_transacted_sends(patch: pytest.MonkeyPatch) -> None:
    admit_send = Session.admit_send

    def careless(self: Session, name: str) -> Refused | None:
        return admit_send(self, name) if self.auto_commit_sends else None

    patch.setattr(Session, "admit_send", careless)


def share_grants_between_users(patch: pytest.MonkeyPatch) -> None:
    """What one user was granted is in the cache for all."""
    allows = Permissions.allows

    def generous(
        self: Permissions, roles: frozenset[str], permission: Permission, address: str, queue: str | None
    ) -> bool:
        question = frozenset[str](), permission, address, queue
        if question in self._granted:
            return True
        if allows(self, roles, permission, address, queue):
            self._granted.add(question)
            return True
        return False

    patch.setattr(Permissions, "allows", generous)


def forget_permissions_of_management_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    restore = SettingsTable.restore

    def forgetful(self: SettingsTable, definition: SettingsDefinition) -> None:
        if definition.kind != "security":
            restore(self, definition)

    patch.setattr(SettingsTable, "restore", forgetful)


def let_users_consume_that_may_browse(patch: pytest.MonkeyPatch) -> None:
    allow = fault_point("permit")

    def generous(self: Session, permission: Permission, address: str, queue: str | None = None) -> Any:
        return allow(self, Permission.BROWSE if permission is Permission.CONSUME else permission, address, queue)

    replace(patch, "permit", generous)


def refuse_what_is_permitted_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """The settings of one address take the place of all others that the journal has."""
    restore = SettingsTable.restore

    def confused(self: SettingsTable, definition: SettingsDefinition) -> None:
        if definition.match == "#":
            restore(self, definition)

    patch.setattr(SettingsTable, "restore", confused)


PERMISSION_BUGS: list[Bug] = [
    check_no_transacted_sends,
    share_grants_between_users,
    forget_permissions_of_management_in_a_restart,
    let_users_consume_that_may_browse,
    refuse_what_is_permitted_after_a_restart,
]
