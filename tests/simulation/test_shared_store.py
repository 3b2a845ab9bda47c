"""Brokers that share a store in a simulated world: one at a time is live, nothing confirmed is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from embedbroker.config import Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import Acquire, Claim, LiveState, Lock, MemoryLocks, StoreRecord, Verify

from .store_group import PRIMARY, StoreGroup

SEEDS = range(1, 16)


def serving(backups: int = 1, seed: int = 1, **policies: SharedStorePrimary | SharedStoreBackup) -> StoreGroup:
    """All brokers are started, the primary serves, and something was sent."""
    group = StoreGroup(seed, backups, **policies)
    group.start(*group.hosts)
    group.run_until(PRIMARY, Role.LIVE)
    group.run(1.0)
    assert len(group.writer.confirmed) > 50
    return group


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.search) for seed in range(1, 5))])
def test_a_backup_recovers_from_synced_bytes_what_was_confirmed(seed: int) -> None:
    """The checker looks at the moment it serves; unsynced sectors of the live broker are lost with it."""
    group = serving(seed=seed)
    group.crash(group.hosts[PRIMARY])
    group.run_until("backup-1", Role.LIVE)
    assert group.failovers[0] < 0.2
    before = len(group.writer.confirmed)
    group.run(1.0)
    assert len(group.writer.confirmed) > before


def test_a_backup_opens_no_journal_and_takes_no_client_before_it_is_live() -> None:
    group = StoreGroup(1)
    group.start("backup-1")
    group.run(5.0)
    backup = group.hosts["backup-1"]
    assert (group.role("backup-1"), backup.connections, backup.under_way) == (Role.BACKUP, 0, {})
    assert group.writer.confirmed == []
    group.start(PRIMARY)
    group.run_until(PRIMARY, Role.LIVE)
    group.run(1.0)
    assert group.writer.confirmed != []


def test_an_orderly_stop_is_an_outage_until_the_primary_comes_back() -> None:
    group = serving()
    group.hosts[PRIMARY].stop()
    group.run_until(PRIMARY, Role.STOPPED)
    confirmed = len(group.writer.confirmed)
    group.run(60.0)
    assert (group.role("backup-1"), len(group.writer.confirmed)) == (Role.BACKUP, confirmed)
    group.start(PRIMARY)
    group.run_until(PRIMARY, Role.LIVE)


def test_failover_on_shutdown_makes_an_orderly_stop_a_failover() -> None:
    group = serving(primary=SharedStorePrimary(failover_on_shutdown=True))
    group.hosts[PRIMARY].stop()
    group.run_until("backup-1", Role.LIVE)


def test_a_crash_of_the_backup_costs_the_live_broker_nothing() -> None:
    group = serving()
    group.crash(group.hosts["backup-1"])
    group.run(1.0)
    group.crash(group.hosts[PRIMARY])
    group.start(*group.hosts)
    group.run_until(PRIMARY, Role.LIVE)


def test_failback_moves_the_work_back_and_makes_the_other_a_backup_again() -> None:
    group = serving()
    for _ in range(3):
        group.crash(group.hosts[PRIMARY])
        group.run_until("backup-1", Role.LIVE)
        group.run(1.0)
        group.start(PRIMARY)
        group.run_until(PRIMARY, Role.LIVE, within_s=2.0)
        group.run(1.0)
        assert group.roles == [Role.LIVE, Role.BACKUP]


def test_backups_step_up_until_nobody_is_left() -> None:
    group = serving(backups=5)
    for left in range(5, 0, -1):
        live = group.live
        assert live is not None
        group.crash(live)
        group.run(1.0)
        assert sorted(role.value for role in group.roles) == [
            *["backup"] * (left - 1),
            "live",
            *["stopped"] * (6 - left),
        ]
    assert len(group.failovers) == 5 and max(group.failovers) < 0.2


def test_both_die_and_whoever_starts_first_goes_on() -> None:
    group = serving()
    group.crash(group.hosts[PRIMARY])
    group.crash(group.hosts["backup-1"])
    group.start("backup-1")
    group.run_until("backup-1", Role.LIVE)


def test_a_live_broker_that_lost_its_lock_confirms_nothing_more() -> None:
    group = StoreGroup(1, 0)
    group.start(*group.hosts)
    group.run(1.0)
    group.locks.revoke(Lock.LIVE)
    group.run_until(PRIMARY, Role.STOPPED, within_s=0.6)
    group.run(0.1)  # what it had sent arrives
    confirmed = len(group.writer.confirmed)
    group.run(5.0)
    assert len(group.writer.confirmed) == confirmed
    group.start(*group.hosts)
    group.run_until(PRIMARY, Role.LIVE)


@pytest.mark.timeout(900)  # seconds on a machine that does nothing else
def test_random_faults_with_one_and_with_several_backups() -> None:
    hits: Counter[str] = Counter()
    failovers: list[float] = []
    for seed in SEEDS:
        group = StoreGroup(seed, backups=1 + seed % 3)
        group.start(*group.hosts)
        group.run_seed()
        hits.update(group.hits)
        failovers += group.failovers
    for moment, least in {
        "crash of the live": 30,
        "crash when backup": 15,
        "crash when activating": 5,
        "orderly stop": 20,
        "stop that fails over": 20,
        "lock store away": 15,
        "a primary waits": 5,
    }.items():
        assert hits[moment] >= least, hits
    assert len(failovers) >= 20


def test_a_seed_gives_one_trace() -> None:
    def digest() -> str:
        group = StoreGroup(7, 2)
        group.start(*group.hosts)
        group.run_seed()
        return group.world.trace.digest()

    assert digest() == digest()


# -- what the checkers are worth -------------------------------------------------------------------------------------


def run_seeds() -> None:
    for seed in SEEDS:
        group = StoreGroup(seed, backups=2)
        group.start(*group.hosts)
        group.run_seed()


def test_a_store_that_gives_a_lock_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLocks, "take", lambda self, lock, session: True)
    monkeypatch.setattr(MemoryLocks, "holds", lambda self, lock, session: True)
    monkeypatch.setattr(StoreRecord, "may_follow", lambda self, life: True)
    with pytest.raises(AssertionError, match="have the journal"):
        run_seeds()


def test_a_backup_that_does_not_wait_for_the_lock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Claim.on_done

    def believes(self: Claim, batch: int, results: tuple[object, ...], now: float) -> None:
        asked = zip(self._under_way or (), results, strict=True)
        granted = [True if isinstance(operation, Acquire | Verify) else result for operation, result in asked]
        original(self, batch, tuple(granted), now)

    monkeypatch.setattr(Claim, "on_done", believes)
    monkeypatch.setattr(MemoryLocks, "holds", lambda self, lock, session: True)
    monkeypatch.setattr(StoreRecord, "may_follow", lambda self, life: True)
    with pytest.raises(AssertionError, match="have the journal"):
        run_seeds()


def test_a_stop_that_does_not_say_so_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "farewell", property(lambda self: LiveState.ACTIVE))
    with pytest.raises(AssertionError):
        test_an_orderly_stop_is_an_outage_until_the_primary_comes_back()


def test_a_backup_that_never_gives_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "wanted_by", property(lambda self: None, lambda self, value: None), raising=False)
    with pytest.raises(AssertionError):
        run_seeds()


def test_a_record_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no backup ever takes over."""
    monkeypatch.setattr(
        MemoryLocks, "record", property(lambda self: StoreRecord(), lambda self, value: None), raising=False
    )
    with pytest.raises(AssertionError):
        test_a_backup_recovers_from_synced_bytes_what_was_confirmed(1)
