"""What all clients and brokers of a drill share: the ledger, the clock, the backlog, and the end.

Responsible for limits: producers wait when consumers are far behind. Does not depend on connections and processes.
"""

from __future__ import annotations

import random

import trio
from attrs import astuple, define

from embedbroker.ledger import Ledger

from ._outage import Outage
from ._plan import DrillPlan, Findings, NodeFigures, RoleChange, Round

__all__ = ["QUEUE", "NodeCounts", "Run"]

QUEUE = "drill"
BACKLOG_MAX = 5_000
#: Seconds without a consumed message after which producers no longer wait for consumers.
STANDSTILL_S = 2.0
#: Seconds without a consumed message after which a drill no longer waits for what is missing.
LOST_AFTER_S = 10.0
BUCKET_S = 0.25
_LOOK_S = 0.1


@define(eq=False)
class NodeCounts:
    """What one node has done so far; see `NodeFigures`."""

    name: str
    confirmed: int = 0
    delivered: int = 0
    arrived: int = 0
    faults: int = 0


class Run:
    """One drill's shared state. Everything runs in one thread, so plain attributes do."""

    def __init__(self, plan: DrillPlan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.ledger = Ledger(timeline_bucket_s=BUCKET_S)
        self.ledger.subscribe(QUEUE, QUEUE)
        #: One for each node, in their order.
        self.nodes: list[NodeCounts] = []
        #: The outage that the last fault began.
        self.outage: Outage | None = None
        self.rounds: list[Round] = []
        self.failure: str | None = None
        self.scope = trio.CancelScope()
        self.sending = True
        self.leaving = False
        self.backlog = 0
        #: For the line of progress; the verdict is the ledger's.
        self.messages_confirmed = 0
        self.messages_consumed = 0
        self.all_are_ready = trio.Event()
        #: Each node of a cluster has received messages of another one.
        self.is_formed = trio.Event()
        #: Exit codes of brokers that a fault stopped; 0 for an orderly stop.
        self.end_codes: list[int] = []
        self.roles: list[RoleChange] = []
        self.load_s = 0.0
        self.drain_s = 0.0
        self._unready = (plan.producers + plan.consumers) * plan.nodes
        self._began = trio.current_time()
        self._room = trio.Event()

    @property
    def is_cluster(self) -> bool:
        """True if messages go from one node to another."""
        return self.plan.nodes > 1

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

    def arrived(self) -> None:
        """Record that a node received a message of another one for the first time."""
        if all(node.arrived for node in self.nodes):
            self.is_formed.set()

    def sent(self, key: str) -> None:
        """Record that a producer is about to send a message."""
        if self.outage is not None:
            self.outage.sent(key)

    def findings(
        self, *, stop_codes: tuple[int, ...] = (), swept: int = 0, branches_left: int = 0, interrupted: bool = False
    ) -> Findings:
        """Return the findings so far. If the drill was ``interrupted``, no message can count as lost."""
        return Findings(
            self.plan,
            self.ledger.verdict(drained=not interrupted),
            self.ledger.timeline(),
            tuple(self.rounds),
            self.load_s,
            self.drain_s,
            stop_codes,
            swept,
            branches_left,
            tuple(self.roles),
            tuple(NodeFigures(*astuple(node)) for node in self.nodes) if self.is_cluster else (),
            interrupted,
        )

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

    async def drained(self) -> None:
        """Wait until nothing is missing.

        Messages may be on their way between nodes, where no consumer of a queue sees them. A long stand-still ends the
        wait: what is missing then is lost.
        """
        consumed, since = self.messages_consumed, self.now()
        while self.ledger.missing(QUEUE) and self.now() < since + LOST_AFTER_S:
            await trio.sleep(_LOOK_S)
            if self.messages_consumed != consumed:
                consumed, since = self.messages_consumed, self.now()
