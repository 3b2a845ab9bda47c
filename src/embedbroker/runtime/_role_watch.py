"""The role of a broker, for those who wait for one, and for one who follows it closely."""

from __future__ import annotations

from typing import Protocol

import trio

from embedbroker.config import Role
from embedbroker.node import Node
from embedclient.errors import BrokerFailed, IllegalStateException

__all__ = ["Observer", "RoleWatch"]


class Observer(Protocol):
    """Follows a broker from inside its process. Called in the middle of a step, it must not raise, nor change it."""

    def role_changed(self, role: Role, failure: str | None) -> None:
        """The broker is something else now; ``failure`` says why it stopped when it was not asked to."""

    def stepped(self, node: Node) -> None:
        """Something may have changed in the broker. After a start it is another node."""


class RoleWatch:
    """What the broker is, from one start to the next. ``failure`` says why it stopped when it was not asked to."""

    def __init__(self) -> None:
        self.role = Role.STOPPED
        self.failure: str | None = None
        self.observer: Observer | None = None
        #: Whether it has a backup that is a whole copy, or is one.
        self.in_sync = False
        self._changed = trio.Event()

    def note_sync(self, in_sync: bool) -> None:
        """Tell everybody who waits for a whole copy."""
        if in_sync is not self.in_sync:
            self.in_sync = in_sync
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def become(self, role: Role, failure: str | None = None) -> None:
        """Tell everybody who waits. Of several reasons for a stop the first one counts."""
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
        """Wait until the broker is one of these.

        Raises:
            BrokerFailed: it stopped by itself.
            IllegalStateException: it was stopped, or is not running.
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
            BrokerFailed: it stopped by itself.
            IllegalStateException: it was stopped, or is not running.
        """
        while not self.in_sync:
            if self.role is Role.STOPPED:
                if self.failure is not None:
                    raise BrokerFailed(self.failure)
                raise IllegalStateException("the broker is not running, there will be no copy of its data")
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    async def wait_out_of_sync(self) -> None:
        """Wait until there is no whole copy; returns for a broker that stops, too."""
        while self.in_sync:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()
