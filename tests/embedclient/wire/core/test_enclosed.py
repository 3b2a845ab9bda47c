"""What brokers of ours say inside the packet of a vote: bytes that were worked out by hand, and what makes no sense."""

from __future__ import annotations

from random import Random

import pytest

from embedclient.errors import RemoteProtocolError
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    BACKUP_VOTE_HANDLER,
    PRIMARY_VOTE_HANDLER,
    BackupVote,
    ClusterConnectReply,
    LiveVote,
    Packet,
    QuorumVote,
    QuorumVoteReply,
    ReplicaRegistration,
    ReplicaWaiting,
    decode_packet,
    enclose,
    enclosed_in,
    encode_packet,
    encode_vote,
)

CONNECTOR = TransportConfiguration("a", "F", {}, {})
WORKED = [
    (
        ReplicaRegistration(1, "n1", "g", True, CONNECTOR),
        "EmbedbrokerReplica",
        "00000001 00000002 006E 0031 01 00000001 0067 FF 00000001 0061 00000001 0046 00000000 00",
    ),
    (
        ReplicaWaiting(1, "n1", 5, True, False, CONNECTOR, "b"),
        "EmbedbrokerWaiting",
        "00000001 00000002 006E 0031 0000000000000005 FF 00 00000001 0061 00000001 0046 00000000 01 00000001 0062",
    ),
]
# Its last field may be left out.
WHOLE = WORKED[1]


@pytest.mark.parametrize(("said", "handler", "body"), WORKED)
def test_what_is_said_has_the_bytes_that_were_worked_out(
    said: ReplicaRegistration | ReplicaWaiting, handler: str, body: str
) -> None:
    packet = enclose(said)
    assert packet == QuorumVote(handler, bytes.fromhex(body))
    frame = encode_packet(packet, 3, 136)
    assert enclosed_in(decode_packet(frame, 0, len(frame), 136, True)) == said


def test_what_is_cut_off_is_refused() -> None:
    _, handler, text = WHOLE
    body = bytes.fromhex(text)
    for end in range(len(body)):
        with pytest.raises(RemoteProtocolError):
            enclosed_in(QuorumVote(handler, body[:end]))


@pytest.mark.parametrize(("handler", "text"), [worked[1:] for worked in WORKED])
def test_whatever_else_comes_in_its_place_is_read_or_refused(handler: str, text: str) -> None:
    for seed in range(200):
        random, body = Random(seed), bytearray.fromhex(text)
        for _ in range(random.randint(1, 4)):
            body[random.randrange(len(body))] = random.randrange(256)
        try:
            enclosed_in(QuorumVote(handler, bytes(body)))
        except RemoteProtocolError:
            continue
        except Exception as error:
            error.add_note(f"seed {seed}: {body.hex()}")
            raise


@pytest.mark.parametrize(
    "packet",
    [ClusterConnectReply(True), QuorumVote(PRIMARY_VOTE_HANDLER, encode_vote(LiveVote(True, "n1")))],
)
def test_every_other_packet_carries_itself(packet: Packet) -> None:
    assert enclosed_in(packet) is packet


def test_a_vote_about_a_backup_has_the_bytes_of_artemis_and_a_tail_that_it_does_not_read() -> None:
    question = bytes.fromhex("FFFFFFFF 00 00")
    assert enclosed_in(QuorumVote(BACKUP_VOTE_HANDLER, question)) == BackupVote(-1, None, False, 0)
    answer = bytes.fromhex("00000002 01 00000001 006E FF")
    assert enclosed_in(QuorumVoteReply(BACKUP_VOTE_HANDLER, answer)) == BackupVote(2, "n", True, 0)
    assert encode_vote(BackupVote(2, "n", True, 1)) == answer + bytes.fromhex("00000001")
    for end in range(len(answer)):
        with pytest.raises(RemoteProtocolError):
            enclosed_in(QuorumVoteReply(BACKUP_VOTE_HANDLER, answer[:end]))
