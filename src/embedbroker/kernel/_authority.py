"""Access control of sessions: principals, permissions, and the port that decides.

Responsible for the checks that the door of the kernel, `Session`, makes before each verb of a client. Does not depend
on users, passwords and security settings, which are behind `Authority`.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from attrs import frozen

from embedclient.errors import ErrorCode

from ._refusal import Refused

__all__ = ["ALLOW_ALL", "ANONYMOUS", "Access", "Authority", "Permission", "Principal"]


class Permission(Enum):
    """List the ten classic permissions of Artemis, and the two of its management operations.

    Values are Artemis' names.
    """

    CREATE_ADDRESS = "createAddress"
    DELETE_ADDRESS = "deleteAddress"
    CREATE_DURABLE_QUEUE = "createDurableQueue"
    DELETE_DURABLE_QUEUE = "deleteDurableQueue"
    CREATE_NON_DURABLE_QUEUE = "createNonDurableQueue"
    DELETE_NON_DURABLE_QUEUE = "deleteNonDurableQueue"
    SEND = "send"
    CONSUME = "consume"
    BROWSE = "browse"
    MANAGE = "manage"
    VIEW = "view"
    EDIT = "edit"


@frozen
class Principal:
    """Hold the user of a session. An empty ``user`` is anonymous."""

    user: str = ""
    roles: frozenset[str] = frozenset()


ANONYMOUS = Principal()


class Authority(Protocol):
    """Decide what principals may do."""

    def allows(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> bool:
        """Return True if a principal has a permission on an address, or on one queue of it.

        Grants for sends are kept by each session, so they must hold as long as the session.
        """


class _AllowAll:
    """Allow everything, for a broker without security."""

    def allows(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> bool:
        return True


ALLOW_ALL: Authority = _AllowAll()


@frozen
class Access:
    """Check what one principal may do. Parts of the kernel that create on demand check it beside `Session`."""

    principal: Principal
    authority: Authority

    def refusal(self, permission: Permission, address: str, queue: str | None = None) -> Refused | None:
        """Return why the principal must not do this; None if it may."""
        if self.authority.allows(self.principal, permission, address, queue):
            return None
        place = f"address {address!r}" if queue is None else f"queue {queue!r} of address {address!r}"
        return Refused(
            ErrorCode.SECURITY_EXCEPTION,
            f"user {self.principal.user!r} does not have permission {permission.value!r} on {place}",
        )
