"""Whose data is the newest: brokers of one node with a lock manager, and a clock by hand."""

from __future__ import annotations

import pytest
from attrs import define, field

from embedbroker.locks import (
    AttemptResult,
    GiveLease,
    LeaseActivation,
    LeaseOperation,
    LeaseSession,
    LeaseWork,
    LockFault,
    TakeLease,
)
from embedbroker.testing._leases import SimulatedLockManager

KEY = "9e6c1b2a-0f3b-11f1-b3a4-02fc00000001"


@define(eq=False)
class Broker:
    """What a broker does with its activation: it notes its number at once, unless it is to die before."""

    pair: Pair
    name: str
    number: int = 0
    notes: bool = True
    activation: LeaseActivation = field(init=False)
    session: LeaseSession = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.activation = LeaseActivation(KEY)
        self.session = self.pair.manager.open(self.name)

    def turn(self) -> bool:
        activation, now = self.activation, self.pair.now
        was_busy = activation.is_busy
        activation.on_time(now)
        number = activation.epoch_to_write()
        if number is not None and self.notes:
            self.number = number
            activation.on_written(number)
        work = activation.take_work(now)
        if work is not None:
            self.do(work)
        return work is not None or number is not None or was_busy != activation.is_busy

    def do(self, work: LeaseWork) -> None:
        try:
            results = self.session.run(work.operations)
        except LockFault as fault:
            self.activation.on_failed(work.batch, fault, self.pair.now)
        else:
            self.activation.on_done(work.batch, results, self.pair.now)

    def tries(self) -> AttemptResult:
        self.activation.try_to_activate(self.number, self.pair.now)
        return self.outcome()

    def goes_on_alone(self) -> AttemptResult:
        self.activation.renew(self.number, self.pair.now)
        return self.outcome()

    def outcome(self) -> AttemptResult:
        while self.activation.is_busy and self.pair.step():
            pass
        attempt = self.activation.attempt
        assert attempt is not None
        return attempt.verdict

    def dies(self) -> None:
        self.session.close()
        self.pair.brokers.remove(self)

    def failure(self) -> str | None:
        return self.activation.failure

    def over(self) -> bool:
        return self.activation.is_over

    @property
    def text(self) -> str:
        assert self.activation.attempt is not None
        return self.activation.attempt.text


@define(eq=False)
class Pair:
    lease_s: float | None = None
    now: float = 0.0
    brokers: list[Broker] = field(factory=list)
    manager: SimulatedLockManager = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.manager = SimulatedLockManager(lambda: self.now, self.lease_s)

    def broker(self, name: str, number: int = 0, *, notes: bool = True) -> Broker:
        broker = Broker(self, name, number, notes)
        self.brokers.append(broker)
        return broker

    def settle(self) -> None:
        while sum(broker.turn() for broker in list(self.brokers)):
            pass

    def step(self) -> bool:
        """Everything of this moment, or time up to the next thing to do. False: nothing will happen any more."""
        if any(broker.turn() for broker in list(self.brokers)):
            return True
        dues = [due for broker in self.brokers if (due := broker.activation.next_deadline()) is not None]
        if not dues:
            return False
        self.now = max(self.now, min(dues))
        return True

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (dues := [due for each in self.brokers if (due := each.activation.next_deadline()) is not None]) and min(
            dues
        ) <= end:
            self.now = max(self.now, min(dues))
            self.settle()
        self.now = end
        self.settle()

    @property
    def number(self) -> int:
        return self.manager.sequences.get(KEY, 0)


def test_the_first_broker_of_a_node_is_granted_and_counts() -> None:
    pair = Pair()
    primary = pair.broker("p")
    assert primary.tries() is AttemptResult.GRANTED
    assert (primary.number, pair.number, pair.manager.holder(KEY)) == (1, 1, "p")


def test_a_backup_that_is_in_sync_takes_over_and_counts_on() -> None:
    pair = Pair()
    primary = pair.broker("p")
    primary.tries()
    backup = pair.broker("b", primary.number)
    primary.dies()
    assert backup.tries() is AttemptResult.GRANTED
    assert (backup.number, pair.number) == (2, 2)
    returning = pair.broker("p", 1)
    assert returning.tries() is AttemptResult.STALE
    assert returning.text == "the data here is of epoch 1, and there has been epoch 2: another copy is newer"


def test_a_backup_in_sync_waits_a_while_for_the_lease_and_is_told_who_has_it() -> None:
    pair = Pair()
    primary = pair.broker("primary 'p'")
    primary.tries()
    backup = pair.broker("b", primary.number)
    assert backup.tries() is AttemptResult.TAKEN
    assert 1.9 <= pair.now <= 2.1
    assert backup.text == "primary 'p' has the right to be live"
    assert primary.failure() is None


def test_a_primary_that_goes_on_alone_leaves_its_backup_behind() -> None:
    pair = Pair()
    primary = pair.broker("p")
    primary.tries()
    backup = pair.broker("b", primary.number)
    assert primary.goes_on_alone() is AttemptResult.GRANTED
    assert (primary.number, pair.number) == (2, 2)
    primary.dies()
    assert backup.tries() is AttemptResult.STALE
    assert pair.manager.holder(KEY) is None


def test_whoever_claims_and_dies_before_it_noted_that_leaves_its_backup_as_good_as_itself() -> None:
    pair = Pair()
    primary = pair.broker("p")
    primary.tries()
    backup = pair.broker("b", primary.number)
    primary.notes = False
    primary.activation.renew(primary.number, pair.now)
    pair.settle()
    assert (primary.number, pair.number) == (1, -2)
    primary.dies()
    assert backup.tries() is AttemptResult.GRANTED
    assert (backup.number, pair.number) == (3, 3)


def test_whoever_claims_notes_it_and_dies_repairs_that_when_it_returns() -> None:
    pair = Pair()
    pair.manager.sequences[KEY] = -5
    returning = pair.broker("p", 5)
    assert returning.tries() is AttemptResult.GRANTED
    assert (returning.number, pair.number) == (6, 6)


def test_a_claim_leaves_behind_who_was_behind_before() -> None:
    pair = Pair()
    pair.manager.sequences[KEY] = -5
    assert pair.broker("b", 3).tries() is AttemptResult.STALE


def test_a_broker_that_was_frozen_behind_its_claim_ends_when_another_one_went_on() -> None:
    pair = Pair(lease_s=3.0)
    primary = pair.broker("p")
    primary.tries()
    backup = pair.broker("b", primary.number)
    primary.activation.renew(primary.number, pair.now)
    for _question in ("what is the number?", "is it mine?"):
        work = primary.activation.take_work(pair.now)
        assert work is not None
        primary.do(work)
    assert primary.activation.epoch_to_write() == 2
    pair.brokers.remove(primary)
    pair.now += 10.0
    assert backup.tries() is AttemptResult.GRANTED
    pair.brokers.append(primary)
    primary.activation.on_written(2)
    pair.settle()
    assert primary.failure() is not None
    assert pair.number == backup.number == 3


def test_a_lock_manager_that_knows_less_than_the_data_is_not_believed() -> None:
    pair = Pair()
    primary = pair.broker("p", 4)
    assert primary.tries() is AttemptResult.STALE
    assert "it is another lock manager, or has lost its data" in primary.text


def test_a_manager_that_cannot_be_reached_fails_the_attempt_and_may_be_asked_again() -> None:
    pair = Pair()
    primary = pair.broker("p")
    pair.manager.reachable = False
    assert primary.tries() is AttemptResult.FAILED and primary.text == "the lock manager cannot be reached"
    pair.manager.reachable = True
    assert primary.tries() is AttemptResult.GRANTED


def test_a_lease_is_kept_as_long_as_its_broker_lives() -> None:
    pair = Pair(lease_s=3.0)
    primary = pair.broker("p")
    primary.tries()
    pair.wait(60)
    assert primary.failure() is None and pair.manager.holder(KEY) == "p"
    assert not primary.activation.is_lapsed(pair.now)


def test_the_right_ends_before_the_lease_when_the_manager_is_not_there() -> None:
    pair = Pair(lease_s=3.0)
    primary = pair.broker("p")
    primary.tries()
    pair.manager.reachable = False
    pair.wait(2.4)
    assert primary.failure() is None
    pair.wait(0.2)
    assert primary.failure() == "the lock manager has not answered in time: another broker may be live"
    assert primary.activation.is_lapsed(pair.now) and pair.now < 3.0


def test_a_manager_that_is_away_for_a_moment_costs_nothing() -> None:
    pair = Pair(lease_s=3.0)
    primary = pair.broker("p")
    primary.tries()
    for _ in range(5):
        pair.manager.reachable = False
        pair.wait(1.2)
        pair.manager.reachable = True
        pair.wait(1.2)
    assert primary.failure() is None and pair.manager.holder(KEY) == "p"


def test_a_lease_that_was_taken_away_ends_its_broker() -> None:
    pair = Pair()
    primary = pair.broker("p")
    primary.tries()
    pair.manager.revoke(KEY)
    pair.wait(0.6)
    assert primary.failure() == "the lease is lost: another broker may be live"


def test_a_broker_that_leaves_gives_its_lease_back_and_nobody_waits_for_it() -> None:
    pair = Pair(lease_s=3.0)
    primary = pair.broker("p")
    primary.tries()
    primary.activation.leave()
    assert not primary.over()
    pair.settle()
    assert primary.over() and pair.manager.holder(KEY) is None


@pytest.mark.parametrize("reachable", [True, False])
def test_leaving_ends_also_without_the_manager_and_in_the_middle_of_an_attempt(reachable: bool) -> None:
    pair = Pair()
    primary = pair.broker("p")
    primary.activation.try_to_activate(0, pair.now)
    work = primary.activation.take_work(pair.now)
    assert work is not None
    primary.activation.leave()
    assert not primary.over()
    pair.manager.reachable = reachable
    primary.do(work)
    pair.settle()
    assert primary.over()


def test_a_lease_that_is_not_sure_any_more_ends_an_attempt_and_not_the_broker() -> None:
    """1. A backup takes the lease. 2. The manager stalls for longer than the lease is sure. 3. It answers again."""
    pair = Pair(lease_s=3.0)
    backup = pair.broker("b")
    activation = backup.activation
    activation.try_to_activate(0, pair.now)
    while pair.manager.holder(KEY) is None:
        assert backup.turn()
    late = activation.take_work(pair.now)
    assert late is not None
    pair.now += 2.9
    activation.on_time(pair.now)
    attempt = activation.take_attempt()
    assert attempt is not None and attempt.verdict is AttemptResult.FAILED and activation.failure is None
    backup.do(late)
    pair.settle()
    assert pair.manager.holder(KEY) is None and not activation.holds
    assert backup.tries() is AttemptResult.GRANTED


def test_a_lease_that_was_taken_away_in_an_attempt_is_asked_for_again() -> None:
    pair = Pair()
    backup = pair.broker("b")
    backup.notes = False  # the attempt stands where the number is to be noted
    backup.activation.try_to_activate(0, pair.now)
    while pair.number == 0:
        backup.turn()
    pair.manager.revoke(KEY)
    pair.now += 0.6
    backup.turn()
    attempt = backup.activation.take_attempt()
    assert attempt is not None and attempt.verdict is AttemptResult.FAILED and backup.failure() is None
    backup.activation.on_written(1)  # of the attempt that is over
    backup.notes = True
    assert backup.tries() is AttemptResult.GRANTED and pair.manager.holder(KEY) == "b"


def test_a_number_claimed_by_somebody_who_is_gone_leaves_nobody_behind() -> None:
    """1. P looks, to go on without its backup, and is frozen; its lease ends. 2. B has the lease and looks as well.
    3. P wakes up, claims the next number, and finds out. 4. B's claim fails; nothing was confirmed without it."""
    pair = Pair()
    primary, backup = pair.broker("p"), pair.broker("b")
    assert primary.tries() is AttemptResult.GRANTED
    backup.number = primary.number
    primary.activation.renew(primary.number, pair.now)
    primary.turn()
    pair.manager.revoke(KEY)
    backup.activation.try_to_activate(backup.number, pair.now)
    while pair.manager.holder(KEY) is None:
        assert backup.turn()
    backup.turn()
    primary.turn()
    primary.dies()
    assert backup.outcome() is AttemptResult.FAILED
    backup.activation.drop()
    assert backup.tries() is AttemptResult.GRANTED and backup.number == 3


def test_an_attempt_for_another_node_waits_until_the_former_lease_is_given_back() -> None:
    pair = Pair()
    backup = pair.broker("b")
    assert backup.tries() is AttemptResult.GRANTED
    backup.activation.drop()
    giving = backup.activation.take_work(pair.now)
    assert giving is not None
    backup.activation.change_key("another node")
    backup.activation.try_to_activate(1, pair.now)
    backup.do(giving)
    work = backup.activation.take_work(pair.now)
    assert work is not None and {operation.key for operation in work.operations} == {"another node"}


@define(eq=False)
class Flaky:
    """A session whose first batch with an operation of a kind fails, with that done or not; ``seen`` is all of it."""

    inner: LeaseSession
    kind: type[object]
    done: bool
    seen: list[LeaseOperation] = field(factory=list)
    immediate: bool = True

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        self.seen.extend(operations)
        if not isinstance(operations[0], self.kind) or self.seen.count(operations[0]) > 1:
            return self.inner.run(operations)
        if self.done:
            self.inner.run(operations[:1])
        raise LockFault("the lock manager cannot be reached any more")

    def close(self) -> None:
        self.inner.close()


def failing(broker: Broker, kind: type[object], *, done: bool) -> list[LeaseOperation]:
    """What a broker requests from now on; the first of a kind fails."""
    flaky = Flaky(broker.session, kind, done)
    broker.session = flaky
    return flaky.seen


@pytest.mark.parametrize("done", [True, False])
def test_a_lease_that_was_taken_without_an_answer_is_given_back(done: bool) -> None:
    """The other one went on meanwhile: this one is behind, and would never ask for the lease again."""
    pair = Pair()
    stale, newest = pair.broker("b"), pair.broker("a", 1)
    seen = failing(stale, TakeLease, done=done)
    assert stale.tries() is AttemptResult.FAILED
    assert (pair.manager.holder(KEY) == "b") is done
    pair.manager.sequences[KEY] = 1
    pair.wait(1.0)
    assert seen[-1] == GiveLease(KEY) and pair.manager.holder(KEY) is None
    assert stale.tries() is AttemptResult.STALE
    assert newest.tries() is AttemptResult.GRANTED
    pair.wait(5.0)
    assert seen.count(GiveLease(KEY)) == 1


@pytest.mark.parametrize("done", [True, False])
def test_a_lease_that_was_given_back_without_an_answer_is_given_back_again(done: bool) -> None:
    pair = Pair()
    broker = pair.broker("a")
    assert broker.tries() is AttemptResult.GRANTED
    seen = failing(broker, GiveLease, done=done)
    broker.activation.drop()
    pair.wait(1.0)
    assert seen.count(GiveLease(KEY)) == 2 and pair.manager.holder(KEY) is None
    pair.wait(5.0)
    assert seen.count(GiveLease(KEY)) == 2


def test_a_lease_that_is_held_again_is_not_given_back() -> None:
    pair = Pair()
    broker = pair.broker("a")
    seen = failing(broker, TakeLease, done=True)
    assert broker.tries() is AttemptResult.FAILED
    assert broker.tries() is AttemptResult.GRANTED
    pair.wait(5.0)
    assert GiveLease(KEY) not in seen and pair.manager.holder(KEY) == "a"
