"""The packets to each broker of recorded pairs and clusters, sent to a node in its place: it answers as they did.

Compared are types and fields of all packets, each channel in its exact order. What differs, and why, stands in the
tables below; a lane that is named there and does not differ is an error, too.
"""

from __future__ import annotations

import pytest

from tests.vectors.captures import FOLDER

from .replay import Heard, Scene, replay

# A primary that has been live for a while when the recording begins, and whose backup is there.
PRIMARY = Scene("A", 0.5, (Heard(0.6, "B", backup=True),))
# The backup, seconds after it took over.
LATE = Scene("B", 5.0)

SCENES = {
    "backup-announce-ss": [Scene("A", 1.87)],
    "backup-announce-rp": [Scene("A", 9.612)],
    "client-topology-pair-ss": [Scene("A", 1.87, (Heard(4.838, "B", backup=True),))],
    "client-topology-pair-rp": [
        Scene("A", 9.612, (Heard(21.02, "B", backup=True), Heard(21.05, "B", backup=True))),
    ],
    "client-topology-cluster": [
        Scene(
            "B",
            8.3,
            (
                Heard(9.0, "A"),
                Heard(15.23, "A", gone=True),
                *(Heard(at_s, "A") for at_s in (22.6, 22.87, 23.56, 24.55)),
            ),
        )
    ],
    "cluster-password-wrong": [Scene("A", 15.0)],
    "client-commit-while-failing-over-ss": [PRIMARY, Scene("B", 14.3)],
    "client-failback-ss": [Scene("A", 45.897), LATE],
    "client-failover-commit-inflight-ss": [PRIMARY, Scene("B", 61.18)],
    "client-failover-orderly-stop-rp": [LATE],
    "client-failover-orderly-stop-ss": [LATE],
    "client-failover-plain-rp": [PRIMARY, Scene("B", 13.07)],
    "client-failover-plain-ss": [PRIMARY, LATE],
    "client-failover-send-inflight-ss": [PRIMARY, Scene("B", 10.94)],
    "client-failover-transacted-rp": [PRIMARY, Scene("B", 12.79)],
    "client-failover-transacted-ss": [PRIMARY, LATE],
    "client-failover-unacked-rp": [PRIMARY, Scene("B", 17.83)],
    "client-failover-unacked-ss": [PRIMARY, Scene("B", 11.24)],
    "client-failover-xa-rp": [PRIMARY, Scene("B", 8.68)],
    "client-failover-xa-ss": [PRIMARY, Scene("B", 11.26)],
    "client-reattach-then-failover-ss": [PRIMARY, LATE],
    "client-failback-rp": [
        Scene("A", 77.015, (Heard(78.038, "B", backup=True),)),
        Scene("B", 5.0, (Heard(76.49, "A", backup=True),)),
    ],
    "replication-already-replicating": [PRIMARY],
    "replication-quorum-vote": [Scene("C", 0.5)],
    "replication-quorum-vote-unanswered": [Scene("C", 0.5)],
}

STORE = "the backup has no messages and branches of the primary here: that is what a shared store or replication is for"
KILLED = "the recorded broker was killed, or frozen, before it answered"
SYNCHRONISED = "a live broker tells of a replicating backup twice: once when it is in sync, which nobody is here"
UNSEEN = "Artemis learns the refused broker by subscribing to it; ours listens to nobody who does not let it in"
FOREIGN = "replication is between embedbrokers: a backup of another make is refused, where Artemis took it"
ANSWERED = "a broker of Artemis that does not replicate never answers a vote, and is waited for; ours answers always"
MEMBERS = "Artemis tells of members in no order; what it hears of them on links of its own is not in the recording"
BRIDGED = "the queues of a snapshot are in no order, and a broker of Artemis has some of its own"
CLOSED = "the recorded connection was closed before its last answer"

# By scenario and broker: connection and channel of the lanes that differ.
EXPLAINED: dict[tuple[str, str], dict[tuple[int, int], str]] = {
    ("backup-announce-rp", "A"): {
        (2, 0): SYNCHRONISED,
        (3, 0): SYNCHRONISED,
        (3, 3): FOREIGN,
        (4, 0): SYNCHRONISED,
    },
    ("client-failback-rp", "A"): {(12, 3): FOREIGN},
    ("client-failback-rp", "B"): {(9, 0): FOREIGN, (9, 3): FOREIGN},
    ("replication-already-replicating", "A"): {(5, 3): FOREIGN, (6, 3): FOREIGN},
    ("replication-quorum-vote", "C"): {(11, 0): MEMBERS, (12, 0): MEMBERS, (12, 11): BRIDGED},
    ("replication-quorum-vote-unanswered", "C"): {(10, 3): ANSWERED, (11, 3): ANSWERED},
    ("cluster-password-wrong", "A"): {(1, 0): UNSEEN, (2, 0): UNSEEN, (5, 0): CLOSED},
    ("client-commit-while-failing-over-ss", "A"): {(3, 11): KILLED},
    ("client-failover-commit-inflight-ss", "A"): {(3, 11): KILLED},
    ("client-failover-send-inflight-ss", "A"): {(3, 11): KILLED},
    ("client-failover-send-inflight-ss", "B"): {(4, 12): STORE},
    ("client-failover-unacked-rp", "B"): {(5, 11): STORE, (5, 12): STORE},
    ("client-failover-unacked-ss", "B"): {(4, 11): STORE, (4, 12): STORE},
    ("client-failover-xa-rp", "B"): {(5, 11): STORE, (5, 12): STORE, (6, 11): STORE},
    ("client-failover-xa-ss", "B"): {(4, 11): STORE, (4, 12): STORE, (5, 11): STORE},
}

# Artemis hangs up on the backup that it has handed over to; to a node without a backup any peer may do that.
HUNG_UP = {("client-failback-rp", "B"): {9}}

CASES = [(name, scene) for name, scenes in SCENES.items() for scene in scenes]


@pytest.mark.parametrize(("name", "scene"), CASES, ids=[f"{name}-{scene.broker}" for name, scene in CASES])
def test_a_node_in_the_place_of_a_recorded_broker_says_the_same(name: str, scene: Scene) -> None:
    transcript = replay(FOLDER / "cluster" / f"{name}.jsonl", scene)
    explained = EXPLAINED.get((name, scene.broker), {})
    lanes = {(lane.connection, lane.channel) for lane in (*transcript.recorded, *transcript.ours)}
    different = {lane: text for lane in lanes if (text := transcript.difference_in(*lane))}
    assert {lane: text for lane, text in different.items() if lane not in explained} == {}
    assert set(explained) == set(different)
    assert transcript.recorded_closed == transcript.closed | HUNG_UP.get((name, scene.broker), set())


def test_every_recording_is_replayed() -> None:
    assert {path.stem for path in (FOLDER / "cluster").glob("*.jsonl")} == set(SCENES)
