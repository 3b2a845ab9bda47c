"""What a replicating broker remembers of itself."""

from __future__ import annotations

import pytest

from embedbroker.replication._record import DamagedRecord, ReplicaRecord


@pytest.mark.parametrize(
    "record",
    [
        ReplicaRecord(),
        ReplicaRecord("a node", None, 0, False),
        ReplicaRecord("a node", 2**63 - 1, 5, True),
        ReplicaRecord("a node", 7, 5, True, gave_way=True),
        ReplicaRecord("a node", 7, 5, True, quorum=3),
        ReplicaRecord("a node", 7, 5, True, quorum=3, last_batch=0),
        ReplicaRecord("a node", 7, 5, True, last_batch=2**63 - 1),
        ReplicaRecord("a node", 7, 5, True, quorum=3, newest_segment=12),
        ReplicaRecord("a node", 7, 5, True, partner="a: b\n\u2028\u00e9", quorum=3),
    ],
)
def test_it_is_read_as_it_was_written(record: ReplicaRecord) -> None:
    assert ReplicaRecord.read(record.text()) == record


def test_a_broker_that_gets_a_backup_keeps_the_node_id_that_its_lock_store_wrote() -> None:
    text = b"state: paused\nnode: a node\njournal: 1f\nfile: 1234\n"
    assert ReplicaRecord.read(text) == ReplicaRecord("a node", 0x1F, 0, True)


def test_without_votes_it_says_nothing_of_them() -> None:
    assert b"quorum" not in ReplicaRecord("a node", 7, 5, True).text()
    assert not ReplicaRecord("a node", 7, 5, True).is_only_one


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"state: active\n",
        b"\xff\xff",
        b"state: active\nnode: n\njournal: x\n",
        b"state: active\nnode: n\njournal: 1\nquorum: many\n",
        b"state: active\nnode: n\njournal: 1\nquorum: 3\npartner: \\x\n",
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_what_to_do(text: bytes) -> None:
    with pytest.raises(DamagedRecord, match=r"node\.state is damaged: remove it"):
        ReplicaRecord.read(text)
