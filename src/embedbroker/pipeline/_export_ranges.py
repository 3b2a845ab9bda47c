"""Export of queues by ranges of positions, in many tasks: a part for each range.

The content of a queue at the beginning is cut into ranges of about as many messages as a part has. They are recorded in
`ranges.json`. The part of a range has its number, so the order of parts is that of the queue. A range whose part exists
is done, for every task. A cursor that never acknowledges pins the whole content while the job runs, and is removed
then. A queue that has consumers, or a reader by cursor, is left alone, and must be browsed.

Responsible for cursors, ranges, and one range. Does not depend on Spark.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from uuid import uuid4

from attrs import frozen

from embedclient.errors import IllegalStateException, JMSException
from embedclient.model import start_thread

from ._broker_connection import BrokerConnection
from ._cursor_source import CURSOR, CursorPartition, read_range
from ._export import TransferResult, describe
from ._export_folder import ExportFolder, NewPart, noted, write_note
from ._options import ConnectionOptions, SourceOptions
from ._services import CLOSE_TIMEOUT_S, ServiceRefused, Services

__all__ = ["ExportPins", "QueueRange", "export_range", "pinned_ranges"]

LEASE_MS = 60_000
_RENEWALS_PER_LEASE = 3
# The broker's largest number of parts for one range.
_RANGES_MAX = 10_000
_OWNER = "export/"
_log = logging.getLogger("embedbroker.pipeline")


@frozen
class QueueRange:
    """Hold the work of one task: the messages in `(after, until]`, as the part of this number."""

    queue: str
    number: int
    after: int
    until: int


@contextmanager
def pinned_ranges(
    connection: ConnectionOptions, queues: Sequence[str], root: str, messages_per_part: int
) -> Iterator[dict[str, list[QueueRange]]]:
    """Yield the ranges of these queues, while they are pinned. Queues that must be browsed are left out.

    Raises:
        IllegalStateException: an export began by ranges, and its queue cannot be pinned now. Or the broker has lost its
            journal since then, or is another one.
        JMSException: the broker cannot be reached, or refuses.
    """
    link = BrokerConnection(connection)
    pins = ExportPins(link)
    try:
        found: dict[str, list[QueueRange]] = {}
        for queue in queues if pins.services.can("cursor.open") else ():
            folder = ExportFolder.of(root, queue)
            folder.make()
            # An export that began by browsing continues by browsing.
            if not folder.complete.exists() and (folder.ranges.exists() or not folder.part_paths()):
                ranges = pins.ranges(queue, folder, messages_per_part)
                if ranges is not None:
                    found[queue] = ranges
        yield found
    finally:
        pins.close()
        link.close()


class ExportPins:
    """Hold the cursors of one export, renewed by a thread: tasks may take longer than a lease."""

    def __init__(self, link: BrokerConnection) -> None:
        self.services = Services(link)
        self._link = link
        self.owner = f"{_OWNER}{uuid4()}"
        self._queues: list[str] = []
        self._stopped = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="embedbroker export", daemon=True)
        start_thread(self._renewing.start, "the renewal of leases")

    def ranges(self, queue: str, folder: ExportFolder, messages_per_part: int) -> list[QueueRange] | None:
        """Pin the content of a queue and return its ranges, or None if the broker refuses."""
        try:
            begin, end, rows = self._pin(queue)
        except ServiceRefused as refused:
            if folder.ranges.exists():
                raise IllegalStateException(
                    f"the export of queue {queue!r} was begun by ranges and cannot go on now: {refused}"
                ) from None
            _log.warning("queue %r is exported by one task: %s", queue, refused)
            return None
        with self._link.session() as session:
            describe(session, queue, folder)
        noted_bounds = self._bounds(queue, folder, begin, end, -(-rows // messages_per_part))
        # Messages of recorded ranges may have left since then.
        bounds = [min(max(begin, bound), end) for bound in noted_bounds]
        return [QueueRange(queue, number, after, until) for number, (after, until) in enumerate(pairwise(bounds))]

    def close(self) -> None:
        """Release the queues, unchanged. At a broker that does not answer, the leases expire later."""
        self._stopped.set()
        # One time budget for all of it: a single request may take two minutes. The end of the link ends the rest.
        letting_go = threading.Thread(target=self._let_go, name="embedbroker export end", daemon=True)
        try:
            start_thread(letting_go.start, "the end of an export")
        except JMSException:
            self._let_go()
            return
        letting_go.join(CLOSE_TIMEOUT_S)
        if letting_go.is_alive():
            _log.warning("the broker does not answer: the queues are let go when their leases run out")

    def _let_go(self) -> None:
        self._renewing.join()
        for queue in self._queues:
            with suppress(ServiceRefused, JMSException):  # the lease expires
                self.services.call("cursor.remove", queue=queue, cursor=CURSOR, owner=self.owner)
        self.services.close()

    def _pin(self, queue: str) -> tuple[int, int, int]:
        """Return the position before the first message, the last one's position, and the number of messages.

        A cursor in use is left alone: the refusal names its owner. Cursors not in use are those of a killed export, or
        of a query that must report a loss anyway, because consumers were let in.
        """
        of_one: dict[str, object] = {"queue": queue, "cursor": CURSOR, "owner": self.owner}
        try:
            self.services.call("cursor.renew", **of_one)
        except ServiceRefused as refused:
            owner = str(refused.body.get("owner") or "")
            is_free = not owner or owner.startswith(_OWNER)
            if refused.status != "no-such-cursor" and not is_free:
                raise
        opened = self.services.call("cursor.open", **of_one, lease_ms=LEASE_MS, take_over=True)
        self._queues.append(queue)
        begin = int(str(opened["position"]))
        pin = self.services.call("cursor.pin", **of_one, start=begin, max_rows=0, max_bytes=0)
        return begin, int(str(pin["end"])), int(str(pin["rows"]))

    def _bounds(self, queue: str, folder: ExportFolder, begin: int, end: int, parts: int) -> list[int]:
        """Return the recorded bounds, or new ones."""
        capabilities = self.services.capabilities() or {}
        if not folder.ranges.exists():
            bounds: object = [begin]
            if parts:
                fields = {"after": begin, "until": end, "parts": min(parts, _RANGES_MAX)}
                bounds = self.services.call("cursor.split", queue=queue, cursor=CURSOR, **fields)["bounds"]
            write_note(folder.ranges, {"broker": capabilities.get("node_id"), "bounds": bounds})
        note = noted(folder.ranges)
        bounds = note.get("bounds")
        if not isinstance(bounds, list) or not all(isinstance(each, int) for each in bounds):
            raise ValueError(f"{folder.ranges} is not of an export: it does not say the bounds of ranges")
        if note.get("broker") != capabilities.get("node_id"):
            raise IllegalStateException(
                f"the export of queue {queue!r} cannot go on: the broker has lost its journal since it began, or is "
                f"another one; use another directory"
            )
        return bounds

    def _renew(self) -> None:
        while not self._stopped.wait(LEASE_MS / 1000 / _RENEWALS_PER_LEASE):
            for queue in list(self._queues):
                if self._stopped.is_set():
                    return
                try:
                    self.services.call("cursor.renew", queue=queue, cursor=CURSOR, owner=self.owner)
                except (ServiceRefused, JMSException) as error:  # tasks detect the consequence
                    _log.warning("the lease on queue %r was not renewed: %s", queue, error)


def export_range(connection: ConnectionOptions, part: QueueRange, root: str) -> TransferResult:
    """Write the part of a range, unless it exists. Raises what `read_range` does."""
    path = ExportFolder.of(root, part.queue).part_path(part.number)
    if path.exists():
        return TransferResult(part.queue, 0, 0, 0)
    with NewPart(path, part.queue) as new:
        if part.after < part.until:
            for block in read_range(_options(connection, part), CursorPartition(part.queue, part.after, part.until, 0)):
                new.add(block)
        is_ours = new.close()
    return TransferResult(part.queue, new.messages if is_ours else 0, 0, new.size if is_ours else 0)


def _options(connection: ConnectionOptions, part: QueueRange) -> SourceOptions:
    """Return options that accept missing messages: some may have left since the range was cut, as in any browse."""
    values = {"url": connection.url, "user": connection.user, "password": connection.password}
    values |= {"queue": part.queue, "failOnDataLoss": "false"}
    return SourceOptions.parse({name: value for name, value in values.items() if value is not None})
