"""The role of a broker, for tasks that wait for one, and for an observer that follows it closely."""

from __future__ import annotations

from typing import Protocol

import trio

from embedbroker.config import Role
from embedbroker.node import Node
from embedclient.errors import BrokerFailed, IllegalStateException

__all__ = ["Observer", "RoleWatch"]


class Observer(Protocol):
    """An object that follows a broker from inside its process.

    Its methods are called in the middle of a step. They must not raise, and must not change the broker.
    """

    def role_changed(self, role: Role, failure: str | None) -> None:
        """Handle a new role of the broker; ``failure`` is the reason of a stop that was not requested."""

    def stepped(self, node: Node) -> None:
        """Handle a possible change in the broker. After a start it is another node."""


class RoleWatch:
    """The role of the broker, from one start to the next.

    ``failure`` is the reason of a stop that was not requested.
    """

    def __init__(self) -> None:
        self.role = Role.STOPPED
        self.failure: str | None = None
        self.observer: Observer | None = None
        #: Whether the broker has a backup that is a whole copy, or is such a backup.
        self.in_sync = False
        self._changed = trio.Event()

    def note_sync(self, in_sync: bool) -> None:
        """Wake every task that waits for a whole copy."""
        if in_sync is not self.in_sync:
            self.in_sync = in_sync
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def become(self, role: Role, failure: str | None = None) -> None:
        """Set the role and wake every waiting task. Of several reasons for a stop the first one counts."""
        if role is self.role:
            return
        self.role = role
        self.failure = failure
        if role is Role.STOPPED:
            self.in_sync = False
        self._wake()
        if self.observer is not None:
            self.observer.role_changed(role, failure)

    async def wait_for(self, *roles: Role) -> None:
        """Wait until the broker has one of these roles.

        Raises:
            BrokerFailed: the broker stopped by itself.
            IllegalStateException: the broker was stopped, or is not running.
        """
        while self.role not in roles:
            if self.role is Role.STOPPED:
                wanted = " or ".join(role.value for role in roles)
                if self.failure is not None:
                    raise BrokerFailed(self.failure)
                raise IllegalStateException(f"the broker is not running, it cannot become {wanted}")
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    async def wait_in_sync(self) -> None:
        """Wait until there is a whole copy.

        Raises:
            BrokerFailed: the broker stopped by itself.
            IllegalStateException: the broker was stopped, or is not running.
        """
        while not self.in_sync:
            if self.role is Role.STOPPED:
                if self.failure is not None:
                    raise BrokerFailed(self.failure)
                raise IllegalStateException("the broker is not running, there will be no copy of its data")
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    async def wait_out_of_sync(self) -> None:
        """Wait until there is no whole copy; return for a broker that stops, too."""
        while self.in_sync:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()
