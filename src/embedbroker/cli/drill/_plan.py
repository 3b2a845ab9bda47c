"""A drill's parameters and its findings: plain values."""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from embedbroker.ledger import Timeline, Verdict

from ._figures import Spread, spread_of

__all__ = [
    "DrillPlan",
    "Fault",
    "Findings",
    "Ha",
    "Hit",
    "NodeFigures",
    "OutageRecord",
    "Peer",
    "RoleChange",
    "Round",
]


class Ha(Enum):
    """How the brokers of a drill stand in for each other."""

    NONE = "none"
    SHARED_STORE = "shared-store"
    REPLICATION = "replication"


class Peer(Enum):
    """The program whose brokers are drilled."""

    EMBEDBROKER = "embedbroker"
    ARTEMIS = "artemis"


class Fault(Enum):
    """What happens to the live broker. ``ends_it``: the fault ends its process."""

    KILL = "kill"
    STOP = "stop"
    FREEZE = "freeze"
    PARTITION = "partition"
    DISK_FULL = "disk-full"
    SLOW_DISK = "slow-disk"

    @property
    def ends_it(self) -> bool:
        return self in (Fault.KILL, Fault.STOP, Fault.DISK_FULL)


@frozen
class DrillPlan:
    """The size of a drill. Of producers and consumers a third each works in transactions and in XA branches.

    The faults take turns over the rounds. ``fault_s`` is how long a freeze, a partition or a slow disk lasts, in
    seconds. Producers and consumers are those of each node.
    """

    seconds: float
    producers: int
    consumers: int
    size_bytes: int
    rounds: int
    seed: int
    ha: Ha = Ha.NONE
    faults: tuple[Fault, ...] = (Fault.KILL,)
    fault_s: float = 2.0
    peer: Peer = Peer.EMBEDBROKER
    #: Brokers, or pairs of them, of one cluster.
    nodes: int = 1


@frozen
class Hit:
    """What was under way when the fault struck."""

    waiting_sends: int  # sends outside of transactions, without an answer
    open_transactions: int  # with work in them, their commit or prepare not yet requested; branches too
    requested_commits: int  # requested, without an answer
    prepared_branches: int  # of these: prepared, their commit without an answer
    unconfirmed_sends: int  # of all messages, those without a confirmation
    backlog: int

    @property
    def transactions(self) -> int:
        """The number of transactions that were not over, whether their commit was requested or not."""
        return self.open_transactions + self.requested_commits


@frozen
class OutageRecord:
    """One time without service, as clients observed it.

    ``at`` is seconds from the beginning of the drill. All other times are seconds from there; None for what did not
    happen.

    ``at`` is the moment of the fault. Where a broker stops by itself, or gives way, it is the moment when the first
    client noticed.
    """

    name: str
    at: float
    hit: Hit
    serving_s: float | None
    first_delivery_s: float | None
    #: For each producer that came back: its first confirmed send, or commit, that it began in the new time.
    producers_s: tuple[float, ...]
    #: In a cluster: messages were delivered that had gone to the node, and from it, since the outage began.
    joined_s: float | None = None

    @property
    def first_confirmed_s(self) -> float | None:
        return min(self.producers_s, default=None)

    @property
    def all_confirmed_s(self) -> float | None:
        return max(self.producers_s, default=None)


@frozen
class RoleChange:
    """From ``at`` on a broker had this state; see `MemberState`."""

    at: float
    broker: str
    standing: str


@frozen
class Round:
    """One fault and, between two brokers, the way back."""

    fault: Fault
    outage: OutageRecord
    failback: OutageRecord | None = None
    #: The node that was struck; empty where the drill has one node only.
    node: str = ""

    @property
    def outages(self) -> tuple[OutageRecord, ...]:
        return (self.outage,) if self.failback is None else (self.outage, self.failback)


@frozen
class NodeFigures:
    """What one node of a cluster did: messages confirmed to its producers, and delivered to its consumers."""

    name: str
    confirmed: int
    delivered: int
    arrived: int  # of the delivered ones, those that were sent to another node
    faults: int


@frozen
class Findings:
    """Everything from which reports are made.

    Those of an ``interrupted`` drill are what it had found until then.
    """

    plan: DrillPlan
    verdict: Verdict
    timeline: Timeline
    rounds: tuple[Round, ...]
    load_s: float
    drain_s: float
    stop_codes: tuple[int, ...]
    swept: int  # messages that were left for the sweep after all consumers had ended
    branches_left: int = 0  # prepared, without an owner
    roles: tuple[RoleChange, ...] = field(default=())
    #: Of a cluster.
    nodes: tuple[NodeFigures, ...] = field(default=())
    interrupted: bool = False

    def objections(self) -> list[str]:
        """Return the reasons why the drill failed; empty if it passed."""
        verdict, plan = self.verdict, self.plan
        found = [
            f"{tally.count} {name.replace('_', ' ')}" for name, tally in (verdict.losses() | verdict.faults()).items()
        ]
        for number, turn in enumerate(self.rounds, 1):
            found.extend(f"round {number}: {objection}" for objection in _objections(turn, plan))
        if self.interrupted:
            return found
        if len(self.rounds) < plan.rounds:
            found.append(f"only {len(self.rounds)} of {plan.rounds} rounds happened")
        if not verdict.confirmed:
            found.append("nothing was confirmed")
        if self.branches_left:
            found.append(f"{self.branches_left} prepared branches are left that belong to no client's transaction")
        for code in self.stop_codes:
            if code != 0:
                found.append(f"a broker did not stop in order: exit code {code}")
        return found

    def downtimes(self) -> dict[str, dict[str, Spread]]:
        """Return, for each kind of outage, the spread over the rounds, in seconds."""
        kinds: dict[str, list[OutageRecord]] = {}
        for turn in self.rounds:
            for outage in turn.outages:
                kinds.setdefault(outage.name, []).append(outage)
        return {name: _spreads(outages) for name, outages in kinds.items()}


def _spreads(outages: list[OutageRecord]) -> dict[str, Spread]:
    columns: dict[str, list[float | None]] = {
        "first_confirmed": [outage.first_confirmed_s for outage in outages],
        "producers": [time for outage in outages for time in outage.producers_s],
        "first_delivery": [outage.first_delivery_s for outage in outages],
        "joined": [outage.joined_s for outage in outages],
        "serving": [outage.serving_s for outage in outages],
    }
    found = {name: spread_of([time for time in times if time is not None]) for name, times in columns.items()}
    return {name: spread for name, spread in found.items() if spread is not None}


def _objections(turn: Round, plan: DrillPlan) -> list[str]:
    found = []
    producers = plan.producers
    hit = turn.outage.hit
    if not hit.waiting_sends or not hit.open_transactions:
        found.append(f"the {turn.fault.value} met no unconfirmed send or no open transaction, so it proves nothing")
    for outage in turn.outages:
        if outage.first_delivery_s is None:
            found.append(f"nothing was delivered after the {outage.name}")
        if len(outage.producers_s) < producers:
            found.append(f"{producers - len(outage.producers_s)} producers were not served after the {outage.name}")
        if plan.nodes > 1 and outage.joined_s is None:
            found.append(f"no messages went both to {turn.node} and from it after the {outage.name}")
    return found
