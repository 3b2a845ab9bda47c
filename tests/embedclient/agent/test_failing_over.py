"""What a client does when its broker fails over, or does not."""

from __future__ import annotations

from itertools import pairwise, repeat

import pytest
from attrs import evolve

from embedclient.agent import (
    Agent,
    AgentState,
    ConnectionFailed,
    FailoverCompleted,
    FailureDetected,
    FirstElementPolicy,
    LocatorSettings,
    SessionMode,
)
from embedclient.errors import ErrorCode
from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    CheckForFailover,
    CreateQueueV2,
    CreateSession,
    DisconnectReason,
    DisconnectV3,
    NullResponse,
    ReattachSession,
    SessionCommit,
    SessionRollback,
    encode_packet,
)
from tests.embedclient.agent.artemis_double import VERSION
from tests.embedclient.agent.node_pair import SeededEntropy, text_message, text_of
from tests.embedclient.agent.server_pair import FAILING_OVER, PAIR_OF_A_AND_B, A, B, C, ServerPair


def test_the_backup_that_the_broker_told_of_gets_the_sessions() -> None:
    pair = ServerPair()
    session = pair.session()
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    pair.finish(producer.send(text_message("before", "q")))
    pair.fail_over()
    assert pair.dialed == "aabab"
    assert pair.b.said(CheckForFailover) == [CheckForFailover("node")]
    assert len(pair.b.said(ReattachSession)) == len(pair.b.said(CreateSession)) == 1
    assert [type(each) for each in pair.notifications] == [FailureDetected, FailoverCompleted, ConnectionFailed]
    pair.finish(producer.send(text_message("after", "q")))
    received = [consumer.next(pair.now), consumer.next(pair.now)]
    assert [each and text_of(each) for each in received] == ["before", "after"]
    assert pair.agent.connector == B


def test_endless_attempts_go_back_and_forth_between_the_servers_of_the_pair() -> None:
    pair = ServerPair()
    session = pair.session()
    pair.crash(pair.a)
    pair.advance(60)
    assert pair.agent.state is AgentState.RECONNECTING
    tried = pair.dialed[1:]
    assert len(tried) > 1_000
    assert set(pairwise(tried)) == {("a", "b"), ("b", "a")}
    pair.a.up = True
    pair.advance(0.1)
    pair.crash(pair.a)
    pair.advance(60)
    pair.b.up = True
    pair.advance(0.1)
    pair.finish(session.create_producer("q").send(text_message("x", "q")))


def test_a_named_backup_is_found_that_the_broker_never_told_of() -> None:
    pair = ServerPair(FAILING_OVER, A, B)
    pair.a.tells = (("node", A, None),)
    session = pair.session()
    pair.fail_over()
    pair.finish(session.create_producer("q").send(text_message("x", "q")))


def test_a_broker_that_does_not_take_over_is_left_at_once() -> None:
    pair = ServerPair()
    pair.session()
    pair.crash(pair.a)
    pair.b.up, pair.b.takes_over = True, False
    pair.advance(1)
    assert pair.agent.state is AgentState.RECONNECTING
    assert not pair.b.said(ReattachSession)
    assert pair.dialed.count("b") > 3
    pair.a.up = True
    pair.advance(0.1)
    assert pair.agent.connector == A


def test_a_broker_with_another_id_after_each_restart_is_one_node() -> None:
    pair = ServerPair(evolve(FAILING_OVER, reconnect_attempts=1, failover_attempts=-1))
    session = pair.session()
    for restart in range(5):
        pair.a.tells = ((f"node {restart}", A, None),)
        pair.crash(pair.a)
        pair.a.up = True
        pair.advance(1)
        assert list(pair.agent.topology.nodes) == [f"node {restart}"]
    pair.finish(session.create_producer("q").send(text_message("x", "q")))


INSIDE_A, INSIDE_B, INSIDE_C = (
    TransportConfiguration(name, parameters={"host": f"inside-{name}", "port": 1}) for name in "abc"
)
TRANSLATED = (("node", INSIDE_A, INSIDE_B), ("other", INSIDE_C, None))


@pytest.mark.parametrize("strict", [True, False])
def test_behind_translated_addresses_no_session_goes_to_another_node(strict: bool) -> None:
    """1. The broker announces two nodes, under addresses not used here. 2. It crashes. 3. The other node lives."""
    pair = ServerPair(FAILING_OVER, A, B, C)
    pair.a.tells = TRANSLATED
    if strict:
        pair.a.stands_in_for = pair.b.stands_in_for = "node"
        pair.c.stands_in_for = "other"
    session = pair.session()
    assert [check.node_id for check in pair.a.said(CheckForFailover)] == ["node", "other"]  # type: ignore[attr-defined]
    pair.crash(pair.a)
    pair.c.up = True
    pair.advance(1)
    assert pair.agent.state is AgentState.RECONNECTING
    assert not pair.c.said(ReattachSession)
    if strict:
        assert CheckForFailover("node") in pair.c.said(CheckForFailover)
        pair.b.up = True
    else:
        assert "c" not in pair.dialed
        pair.a.up = True
    pair.advance(1)
    assert pair.agent.connector == (B if strict else A)
    pair.finish(session.create_producer("q").send(text_message("x", "q")))


def test_a_server_that_stops_says_which_node_it_was() -> None:
    pair = ServerPair(FAILING_OVER, A, B)
    pair.a.tells = TRANSLATED
    session = pair.session()
    pair.a.silent = pair.b.up = True
    pair.b.stands_in_for = "node"
    pair.say(pair.a, DisconnectV3("node", DisconnectReason.SHUT_DOWN))
    pair.advance(1)
    assert pair.agent.connector == B and pair.b.said(CheckForFailover) == [CheckForFailover("node")]
    pair.finish(session.create_producer("q").send(text_message("x", "q")))


def test_sessions_wait_for_a_backup_that_is_still_starting() -> None:
    pair = ServerPair()
    session = pair.session()
    pair.crash(pair.a)
    pair.b.up, pair.b.refusals = True, repeat(True, 3)
    waiting = session.create_producer("q").send(text_message("x", "q"))
    pair.settle()
    assert not waiting.done
    pair.advance(1)
    pair.finish(waiting)
    assert len(pair.b.said(CreateSession)) == 4


def test_a_broker_that_never_takes_sessions_does_not_hold_the_client() -> None:
    pair = ServerPair(evolve(FAILING_OVER, call_timeout_ms=500))
    pair.session()
    pair.crash(pair.a)
    pair.b.up, pair.b.refusals = True, repeat(True)
    pair.advance(0.3)
    pair.a.up = True
    pair.advance(1)
    assert pair.agent.connector == A
    assert pair.agent.state is AgentState.CONNECTED


def test_a_server_that_fell_silent_is_tried_last() -> None:
    """1. The host of the primary is gone without a word. 2. Nothing comes for a TTL. 3. Its backup is tried first."""
    settings = evolve(FAILING_OVER, connection_ttl_ms=1000, client_failure_check_period_ms=500, call_timeout_ms=30_000)
    pair = ServerPair(settings)
    session = pair.session()
    pair.a.silent = pair.b.up = True
    start = pair.seconds
    while pair.agent.connector == A:
        pair.advance(0.1)
    assert pair.dialed == "ab"
    assert pair.seconds - start < 3
    pair.finish(session.create_producer("q").send(text_message("x", "q")))


@pytest.mark.parametrize("reason", [DisconnectReason.SHUT_DOWN, DisconnectReason.SHUT_DOWN_ON_CRITICAL_ERROR])
def test_a_server_that_stops_is_tried_last(reason: DisconnectReason) -> None:
    pair = ServerPair()
    pair.session()
    pair.a.silent = pair.b.up = True
    pair.say(pair.a, DisconnectV3("node", reason))
    assert pair.dialed == "ab"
    failed = next(each for each in pair.notifications if isinstance(each, ConnectionFailed))
    assert (failed.failed_over, failed.error.error_code) == (True, ErrorCode.DISCONNECTED)


def test_after_a_failback_the_client_is_where_it_began() -> None:
    pair = ServerPair()
    session = pair.session()
    producer = session.create_producer("q")
    pair.fail_over()
    for _ in range(3):
        pair.a.up = True
        pair.say(pair.b, DisconnectV3("node", DisconnectReason.SHUT_DOWN))
        pair.b.up = False
        assert pair.agent.connector == A
        pair.finish(producer.send(text_message("x", "q")))
        pair.fail_over()
        assert pair.agent.connector == B
        pair.finish(producer.send(text_message("x", "q")))


def test_who_is_told_where_the_messages_went_goes_there() -> None:
    pair = ServerPair()
    pair.a.tells = (*PAIR_OF_A_AND_B, ("other", C, None))
    pair.session()
    pair.c.up = True
    pair.a.up = False
    pair.say(pair.a, DisconnectV3("node", DisconnectReason.SCALE_DOWN, "other"))
    assert pair.dialed == "ac"
    assert pair.c.said(CheckForFailover) == [CheckForFailover("node")]
    failed = next(each for each in pair.notifications if isinstance(each, ConnectionFailed))
    assert failed.scale_down_target == "other"


def test_who_gave_up_finds_the_backup_with_the_next_session() -> None:
    pair = ServerPair(LocatorSettings(ha=True))
    session = pair.session()
    pair.crash(pair.a)
    assert session.closed
    pair.b.up = True
    pair.session()
    assert pair.dialed == "aab"
    assert pair.agent.connector == B


def test_another_agent_begins_with_what_the_first_one_learnt() -> None:
    pair = ServerPair()
    pair.session()
    pair.crash(pair.a)
    pair.b.up = True
    learnt = pair.agent.topology
    pair.agent = Agent(LocatorSettings(ha=True), [A], FirstElementPolicy(), SeededEntropy(2), learnt)
    pair.dials.clear()
    pair.session()
    assert pair.dialed == "ab"


def test_a_factory_without_sessions_follows_its_broker_and_its_first_session_is_there() -> None:
    pair = ServerPair()
    pair.finish(pair.agent.connect())
    pair.fail_over()
    # There is no request for the node: there are no sessions to take over.
    assert pair.agent.connector == B and not pair.b.said(CheckForFailover)
    pair.session()


def test_a_session_asked_for_during_the_failover_is_made_on_the_backup() -> None:
    pair = ServerPair()
    pair.session()
    pair.crash(pair.a)
    asked = pair.agent.create_session_for(SessionMode.AUTO)
    pair.advance(1)
    assert not asked.done
    pair.b.up = True
    pair.advance(1)
    pair.finish(asked)


def test_a_call_in_flight_is_released_and_says_what_happened() -> None:
    pair = ServerPair()
    producer = pair.session().create_producer("q")
    pair.settle()
    pair.a.silent = True
    sent = producer.send(text_message("x", "q"))
    pair.settle()
    pair.fail_over()
    assert sent.error is not None and sent.error.error_code == ErrorCode.UNBLOCKED
    failed = next(each for each in pair.notifications if isinstance(each, ConnectionFailed))
    assert sent.error.linked_exception is failed.error


def test_temporary_and_non_durable_queues_are_made_again_for_their_consumers() -> None:
    pair = ServerPair()
    session = pair.session()
    pair.finish(session.create_consumer("q"))
    pair.fail_over()
    # The double reports every queue as made on demand.
    (again,) = pair.b.said(CreateQueueV2)
    assert isinstance(again, CreateQueueV2)
    assert (again.queue_name, again.auto_created, again.requires_response) == ("q", True, False)


# --- commits ---


def test_a_transaction_with_work_can_only_be_rolled_back_after_a_failover() -> None:
    pair = ServerPair()
    session = pair.session(SessionMode.TRANSACTED)
    producer = session.create_producer("q")
    producer.send(text_message("lost", "q"))
    pair.settle()
    pair.fail_over()
    assert session.rollback_only
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert len(pair.b.said(SessionRollback)) == 1 and not pair.b.said(SessionCommit)
    producer.send(text_message("again", "q"))
    pair.finish(session.commit())


def test_a_transaction_without_work_commits_after_a_failover() -> None:
    pair = ServerPair()
    session = pair.session(SessionMode.TRANSACTED)
    session.create_producer("q").send(text_message("x", "q"))
    pair.finish(session.commit())
    pair.fail_over()
    pair.finish(session.commit())


def test_a_commit_in_flight_has_an_unknown_outcome() -> None:
    pair = ServerPair()
    session = pair.session(SessionMode.TRANSACTED)
    session.create_producer("q").send(text_message("x", "q"))
    pair.settle()
    pair.a.silent = True
    commit = session.commit()
    pair.settle()
    pair.fail_over()
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN
    pair.finish(session.commit())


@pytest.mark.parametrize("fails_over", [False, True])
def test_a_commit_that_its_connection_never_took_leaves_later_or_says_rolled_back(fails_over: bool) -> None:
    """The answer to the commit before it and the end of the connection come in one read."""
    pair = ServerPair(FAILING_OVER if fails_over else evolve(FAILING_OVER, confirmation_window_size=1 << 20))
    session = pair.session(SessionMode.TRANSACTED)
    producer = session.create_producer("q")
    producer.send(text_message("x", "q"))
    first = session.commit()
    producer.send(text_message("y", "q"))
    second = session.commit()

    def ending(sender: str, data: bytes) -> bytes:
        if sender == "client" or data[4] != NullResponse.TYPE:
            return data
        pair.filter = lambda sender, data: data
        pair.a.up, pair.b.up = not fails_over, fails_over
        return data + encode_packet(DisconnectV3("a", int(DisconnectReason.SHUT_DOWN)), 0, VERSION)

    pair.filter = ending
    pair.advance(1)
    pair.finish(first)
    assert len(pair.a.said(SessionCommit)) == (1 if fails_over else 2) and not pair.b.said(SessionCommit)
    if fails_over:
        assert pair.error_code(second) == ErrorCode.TRANSACTION_ROLLED_BACK
    else:
        pair.finish(second)


@pytest.mark.parametrize("outputs", range(1, 13))
@pytest.mark.parametrize("others", [2, 3, 4])
def test_a_commit_that_left_stays_in_doubt_when_connections_end_before_its_session_is_back(
    others: int, outputs: int
) -> None:
    """One that was not given the commit has not sent it, which means nothing for the one that was: also when both have
    sent as often."""
    pair = ServerPair()
    for _ in range(others):
        # Sessions that come back first. Bringing them back takes more packets than making them.
        pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    session = pair.session(SessionMode.TRANSACTED)
    session.create_producer("q").send(text_message("x", "q"))
    pair.settle()
    pair.a.silent = True
    commit = session.commit()
    pair.settle()
    pair.crash(pair.a)
    pair.b.up = True
    left = outputs

    def swallow(sender: str, data: bytes) -> bytes:
        nonlocal left
        left -= sender == "client"
        return data if left > 0 else b""

    pair.filter = swallow
    pair.advance(0.2)
    pair.filter = lambda sender, data: data
    pair.cut()
    pair.advance(1)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN


@pytest.mark.parametrize("gives_up", [False, True])
def test_a_commit_that_never_left_says_rolled_back(gives_up: bool) -> None:
    settings = evolve(FAILING_OVER, reconnect_attempts=5) if gives_up else FAILING_OVER
    pair = ServerPair(settings)
    session = pair.session(SessionMode.TRANSACTED)
    session.create_producer("q").send(text_message("x", "q"))
    pair.settle()
    pair.crash(pair.a)
    commit = session.commit()
    pair.advance(0.2)
    assert not commit.done
    pair.b.up = not gives_up
    pair.advance(1)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert not pair.b.said(SessionCommit)
    if gives_up:
        # The session is gone, and trying again on it would never end.
        assert pair.error_code(session.commit()) == ErrorCode.NOT_CONNECTED
