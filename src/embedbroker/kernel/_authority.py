"""Access control of sessions: principals, permissions, and the port that decides.

Responsible for the checks that the door of the kernel, `Session`, makes before each verb of a client. Does not depend
on users, passwords and security settings, which are behind `Authority`.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from attrs import frozen

from embedclient.errors import ErrorCode

from ._refusal import Refused, name_in_text

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
    """Hold the user of a session. An empty ``user`` is anonymous.

    Attributes:
        user: Name of the user.
        roles: Names of its roles.
        is_trusted: Whether it may do everything: another broker of the cluster.
        queues_max: Maximum number of queues that the user may have created; -1: no limit.
    """

    user: str = ""
    roles: frozenset[str] = frozenset()
    is_trusted: bool = False
    queues_max: int = -1


ANONYMOUS = Principal()


class Authority(Protocol):
    """Decide what principals may do."""

    def allows(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> bool:
        """Return True if a principal has a permission on an address, or on one queue of it.

        Each session keeps its grants for sends until it closes or `Session.forget_admitted` is called.
        """


class _AllowAll:
    """Allow everything, for a broker without security."""

    def allows(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> bool:
        return True


ALLOW_ALL: Authority = _AllowAll()


class RefusalObserver(Protocol):
    """Observe refused requests."""

    def access_refused(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> None:
        """Observe that a user lacks a permission for what it requested."""


@frozen
class Access:
    """Check what one principal may do. Parts of the kernel that create on demand check it beside `Session`."""

    principal: Principal
    authority: Authority
    observer: RefusalObserver

    def allows(self, permission: Permission, address: str, queue: str | None = None) -> bool:
        """Return True if the principal may do this. It was not requested, so an answer of False is no refusal."""
        return self.authority.allows(self.principal, permission, address, queue)

    def refusal(self, permission: Permission, address: str, queue: str | None = None) -> Refused | None:
        """Return why the principal must not do this; None if it may."""
        if self.authority.allows(self.principal, permission, address, queue):
            return None
        self.observer.access_refused(self.principal, permission, address, queue)
        # Artemis has another number for a permission on a queue.
        number, place = "AMQ229032", f"on address {name_in_text(address)}"
        if queue is not None:
            number, place = "AMQ229213", f"for queue {name_in_text(queue)} on address {name_in_text(address)}"
        user = name_in_text(self.principal.user)
        return Refused(
            ErrorCode.SECURITY_EXCEPTION,
            f"{number}: User: {user} does not have permission='{permission.name}' {place}",
        )
