"""The brokers of a drill: one, or two that stand in for each other.

Responsible for the order in which they start, and for which one serves. Does not depend on faults and clients.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from .._failure import BrokerStopped, CannotStart
from ._member import Member, MemberState
from ._relay import Relay

__all__ = ["Group"]

_SERVING_TIMEOUT_S = 120.0


class Group:
    """Control the brokers of a drill.

    ``members`` are in the order in which they serve first; brokers of ``relays`` are reached through these only.
    """

    def __init__(self, members: Sequence[Member], relays: Sequence[Relay], nursery: trio.Nursery) -> None:
        self.members = members
        self.relays = relays
        self._nursery = nursery

    @property
    def is_pair(self) -> bool:
        return len(self.members) > 1

    @property
    def is_over(self) -> bool:
        """True if no process is left."""
        return all(member.standing is MemberState.DOWN for member in self.members)

    @property
    def live(self) -> Member:
        """The broker that serves, or is to serve."""
        return next((member for member in self.members if member.standing is MemberState.LIVE), self.members[0])

    @property
    def is_taken_over(self) -> bool:
        """True if a broker other than the first serves, whatever the first one's own state is."""
        return any(member.standing is MemberState.LIVE for member in self.members[1:])

    async def start(self) -> None:
        """Start all. Return when the first broker serves, and the others are ready to take over.

        Raises:
            CannotStart: one of them did not start.
        """
        for relay in self.relays:
            await self._nursery.start(relay.run)
        await self.restore()

    async def restore(self) -> None:
        """Start each broker that is down. Return when all have their initial roles again.

        Raises:
            CannotStart: one of them did not start.
        """
        first, *others = self.members
        if first.standing is MemberState.DOWN:
            await first.start(self._nursery)
        await first.wait_for(MemberState.LIVE, seconds_max=_SERVING_TIMEOUT_S)
        for member in others:
            if member.standing is MemberState.DOWN:
                await member.start(self._nursery)
            if member.standing is MemberState.LIVE:
                # It has given way; its report of that may come later than the report of the other broker.
                with trio.move_on_after(_SERVING_TIMEOUT_S):
                    await member.change()
            if member.standing is MemberState.DOWN:
                await member.start(self._nursery)
            await member.wait_for(MemberState.BACKUP)

    def check_all_run(self) -> None:
        """Check that all brokers run, at a moment at which they must.

        Raises:
            BrokerStopped: one of them does not run.
        """
        for member in self.members:
            if member.standing is MemberState.DOWN:
                raise BrokerStopped(f"broker {member.name!r} stopped by itself: {member.last_output()}")

    async def ready(self) -> None:
        """Wait until all brokers other than the first could take over.

        Raises:
            BrokerStopped: one of them, or the first, stopped by itself.
            CannotStart: one of them could not in time.
        """
        self.check_all_run()
        for member in self.members[1:]:
            await member.wait_for(MemberState.BACKUP)

    async def first_ended(self) -> None:
        """Wait until the first broker has noticed that another one took over, and has ended.

        Raises:
            CannotStart: it did not end in time.
        """
        await self.members[0].wait_for(MemberState.DOWN)

    async def serving(self) -> None:
        """Wait until a broker serves.

        Raises:
            CannotStart: no broker is left that could serve, or none did in time.
        """
        with trio.move_on_after(_SERVING_TIMEOUT_S):
            while True:
                if any(member.standing is MemberState.LIVE for member in self.members):
                    return
                if self.is_over:
                    causes = "; ".join(f"{member.name}: {member.last_output()}" for member in self.members)
                    raise CannotStart(f"no broker is left: {causes}")
                await self._any_change()
        raise CannotStart(f"no broker served within {_SERVING_TIMEOUT_S:.0f} s")

    async def stop(self) -> tuple[int, ...]:
        """Stop all, the broker that serves last, so that none takes over. Return the exit codes of those that ran."""
        codes = []
        for member in sorted(self.members, key=lambda each: each.standing is MemberState.LIVE):
            if member.standing is not MemberState.DOWN:
                codes.append(await member.stop())
        return tuple(codes)

    async def dispose(self) -> None:
        """End all processes."""
        try:
            for member in self.members:
                await member.dispose()
        finally:
            for relay in self.relays:
                relay.stop()

    async def _any_change(self) -> None:
        async with trio.open_nursery() as nursery:

            async def watch(member: Member) -> None:
                await member.change()
                nursery.cancel_scope.cancel()

            for member in self.members:
                nursery.start_soon(watch, member)
