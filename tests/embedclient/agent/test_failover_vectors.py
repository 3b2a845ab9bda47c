"""The agent fails over between recorded Artemis brokers as the Java client did, given the same answers."""

from __future__ import annotations

import json
from itertools import count

import pytest

from embedclient.agent import BytesReceived, Call, Dial, DialFailed, LocatorSettings
from embedclient.errors import (
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
    UnblockedException,
)
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    DisconnectV3,
    NullResponse,
    Packet,
    SessionCommit,
    SessionProducerCredits,
    SessionSend,
    SessionStart,
    decode_packet,
)
from tests.embedclient.agent.failover_replay import FailoverReplay
from tests.embedclient.agent.vector_replay import SERVERS, VECTORS, VectorReplay

CONNECTOR_A, CONNECTOR_B = (
    TransportConfiguration(name, parameters={"host": "127.0.0.1", "port": port}) for port, name in SERVERS.items()
)


@pytest.mark.parametrize("store", ["ss", "rp"])
@pytest.mark.parametrize("what", ["plain", "transacted", "unacked"])
def test_sessions_move_to_the_backup(what: str, store: str) -> None:
    FailoverReplay(f"client-failover-{what}-{store}").run()


@pytest.mark.parametrize(("store", "connections"), [("ss", [3, 4]), ("rp", [4, 5])])
def test_branches_that_were_prepared_are_there_and_others_are_lost(store: str, connections: list[int]) -> None:
    FailoverReplay(f"client-failover-xa-{store}", only=connections).run()


def test_a_send_in_flight_is_released() -> None:
    program = FailoverReplay("client-failover-send-inflight-ss")
    program.run()
    assert program.background is not None
    assert type(program.background.error) is UnblockedException


def test_a_commit_in_flight_has_an_unknown_outcome() -> None:
    program = FailoverReplay("client-failover-commit-inflight-ss")
    program.run()
    assert program.background is not None
    assert type(program.background.error) is TransactionOutcomeUnknownException


def test_sessions_are_reattached_at_the_same_broker_and_made_again_at_the_other() -> None:
    FailoverReplay("client-reattach-then-failover-ss").run()


@pytest.mark.parametrize(("store", "connections"), [("ss", [3, 4, 7, 10]), ("rp", [4, 5, 11, 14])])
def test_a_client_follows_to_the_backup_back_to_the_primary_and_to_the_backup_that_stands_in_for_a_stopped_one(
    store: str, connections: list[int]
) -> None:
    later = [f"client-failback-{store}", f"client-failover-orderly-stop-{store}"]
    program = FailoverReplay(f"client-failover-plain-{store}", only=connections, then=later)
    if store == "ss":
        # That program called while no broker was there, with credits from before; this client requests credits first.
        program.replay.hear_before(SessionProducerCredits, SessionSend)
    program.run()


def test_a_commit_called_during_the_failover_was_never_sent_and_is_known_to_be_rolled_back() -> None:
    """The recorded client sent it on the new session, where it committed nothing, and reported an unknown outcome."""
    program = FailoverReplay("client-commit-while-failing-over-ss")
    lost = [command for command, _ in program.commands].index("lose")
    program.run(lost)
    commits: list[Call[None]] = []

    def commit() -> None:
        if not commits:
            commits.append(program.sessions["s"].commit())

    program.replay.on_frame = commit
    # A session that is about to roll back comes back stopped, instead of started and stopped again.
    program.replay.leave_out(SessionStart())
    program.replay.leave_out_with_answer(SessionCommit(-1), NullResponse)
    program.run(lost + 1, first=lost)
    assert commits[0].done, program.replay.expected
    assert type(commits[0].error) is TransactionRolledBackException
    assert program.commands[lost + 1][0] == "commit s"
    program.run(first=lost + 2)


def test_a_send_called_at_any_moment_of_the_failover_is_answered_with_its_end() -> None:
    """Of 23 kills of an Artemis one left such a send waiting for its whole time-out, on a connection that worked."""
    for moment in count():
        program = FailoverReplay("client-failover-plain-ss")
        lost = [command for command, _ in program.commands].index("lose")
        program.run(lost)
        called = Countdown(moment, program)
        program.replay.on_frame = called
        program.run(lost + 1, first=lost)
        if called.call is None:
            break
        program.replay.finish(called.call)
    assert moment > 5


class Countdown:
    """Sends when the backup has sent so many packets."""

    def __init__(self, moment: int, program: FailoverReplay) -> None:
        self.call: Call[None] | None = None
        self._left = moment
        self._program = program

    def __call__(self) -> None:
        self._left -= 1
        if self._left == -1:
            self.call = self._program.producers["p"].send(self._program.replay.message())


def recorded_frames(name: str, kind: type[Packet]) -> list[bytes]:
    """What the broker sent to the client."""
    lines = [json.loads(line) for line in (VECTORS / "cluster" / f"{name}.jsonl").read_text().splitlines()]
    frames = [bytes.fromhex(line["hex"]) for line in lines if line.get("to") == "client" and not line.get("raw")]
    return [frame for frame in frames if isinstance(decode_packet(frame, 0, len(frame), 136, False), kind)]


@pytest.mark.parametrize("name", ["client-failover-orderly-stop-ss", "client-failover-orderly-stop-rp"])
def test_who_is_told_that_the_broker_stops_goes_to_the_backup_first(name: str) -> None:
    """The recorded client went back to the broker that stops, and waited 30 s for its answer."""
    program = FailoverReplay("client-failover-plain-ss")
    before_the_kill = [command for command, _ in program.commands].index("lose")
    program.run(before_the_kill)
    agent, now = program.replay.agent, program.replay.now
    (disconnect,) = recorded_frames(name, DisconnectV3)
    outputs = agent.step(BytesReceived(1, disconnect), now)
    dialed = []
    while (dial := next((output for output in outputs if isinstance(output, Dial)), None)) is not None:
        dialed.append(SERVERS[dial.connector.port])
        outputs = agent.step(DialFailed(dial.connection, "refused"), now)
    assert dialed == ["B", "A"]
    assert agent.next_deadline() == now.monotonic + 0.2


@pytest.mark.parametrize("store", ["ss", "rp"])
def test_a_backup_that_comes_later_and_goes_again_is_learnt(store: str) -> None:
    replay = VectorReplay(
        f"client-topology-pair-{store}", LocatorSettings(ha=True), CONNECTOR_A, folder="cluster", only=[1]
    )
    call = replay.agent.create_session(
        username="admin", password="admin", auto_commit_sends=False, auto_commit_acks=False, pre_acknowledge=False
    )
    initial = replay.finish(call)
    replay.finish(initial.metadata.add("jms-session", ""))
    replay.end()
    (node,) = replay.agent.topology.nodes.values()
    assert node.node_id == replay.agent.node_id
    assert [SERVERS[each.port] for each in node.connectors()] == ["A", "B"]


def test_nodes_of_a_cluster_come_and_go() -> None:
    replay = VectorReplay("client-topology-cluster", LocatorSettings(ha=True), CONNECTOR_B, folder="cluster", only=[8])
    heard: list[list[str]] = []
    call = replay.agent.create_session(
        username="admin", password="admin", auto_commit_sends=False, auto_commit_acks=False, pre_acknowledge=False
    )
    replay.on_frame = lambda: heard.append([SERVERS[each.port] for each in replay.agent.topology.connectors()])
    replay.finish(replay.finish(call).metadata.add("jms-session", ""))
    replay.end()
    assert [servers for servers, before in zip(heard, [None, *heard], strict=False) if servers != before] == [
        ["B"],
        ["B", "A"],
        ["B"],
        ["B", "A"],
    ]
