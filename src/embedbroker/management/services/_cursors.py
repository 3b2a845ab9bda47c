"""Read a queue by ranges of positions: cursors.

Responsible for the fields of these requests, and for the bytes in which rows are sent. One answer holds thousands of
rows, so they are not JSON. Does not depend on how a cursor works; the kernel implements it.

The body of an answer to ``cursor.read``, little-endian: row count u32 | next position i64 (``(after, next position]``
is complete), then for each row::

    size u32 (of what follows) | position i64 | message id i64 | broker's wall time i64, 0: unknown
    delivery count u32 | encoding u8 | three bytes, 0 | the message in its stored form
"""

from __future__ import annotations

from struct import Struct

from embedbroker.kernel import CursorRefused, Pin, Reading, Session

from ._request import INTEGER_MAX, OK, Answer, Request, RequestRefused, Service, allowed, refusal

__all__ = ["LEASE_MS_MAX", "PARTS_MAX", "READ_BYTES", "READ_BYTES_MAX", "SERVICES"]

LEASE_MS_MAX = 86_400_000
"""Longest lease, a day, in milliseconds."""

READ_BYTES, READ_BYTES_MAX = 1 << 20, 8 << 20
"""Default and maximum for the bytes of messages in one answer; a single message may be larger."""

PARTS_MAX = 10_000
"""Maximum number of ranges into which one range is split."""

_HEAD = Struct("<Iq")
_ROW = Struct("<IqqqIB3x")
_ROW_BYTES = _ROW.size - 4


def _names(request: Request) -> tuple[str, str]:
    return request.text("queue"), request.text("cursor")


def _position(request: Request, field: str) -> int:
    return request.integer(field, 0, INTEGER_MAX)


def _refusal(refused: CursorRefused) -> RequestRefused:
    if refused.owner:
        return RequestRefused(refused.reason, refused.text, owner=refused.owner, lease_ms=refused.lease_ms)
    if refused.messages:
        return RequestRefused(refused.reason, refused.text, messages=refused.messages)
    return RequestRefused(refused.reason, refused.text)


def _answer(result: int | CursorRefused) -> Answer:
    if isinstance(result, CursorRefused):
        raise _refusal(result)
    return Answer(OK, {"position": result})


def _open(session: Session, request: Request) -> Answer:
    queue, cursor = _names(request)
    owner = request.text("owner")
    lease_ms = request.integer("lease_ms", 1, LEASE_MS_MAX)
    take_over = request.has("take_over") and request.flag("take_over")
    start: int | None = 0
    if request.has("from"):
        wanted = request.fields["from"]
        if wanted == "latest":
            start = None
        elif isinstance(wanted, str) and wanted != "earliest":
            raise request.wrong("from", 'has to be "earliest", "latest" or a position', wanted)
        elif wanted != "earliest":
            start = _position(request, "from")
    discards = request.has("discard") and request.flag("discard")
    result = allowed(session.cursors(queue)).open(
        queue, cursor, owner, lease_ms, take_over=take_over, start=start, discards=discards
    )
    if isinstance(result, CursorRefused):
        raise _refusal(result)
    body = {"position": result.position, "end": result.end, "lease_ms": result.lease_ms, "before": result.before}
    if request.has("from"):
        body |= {"start": result.start, "discarded": result.discarded}
    return Answer(OK, body)


def _pin(session: Session, request: Request) -> None:
    queue, cursor = _names(request)
    owner, start = request.text("owner"), _position(request, "start")
    rows_max, bytes_max = _position(request, "max_rows"), _position(request, "max_bytes")

    def finished(result: Pin | CursorRefused) -> None:
        if isinstance(result, CursorRefused):
            request.respond(refusal(_refusal(result)))
            return
        body = {"end": result.end, "rows": result.rows, "bytes": result.size_bytes, "lost": result.lost}
        request.respond(Answer(OK, body))

    allowed(session.cursors(queue)).pin(queue, cursor, owner, start, finished, rows_max=rows_max, bytes_max=bytes_max)


def _split(session: Session, request: Request) -> Answer:
    queue, cursor = _names(request)
    after, until = _position(request, "after"), _position(request, "until")
    result = allowed(session.cursors(queue)).split(queue, cursor, after, until, request.integer("parts", 1, PARTS_MAX))
    if isinstance(result, CursorRefused):
        raise _refusal(result)
    return Answer(OK, {"bounds": result[0], "rows": result[1]}, promises=False)


def _read(session: Session, request: Request) -> None:
    queue, cursor = _names(request)
    after, until = _position(request, "after"), _position(request, "until")
    bytes_max = request.integer("max_bytes", 0, READ_BYTES_MAX) if request.has("max_bytes") else 0

    def finished(result: Reading | CursorRefused) -> None:
        # What is visible is already durable, if it must be.
        if isinstance(result, CursorRefused):
            request.respond(refusal(_refusal(result)))
        else:
            request.respond(Answer(OK, _packed(result), promises=False))

    refused = allowed(session.cursors(queue)).read(queue, cursor, after, until, bytes_max or READ_BYTES, finished)
    if refused is not None:
        raise _refusal(refused)


def _packed(reading: Reading) -> bytes:
    parts: list[bytes | bytearray] = [_HEAD.pack(len(reading.rows), reading.next_position)]
    add, pack = parts.append, _ROW.pack
    for position, delivery_count, _expiration, encoding, raw, message_id, _durable in reading.rows:
        add(pack(_ROW_BYTES + len(raw), position, message_id, 0, delivery_count, encoding))
        add(raw)
    return b"".join(parts)


def _acknowledge(session: Session, request: Request) -> Answer:
    queue, cursor = _names(request)
    return _answer(
        allowed(session.cursors(queue)).acknowledge(queue, cursor, request.text("owner"), _position(request, "until"))
    )


def _renew(session: Session, request: Request) -> Answer:
    queue, cursor = _names(request)
    return _answer(allowed(session.cursors(queue)).renew(queue, cursor, request.text("owner")))


def _release(session: Session, request: Request) -> Answer:
    queue, cursor = _names(request)
    return _answer(allowed(session.cursors(queue)).release(queue, cursor, request.text("owner")))


def _remove(session: Session, request: Request) -> None:
    queue, cursor = _names(request)

    def finished(position: int) -> None:
        request.respond(Answer(OK, {"position": position}))

    refused = allowed(session.cursors(queue)).remove(queue, cursor, request.text("owner"), finished)
    if refused is not None:
        raise _refusal(refused)


_OF_ONE = ("queue", "cursor")
_OWNED = (*_OF_ONE, "owner")

SERVICES = (
    Service("cursor.open", _open, (*_OWNED, "lease_ms"), ("take_over", "from", "discard")),
    Service("cursor.pin", _pin, (*_OWNED, "start", "max_rows", "max_bytes")),
    Service("cursor.split", _split, (*_OF_ONE, "after", "until", "parts")),
    Service("cursor.read", _read, (*_OF_ONE, "after", "until"), ("max_bytes",)),
    Service("cursor.acknowledge", _acknowledge, (*_OWNED, "until")),
    Service("cursor.renew", _renew, _OWNED),
    Service("cursor.release", _release, _OWNED),
    Service("cursor.remove", _remove, _OWNED),
)
