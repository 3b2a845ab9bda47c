"""Management of XA branches in doubt: lists and decisions in the forms of Artemis 2.44."""

from __future__ import annotations

import json
import re

import pytest

from embedbroker.management._dates import date_text, moment_text, time_text
from embedclient.model import Properties, PropertyType, XaCode, Xid
from embedclient.wire.core import (
    CoreMessage,
    SessionReceiveMessage,
    SessionSend,
    SessionXaCommit,
    SessionXaEnd,
    SessionXaForget,
    SessionXaPrepare,
    SessionXaStart,
)

from .branches import another, answer, committed, fill, in_doubt, prepared, query_count, sent_in, taken_in, xid
from .managing import Manager, manager_of, request_of
from .scripted import Peer, Stage

LISTED = "listPreparedTransactionDetailsAsJSON"
# Ids that Artemis 2.44 gives: a format id below 0 or above 254 is no plain number there.
IDS = {
    Xid(7, b"branch", b"be5251ce\xff\x80"): "YnJhbmNoYmU1MjUxY2X_gAcAAAA=",
    Xid(-5, b"b2", b"be5251ce2"): "YjJiZTUyNTFjZTL7____",
    Xid(300, b"", b"be5251ce3"): "YmU1MjUxY2UzLQEAAA==",
}


@pytest.fixture
def stage() -> Stage:
    return Stage(durable=True)


@pytest.fixture
def peer(stage: Stage) -> Peer:
    peer = another(stage, "s")
    peer.create_queue()
    return peer


@pytest.fixture
def manager(stage: Stage, peer: Peer) -> Manager:
    return manager_of(stage)


def id_of(manager: Manager, number: int) -> str:
    """The id under which management lists a branch."""
    name = xid(number).global_transaction_id.decode()
    (found,) = [row for row in json.loads(manager.call("broker", LISTED)) if row["xid_global_txid"] == name]
    identifier = found["xid_as_base64"]
    assert isinstance(identifier, str)
    return identifier


def test_nothing_is_in_doubt(manager: Manager) -> None:
    assert manager.call("broker", "listPreparedTransactions") == []
    assert manager.call("broker", LISTED) == ""
    for operation in ("commitPreparedTransaction", "rollbackPreparedTransaction"):
        assert manager.call("broker", operation, "nope") is False
        assert manager.call("broker", operation, None) is False
    assert manager.call("broker", "listHeuristicCommittedTransactions") == []
    assert manager.call("broker", "listHeuristicRolledBackTransactions") == []


def test_ids_and_texts_are_those_of_artemis(manager: Manager, peer: Peer) -> None:
    for each in IDS:
        for packet in (SessionXaStart(each), SessionXaEnd(each), SessionXaPrepare(each)):
            assert answer(peer, packet) == XaCode.XA_OK
    texts = manager.call("broker", "listPreparedTransactions")
    created = moment_text(peer.stage.node.kernel.now_ms)
    assert [re.sub(r"XidImpl \(\d+", "XidImpl (N", text) for text in texts] == [
        f"{created} base64: YnJhbmNoYmU1MjUxY2X_gAcAAAA= XidImpl (N bq:98.114.97.110.99.104 formatID:7 "
        "gtxid:98.101.53.50.53.49.99.101.-1.-128 base64:YnJhbmNoYmU1MjUxY2X_gAcAAAA=",
        f"{created} base64: YjJiZTUyNTFjZTL7____ XidImpl (N bq:98.50 formatID:-5 "
        "gtxid:98.101.53.50.53.49.99.101.50 base64:YjJiZTUyNTFjZTL7____",
        f"{created} base64: YmU1MjUxY2UzLQEAAA== XidImpl (N bq: formatID:300 "
        "gtxid:98.101.53.50.53.49.99.101.51 base64:YmU1MjUxY2UzLQEAAA==",
    ]
    rows = json.loads(manager.call("broker", LISTED))
    assert [row["xid_as_base64"] for row in rows] == list(IDS.values())
    assert rows[0] == {
        "creation_time": created, "xid_as_base64": "YnJhbmNoYmU1MjUxY2X_gAcAAAA=", "xid_format_id": 7,
        "xid_global_txid": "be5251ce\ufffd\ufffd", "xid_branch_qual": "branch", "tx_related_messages": [],
    }  # fmt: skip


def test_details_have_what_a_branch_sent_and_received(manager: Manager, peer: Peer, stage: Stage) -> None:
    fill(stage, "one", "two")
    peer.consume()
    taken_in(peer, 1, end=False)
    peer.post("three", durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    prepared(peer, 1)
    (row,) = json.loads(manager.call("broker", LISTED))
    messages = row["tx_related_messages"]
    assert [(each["message_operation_type"], each["message_type"]) for each in messages] == [
        ("(+) send", "Default"), ("(-) receive", "Default"), ("(-) receive", "Default"),
    ]  # fmt: skip
    listed = messages[0]["message_properties"]
    assert listed["address"] == "q" and listed["durable"] is True and listed["messageID"] > 0


@pytest.mark.parametrize(("commit", "code"), [(True, XaCode.XA_HEURCOM), (False, XaCode.XA_HEURRB)])
def test_a_decision_survives_a_crash_until_it_is_forgotten(
    manager: Manager, peer: Peer, stage: Stage, commit: bool, code: XaCode
) -> None:
    sent_in(peer, 1, "one", "two")
    sent_in(peer, 2, "three")
    prepared(peer, 1)
    prepared(peer, 2)
    decided = id_of(manager, 1)
    operation = "commitPreparedTransaction" if commit else "rollbackPreparedTransaction"
    assert manager.call("broker", operation, decided) is True
    assert manager.call("broker", operation, decided) is False
    assert query_count(peer) == (2 if commit else 0)
    stage.boot()
    manager, peer = manager_of(stage), another(stage, "s")
    assert query_count(peer) == (2 if commit else 0)
    for name, is_listed in (("Committed", commit), ("RolledBack", not commit)):
        assert manager.call("broker", f"listHeuristic{name}Transactions") == [decided] * is_listed
    assert len(manager.call("broker", "listPreparedTransactions")) == 1
    assert in_doubt(peer) == {xid(1), xid(2)}
    assert answer(peer, SessionXaCommit(xid(1), False)) == code
    assert answer(peer, SessionXaForget(xid(1))) == XaCode.XA_OK
    for name in ("Committed", "RolledBack"):
        assert manager.call("broker", f"listHeuristic{name}Transactions") == []


def test_dates_have_the_forms_of_java() -> None:
    ms = 1_795_698_309_000
    assert (date_text(ms // 86_400_000), moment_text(ms), time_text(ms)) == (
        "11/26/26", "11/26/26, 1:05:09 PM", "Thu Nov 26 13:05:09 UTC 2026",
    )  # fmt: skip
    assert (moment_text(0), time_text(0)) == ("1/1/70, 12:00:00 AM", "Thu Jan 01 00:00:00 UTC 1970")
    assert time_text(951_782_400_000) == "Tue Feb 29 00:00:00 UTC 2000"


def test_tables_have_what_a_branch_sent_and_received(manager: Manager, peer: Peer, stage: Stage) -> None:
    operation = "listPreparedTransactionDetailsAsHTML"
    title = "<h3>*** Prepared Transaction Details ***</h3>"
    assert manager.call("broker", operation) == f"{title}<p>No entry.</p>"
    properties = Properties()
    properties.set("<p>", "</td>&", PropertyType.STRING)
    fill(stage, "one")
    peer.consume()
    taken_in(peer, 1, end=False)
    message = CoreMessage.build(address="q", durable=True, properties=properties)
    peer.send(SessionSend(message, False, -1))
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    prepared(peer, 1)
    text = manager.call("broker", operation)
    assert text.startswith(title) and text.endswith("</table></td></tr></table><br>")
    (row,) = json.loads(manager.call("broker", LISTED))
    heads = {"creation_time": "", "xid_as_base64": ' colspan="3"', "xid_format_id": "", "xid_global_txid": ""}
    for name, attributes in heads.items():
        assert f"<td{attributes}>{json.dumps(row[name])}</td>" in text
    for each in ("(+) send", "(-) receive"):
        assert text.count(f'<th>operation_type</th><td>"{each}"</td><th>message_type</th><td>"Default"</td>') == 1
    assert '&lt;p&gt;="&lt;/td&gt;&amp;", ' in text and "<p>" not in text
    # Each tag is closed.
    assert all(text.count(f"<{tag}") == text.count(f"</{tag}>") for tag in ("table", "tr", "td", "h3"))


@pytest.mark.parametrize("operation", [LISTED, "listPreparedTransactionDetailsAsHTML"])
def test_a_branch_is_decided_while_it_is_listed(operation: str) -> None:
    stage = Stage(durable=True, work_per_step_max=16)
    peer, manager = another(stage, "s"), manager_of(stage)
    peer.create_queue()
    fill(stage, *map(str, range(60)))
    peer.consume()
    taken_in(peer, 1, end=False)
    peer.post(*map(str, range(60)), durable=True)
    assert answer(peer, SessionXaEnd(xid(1))) == XaCode.XA_OK
    prepared(peer, 1)
    manager.peer.send(SessionSend(request_of("broker", operation=operation), False, -1))
    assert not manager.peer.packets(SessionReceiveMessage)
    assert committed(peer, 1) == XaCode.XA_OK
    (reply,) = manager.peer.packets(SessionReceiveMessage)
    assert reply.message.property("_AMQ_OperationSucceeded") is True
    assert query_count(peer) == 60
    stage.node.kernel.check()
