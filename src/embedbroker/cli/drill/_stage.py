"""One node's part of a drill: what its clients have under way, the moment for a fault, and the outage.

Responsible for the moment at which a fault would hit something, and for reporting the end of a broker to the clients of
its node. Does not depend on connections and processes.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ._member import MemberState
from ._outage import NewTime, Outage
from ._plan import Hit, RoleChange
from ._run import NodeCounts, Run

__all__ = ["Stage"]


class Stage:
    """The state of one node's clients. ``name`` is empty where the drill has one node only."""

    def __init__(self, run: Run, name: str = "") -> None:
        self.run = run
        self.name = name
        #: With this begin the names of its clients, and the keys of its messages.
        self.prefix = f"{name}-" if name else ""
        self.plan, self.random, self.ledger = run.plan, run.random, run.ledger
        self.counts = NodeCounts(name)
        run.nodes.append(self.counts)
        #: Sends outside of transactions that wait for their answer.
        self.waiting_sends = 0
        #: Transactions with work in them whose commit was not requested; and those whose commit has no answer yet.
        self.open_transactions: set[str] = set()
        self.requested_commits = 0
        #: XA branches that are prepared, and whose commit has no answer. They count as requested commits, too.
        self.prepared_branches = 0
        self.outage: Outage | None = None
        self.on_stale_buffers: list[Callable[[], None]] = []
        self._life_may_end = False
        self._moment: trio.Event | None = None
        self._wants_prepared = False

    def became(self, broker: str, standing: MemberState) -> None:
        """Record that a broker has a new state from now on."""
        now = self.run.now()
        self.run.roles.append(RoleChange(now, broker, standing.value))
        if standing is MemberState.LIVE and self.outage is not None:
            self.outage.serving(now)

    def confirmed(self, count: int) -> None:
        """Record that messages entered the queue of this node."""
        self.counts.confirmed += count
        self.run.confirmed(count)

    # The moment

    @property
    def fault_would_hit(self) -> bool:
        """True if all that is wanted is under way now."""
        prepared = self.prepared_branches > 0 or not self._wants_prepared
        return self.waiting_sends > 0 and bool(self.open_transactions) and prepared

    def look(self) -> None:
        """Check for the moment; clients call this whenever more is under way than before."""
        if self._moment is not None and self.fault_would_hit:
            self._moment.set()

    async def moment(self, *, prepared: bool = False) -> None:
        """Wait until a send waits for its answer and a transaction is open, and on demand a branch is prepared.

        On return no other task has run since that was true.
        """
        self._wants_prepared = prepared
        while True:
            self._moment = trio.Event()
            if not self.fault_would_hit:
                await self._moment.wait()
            # One more pass, so that what was begun in the last one has been written to its socket.
            await trio.lowlevel.checkpoint()
            if self.fault_would_hit:
                self._moment = None
                return

    # The outage

    def strike(self, name: str, began: NewTime, strike: Callable[[], None], *, ends_life: bool) -> Outage:
        """Carry out a fault. No task runs between check and strike, so the outage records what the fault hit.

        ``ends_life``: the broker that serves now will not be the one that serves afterwards.
        """
        strike()
        now = self.run.now()
        hit = Hit(
            self.waiting_sends,
            len(self.open_transactions),
            self.requested_commits,
            self.prepared_branches,
            self.ledger.unanswered_sends,
            max(0, self.run.backlog),
        )
        self.outage = Outage(name, began, now, hit, self.plan.producers, joins=self.prefix or None)
        self.run.outage = self.outage
        if ends_life and began is NewTime.AT_ONCE:
            self._life_over(now)
        else:
            self._life_may_end = ends_life
        return self.outage

    def connection_lost(self, client: str) -> None:
        """Record that a client noticed the loss of its connection."""
        now = self.run.now()
        if self._life_may_end:
            self._life_over(now)
        if self.outage is not None:
            self.outage.lost(client, now)

    def succeeded(self, producer: str, began: float) -> None:
        """Record that a send or a commit that began at ``began`` was confirmed."""
        if self.outage is not None:
            self.outage.succeeded(producer, began, self.run.now())

    def delivered(self, key: str) -> None:
        """Record a message from a broker whose loss its consumer has not noticed."""
        now, counts, last = self.run.now(), self.counts, self.run.outage
        is_own = key.startswith(self.prefix)
        counts.delivered += 1
        counts.arrived += not is_own
        if not is_own and counts.arrived == 1:
            self.run.arrived()
        if self.outage is not None:
            self.outage.delivered(now)
        if last is None:
            return
        if last is not self.outage:
            last.left(key, now)
        elif not is_own:
            last.arrived(key, now)

    def buffers_are_stale(self) -> None:
        """Mark what consumers hold as stale: until they are connected again, another consumer may have received it."""
        for listener in self.on_stale_buffers:
            listener()

    def _life_over(self, now: float) -> None:
        self._life_may_end = False
        self.ledger.killed(now)
        self.buffers_are_stale()
