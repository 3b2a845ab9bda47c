"""Orderly stops of a live broker whose backup is not in sync."""

from __future__ import annotations

import pytest

from embedbroker.config import Role
from embedbroker.replication import ReplicatorState
from embedbroker.storage import DiskWork, Lane
from embedbroker.testing._disk_works import DiskWorks
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, both


def hold_the_copy(brokers: Brokers, name: str, patch: pytest.MonkeyPatch) -> None:
    """A disk that has read which files there are, and takes hours for what is in them."""
    begin = DiskWorks.begin
    node = brokers.node(name)

    def slowly(works: DiskWorks, work: DiskWork) -> float:
        lasts = begin(works, work)
        if works.name != name:
            return lasts
        replicator = node.replica_disk.replicator if node.replica_disk is not None else None
        copies = replicator is not None and replicator.statistics().copy_begun
        return 10_000.0 if work.lane is Lane.COPY and copies else lasts

    patch.setattr(DiskWorks, "begin", slowly)


@both
def test_a_stop_does_not_wait_for_a_copy_that_is_not_whole(manager: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last work of the journal may rename or remove a file that is not copied."""
    brokers = Brokers("pq", manager=manager)
    brokers.primary("p", PRIMARY)
    brokers.until_role("p", Role.LIVE)
    writer = brokers.writer("p", "q")
    brokers.until(lambda: len(writer.confirmed) > 3_000, within_s=120.0)
    hold_the_copy(brokers, "p", monkeypatch)
    brokers.backup("q", BACKUP)
    replica_disk = brokers.node("p").replica_disk
    assert replica_disk is not None and replica_disk.replicator is not None
    replicator = replica_disk.replicator
    brokers.until(lambda: replicator.statistics().copy_begun)
    # No broker needs what is copied any more.
    kernel = brokers.node("p").kernel
    kernel.teardown.delete_queue(kernel.address_manager.queues["orders"])
    brokers.until(lambda: bool(replicator.statistics().withheld), within_s=120.0)
    assert replicator.state is ReplicatorState.COPYING
    brokers.hosts["p"].stop()
    assert brokers.until_role("p", Role.STOPPED) < 1.0
    brokers.run(5.0)
    assert brokers.role("q") is Role.BACKUP and brokers.failures["p"] is None
    brokers.hosts["p"].start()
    brokers.until_in_sync("p")
