"""XA branches of an agent and a real broker node, with connections that are lost at any request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from embedbroker.node import Node
from embedclient.agent import Call, LocatorSettings, Session, SessionMode
from embedclient.agent.session._xa import Branches
from embedclient.errors import XAException
from embedclient.model import XaCode, XaFlag, Xid
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message

REBUILDING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=100)
REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=100, confirmation_window_size=1 << 20)


def xid_of(number: int) -> Xid:
    return Xid(1, b"branch", number.to_bytes(4, "big"))


def open_xa_session(pair: NodePair) -> tuple[Session, Branches]:
    session = pair.finish(pair.agent.create_session_for(SessionMode.TRANSACTED, xa=True))
    pair.finish(session.start())
    assert session.xa is not None
    return session, session.xa


def code_of(pair: NodePair, call: Call[XaCode]) -> int:
    pair.settle()
    assert call.done, "the call is still waiting"
    if call.error is None:
        return call.result
    assert isinstance(call.error, XAException)
    return call.error.error_code


@pytest.mark.parametrize("ended", [False, True])
def test_a_lost_branch_is_rolled_back_and_the_session_goes_on(ended: bool) -> None:
    pair = NodePair(REBUILDING)
    plain = open_session(pair)
    open_queue(pair, plain)[1].close()
    session, xa = open_xa_session(pair)
    producer = session.create_producer("q")
    pair.finish(xa.start(xid_of(1)))
    producer.send(text_message("lost", "q"))
    if ended:
        pair.finish(xa.end(xid_of(1)))
    pair.settle()
    pair.cut()
    pair.advance(1)
    if not ended:
        assert code_of(pair, xa.end(xid_of(1))) == XaCode.XAER_RMFAIL
    assert code_of(pair, xa.prepare(xid_of(1))) == XaCode.XAER_RMFAIL
    assert code_of(pair, xa.rollback(xid_of(1))) == XaCode.XA_OK
    pair.finish(xa.start(xid_of(2)))
    producer.send(text_message("kept", "q"))
    pair.finish(xa.end(xid_of(2)))
    pair.finish(xa.commit(xid_of(2), one_phase=True))
    assert count_of(pair, plain) == 1


def test_a_rolled_back_branch_gives_back_what_was_received() -> None:
    pair = NodePair(REBUILDING)
    plain = open_session(pair)
    producer, own = open_queue(pair, plain)
    own.close()
    for text in "ab":
        pair.finish(producer.send(text_message(text, "q")))
    session, xa = open_xa_session(pair)
    consumer = pair.finish(session.destinations.open_queue_consumer("q"))
    for number, received in ((1, ["a", "b"]), (2, ["a", "b"]), (3, [])):
        pair.finish(xa.start(xid_of(number)))
        assert take(pair, session, consumer) == received
        pair.finish(xa.end(xid_of(number)))
        if number == 1:
            pair.finish(xa.prepare(xid_of(number)))
            pair.finish(xa.rollback(xid_of(number)))
        else:
            pair.finish(xa.commit(xid_of(number), one_phase=True))
    assert count_of(pair, plain) == 0


def test_branches_that_others_end_are_kept_in_mind_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedclient.agent.session._xa.BRANCHES_MAX", 3)
    pair = NodePair(REBUILDING)
    session, xa = open_xa_session(pair)
    _, manager = open_xa_session(pair)
    pair.finish(xa.start(xid_of(0)))
    pair.finish(xa.end(xid_of(0), XaFlag.TMSUSPEND))
    for number in range(1, 10):
        pair.finish(xa.start(xid_of(number)))
        pair.finish(xa.end(xid_of(number)))
        pair.finish(manager.commit(xid_of(number), one_phase=True))
    assert session.statistics().branches == (xid_of(0), xid_of(8), xid_of(9))


def test_no_request_overtakes_a_rollback_whose_caller_does_not_wait() -> None:
    """1. The rollback waits for the answer to its SESS_STOP. 2. A commit of the same branch is asked for."""
    pair = NodePair()
    plain = open_session(pair)
    open_queue(pair, plain)[1].close()
    session, xa = open_xa_session(pair)
    pair.finish(xa.start(xid_of(1)))
    session.create_producer("q").send(text_message("undone", "q"))
    pair.finish(xa.end(xid_of(1)))
    rollback, commit = xa.rollback(xid_of(1)), xa.commit(xid_of(1), one_phase=True)
    assert code_of(pair, rollback) == XaCode.XA_OK
    assert code_of(pair, commit) == XaCode.XAER_NOTA
    assert count_of(pair, plain) == 0


@pytest.mark.parametrize("settings", [REBUILDING, REATTACHING], ids=["rebuilding", "reattaching"])
@pytest.mark.parametrize("seed", range(30))
def test_what_a_transaction_manager_is_told_is_what_the_queue_holds(seed: int, settings: LocatorSettings) -> None:
    """Branches of one message each; connections are cut and bytes lost at any request."""
    random = Random(seed)
    pair = NodePair(settings)
    plain = open_session(pair)
    open_queue(pair, plain)[1].close()
    session, xa = open_xa_session(pair)
    work = session.create_producer("q")
    committed: set[str] = set()
    unknown: set[str] = set()

    def ask(request: Callable[[], Call[XaCode]]) -> int:
        """One request, with or without a loss in the middle of it."""
        lost = random.choice(["nothing", "nothing", "answer", "request"])
        pair.filter = lambda sender, data: b"" if lost == "request" or (lost, sender) == ("answer", "server") else data
        call = request()
        pair.settle()
        pair.filter = lambda sender, data: data
        if lost != "nothing" or random.random() < 0.1:
            pair.cut()
            pair.advance(1)
        return code_of(pair, call)

    for number in range(12):
        xid, text = xid_of(number), str(number)
        if ask(partial(xa.start, xid)) != XaCode.XA_OK:
            continue
        work.send(text_message(text, "q"))
        outcome = ask(partial(xa.end, xid))
        one_phase = random.random() < 0.5
        if outcome == XaCode.XA_OK and not one_phase:
            outcome = ask(partial(xa.prepare, xid))
        if outcome == XaCode.XA_OK:
            outcome = ask(partial(xa.commit, xid, one_phase))
            if one_phase and outcome == XaCode.XAER_RMFAIL:
                unknown.add(text)
            while outcome == XaCode.XA_RETRY:
                outcome = ask(partial(xa.commit, xid, one_phase=False))
            if outcome == XaCode.XA_OK or (not one_phase and outcome == XaCode.XAER_NOTA):
                committed.add(text)
        elif not XaCode(outcome).rolled_back:
            assert ask(partial(xa.rollback, xid)) == XaCode.XA_OK
    assert pair.finish(xa.recover(XaFlag.TMSTARTRSCAN)) == []
    consumer = pair.finish(plain.destinations.open_queue_consumer("q"))
    found = take(pair, plain, consumer)
    assert len(found) == len(set(found))
    assert committed <= set(found) <= committed | unknown


@pytest.mark.parametrize("commit", [False, True], ids=["rolled back", "committed"])
@pytest.mark.parametrize("works", [False, True], ids=["in no branch", "in another branch"])
def test_what_may_have_gone_back_with_a_branch_that_an_operator_has_decided_is_shown_once(
    commit: bool, works: bool
) -> None:
    """Some brokers take back what the session's consumers hold when such a branch is rolled back, Artemis does not."""
    pair = NodePair(REATTACHING)
    session, xa = open_xa_session(pair)
    _, consumer = open_queue(pair, session)
    pair.finish(xa.start(xid_of(1)))
    pair.finish(xa.end(xid_of(1)))
    pair.finish(xa.prepare(xid_of(1)))
    producer = open_session(pair).create_producer("q")
    for text in ("one", "two"):
        pair.finish(producer.send(text_message(text, "q")))
    if works:
        pair.finish(xa.start(xid_of(2)))
        session.create_producer("q").send(text_message("lost", "q"))
    assert isinstance(pair.node, Node)
    assert pair.node.kernel.branches.decide(xid_of(1), commit=commit)
    assert code_of(pair, xa.rollback(xid_of(1))) == (XaCode.XA_HEURCOM if commit else XaCode.XA_HEURRB)
    if works:
        assert code_of(pair, xa.end(xid_of(2))) == XaCode.XAER_RMFAIL
    pair.finish(xa.start(xid_of(3)))
    assert take(pair, session, consumer) == ["one", "two"]
    assert code_of(pair, xa.end(xid_of(3))) == XaCode.XA_OK
    assert code_of(pair, xa.commit(xid_of(3), True)) == XaCode.XA_OK
    assert count_of(pair, session) == 0
