"""The role of a broker, for those who wait for one."""

from __future__ import annotations

import trio

from embedbroker.config import Role
from embedclient.errors import BrokerFailed, IllegalStateException

__all__ = ["RoleWatch"]


class RoleWatch:
    """What the broker is, from one start to the next. ``failure`` says why it stopped when it was not asked to."""

    def __init__(self) -> None:
        self.role = Role.STOPPED
        self.failure: str | None = None
        self._changed = trio.Event()

    def become(self, role: Role, failure: str | None = None) -> None:
        """Tell everybody who waits. Of several reasons for a stop the first one counts."""
        if role is self.role:
            return
        self.role = role
        self.failure = failure
        self._changed.set()
        self._changed = trio.Event()

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
