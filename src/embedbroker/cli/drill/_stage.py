"""What the parts of a drill share: the ledger, the clock, the moment for a kill, and how much is under way.

Responsible for limits (producers wait when consumers are far behind) and for saying when a kill would hit something.
Refuses to know connections and processes.
"""

from __future__ import annotations

import random

import trio

from embedbroker.ledger import Ledger

from ._plan import DrillPlan

__all__ = ["QUEUE", "Stage"]

QUEUE = "drill"
BACKLOG_MAX = 5_000
BUCKET_S = 0.25


class Stage:
    """One drill's shared state. Everything runs in one thread, so plain attributes do."""

    def __init__(self, plan: DrillPlan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.ledger = Ledger(timeline_bucket_s=BUCKET_S)
        self.ledger.subscribe(QUEUE, QUEUE)
        self.broker_url = ""
        self.failure: str | None = None
        self.scope = trio.CancelScope()
        self.sending = True
        self.leaving = False
        #: Sends outside of transactions that wait for their answer.
        self.waiting_sends = 0
        #: Transactions with work in them whose commit was not asked for; and those whose commit is on its way.
        self.open_transactions: set[str] = set()
        self.asked_commits = 0
        self.backlog = 0
        #: For the line of progress; the verdict is the ledger's.
        self.messages_confirmed = 0
        self.messages_consumed = 0
        self.everybody_is_ready = trio.Event()
        #: Set by the first delivery that comes from the broker that was started last.
        self.delivering = trio.Event()
        self._unready = plan.producers + plan.consumers
        self._began = trio.current_time()
        self._moment: trio.Event | None = None
        self._room = trio.Event()

    def now(self) -> float:
        """Seconds since the drill began."""
        return trio.current_time() - self._began

    def fail(self, reason: str) -> None:
        """End the drill: it cannot give a verdict."""
        if self.failure is None:
            self.failure = reason
        self.scope.cancel()

    def ready(self) -> None:
        """A client is connected for the first time."""
        self._unready -= 1
        if self._unready == 0:
            self.everybody_is_ready.set()

    # The moment

    @property
    def kill_would_hit(self) -> bool:
        """Whether a send waits for its answer and a transaction is open, right now."""
        return self.waiting_sends > 0 and bool(self.open_transactions)

    def look(self) -> None:
        """Called by clients whenever more is under way than before."""
        if self._moment is not None and self.kill_would_hit:
            self._moment.set()

    async def moment(self) -> None:
        """Wait until a kill hits something. On return no other task has run since that was true."""
        while True:
            self._moment = trio.Event()
            if not self.kill_would_hit:
                await self._moment.wait()
            # One more pass, so that what was begun in the last one has been written to its socket.
            await trio.lowlevel.checkpoint()
            if self.kill_would_hit:
                self._moment = None
                return

    # The backlog

    async def room(self) -> None:
        """Producers wait here while consumers are far behind."""
        while self.backlog >= BACKLOG_MAX and self.sending:
            self._room = trio.Event()
            await self._room.wait()

    def confirmed(self, count: int) -> None:
        """Messages entered the queue."""
        self.backlog += count
        self.messages_confirmed += count

    def consumed(self, count: int) -> None:
        """Messages left it."""
        self.backlog -= count
        self.messages_consumed += count
        if self.backlog < BACKLOG_MAX // 2:
            self._room.set()

    def recount(self) -> None:
        """After a kill, commits in doubt have blurred the count; the ledger knows better."""
        self.backlog = len(self.ledger.missing(QUEUE))
        self.consumed(0)

    def stop_sending(self) -> None:
        """Producers send no new messages from now on."""
        self.sending = False
        self._room.set()
