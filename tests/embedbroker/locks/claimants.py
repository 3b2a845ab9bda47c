"""Claims of several brokers on one lock store, with a clock by hand.

Responsible for starting, stopping and killing them and for letting time pass. Refuses to check anything itself.
"""

from __future__ import annotations

from attrs import define, evolve, field

from embedbroker.config import HAPolicy, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import (
    Claim,
    ClaimState,
    LiveState,
    LockFault,
    LockSession,
    LockWork,
    ReadRecord,
    StoreRecord,
    called,
)
from embedbroker.testing._locks import SimulatedLocks

__all__ = ["BACKUP", "PRIMARY", "Broker", "Group"]

PRIMARY, BACKUP = SharedStorePrimary(), SharedStoreBackup()


@define(eq=False)
class Broker:
    """A claim with its session; it settles at once when it is granted, like a broker whose journal is empty."""

    group: Group
    name: str
    policy: HAPolicy
    timeout_ms: int = -1
    journal: int = 7
    settles: bool = True
    gives_way: bool = True
    claim: Claim = field(init=False)
    session: LockSession = field(init=False)
    work: LockWork | None = field(init=False, default=None)
    frozen: bool = False

    def start(self) -> Broker:
        self.claim = Claim(self.policy, self.timeout_ms, self.group.new_life())
        self.session = self.group.locks.open(called(self.policy, self.name))
        self.claim.begin(self.group.now)
        self.group.living.append(self)
        self.group.settle()
        return self

    def die(self) -> None:
        """Killed: its locks are free, the record stays."""
        self.session.close()
        self.group.living.remove(self)

    def stop(self) -> None:
        self.claim.leave(self.claim.farewell)
        self.group.settle()

    def turn(self) -> bool:
        """One batch, if there is one."""
        if self.frozen:
            return False
        claim, now = self.claim, self.group.now
        claim.on_time(now)
        if claim.state is ClaimState.GRANTED and self.settles:
            claim.meet_journal(self.journal)
            if claim.failure is None:
                claim.settle(claim.record.node_id or f"node of {self.name}", self.journal)
        work = claim.take_work(now)
        if work is not None:
            try:
                results = self.session.run(work.operations)
            except LockFault as fault:
                claim.on_failed(work.batch, fault, now)
            else:
                claim.on_done(work.batch, results, now)
        if claim.state is ClaimState.OVER and self in self.group.living:
            self.die()
        elif self.gives_way and claim.wanted_by is not None and claim.state is ClaimState.LIVE:
            self.claim.leave(LiveState.FAILING_BACK)
        return work is not None

    @property
    def state(self) -> ClaimState:
        return self.claim.state

    def stands(self, state: ClaimState) -> bool:
        return self.claim.state is state

    @property
    def failure(self) -> str:
        return self.claim.failure or ""

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.claim.notes]


@define(eq=False)
class Group:
    """Brokers on one store."""

    locks: SimulatedLocks = field(factory=SimulatedLocks)
    now: float = 0.0
    lives: int = 0
    living: list[Broker] = field(factory=list)

    def new_life(self) -> int:
        self.lives += 1
        return self.lives

    def settle(self) -> None:
        """Everything that happens at this moment, in turns."""
        while sum(broker.turn() for broker in list(self.living)):
            pass

    def wait(self, seconds: float = 2.5) -> None:
        """Time passes."""
        end = self.now + seconds
        while (due := [each.claim.next_deadline() for each in self.living if not each.frozen]) and self.now <= end:
            moments = [moment for moment in due if moment is not None]
            if not moments or min(moments) > end:
                break
            self.now = max(self.now, min(moments))
            self.settle()
        self.now = end

    def primary(self, name: str = "p", policy: HAPolicy = PRIMARY) -> Broker:
        return Broker(self, name, policy).start()

    def backup(self, name: str = "a", policy: HAPolicy = BACKUP) -> Broker:
        return Broker(self, name, policy).start()

    def record(self) -> StoreRecord:
        """The content of the store, from any writer."""
        (record,) = self.locks.open("test").run((ReadRecord(),))
        assert isinstance(record, StoreRecord)
        return evolve(record, life=None)
