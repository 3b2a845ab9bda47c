"""Application of a repair plan at one broker: messages are sent again or removed, or a dry run reports the steps.

Responsible for a check before each step. A message that is present is not sent again. A message that is gone, or
differs from the plan, is not removed. Does not depend on how the plan was made. Needs no Spark.
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

__all__ = ["PLAN_TYPES", "RepairStep", "keys_and_digests", "repair"]

PLAN_TYPES = {
    "action": pa.string(),
    "queue": pa.string(),
    "address": pa.string(),
    "routing": pa.int32(),
    "key": pa.string(),
    "digest": pa.binary(),
    # The largest number of messages to change at the second site, and the number that must be there in the end.
    "messages": pa.int64(),
    "target": pa.int64(),
    "raw": pa.binary(),
}

Row = dict[str, Any]


@frozen
class RepairStep:
    """Hold one line of the plan.

    Args:
        action: "resend" or "remove".
        queue: name of the queue.
        key: key of the message.
        outcome: done, would be done, or the reason why not.
    """

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
    """Apply a plan of `write_plan`, queue by queue; without ``apply`` nothing is changed.

    Removals come first. A message is removed by its JMSMessageID alone, and only while its content matches the plan.
    Other messages are left to people. A plan may be applied again after an interruption, because it contains the number
    of messages that must be there in the end.

    Args:
        plan: the folder that `write_plan` wrote.
        url: URL of the broker to repair.
        user: user at the broker; None without a login.
        password: password at the broker; None without a login.
        apply: send and remove messages; otherwise only report the steps.

    Raises:
        FileNotFoundError: the plan does not exist.
        ValueError: the file is not a plan, or was not written to its end.
        JMSException: the broker cannot be reached, or refuses.
    """
    rows = _plan_rows(Path(plan))
    connection = ConnectionOptions(url, user, password)
    link = BrokerConnection(connection)
    try:
        for queue in sorted({row["queue"] for row in rows}):
            ours = [row for row in rows if row["queue"] == queue]
            # Checked for both steps before any removal: a removed message could not be replaced.
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
                # In a dry run the messages to be removed are still there.
                there = Counter(keys_and_digests(session, queue, None)) - expected
            resent = [row for row in ours if row["action"] == "resend" and row["raw"] is not None]
            for row in [each for each in ours if each["action"] == "resend" and each["raw"] is None]:
                yield _step(row, "not sent: the plan lacks the message")
            if resent:
                yield from _resent(connection, resent, there, apply=apply)
    finally:
        link.close()


def _plan_rows(plan: Path) -> list[Row]:
    # Spark keeps its output in `_temporary` until all of it is written.
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


def keys_and_digests(session: ClientSession, queue: str, selector: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield key and digest of each message; nothing if the queue does not exist."""
    if not session.query_queue(queue).exists:
        return
    for messages in queue_view(session, queue, selector=selector):
        yield from ((message_key(message), content_digest(message)) for message in messages)


def _selector(key: str) -> str:
    digits = key.removeprefix("ID:")
    return f"AMQUserID = 'ID:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'"


def _too_many(session: ClientSession, row: Row) -> tuple[int, str]:
    """Return the number of messages to remove, and the outcome of a dry run."""
    if not row["key"].startswith("ID:"):
        return 0, "left to people: the message has no JMSMessageID"
    found = list(keys_and_digests(session, row["queue"], _selector(row["key"])))
    if not found:
        return 0, "not there any more"
    if any(digest != row["digest"] for _, digest in found):
        return 0, "left alone: its content is not what the plan saw"
    # Never more than the plan found: later messages are not part of it.
    count = min(row["messages"], len(found) - row["target"])
    if count <= 0:
        return 0, f"left alone: {len(found)} are there, as many as there should be"
    return count, f"would be removed ({count})"


def _removed(session: ClientSession, row: Row, count: int) -> int:
    """Remove up to ``count`` messages; return the number removed.

    Raises:
        ConnectionLostException: the number is unknown.
    """
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
    """Send up to ``wanted`` copies; return the number sent.

    Each copy has an id with its number. The broker refuses the ids of an earlier attempt, whose messages may have left
    the queue by now. So the copies are sent one after the other, until there are enough.
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
