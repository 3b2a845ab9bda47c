"""The shared state of the actors of one scenario: the world, the ledger, the phase of the run, the verdict on findings.

It holds no behaviour of users, faults or brokers.
"""

from __future__ import annotations

from enum import IntEnum

from attrs import define, field

from embedbroker.ledger import FAULTS, Finding, Ledger

from ._messages import COLORS
from ._redelivery_times import RedeliveryTimes
from ._routing_model import RoutingModel
from ._world import WALL_START_MS, World

__all__ = ["Moment", "Phase", "Scene", "SimulationFailure", "Topic"]


class SimulationFailure(AssertionError):
    """A checker found a broken promise. The text names it; the seed and the trace come from the scenario."""


class Phase(IntEnum):
    """The progress of a scenario: users work under faults, then everything is healed.

    Consumers drain their queues, each answers a roll call, sweepers take the messages that are left, and clients leave.
    """

    WORK = 0
    DRAIN = 1
    ROLL_CALL = 2
    SWEEP = 3
    LEAVE = 4


class Moment(IntEnum):
    """The situations a campaign must have met; their hits are counted and a minimum is asserted."""

    CRASH = 0
    CRASH_WITH_UNSYNCED_RECORDS = 1
    CRASH_WITH_OPEN_TRANSACTIONS = 2
    CRASH_DURING_SEGMENT_SWITCH = 3
    CRASH_DURING_COMPACTION = 4
    CRASH_DURING_RECOVERY = 5
    TORN_TAIL_CUT = 6
    ORDERLY_RESTART = 7
    DISK_FULL = 8
    DISK_ERROR = 9
    SLOW_DISK = 10
    CONNECTION_CUT = 11
    DIRECTION_HELD = 12
    NETWORK_DELAYED = 13
    CLIENT_CRASH = 14
    REATTACHED = 15
    REBUILT = 16
    SEND_IN_DOUBT = 17
    COMMIT_IN_DOUBT = 18
    ROLLBACK = 19
    REDELIVERY = 20
    DEAD_LETTER = 21
    EXPIRY = 22
    REPLAY_COMPARED = 23
    EXCLUSIVE_PASSED_ON = 24
    PRIORITY_PREFERRED = 25
    CONSUMER_REFUSED = 26
    QUEUE_AUTO_DELETED = 27
    CREDITS_DEFERRED = 28
    CREDITS_GRANTED_LATE = 29
    PRE_ACKNOWLEDGED = 30
    SUBSCRIPTION_SHARED = 31
    OLD_CLIENT = 32
    RECOVERED_IN_SLICES = 33
    ROLL_CALL_ANSWERED = 34
    HALF_OPEN = 35
    PEER_GIVEN_UP = 36
    CONNECTION_STOPPED = 37
    SENT_AGAIN_WITH_ID = 38
    DUPLICATE_REJECTED = 39
    BRANCH_PREPARED = 40
    BRANCH_RECOVERED = 41
    CRASH_WITH_PREPARED_BRANCHES = 42
    ENDING_LEFT_ALONE = 43
    # Of groups that share a store.
    FAILOVER = 44
    FAILBACK = 45
    FROZEN_LIVE = 46
    FROZEN_WAITER = 47
    REPLACED_WHILE_FROZEN = 48
    WOKE_UP_REPLACED = 49
    PASSED_OVER = 50
    ANSWER_OF_STORE_LOST = 51
    STORE_LOST = 52
    STORE_BROKE_IN_BATCH = 53
    FULL_ON_ONE_SIDE = 54
    CLOCK_JUMPED = 55
    LOCK_LOST = 56
    BRANCHES_MOVED = 57
    # Of groups that replicate.
    BACKUP_IN_SYNC = 58
    CRASH_DURING_INITIAL_COPY = 59
    CRASH_DURING_CATCH_UP = 60
    CRASH_DURING_FAILBACK = 61
    CONFIRMATION_HELD = 62
    WENT_ON_ALONE = 63
    CRASH_IN_SYNC = 64
    MEMBERS_PARTED = 65
    CUT_OFF_STORE = 66
    COPY_COMPARED = 67
    CRASH_WHILE_CLAIMING = 68
    # Of XA branches, beyond those above.
    BRANCH_JOINED = 69
    BRANCH_RESUMED = 70
    COMMITTED_IN_ONE_PHASE = 71
    BRANCH_TIMED_OUT = 72
    HEURISTIC_COMMIT = 73
    HEURISTIC_ROLLBACK = 74
    OUTCOME_SURVIVED_CRASH = 75
    OUTCOME_FORGOTTEN = 76
    # Of pairs that vote.
    VOTES_REQUESTED = 77
    VOTE_LOST = 78
    VOTER_SILENT = 79
    VOTER_RESTARTED = 80
    TOOK_OVER_BY_VOTE = 81
    WENT_ON_BY_VOTE = 82
    BEGAN_BY_VOTE = 83
    REPLACED_UNNOTICED = 84
    ONE_SURVIVED_PARTITION = 85
    CRASH_WHILE_VOTING = 86
    # Of commit sets.
    SET_COMMITTED = 87
    SET_REPLAYED = 88
    SET_IN_DOUBT = 89
    # Of readers with cursors.
    RANGE_READ_AGAIN = 90
    LEASE_LOST = 91
    CURSOR_TAKEN_OVER = 92
    # Between members, of groups of all kinds.
    PARTED_BOTH_WAYS = 93
    PARTED_ONE_WAY = 94
    LINK_SLOWED = 95
    ALL_CRASHED = 96
    # Of pairs that vote, too.
    STARTED_CUT_OFF = 97
    SCHEDULED_DELIVERED = 98
    # Of diverts and wildcard addresses.
    DIVERTED = 99
    WILDCARD_DELIVERED = 100
    GROUP_PASSED_ON = 101
    GROUP_REBALANCED = 102
    # What was due, or a group's, before its broker was replaced or started again.
    SCHEDULED_SURVIVED = 103
    REDELIVERY_DELAYED = 104
    REDELIVERY_SURVIVED = 105
    GROUP_SURVIVED = 106
    # Of users with few rights.
    FORBIDDEN_REFUSED = 107
    PERMITTED_PASSED = 108
    # Of an administrator.
    QUEUE_PAUSED = 109
    PAUSE_SURVIVED = 110
    PURGED = 111
    QUEUE_UPDATED = 112
    ADDRESS_BLOCKED = 113
    SETTINGS_CHANGED = 114
    GRANT_CHANGED = 115
    ACCEPTOR_STOPPED = 116
    CAME_BACK = 117
    REMOVED_BY_FILTER = 118
    SHARING_CHANGED = 119
    ROUTING_CHANGED = 120
    UPDATE_REFUSED = 121
    # Of bridges.
    BRIDGED = 122
    BRIDGED_LARGE = 123
    DISTURBED_WITH_SENDS = 124
    SOURCE_CRASHED = 125
    TARGET_CRASHED = 126
    BRIDGE_STOPPED = 127
    BRIDGE_PAUSED = 128
    BRIDGE_WAIT_ENDED = 129
    BRIDGE_GAVE_UP = 130
    BRIDGE_DOUBLED = 131
    BRIDGE_FOLLOWED = 132
    # Of clusters.
    CLUSTER_FORMED = 133
    BALANCED = 134
    TAKEN = 135
    TAKEN_ELSEWHERE = 136
    SENT_IN_FORMED_CLUSTER = 137
    SENT_IN_PART_OF_CLUSTER = 138
    FORWARDED = 139
    ACKNOWLEDGED_IN_DOUBT = 140
    TARGET_FAILED_OVER = 141
    TAKEN_OF_GROUP = 142
    SCALED_DOWN = 143
    SCALE_DOWN_INTERRUPTED = 144
    IN_DOUBT_WHOLE = 145
    IN_DOUBT_ABSENT = 146
    TAKEN_IN_ORDER = 147
    SUBSCRIPTION_CREATED = 148
    SUBSCRIPTION_DELETED = 149
    QUEUE_AUTO_CREATED = 150
    OWED_TO_SUBSCRIPTION = 151


@define(eq=False)
class Topic:
    """One address with the subscriptions (or the one queue) behind it: name -> color it takes, None for all."""

    address: str
    is_topic: bool
    subscriptions: dict[str, str | None] = field(factory=dict)
    #: Subscriptions that are not durable; they come and go.
    listeners: dict[str, str | None] = field(factory=dict)
    #: Its queue is created by its first user, and deleted when it is empty and unused.
    automatic: bool = False
    #: With diverts or wildcards in the scenario: what decides which queues a message reaches.
    routes: RoutingModel | None = None

    @property
    def account(self) -> str:
        """The destination under which the ledger keeps what is sent to this address."""
        return self.address if self.routes is None else self.routes.account

    @property
    def names(self) -> list[str]:
        """The names of all current subscriptions."""
        return [*self.subscriptions, *self.listeners]

    def reached_by(self, color: str) -> list[str]:
        """Return the subscriptions whose filter takes a color, those that diverts and wildcards reach included."""
        if self.routes is not None:
            return list(self.routes.reached(self.address, color))
        entries = (*self.subscriptions.items(), *self.listeners.items())
        return [name for name, taken in entries if taken is None or taken == color]


# Broken promises end the run at once. Here all clients report their arrivals and departures to the ledger at once, so a
# flag that comes too early is one of them.
_FATAL = FAULTS | Finding.FLAGGED_AT_ONCE
_AGAIN = Finding.REDELIVERED | Finding.DUPLICATED_FLAGGED


@define(eq=False)
class Scene:
    """The shared state of one scenario."""

    world: World
    ledger: Ledger
    phase: Phase = Phase.WORK
    operations: int = 0
    hits: list[int] = field(factory=lambda: [0] * len(Moment))
    redeliveries: RedeliveryTimes = field(factory=RedeliveryTimes)

    def hit(self, moment: Moment) -> None:
        """Count an interesting moment."""
        self.hits[moment] += 1

    def operate(self, actor: str, what: str, detail: object = "") -> None:
        """Count and trace one operation of a user."""
        self.operations += 1
        self.world.trace.add(self.world.now, actor, what, detail)

    def judge(self, finding: Finding, where: str, key: str) -> None:
        """End the run if a finding is a broken promise."""
        if not finding:
            return
        if finding & _AGAIN:
            self.hit(Moment.REDELIVERY)
        if finding & _FATAL:
            raise SimulationFailure(f"{where}: message {key}: {finding & _FATAL!r}")

    def fail(self, text: str) -> None:
        """End the run."""
        raise SimulationFailure(text)

    def color(self) -> str:
        """Return a random color."""
        return self.world.random.choice(COLORS)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.world.random.random() < probability

    def wall_to_virtual(self, wall_ms: int) -> float:
        """Return the virtual time of a wall time."""
        return (wall_ms - WALL_START_MS) / 1000
