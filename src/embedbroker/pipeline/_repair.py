"""Carrying out a repair plan at one broker: messages are sent again or removed, or one is told what would happen.

Responsible for looking before each step: what is there already is not sent again, what is not there any more, or is not
what the plan says, is not removed. Refuses to know how the plan came about. Needs no Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from embedclient.blocking import ClientSession
from embedclient.errors import ConnectionLostException
from embedclient.model import RoutingType

from ._broker_connection import BrokerConnection
from ._journal_records import content_digest, message_key
from ._options import ConnectionOptions
from ._queue_view import queue_view
from ._sending import QueueSender, SentMessage, queue_sender

__all__ = ["PLAN_TYPES", "RepairStep", "repair"]

PLAN_TYPES = {
    "action": pa.string(),
    "queue": pa.string(),
    "address": pa.string(),
    "routing": pa.int32(),
    "key": pa.string(),
    "digest": pa.binary(),
    # By how many messages the second site is changed at most, and how many there are to be in the end.
    "messages": pa.int64(),
    "target": pa.int64(),
    "raw": pa.binary(),
}

Row = dict[str, Any]


@frozen
class RepairStep:
    """One line of the plan. ``outcome``: done, would be done, or why not."""

    action: str
    queue: str
    key: str
    outcome: str


def repair(
    plan: str | PathLike[str],
    *,
    url: str,
    user: str | None = None,
    password: str | None = None,
    apply: bool = False,
) -> Iterator[RepairStep]:
    """Go through a plan of `write_plan`, queue by queue; without ``apply`` nothing is changed.

    Removals come first. A message is removed by its JMSMessageID alone, and only while its content is what the plan
    saw; others are left to people. A plan may be carried out again after an interruption: it says how many messages
    there are to be in the end.

    Raises:
        FileNotFoundError: there is no plan.
        ValueError: it is no plan, or one that was not written to its end.
        JMSException: the broker cannot be reached, or refuses.
    """
    rows = _plan_rows(Path(plan))
    connection = ConnectionOptions(url, user, password)
    link = BrokerConnection(connection)
    try:
        for queue in sorted({row["queue"] for row in rows}):
            ours = [row for row in rows if row["queue"] == queue]
            # Said of both steps before anything is removed: nothing could take its place.
            lacking = {row["key"] for row in ours if row["action"] == "resend" and row["raw"] is None}
            with link.session() as session:
                expected: Counter[tuple[str, bytes]] = Counter()
                for row in [each for each in ours if each["action"] == "remove"]:
                    if row["key"] in lacking:
                        yield _step(row, "left alone: the plan lacks the message that takes its place")
                        continue
                    count, outcome = _too_many(session, row)
                    if count and apply:
                        count = _removed(session, row, count)
                        outcome = f"removed ({count})" if count else "not there any more"
                    elif count:
                        expected[row["key"], row["digest"]] = count
                    yield _step(row, outcome)
                # In a dry run what it would have removed is there still.
                there = Counter(_browse(session, queue, None)) - expected
            resent = [row for row in ours if row["action"] == "resend" and row["raw"] is not None]
            for row in [each for each in ours if each["action"] == "resend" and each["raw"] is None]:
                yield _step(row, "not sent: the plan lacks the message")
            if resent:
                yield from _resent(connection, resent, there, apply=apply)
    finally:
        link.close()


def _plan_rows(plan: Path) -> list[Row]:
    # What Spark writes is in `_temporary` until all of it is there.
    if plan.is_dir() and ((plan / "_temporary").exists() or not any(plan.glob("*.parquet"))):
        raise ValueError(f"{plan} is no plan that was written to its end; let reconcile write it again")
    try:
        table = pq.read_table(str(plan))
        missing = [name for name in PLAN_TYPES if name not in table.column_names]
        if missing:
            raise ValueError(f"{plan} is no plan of reconcile: it has no column {', '.join(missing)}")
        rows: list[Row] = table.select(list(PLAN_TYPES)).cast(pa.schema(list(PLAN_TYPES.items()))).to_pylist()
    except pa.ArrowException as error:
        raise ValueError(f"{plan} is no plan of reconcile: {error}") from None
    for row in rows:
        empty = [name for name in PLAN_TYPES if name != "raw" and row[name] is None]
        if empty or row["action"] not in ("remove", "resend"):
            lacks = f", without {', '.join(empty)}" if empty else ""
            raise ValueError(f"{plan} is no plan of reconcile: it has the action {row['action']!r}{lacks}")
    return rows


def _step(row: Row, outcome: str) -> RepairStep:
    return RepairStep(row["action"], row["queue"], row["key"], outcome)


def _browse(session: ClientSession, queue: str, selector: str | None) -> Iterator[tuple[str, bytes]]:
    """Key and digest of each message; nothing of a queue that is not there."""
    if not session.query_queue(queue).exists:
        return
    for messages in queue_view(session, queue, selector=selector):
        yield from ((message_key(message), content_digest(message)) for message in messages)


def _selector(key: str) -> str:
    digits = key.removeprefix("ID:")
    return f"AMQUserID = 'ID:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'"


def _too_many(session: ClientSession, row: Row) -> tuple[int, str]:
    """How many messages are to be removed, and what a dry run says."""
    if not row["key"].startswith("ID:"):
        return 0, "left to people: the message has no JMSMessageID"
    found = list(_browse(session, row["queue"], _selector(row["key"])))
    if not found:
        return 0, "not there any more"
    if any(digest != row["digest"] for _, digest in found):
        return 0, "left alone: its content is not what the plan saw"
    # Never more than the plan saw: what came later is not its business.
    count = min(row["messages"], len(found) - row["target"])
    if count <= 0:
        return 0, f"left alone: {len(found)} are there, as many as there should be"
    return count, f"would be removed ({count})"


def _removed(session: ClientSession, row: Row, count: int) -> int:
    """Remove so many; how many that were. Raises ConnectionLostException when nobody can say."""
    name, removed = session.name, 0
    with session.create_consumer(row["queue"], filter=_selector(row["key"])) as consumer:
        while removed < count and (message := consumer.receive_nowait()) is not None:
            message.acknowledge_individually()
            removed += 1
    if session.name != name:
        raise ConnectionLostException(f"the connection was lost while {row['key']} was removed: start again")
    return removed


def _resent(
    connection: ConnectionOptions, rows: list[Row], there: Counter[tuple[str, bytes]], *, apply: bool
) -> Iterator[RepairStep]:
    contents: dict[str, set[bytes]] = {}
    for key, digest in there:
        contents.setdefault(key, set()).add(digest)
    outcomes: dict[int, str] = {}
    wanted: dict[int, int] = {}
    for at, row in enumerate(rows):
        count = min(row["messages"], row["target"] - there[row["key"], row["digest"]])
        if contents.get(row["key"], set()) - {row["digest"]}:
            outcomes[at] = "not sent: one with this id and another content is there"
        elif count <= 0:
            outcomes[at] = "there already"
        else:
            outcomes[at], wanted[at] = f"would be sent ({count})", count
    if not apply or not wanted:
        yield from (_step(row, outcomes[at]) for at, row in enumerate(rows))
        return
    with queue_sender(connection, rows[0]["address"], rows[0]["queue"], RoutingType(rows[0]["routing"])) as sender:
        for at, row in enumerate(rows):
            sent = _sent(sender, row, wanted[at]) if at in wanted else 0
            known = "known to the broker: sent before" if at in wanted else outcomes[at]
            yield _step(row, f"sent ({sent})" if sent else known)


def _sent(sender: QueueSender, row: Row, wanted: int) -> int:
    """Send so many copies; how many that were.

    Each copy has an id with its number, and the broker knows those of an earlier attempt, which may be gone from the
    queue by now: so it is asked for one after the other, until there are enough.
    """
    identity = blake2b(f"{row['queue']}\0{row['key']}\0".encode("utf-8", "surrogatepass"), digest_size=24)
    identity.update(row["digest"])
    key = None if row["key"].startswith("ID:") else row["key"]
    sent = 0
    for number in range(row["messages"]):
        if sent == wanted:
            break
        message = SentMessage(row["raw"], identity.digest() + number.to_bytes(4, "big"), key)
        sent += sender.send_once([message], replacing=True)
    return sent
