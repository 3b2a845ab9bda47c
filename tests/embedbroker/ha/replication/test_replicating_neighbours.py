"""A backup whose data may be the newest, and whose lease is not over yet, among other pairs that could use it."""

from __future__ import annotations

from embedbroker.config import Role
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, goes_on, pair


def test_a_backup_waits_for_the_lease_and_not_for_a_primary_that_looks_for_a_backup() -> None:
    """1. p dies, its lease lasts for 6 s. 2. q tries for 2 s. 3. y would take q, and p's messages were put aside."""
    brokers, writer = pair(lease_s=6.0, statics="pqy")
    brokers.primary("y", PRIMARY)
    brokers.until_role("y", Role.LIVE)
    brokers.run(3.0)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE, 12.0)
    goes_on(brokers, writer, "q")


def test_primaries_that_have_backups_do_not_put_off_what_a_backup_asks_the_lock_manager() -> None:
    """As above; each refusal of y and z made q wait for two seconds more."""
    brokers, writer = pair(lease_s=6.0, statics="pqyazb")
    for live, backup in ("ya", "zb"):
        brokers.primary(live, PRIMARY)
        brokers.until_role(live, Role.LIVE)
        brokers.run(1.0)
        brokers.backup(backup, BACKUP)
        brokers.until_in_sync(live)
    brokers.run(3.0)
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE, 12.0)
    goes_on(brokers, writer, "q")


def test_a_backup_that_was_left_behind_joins_whoever_takes_it() -> None:
    brokers, writer = pair(lease_s=2.0, statics="pqy")
    brokers.crash("q")
    goes_on(brokers, writer, "p")
    brokers.crash("p")
    brokers.primary("y", PRIMARY)
    brokers.until_role("y", Role.LIVE)
    brokers.hosts["q"].start()
    brokers.until_in_sync("y", 20.0)
    assert "another copy is newer" in brokers.said("q")
