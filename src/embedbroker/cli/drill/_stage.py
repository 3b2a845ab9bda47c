"""What the parts of a drill share: the ledger, the clock, the moment for a fault, and how much is under way.

Responsible for limits: producers wait when consumers are far behind. Responsible also for the moment at which a fault
would hit something, and for reporting the end of a broker to clients. Does not depend on connections and processes.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import trio

from embedbroker.ledger import Ledger

from ._member import MemberState
from ._outage import NewTime, Outage
from ._plan import DrillPlan, Hit, RoleChange

__all__ = ["QUEUE", "Stage"]

QUEUE = "drill"
BACKLOG_MAX = 5_000
#: Seconds without a consumed message after which producers no longer wait for consumers.
STANDSTILL_S = 2.0
BUCKET_S = 0.25


class Stage:
    """One drill's shared state. Everything runs in one thread, so plain attributes do."""

    def __init__(self, plan: DrillPlan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.ledger = Ledger(timeline_bucket_s=BUCKET_S)
        self.ledger.subscribe(QUEUE, QUEUE)
        self.failure: str | None = None
        self.scope = trio.CancelScope()
        self.sending = True
        self.leaving = False
        #: Sends outside of transactions that wait for their answer.
        self.waiting_sends = 0
        #: Transactions with work in them whose commit was not requested; and those whose commit has no answer yet.
        self.open_transactions: set[str] = set()
        self.requested_commits = 0
        #: XA branches that are prepared, and whose commit has no answer. They count as requested commits, too.
        self.prepared_branches = 0
        self.backlog = 0
        #: For the line of progress; the verdict is the ledger's.
        self.messages_confirmed = 0
        self.messages_consumed = 0
        self.all_are_ready = trio.Event()
        self.outage: Outage | None = None
        #: Exit codes of brokers that a fault stopped; 0 for an orderly stop.
        self.end_codes: list[int] = []
        self.roles: list[RoleChange] = []
        self.on_stale_buffers: list[Callable[[], None]] = []
        self._life_may_end = False
        self._unready = plan.producers + plan.consumers
        self._began = trio.current_time()
        self._moment: trio.Event | None = None
        self._wants_prepared = False
        self._room = trio.Event()

    def now(self) -> float:
        """Return the seconds since the drill began."""
        return trio.current_time() - self._began

    def fail(self, reason: str) -> None:
        """End the drill without a verdict."""
        if self.failure is None:
            self.failure = reason
        self.scope.cancel()

    def ready(self) -> None:
        """Record that a client is connected for the first time."""
        self._unready -= 1
        if self._unready == 0:
            self.all_are_ready.set()

    def became(self, broker: str, standing: MemberState) -> None:
        """Record that a broker has a new state from now on."""
        self.roles.append(RoleChange(self.now(), broker, standing.value))
        if standing is MemberState.LIVE and self.outage is not None:
            self.outage.serving(self.now())

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
        now = self.now()
        hit = Hit(
            self.waiting_sends,
            len(self.open_transactions),
            self.requested_commits,
            self.prepared_branches,
            self.ledger.unanswered_sends,
            max(0, self.backlog),
        )
        self.outage = Outage(name, began, now, hit, self.plan.producers)
        if ends_life and began is NewTime.AT_ONCE:
            self._life_over(now)
        else:
            self._life_may_end = ends_life
        return self.outage

    def connection_lost(self, client: str) -> None:
        """Record that a client noticed the loss of its connection."""
        now = self.now()
        if self._life_may_end:
            self._life_over(now)
        if self.outage is not None:
            self.outage.lost(client, now)

    def succeeded(self, producer: str, began: float) -> None:
        """Record that a send or a commit that began at ``began`` was confirmed."""
        if self.outage is not None:
            self.outage.succeeded(producer, began, self.now())

    def delivered(self) -> None:
        """Record a message from a broker whose loss its consumer has not noticed."""
        if self.outage is not None:
            self.outage.delivered(self.now())

    def buffers_are_stale(self) -> None:
        """Mark what consumers hold as stale: until they are connected again, another consumer may have received it."""
        for listener in self.on_stale_buffers:
            listener()

    def _life_over(self, now: float) -> None:
        self._life_may_end = False
        self.ledger.killed(now)
        self.buffers_are_stale()

    # The backlog

    async def room(self) -> None:
        """Wait while consumers are far behind and get on; producers call this.

        A broker that lost messages leaves a backlog that no consumer can take, so a stand-still ends the wait.
        """
        while self.backlog >= BACKLOG_MAX and self.sending:
            consumed = self.messages_consumed
            if self._room.is_set():
                self._room = trio.Event()
            with trio.move_on_after(STANDSTILL_S):
                await self._room.wait()
            if self.messages_consumed == consumed:
                return

    def confirmed(self, count: int) -> None:
        """Record that messages entered the queue."""
        self.backlog += count
        self.messages_confirmed += count

    def consumed(self, count: int) -> None:
        """Record that messages left the queue."""
        self.backlog -= count
        self.messages_consumed += count
        if self.backlog < BACKLOG_MAX // 2:
            self._room.set()

    def recount(self) -> None:
        """Take the backlog from the ledger: after a fault, commits in doubt have blurred the count."""
        self.backlog = len(self.ledger.missing(QUEUE))
        self.consumed(0)

    def stop_sending(self) -> None:
        """Make producers send no new messages from now on."""
        self.sending = False
        self._room.set()
