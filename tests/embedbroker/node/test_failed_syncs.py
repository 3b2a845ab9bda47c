"""A broker whose disk failed to sync comes back as a copy: what it reads may be gone with the next power cut."""

from __future__ import annotations

from embedbroker.config import Role
from tests.embedbroker.ha.replication.replicating import goes_on, pair


def test_a_batch_whose_sync_failed_is_on_the_disk_when_the_broker_caught_up() -> None:
    brokers, writer = pair()
    p, q = brokers.hosts["p"], brokers.hosts["q"]
    brokers.until(p.writing)
    p.disk.fail_at(p.disk.operations + 1)  # the write is done, its sync fails
    brokers.until_role("p", Role.STOPPED)
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    # The process starts again, the machine does not. It joins, catches up, and the other one gives way.
    p.start()
    brokers.until_role("p", Role.LIVE)
    assert "are there already" in brokers.said("q")
    goes_on(brokers, writer, "p")
    brokers.until_in_sync("p")
    q.crash()
    goes_on(brokers, writer, "p")
    brokers.run(2.0)
    p.disk.lose_unsynced()
    p.crash()
    p.start()
    brokers.until_role("p", Role.LIVE)
    assert set(writer.confirmed) - set(brokers.kept("p")) == set()
