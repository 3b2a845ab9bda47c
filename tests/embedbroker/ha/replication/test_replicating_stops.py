"""Orderly stops of a live broker whose backup is not in sync."""

from __future__ import annotations

from embedbroker.config import Role
from embedbroker.replication import ReplicatorState
from embedbroker.storage import DiskWork, Lane
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, both


def hold_the_copy(brokers: Brokers, name: str) -> None:
    """A disk that has read which files there are, and takes hours for what is in them."""
    works = brokers.hosts[name]._works
    begin = works.begin
    node = brokers.node(name)

    def slowly(work: DiskWork) -> float:
        replicator = node.replica_disk.replicator if node.replica_disk is not None else None
        copying = replicator._copying if replicator is not None else None
        lasts = begin(work)
        return 10_000.0 if work.lane is Lane.COPY and copying is not None and copying.begun else lasts

    works.begin = slowly  # type: ignore[method-assign]


@both
def test_a_stop_does_not_wait_for_a_copy_that_is_not_whole(manager: bool) -> None:
    """The last work of the journal may rename or remove a file that is not copied."""
    brokers = Brokers("pq", manager=manager)
    brokers.primary("p", PRIMARY)
    brokers.until_role("p", Role.LIVE)
    writer = brokers.writer("p", "q")
    brokers.until(lambda: len(writer.confirmed) > 3_000, within_s=120.0)
    hold_the_copy(brokers, "p")
    brokers.backup("q", BACKUP)
    replica_disk = brokers.node("p").replica_disk
    assert replica_disk is not None and replica_disk.replicator is not None
    replicator = replica_disk.replicator
    brokers.until(lambda: replicator._copying is not None and replicator._copying.begun)
    # No broker needs what is copied any more.
    kernel = brokers.node("p").kernel
    kernel.teardown.delete_queue(kernel.address_manager.queues["orders"])
    brokers.until(lambda: bool(replicator._withheld), within_s=120.0)
    assert replicator.state is ReplicatorState.COPYING
    brokers.hosts["p"].stop()
    assert brokers.until_role("p", Role.STOPPED) < 1.0
    brokers.run(5.0)
    assert brokers.role("q") is Role.BACKUP and brokers.failures["p"] is None
    brokers.hosts["p"].start()
    brokers.until_in_sync("p")
