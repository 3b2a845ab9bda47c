"""A backup that asks the lock manager: what it does meanwhile, and what the answer is about."""

from __future__ import annotations

from typing import cast

import pytest

from embedbroker.cluster import Membership
from embedbroker.config import Role
from embedbroker.ha._record_file import RecordKeeper
from embedbroker.ha.quorum import Electorate
from embedbroker.ha.replication._activation import Mandate
from embedbroker.ha.replication._election import Candidacy
from embedbroker.ha.replication._node_record import Chronicle
from embedbroker.ha.replication._stages import Stage
from embedbroker.locks import Trial, Verdict
from embedbroker.replication import ReplicaRecord
from embedclient.model import Instant
from tests.embedbroker.ha.replication.replicating import BACKUP, goes_on, pair


def test_who_asks_to_be_live_joins_nobody_in_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that comes late, in which it is time for both.

    1. q asks the manager, which is slow, and joins p, which has gone on alone meanwhile.
    2. q is in sync, p dies, and the manager answers that what q had when it asked is old.
    """
    brokers, writer = pair(lease_s=6.0)
    assert brokers.manager is not None
    brokers.manager.cut_off["backup 'q'"] = None
    brokers.part("p", "q")
    brokers.until(lambda: "goes on without a backup" in brokers.said("p"))
    mandate = brokers.node("q")._mandate
    assert mandate is not None
    seen: list[tuple[Stage, bool]] = []
    begin_anew = Mandate._begin_anew

    def late(self: Mandate, now: Instant) -> None:
        if self is mandate and self._standby._candidates() and not self._standby.is_joined:
            self._due = now.monotonic
        begin_anew(self, now)

    on_time = Mandate.on_time

    def noting(self: Mandate, now: Instant) -> None:
        on_time(self, now)
        if self is mandate:
            seen.append((self._stage, self._standby.is_joined))

    monkeypatch.setattr(Mandate, "_begin_anew", late)
    monkeypatch.setattr(Mandate, "on_time", noting)
    brokers.network.heal()
    brokers.run(3.0)
    assert any(stage is Stage.TRYING for stage, _ in seen)
    assert (Stage.TRYING, True) not in seen
    monkeypatch.undo()
    del brokers.manager.cut_off["backup 'q'"]
    brokers.until_in_sync("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")


@pytest.mark.parametrize(("asked_with", "is_whole"), [(1, True), (2, False)])
def test_that_older_data_is_stale_says_nothing_of_what_came_since(asked_with: int, is_whole: bool) -> None:
    keeper = RecordKeeper()
    keeper.record = ReplicaRecord("node", 100, 2, in_sync=True)
    said: list[str] = []
    electorate = cast(Electorate, None)
    chronicle = Chronicle(BACKUP, keeper, electorate, has_manager=True)
    candidacy = Candidacy(
        BACKUP, cast(Membership, None), electorate, chronicle, None, lambda warning, text: None, said.append
    )
    refused: list[bool] = []
    candidacy.on_refused = lambda: refused.append(True)
    candidacy.on_trial(Trial(Verdict.STALE, asked_with, "another copy is newer"))
    assert keeper.record.in_sync is is_whole and refused == [True]
