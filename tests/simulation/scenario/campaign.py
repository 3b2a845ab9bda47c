"""Many seeds together: what was done, what failed, and whether the interesting moments were met often enough.

A campaign that never crashes a broker in the middle of a segment switch proves nothing about segment switches, so each
moment has a minimum. It runs nothing and prints nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from attrs import define, field

from embedbroker.testing._scene import Moment

from .closing_round import OPERATIONS_MIN
from .plan import GroupMode
from .scenario import ScenarioFailed, SeedResult

__all__ = ["Campaign", "group_minima"]

#: Hits per 1,000 seeds that a campaign must reach: about a third of what it usually does.
#: Those of groups come with brokers that share a store.
MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.CRASH: 800,
    Moment.CRASH_WITH_UNSYNCED_RECORDS: 200,
    Moment.CRASH_WITH_OPEN_TRANSACTIONS: 250,
    Moment.CRASH_DURING_SEGMENT_SWITCH: 80,
    Moment.CRASH_DURING_COMPACTION: 60,
    Moment.CRASH_DURING_RECOVERY: 80,
    Moment.TORN_TAIL_CUT: 8,
    Moment.ORDERLY_RESTART: 60,
    Moment.DISK_FULL: 50,
    Moment.DISK_ERROR: 50,
    Moment.SLOW_DISK: 80,
    Moment.CONNECTION_CUT: 300,
    Moment.DIRECTION_HELD: 200,
    Moment.NETWORK_DELAYED: 80,
    Moment.CLIENT_CRASH: 80,
    Moment.REATTACHED: 50,
    Moment.REBUILT: 200,
    Moment.SEND_IN_DOUBT: 300,
    Moment.COMMIT_IN_DOUBT: 150,
    Moment.ROLLBACK: 5_000,
    Moment.REDELIVERY: 5_000,
    Moment.DEAD_LETTER: 100,
    Moment.EXPIRY: 300,
    Moment.SCHEDULED_DELIVERED: 2_000,
    Moment.GROUP_PASSED_ON: 100,
    Moment.GROUP_REBALANCED: 100,
    Moment.SCHEDULED_SURVIVED: 200,
    Moment.REDELIVERY_DELAYED: 200,
    Moment.GROUP_SURVIVED: 1_000,
    Moment.FORBIDDEN_REFUSED: 1_000,
    Moment.PERMITTED_PASSED: 400,
    Moment.REPLAY_COMPARED: 1_500,
    Moment.EXCLUSIVE_PASSED_ON: 60,
    Moment.PRIORITY_PREFERRED: 500,
    Moment.CONSUMER_REFUSED: 1_500,
    Moment.QUEUE_AUTO_DELETED: 100,
    Moment.CREDITS_DEFERRED: 400,
    Moment.CREDITS_GRANTED_LATE: 400,
    Moment.PRE_ACKNOWLEDGED: 6_000,
    Moment.SUBSCRIPTION_SHARED: 200,
    Moment.OLD_CLIENT: 100,
    Moment.RECOVERED_IN_SLICES: 300,
    Moment.ROLL_CALL_ANSWERED: 1_900,
    Moment.HALF_OPEN: 100,
    Moment.PEER_GIVEN_UP: 25,
    Moment.CONNECTION_STOPPED: 20_000,
    Moment.SENT_AGAIN_WITH_ID: 600,
    Moment.DUPLICATE_REJECTED: 4,
    Moment.BRANCH_PREPARED: 2_000,
    Moment.BRANCH_RECOVERED: 20,
    Moment.CRASH_WITH_PREPARED_BRANCHES: 20,
    Moment.ENDING_LEFT_ALONE: 1_000,
    Moment.BRANCH_JOINED: 120,
    Moment.BRANCH_RESUMED: 250,
    Moment.COMMITTED_IN_ONE_PHASE: 250,
    Moment.BRANCH_TIMED_OUT: 20,
    Moment.HEURISTIC_COMMIT: 150,
    Moment.HEURISTIC_ROLLBACK: 150,
    Moment.OUTCOME_SURVIVED_CRASH: 15,
    Moment.OUTCOME_FORGOTTEN: 300,
    Moment.SET_COMMITTED: 300,
    Moment.SET_REPLAYED: 70,
    Moment.SET_IN_DOUBT: 90,
    Moment.RANGE_READ_AGAIN: 60,
    Moment.LEASE_LOST: 60,
    Moment.CURSOR_TAKEN_OVER: 30,
    Moment.DIVERTED: 5_000,
    Moment.WILDCARD_DELIVERED: 5_000,
}
GROUP_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.CRASH: 600,
    Moment.CRASH_WITH_UNSYNCED_RECORDS: 100,
    Moment.CRASH_WITH_OPEN_TRANSACTIONS: 100,
    Moment.CRASH_DURING_SEGMENT_SWITCH: 10,
    Moment.CRASH_DURING_COMPACTION: 20,
    Moment.CRASH_DURING_RECOVERY: 150,
    Moment.CRASH_WITH_PREPARED_BRANCHES: 5,
    Moment.FAILOVER: 350,
    Moment.FAILBACK: 250,
    Moment.FROZEN_LIVE: 120,
    Moment.FROZEN_WAITER: 40,
    Moment.REPLACED_WHILE_FROZEN: 10,
    Moment.WOKE_UP_REPLACED: 6,
    Moment.PASSED_OVER: 60,
    Moment.ANSWER_OF_STORE_LOST: 20,
    Moment.STORE_LOST: 60,
    Moment.STORE_BROKE_IN_BATCH: 80,
    Moment.FULL_ON_ONE_SIDE: 60,
    Moment.CLOCK_JUMPED: 25,
    Moment.SLOW_DISK: 60,
    Moment.ALL_CRASHED: 20,
    Moment.LOCK_LOST: 6,
    Moment.BRANCHES_MOVED: 10,
    Moment.REBUILT: 200,
    Moment.SEND_IN_DOUBT: 200,
    Moment.COMMIT_IN_DOUBT: 80,
    Moment.BRANCH_PREPARED: 1_000,
    Moment.DUPLICATE_REJECTED: 2,
    Moment.HEURISTIC_COMMIT: 100,
    Moment.HEURISTIC_ROLLBACK: 100,
    Moment.OUTCOME_FORGOTTEN: 200,
    Moment.SET_COMMITTED: 250,
    Moment.SET_REPLAYED: 70,
    Moment.SET_IN_DOUBT: 70,
    Moment.RANGE_READ_AGAIN: 60,
    Moment.LEASE_LOST: 60,
    Moment.CURSOR_TAKEN_OVER: 30,
    Moment.DIVERTED: 5_000,
    Moment.SCHEDULED_DELIVERED: 2_000,
    Moment.SCHEDULED_SURVIVED: 200,
    Moment.REDELIVERY_DELAYED: 200,
    Moment.GROUP_PASSED_ON: 300,
    Moment.GROUP_SURVIVED: 1_000,
    Moment.FORBIDDEN_REFUSED: 500,
    Moment.PERMITTED_PASSED: 200,
    Moment.REPLAY_COMPARED: 1_000,
}
#: Here crashes are fewer, because so much else goes wrong, and copies are what matters.
REPLICA_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.CRASH: 300,
    Moment.CRASH_WITH_UNSYNCED_RECORDS: 40,
    Moment.CRASH_WITH_OPEN_TRANSACTIONS: 80,
    Moment.CRASH_WITH_PREPARED_BRANCHES: 5,
    Moment.CRASH_DURING_RECOVERY: 30,
    Moment.CRASH_IN_SYNC: 150,
    Moment.CRASH_DURING_INITIAL_COPY: 80,
    Moment.CRASH_DURING_CATCH_UP: 15,
    Moment.CRASH_DURING_FAILBACK: 20,
    Moment.CRASH_WHILE_CLAIMING: 60,
    Moment.BACKUP_IN_SYNC: 500,
    Moment.CONFIRMATION_HELD: 20,
    Moment.WENT_ON_ALONE: 50,
    Moment.COPY_COMPARED: 1_000,
    Moment.FAILOVER: 120,
    Moment.FAILBACK: 60,
    Moment.FROZEN_LIVE: 40,
    Moment.FROZEN_WAITER: 40,
    Moment.WOKE_UP_REPLACED: 4,
    Moment.LOCK_LOST: 10,
    Moment.ANSWER_OF_STORE_LOST: 40,
    Moment.STORE_LOST: 20,
    Moment.STORE_BROKE_IN_BATCH: 40,
    Moment.CUT_OFF_STORE: 40,
    Moment.MEMBERS_PARTED: 100,
    Moment.PARTED_BOTH_WAYS: 90,
    Moment.PARTED_ONE_WAY: 80,
    Moment.LINK_SLOWED: 60,
    Moment.SLOW_DISK: 40,
    Moment.ALL_CRASHED: 35,
    Moment.FULL_ON_ONE_SIDE: 20,
    Moment.CLOCK_JUMPED: 10,
    Moment.DISK_ERROR: 20,
    Moment.REBUILT: 200,
    Moment.SEND_IN_DOUBT: 100,
    Moment.COMMIT_IN_DOUBT: 50,
    Moment.BRANCH_PREPARED: 1_000,
    Moment.HEURISTIC_COMMIT: 100,
    Moment.HEURISTIC_ROLLBACK: 100,
    Moment.OUTCOME_FORGOTTEN: 200,
    Moment.SET_COMMITTED: 250,
    Moment.SET_REPLAYED: 70,
    Moment.SET_IN_DOUBT: 70,
    Moment.RANGE_READ_AGAIN: 60,
    Moment.LEASE_LOST: 60,
    Moment.CURSOR_TAKEN_OVER: 30,
    Moment.DIVERTED: 5_000,
    Moment.SCHEDULED_DELIVERED: 2_000,
    Moment.SCHEDULED_SURVIVED: 40,
    Moment.REDELIVERY_DELAYED: 200,
    Moment.GROUP_PASSED_ON: 300,
    Moment.GROUP_SURVIVED: 1_000,
    Moment.FORBIDDEN_REFUSED: 500,
    Moment.PERMITTED_PASSED: 200,
    Moment.REPLAY_COMPARED: 1_000,
}

#: Here it matters what was asked, and what came of it.
VOTE_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.CRASH: 300,
    Moment.CRASH_WITH_UNSYNCED_RECORDS: 50,
    Moment.CRASH_WITH_OPEN_TRANSACTIONS: 150,
    Moment.VOTES_REQUESTED: 1_400,
    Moment.VOTE_LOST: 600,
    Moment.VOTER_SILENT: 500,
    Moment.VOTER_RESTARTED: 150,
    Moment.TOOK_OVER_BY_VOTE: 200,
    Moment.WENT_ON_BY_VOTE: 250,
    Moment.BEGAN_BY_VOTE: 200,
    Moment.CRASH_WHILE_VOTING: 75,
    Moment.ONE_SURVIVED_PARTITION: 25,
    Moment.STARTED_CUT_OFF: 150,
    Moment.MEMBERS_PARTED: 300,
    Moment.PARTED_BOTH_WAYS: 300,
    Moment.PARTED_ONE_WAY: 230,
    Moment.LINK_SLOWED: 40,
    # One among 60 seeds each, which meet 3 to 5 of them.
    Moment.SLOW_DISK: 17,
    Moment.ALL_CRASHED: 17,
    Moment.CRASH_WITH_PREPARED_BRANCHES: 17,
    Moment.FULL_ON_ONE_SIDE: 17,
    Moment.CLOCK_JUMPED: 17,
    Moment.CONFIRMATION_HELD: 150,
    Moment.WENT_ON_ALONE: 250,
    Moment.BACKUP_IN_SYNC: 1_000,
    Moment.FAILOVER: 150,
    Moment.FAILBACK: 75,
    Moment.FROZEN_LIVE: 50,
    Moment.COPY_COMPARED: 1_500,
    Moment.REBUILT: 500,
    Moment.SEND_IN_DOUBT: 150,
    Moment.COMMIT_IN_DOUBT: 100,
    Moment.BRANCH_PREPARED: 1_000,
    Moment.SET_COMMITTED: 250,
    Moment.SET_REPLAYED: 70,
    Moment.SET_IN_DOUBT: 70,
    Moment.RANGE_READ_AGAIN: 60,
    Moment.LEASE_LOST: 60,
    Moment.CURSOR_TAKEN_OVER: 30,
    Moment.DIVERTED: 5_000,
    Moment.SCHEDULED_DELIVERED: 2_000,
    Moment.SCHEDULED_SURVIVED: 200,
    Moment.REDELIVERY_DELAYED: 200,
    Moment.GROUP_PASSED_ON: 300,
    Moment.GROUP_SURVIVED: 1_000,
    Moment.FORBIDDEN_REFUSED: 500,
    Moment.PERMITTED_PASSED: 200,
    Moment.REPLAY_COMPARED: 1_500,
}
#: Of an administrator, in all modes.
ADMINISTRATION_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.QUEUE_PAUSED: 4_000,
    Moment.PAUSE_SURVIVED: 300,
    Moment.PURGED: 500,
    Moment.QUEUE_UPDATED: 1_000,
    Moment.ADDRESS_BLOCKED: 500,
    Moment.SETTINGS_CHANGED: 800,
    Moment.GRANT_CHANGED: 500,
    Moment.REMOVED_BY_FILTER: 500,
    Moment.SHARING_CHANGED: 1_000,
    Moment.ROUTING_CHANGED: 500,
    Moment.UPDATE_REFUSED: 200,
}
_ACCEPTOR_MINIMA_PER_1000: Mapping[Moment, int] = {
    Moment.ACCEPTOR_STOPPED: 500,
    Moment.CAME_BACK: 400,
}
_MINIMA_OF_MODE = {
    GroupMode.SHARED_STORE: GROUP_MINIMA_PER_1000,
    GroupMode.REPLICATION: REPLICA_MINIMA_PER_1000,
    GroupMode.VOTES: VOTE_MINIMA_PER_1000,
}


def group_minima(mode: GroupMode | None) -> Mapping[Moment, int]:
    """What a campaign of groups must reach; without a mode each seed chooses one, and half of them choose each."""
    if mode is not None:
        return _MINIMA_OF_MODE[mode]
    both = (GROUP_MINIMA_PER_1000, REPLICA_MINIMA_PER_1000)
    moments = dict.fromkeys(moment for minima in both for moment in minima)
    return {moment: sum(minima.get(moment, 0) for minima in both) // len(both) for moment in moments}


#: Below this number of seeds the minima say more about luck than about the campaign. Of pairs that vote each seed meets
#: much of the little that is asked for.
SEEDS_FOR_MINIMA = 200
VOTE_SEEDS_FOR_MINIMA = 60
FAULTS_MIN = 3
OPERATIONS_MIN_OF_SITES = 40


@define(eq=False)
class Campaign:
    """The sum of many seeds; ``minima`` are the hits per 1,000 seeds that it must reach, if it has so many seeds."""

    minima: Mapping[Moment, int] = field(default=MINIMA_PER_1000, kw_only=True)
    seeds_for_minima: int = field(default=SEEDS_FOR_MINIMA, kw_only=True)
    operations_min: int = field(default=OPERATIONS_MIN, kw_only=True)
    seeds: int = 0
    operations: int = 0
    faults: int = 0
    events: int = 0
    hits: list[int] = field(factory=lambda: [0] * len(Moment))
    failures: list[ScenarioFailed] = field(factory=list)
    thin: list[int] = field(factory=list)
    digests: dict[int, str] = field(factory=dict)

    def add(self, result: SeedResult) -> None:
        """One seed ran clean."""
        self.seeds += 1
        self.operations += result.operations
        self.faults += result.faults
        self.events += result.events
        self.hits = [total + hit for total, hit in zip(self.hits, result.hits, strict=True)]
        self.digests[result.seed] = result.digest
        if result.operations < self.operations_min or result.faults < FAULTS_MIN:
            self.thin.append(result.seed)

    def add_failure(self, failure: ScenarioFailed) -> None:
        """One seed failed."""
        self.seeds += 1
        self.failures.append(failure)

    def digest(self) -> str:
        """One digest over all seeds, whatever the order in which they ran."""
        lines = [f"{seed} {digest}\n" for seed, digest in sorted(self.digests.items())]
        return hashlib.blake2b("".join(lines).encode(), digest_size=16).hexdigest()

    def shortcomings(self) -> list[str]:
        """Why the campaign proves less than it should: moments met too rarely, seeds that did too little."""
        least = self.operations_min
        found = [f"seed {seed} has fewer than {least} operations or {FAULTS_MIN} faults" for seed in self.thin]
        if self.seeds < self.seeds_for_minima:
            return found
        for moment, minimum in self.minima.items():
            wanted = minimum * self.seeds // 1000
            if self.hits[moment] < wanted:
                found.append(f"{moment.name.lower()}: {self.hits[moment]} hits, at least {wanted} are wanted")
        return found

    @classmethod
    def of_groups(cls, mode: GroupMode | None) -> Campaign:
        """With what seeds of groups must meet; without a mode each seed chooses one."""
        seeds = VOTE_SEEDS_FOR_MINIMA if mode is GroupMode.VOTES else SEEDS_FOR_MINIMA
        return cls(minima=group_minima(mode), seeds_for_minima=seeds)

    @classmethod
    def of_sites(cls, minima: Mapping[Moment, int]) -> Campaign:
        """With what seeds of several brokers must meet. What brokers do by themselves is no operation."""
        return cls(minima=minima, operations_min=OPERATIONS_MIN_OF_SITES)

    def add_administrator(self, *, has_acceptor: bool) -> None:
        """Each seed has an administrator: the campaign must meet what one does, too. Groups keep their acceptors."""
        self.minima = {**self.minima, **ADMINISTRATION_MINIMA_PER_1000}
        if has_acceptor:
            self.minima = {**self.minima, **_ACCEPTOR_MINIMA_PER_1000}

    @property
    def passed(self) -> bool:
        """True if no seed failed and nothing fell short."""
        return not self.failures and not self.shortcomings()

    def summary(self) -> dict[str, object]:
        """Plain values for a report in JSON."""
        return {
            "passed": self.passed,
            "seeds": self.seeds,
            "failed_seeds": sorted(failure.seed for failure in self.failures),
            "shortcomings": self.shortcomings(),
            "operations": self.operations,
            "faults": self.faults,
            "events": self.events,
            "hits": {moment.name.lower(): self.hits[moment] for moment in Moment},
            "digest": self.digest(),
        }
