"""A backup that queries the lock manager: what it does meanwhile, and what the answer is about."""

from __future__ import annotations

from typing import cast

import pytest

from embedbroker.cluster import Membership
from embedbroker.config import Role
from embedbroker.ha._record_file import RecordFile
from embedbroker.ha.quorum import Electorate
from embedbroker.ha.replication._activation import ReplicationActivation
from embedbroker.ha.replication._election import Election
from embedbroker.ha.replication._node_record import NodeRecord
from embedbroker.ha.replication._stages import Event, Stage
from embedbroker.locks import ActivationAttempt, AttemptResult
from embedbroker.replication import ReplicaRecord
from embedclient.model import Instant
from tests.embedbroker.ha.replication.replicating import BACKUP, goes_on, pair


def test_who_asks_to_be_live_joins_nobody_in_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that comes late, in which it is time for both.

    1. q requests the lease of the manager, which is slow, and joins p, which has gone on alone meanwhile.
    2. q is in sync, p dies, and the manager answers that what q had when it asked is old.
    """
    brokers, writer = pair(lease_s=6.0)
    assert brokers.manager is not None
    brokers.manager.cut_off["backup 'q'"] = None
    brokers.part("p", "q")
    brokers.until(lambda: "goes on without a backup" in brokers.said("p"))
    activation = brokers.node("q").activation
    assert activation is not None
    seen: list[tuple[Stage, bool]] = []
    cluster: Membership | None = brokers.node("q").cluster
    assert cluster is not None
    on_time = ReplicationActivation.on_time

    def noting(self: ReplicationActivation, now: Instant) -> None:
        # It may join p as soon as there is a link to it: then it is time for both.
        if self is activation and cluster.links and not self._backup_role.is_joined:
            self._due = now.monotonic
        on_time(self, now)
        if self is activation:
            seen.append((self._stage, self._backup_role.is_joined))

    monkeypatch.setattr(ReplicationActivation, "on_time", noting)
    brokers.network.heal()
    brokers.run(3.0)
    assert any(stage is Stage.REQUESTING_LEASE for stage, _ in seen)
    assert (Stage.REQUESTING_LEASE, True) not in seen
    monkeypatch.undo()
    del brokers.manager.cut_off["backup 'q'"]
    brokers.until_in_sync("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


@pytest.mark.parametrize(("asked_with", "is_whole"), [(1, True), (2, False)])
def test_that_older_data_is_stale_says_nothing_of_what_came_since(asked_with: int, is_whole: bool) -> None:
    record_file = RecordFile()
    record_file.record = ReplicaRecord("node", 100, 2, in_sync=True)
    said: list[str] = []
    electorate = cast(Electorate, None)
    node_record = NodeRecord(BACKUP, record_file, electorate, has_manager=True)

    def report(warning: bool, text: str) -> None:
        said.append(text)
        assert not warning, "that a backup has older data is ordinary"

    election = Election(
        BACKUP, cast(Membership, None), electorate, node_record, None, lambda warning, text: None, report
    )
    event = election.on_attempt(ActivationAttempt(AttemptResult.STALE, asked_with, "another copy is newer"))
    assert record_file.record.in_sync is is_whole and event is Event.REFUSED
