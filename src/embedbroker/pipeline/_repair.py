"""Carrying out a repair plan at one broker: messages are sent again or removed, or one is told what would happen.

Responsible for looking before each step: what is there already is not sent again, what is not there any more, or is not
what the plan says, is not removed. Refuses to know how the plan came about. Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from embedclient.blocking import ClientSession
from embedclient.model import RoutingType

from ._journal_records import content_digest, message_key
from ._link import Link
from ._options import ConnectionOptions
from ._queue_view import queue_view
from ._sending import SentMessage, queue_sender

__all__ = ["PLAN_TYPES", "RepairStep", "repair"]

PLAN_TYPES = {
    "action": pa.string(),
    "queue": pa.string(),
    "address": pa.string(),
    "routing": pa.int32(),
    "key": pa.string(),
    "digest": pa.binary(),
    "messages": pa.int64(),
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
    saw; others are left to people. A plan may be carried out again after an interruption.

    Raises:
        FileNotFoundError: there is no plan.
        JMSException: the broker cannot be reached, or refuses.
    """
    rows: list[Row] = pq.read_table(str(plan)).to_pylist()
    connection = ConnectionOptions(url, user, password)
    link = Link(connection)
    try:
        for queue in sorted({row["queue"] for row in rows}):
            ours = [row for row in rows if row["queue"] == queue]
            # Said of both steps before anything is removed: nothing could take its place.
            lacking = {row["key"] for row in ours if row["action"] == "resend" and row["raw"] is None}
            with link.session() as session:
                for row in [each for each in ours if each["action"] == "remove"]:
                    if row["key"] in lacking:
                        yield _step(row, "left alone: the plan lacks the message that takes its place")
                        continue
                    yield _step(row, _removed(session, row, apply=apply))
                there = _keys(session, queue)
            resent = [row for row in ours if row["action"] == "resend" and row["raw"] is not None]
            replaced = {row["key"] for row in ours if row["action"] == "remove"}
            for row in [each for each in ours if each["action"] == "resend" and each["raw"] is None]:
                yield _step(row, "not sent: the plan lacks the message")
            if resent:
                yield from _resent(connection, resent, there, replaced, apply=apply)
    finally:
        link.close()


def _step(row: Row, outcome: str) -> RepairStep:
    return RepairStep(row["action"], row["queue"], row["key"], outcome)


def _keys(session: ClientSession, queue: str) -> dict[str, bytes]:
    """What is in the queue, by key: the digest of each."""
    return dict(_browse(session, queue, None))


def _browse(session: ClientSession, queue: str, selector: str | None) -> Iterator[tuple[str, bytes]]:
    if not session.query_queue(queue).exists:
        return
    for messages in queue_view(session, queue, selector=selector):
        yield from ((message_key(message), content_digest(message)) for message in messages)


def _removed(session: ClientSession, row: Row, *, apply: bool) -> str:
    if not row["key"].startswith("ID:"):
        return "left to people: the message has no JMSMessageID"
    digits = row["key"].removeprefix("ID:")
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    selector = f"AMQUserID = 'ID:{uuid}'"
    found = list(_browse(session, row["queue"], selector))
    if not found:
        return "not there any more"
    if any(digest != row["digest"] for _, digest in found):
        return "left alone: its content is not what the plan saw"
    count = min(row["messages"], len(found))
    if not apply:
        return f"would be removed ({count})"
    removed = 0
    with session.create_consumer(row["queue"], filter=selector) as consumer:
        while removed < count and (message := consumer.receive_nowait()) is not None:
            message.acknowledge_individually()
            removed += 1
    return f"removed ({removed})" if removed else "not there any more"


def _resent(
    connection: ConnectionOptions, rows: list[Row], there: dict[str, bytes], replaced: set[str], *, apply: bool
) -> Iterator[RepairStep]:
    if not apply:
        for row in rows:
            present = row["key"] in there and row["key"] not in replaced
            yield _step(row, "there already" if present else "would be sent")
        return
    with queue_sender(connection, rows[0]["address"], rows[0]["queue"], RoutingType(rows[0]["routing"])) as sender:
        for row in rows:
            if row["key"] in there:
                same = there[row["key"]] == row["digest"]
                yield _step(row, "there already" if same else "not sent: one with this id and another content is there")
                continue
            identity = blake2b(f"{row['queue']}\0{row['key']}\0".encode("utf-8", "surrogatepass"), digest_size=24)
            identity.update(row["digest"])
            key = None if row["key"].startswith("ID:") else row["key"]
            sent = sum(
                sender.send_once(
                    [SentMessage(row["raw"], identity.digest() + bytes([number & 255]), key)], replacing=True
                )
                for number in range(row["messages"])
            )
            yield _step(row, f"sent ({sent})" if sent else "known to the broker: sent before")
