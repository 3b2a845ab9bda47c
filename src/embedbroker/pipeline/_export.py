"""Export of one queue by browsing it, in one task.

Responsible for a queue that is shown from its beginning again, after an interruption or a failover. Also responsible
for messages that are in a part already. Does not depend on files: `_export_folder` does.
"""

from __future__ import annotations

from contextlib import closing

import pyarrow.parquet as pq
from attrs import frozen

from embedclient.blocking import ClientSession
from embedclient.errors import ConnectionLostException, InvalidDestinationException
from embedclient.model import RoutingType
from embedclient.wire.core import CoreMessage

from ._broker_connection import BrokerConnection
from ._export_folder import ExportFolder, NewPart, write_note
from ._frames import pack_block
from ._options import ConnectionOptions

__all__ = ["ExportParts", "TransferResult", "describe", "export_queue"]

# The limit of interruptions in a row: a queue is shown from its beginning, and no part of it is written meanwhile.
INTERRUPTIONS_MAX = 10
# A part ends before it has more: a multiple of this is in memory.
BYTES_PER_PART = 32 << 20
_BYTES_PER_READ = 4 << 20


@frozen
class TransferResult:
    """Hold the result for one queue: messages moved now and found moved before, and their bytes."""

    queue: str
    messages: int
    before: int
    bytes: int


def export_queue(connection: ConnectionOptions, queue: str, root: str, messages_per_part: int) -> TransferResult:
    """Write the messages of a queue that are in no part yet.

    Raises:
        InvalidDestinationException: there is no queue of this name.
        JMSException: the broker cannot be reached, or refuses.
    """
    folder = ExportFolder.of(root, queue)
    folder.make()
    writing = ExportParts(folder, queue, messages_per_part)
    before = len(writing.done)
    if not folder.complete.exists():
        with closing(BrokerConnection(connection)) as link, link.session() as session:
            describe(session, queue, folder)
            had, interruptions = before, 0
            while not _export_parts(session, writing):
                interruptions = interruptions + 1 if had == len(writing.done) else 1
                had = len(writing.done)
                if interruptions > INTERRUPTIONS_MAX:
                    raise ConnectionLostException(f"the connection was lost whenever queue {queue!r} was shown")
        folder.finish(len(writing.done))
    return TransferResult(queue, len(writing.done) - before, before, writing.size)


def describe(session: ClientSession, queue: str, folder: ExportFolder) -> None:
    """Write the description of the queue. Raises InvalidDestinationException: it does not exist."""
    state = session.query_queue(queue)
    if not state.exists or state.address is None:
        raise InvalidDestinationException(f"there is no queue {queue!r}")
    routing = RoutingType.ANYCAST if state.routing_type is None else RoutingType(state.routing_type)
    write_note(folder.path / "queue.json", {"queue": queue, "address": state.address, "routing": routing.name})


class ExportParts:
    """The written parts of a queue, and the next one. ``done``: the numbers of their messages.

    The next number is behind all parts that were read. So an attempt that gets it for a part has read all earlier ones:
    two attempts at once write each message once.
    """

    def __init__(self, folder: ExportFolder, queue: str, messages_per_part: int) -> None:
        self.queue = queue
        self.size = 0
        self.done: set[int] = set()
        self._folder = folder
        self.messages_max = messages_per_part
        self._seen: set[str] = set()
        self._next = self._pending_size = 0
        self._pending: dict[int, tuple[bytearray, int]] = {}
        self._look()

    def _look(self) -> None:
        for path in self._folder.part_paths():
            if path.name not in self._seen:
                self.done.update(pq.read_table(path, columns=["sequenceId"]).column(0).to_pylist())
                self._seen.add(path.name)
                self._next = int(path.stem.removeprefix("part-")) + 1
        self._pending = {number: each for number, each in self._pending.items() if number not in self.done}
        self._pending_size = sum(len(raw) for raw, _ in self._pending.values())

    def add(self, raw: bytearray, deliveries: int) -> None:
        """Add a message with its delivery count to the next part, unless a part has it."""
        number = CoreMessage.parse(raw).message_id
        if number in self.done:
            return
        if self._pending and self._pending_size + len(raw) > BYTES_PER_PART:
            self.write()
        self._pending[number] = raw, deliveries
        self._pending_size += len(raw)
        if len(self._pending) >= self.messages_max:
            self.write()

    def write(self) -> None:
        """Write the pending messages that no other attempt has written meanwhile."""
        while self._pending:
            with NewPart(self._folder.part_path(self._next), self.queue) as part:
                part.add(pack_block((0, count, CoreMessage.parse(raw)) for raw, count in self._pending.values()))
                is_ours = part.close()
            if is_ours:
                self._seen.add(part.name)
                self._next += 1
                self.size += part.size
                self.done.update(self._pending)
                self.forget()
            else:
                self._look()

    def forget(self) -> None:
        """Discard the pending messages."""
        self._pending, self._pending_size = {}, 0


def _export_parts(session: ClientSession, parts: ExportParts) -> bool:
    """Browse the queue and write the messages that are not in a part yet.

    Return False when the session was lost, and a new one must browse. That one shows the queue from its beginning.
    Unwritten messages are discarded: they are shown again, in their order.
    """
    name = session.name
    parts.forget()
    with session.create_consumer(parts.queue, browse_only=True) as consumer:
        while received := consumer.receive_encoded(parts.messages_max, bytes_max=_BYTES_PER_READ):
            if session.name != name:
                return False
            for raw, deliveries in received:
                parts.add(raw, deliveries)
    if session.name != name:
        return False
    parts.write()
    return True
