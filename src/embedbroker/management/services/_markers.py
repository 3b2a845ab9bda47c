"""Markers (durable numbers that are compared and set), and commit sets, which move one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from embedbroker.kernel import (
    COMMIT_SET_BRANCHES_MAX,
    FENCING_TOKEN_NAME_BYTES_MAX,
    BranchMissing,
    CommitSetDone,
    FencingTokenMoved,
    FencingTokens,
    Permission,
    Refused,
    Session,
)
from embedclient.model import Xid

from ._request import BAD_REQUEST, OK, Answer, Handler, Request, RequestRefused, Service, allowed, refusal

__all__ = ["SERVICES"]

_FORMAT_MIN, _FORMAT_MAX = -(1 << 31), (1 << 31) - 1
_XID_PART_BYTES_MAX = 64
_XID_FIELDS = {"format", "global", "branch"}


def _to_view(session: Session) -> FencingTokens:
    return allowed(session.fencing_tokens(Permission.VIEW))


def _to_edit(session: Session) -> FencingTokens:
    return allowed(session.fencing_tokens(Permission.EDIT))


def _get(session: Session, request: Request) -> Answer:
    return Answer(OK, {"value": _to_view(session).get(_name(request, "name"))})


def _set(session: Session, request: Request) -> Answer:
    value = request.integer("value")
    refused = _to_edit(session).set(_name(request, "name"), request.integer_or_null("expected"), value)
    if refused is not None:
        raise _refused(request, "name", refused)
    return Answer(OK, {"value": value})


def _remove(session: Session, request: Request) -> Answer:
    return Answer(OK, {"value": _to_edit(session).remove(_name(request, "name"))})


def _list(session: Session, request: Request) -> Answer:
    prefix = request.text("prefix", bytes_max=FENCING_TOKEN_NAME_BYTES_MAX, may_be_empty=True)
    return Answer(OK, {"markers": _to_view(session).list(prefix)})


def _in_turn(decide: Callable[[Session, Request], Answer]) -> Handler:
    """Run a handler behind the records that large requests still owe.

    Markers change there, and commit sets are such requests.
    """

    def handle(session: Session, request: Request) -> None:
        def answer() -> None:
            try:
                given = decide(session, request)
            except RequestRefused as refused:
                given = refusal(refused)
            request.respond(given)

        request.deferred.in_turn(answer)

    return handle


def _commit_set(session: Session, request: Request) -> None:
    """Commit a set; answer when it is recorded, or when the rest of a replayed set is rolled back."""
    marker, value = _name(request, "marker"), request.integer("value")
    expected = request.integer_or_null("expected")
    listed = request.fields["branches"]
    if not isinstance(listed, list):
        raise request.wrong("branches", "has to be a list", listed)
    if len(listed) > COMMIT_SET_BRANCHES_MAX:
        text = f"{request.operation}: {len(listed)} branches in a set, which may have {COMMIT_SET_BRANCHES_MAX}"
        raise RequestRefused(BAD_REQUEST, text, field="branches")

    commit_sets = allowed(session.commit_sets())

    def done(result: CommitSetDone | FencingTokenMoved | BranchMissing | Refused) -> None:
        if isinstance(result, CommitSetDone):
            outcome = "replayed" if result.replayed else "committed"
            request.respond(Answer(OK, {"result": outcome, "value": result.value}))
        else:
            request.respond(refusal(_refused(request, "marker", result)))

    def read() -> Iterator[None]:
        xids: dict[Xid, None] = {}
        try:
            for index, each in enumerate(listed):
                xid = _xid(request, f"branches[{index}]", each)
                if xid in xids:
                    raise request.wrong(f"branches[{index}]", "stands there twice", each)
                xids[xid] = None
                yield
        except RequestRefused as refused:
            request.respond(refusal(refused))
            return
        commit_sets.commit(marker, expected, value, list(xids), done)

    request.deferred.add(read())


def _name(request: Request, field: str) -> str:
    return request.text(field, bytes_max=FENCING_TOKEN_NAME_BYTES_MAX)


def _refused(request: Request, field: str, refused: FencingTokenMoved | BranchMissing | Refused) -> RequestRefused:
    if isinstance(refused, FencingTokenMoved):
        shown = "not there" if refused.value is None else refused.value
        text = f"{request.operation}: marker {request.fields[field]!r} is {shown}"
        return RequestRefused("moved", text, value=refused.value)
    if isinstance(refused, BranchMissing):
        status = "not-prepared" if refused.is_known else "no-such-branch"
        return RequestRefused(status, f"{request.operation}: {refused.text}", branch=_shown(refused.xid))
    return RequestRefused("limit", f"{request.operation}: {refused.text}")


def _xid(request: Request, place: str, value: object) -> Xid:
    if not isinstance(value, dict) or value.keys() != _XID_FIELDS:
        raise request.wrong(place, "has to be an object of format, global and branch", value)
    number = request.integer_in(f"{place}.format", value["format"], _FORMAT_MIN, _FORMAT_MAX)
    parts = _part(request, place, "branch", value), _part(request, place, "global", value)
    return Xid(number, *parts)


def _part(request: Request, place: str, name: str, value: dict[str, object]) -> bytes:
    text = value[name]
    try:
        part = bytes.fromhex(text) if isinstance(text, str) else None
    except ValueError:
        part = None
    if part is None or len(part) > _XID_PART_BYTES_MAX:
        raise request.wrong(f"{place}.{name}", f"has to be hexadecimal, of {_XID_PART_BYTES_MAX} bytes at most", text)
    return part


def _shown(xid: Xid) -> dict[str, object]:
    """Return a branch id in the form that requests use."""
    return {
        "format": xid.format_id,
        "global": xid.global_transaction_id.hex(),
        "branch": xid.branch_qualifier.hex(),
    }


SERVICES = (
    Service("marker.get", _in_turn(_get), required=("name",)),
    Service("marker.set", _in_turn(_set), required=("name", "expected", "value")),
    Service("marker.remove", _in_turn(_remove), required=("name",)),
    Service("marker.list", _in_turn(_list), required=("prefix",)),
    Service("commit-set", _commit_set, required=("marker", "expected", "value", "branches")),
)
