"""The part of the control ``broker`` about XA branches in doubt, and about those that an operator decided.

Responsible for their ids, texts and JSON in the forms of Artemis. Does not depend on how a branch is decided.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from embedbroker.kernel import Branch, Message
from embedclient.model import Xid

from ._dates import moment_text
from ._html import Html, cell
from ._messages import message_map
from ._registry import Call, Kind, ManagementRefused, Operation, Parameter, Work
from ._rows import RESULT_CHARS_MAX, Rows

__all__ = ["TRANSACTION_OPERATIONS"]

_SENT, _RECEIVED = "(+) send", "(-) receive"
_TYPES = {
    0: "Default",
    2: "ObjectMessage",
    3: "TextMessage",
    4: "ByteMessage",
    5: "MapMessage",
    6: "StreamMessage",
}


def _java_byte(value: int) -> int:
    """Return the byte that Artemis makes of a part of a format id: the remainder by 255, with the sign of Java."""
    return (abs(value) % 255 * (1 if value >= 0 else -1)) & 0xFF


def _id_of(xid: Xid) -> str:
    """Return the id of a branch: branch qualifier, global transaction id and format id, as Base64 for URLs."""
    format_id = bytes([_java_byte(xid.format_id >> shift) for shift in (0, 8, 16, 24)])
    return base64.urlsafe_b64encode(xid.branch_qualifier + xid.global_transaction_id + format_id).decode()


def _signed(data: bytes) -> str:
    """Return bytes as Artemis prints them: as signed numbers with dots."""
    return ".".join([str(byte - 256 if byte > 127 else byte) for byte in data])


def _created(call: Call, branch: Branch) -> str:
    age_ms = int((call.kernel.monotonic - branch.begun) * 1000)
    return moment_text(call.kernel.now_ms - age_ms)


def _prepared(call: Call) -> Work:
    found = []
    for branch in call.kernel.branches.prepared():
        xid, identifier = branch.xid, _id_of(branch.xid)
        # Artemis prints the hash of an object in place of the number of the transaction, and no closing bracket.
        found.append(
            f"{_created(call, branch)} base64: {identifier} XidImpl ({branch.transaction.id} "
            f"bq:{_signed(xid.branch_qualifier)} formatID:{xid.format_id} gtxid:{_signed(xid.global_transaction_id)} "
            f"base64:{identifier}"
        )
        yield
    return found


def _message(kind: str, message: Message) -> dict[str, object]:
    number = getattr(message.to_core(), "type", None)
    return {
        "message_operation_type": kind,
        "message_type": "N/A" if number is None else _TYPES.get(number, "(Unknown Type)"),
        "message_properties": message_map(message),
    }


def _messages_of(branch: Branch) -> Iterator[tuple[str, Message]]:
    """Return what a branch sent and received. It may be decided meanwhile: then the rest may be left out."""
    for message, queues, _place in branch.transaction.sent:
        for _queue in queues:
            yield _SENT, message
    for _queue, references in branch.transaction.portions():
        for reference in references:
            yield _RECEIVED, reference.message


def _head(call: Call, branch: Branch) -> dict[str, object]:
    xid = branch.xid
    return {
        "creation_time": _created(call, branch),
        "xid_as_base64": _id_of(xid),
        "xid_format_id": xid.format_id,
        "xid_global_txid": xid.global_transaction_id.decode(errors="replace"),
        "xid_branch_qual": xid.branch_qualifier.decode(errors="replace"),
    }


def _details(call: Call) -> Work:
    """Return the branches with what they sent and received; an empty text for none."""
    rows, size = [], 0
    for branch in call.kernel.branches.prepared():
        messages = Rows()
        for kind, message in _messages_of(branch):
            messages.add(_message(kind, message))
            yield
        text = json.dumps(_head(call, branch), ensure_ascii=False, separators=(",", ":"))
        rows.append(f'{text[:-1]},"tx_related_messages":{messages.text()}}}')
        size += len(rows[-1])
        if size > RESULT_CHARS_MAX:
            raise ManagementRefused("the messages of the prepared transactions are too large for one result")
        yield
    return f"[{','.join(rows)}]" if rows else ""


_TITLE = "<h3>*** Prepared Transaction Details ***</h3>"
_ACROSS_3, _ACROSS_6 = ' colspan="3"', ' colspan="6"'


def _json_cell(value: object, attributes: str = "") -> str:
    """Return a cell with a value of JSON; texts have quotes, as in Artemis."""
    return cell(json.dumps(value, ensure_ascii=False), attributes=attributes)


def _add_head(html: Html, call: Call, branch: Branch) -> None:
    head = _head(call, branch)
    html.add('<table border="1"><tr>', cell("creation_time", "th"), _json_cell(head["creation_time"]))
    html.add(cell("xid_as_base_64", "th"), _json_cell(head["xid_as_base64"], _ACROSS_3), "</tr><tr>")
    for name in ("xid_format_id", "xid_global_txid", "xid_branch_qual"):
        html.add(cell(name, "th"), _json_cell(head[name]))
    html.add("</tr><tr>", cell("Message List", "th", _ACROSS_6), f"</tr><tr><td{_ACROSS_6}>")
    html.add('<table border="1" cellspacing="0" cellpadding="0">')


def _details_as_html(call: Call) -> Work:
    """Return the same as `_details` in tables of HTML. The tags of Artemis do not match in some places; these do."""
    html, count = Html(), 0
    html.add(_TITLE)
    for branch in call.kernel.branches.prepared():
        count += 1
        _add_head(html, call, branch)
        for kind, message in _messages_of(branch):
            row = _message(kind, message)
            html.add("<tr>", cell("operation_type", "th"), _json_cell(row["message_operation_type"]))
            html.add(cell("message_type", "th"), _json_cell(row["message_type"]), "</tr>")
            properties = message_map(message).items()
            shown = "".join([f"{name}={json.dumps(value, ensure_ascii=False)}, " for name, value in properties])
            html.add("<tr>", cell("properties", "th"), cell(shown, attributes=_ACROSS_3), "</tr>")
            yield
        html.add("</table></td></tr></table><br>")
        yield
    if not count:
        html.add("<p>No entry.</p>")
    return html.text()


def _decide(call: Call, identifier: str | None, *, commit: bool) -> Work:
    """Decide the branch with an id, and return True; False if none has it. An id does not state its parts."""
    for branch in call.kernel.branches.prepared():
        if _id_of(branch.xid) == identifier:
            return call.session.xa_resource.decide(branch.xid, commit=commit)
        yield
    return False


def _commit(call: Call, identifier: str | None) -> Work:
    return _decide(call, identifier, commit=True)


def _roll_back(call: Call, identifier: str | None) -> Work:
    return _decide(call, identifier, commit=False)


def _decided(call: Call, *, committed: bool) -> list[str]:
    return [_id_of(each.xid) for each in call.kernel.branches.outcomes() if each.committed is committed]


def _committed(call: Call) -> list[str]:
    return _decided(call, committed=True)


def _rolled_back(call: Call) -> list[str]:
    return _decided(call, committed=False)


_BRANCH = Parameter("transactionAsBase64", Kind.TEXT)

TRANSACTION_OPERATIONS = (
    Operation("listPreparedTransactions", (), "String[]", _prepared, "XA branches that are in doubt."),
    Operation("listPreparedTransactionDetailsAsJSON", (), "String", _details, "The same with their messages, as JSON."),
    Operation("listPreparedTransactionDetailsAsHTML", (), "String", _details_as_html, "The same in tables of HTML."),
    Operation(
        "commitPreparedTransaction",
        (_BRANCH,),
        "boolean",
        _commit,
        "Commit one in place of its transaction manager; false for an unknown id.",
        changes=True,
    ),
    Operation(
        "rollbackPreparedTransaction", (_BRANCH,), "boolean", _roll_back, "Roll one back in that way.", changes=True
    ),
    Operation(
        "listHeuristicCommittedTransactions",
        (),
        "String[]",
        _committed,
        "Those committed in that way, until their manager forgets them.",
    ),
    Operation("listHeuristicRolledBackTransactions", (), "String[]", _rolled_back, "Those rolled back in that way."),
)
