"""A journal of a given size, written by the journal's code: durable messages, nearly all acknowledged.

Does not depend on its readers.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from embedbroker.kernel import QueueDefinition
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import Journal, JournalSettings
from embedclient.model import Instant, Properties
from embedclient.wire.core import CoreMessage, MessageType

#: Messages of one batch, as of a broker under load, and how many of them later they are acknowledged.
BATCH, BEHIND = 100, 1_000
#: One message of so many stays: a segment in which nothing lives would be removed.
STAYS = 1_000
_BEGAN_MS = 1_700_000_000_000
_FIRST_ID = 1_000


@frozen
class _Stored:
    message_id: int
    raw: bytes
    timestamp: int = _BEGAN_MS
    encoding: int = CoreMessage.encoding
    durable: bool = True
    priority: int = 4
    expiration: int = 0
    deliver_at: int = 0
    is_directed: bool = False
    is_grouped: bool = False

    def stored_bytes(self) -> bytes:
        return self.raw


def write_journal(directory: Path, size_bytes: int, body_bytes: int) -> int:
    """Make ``directory`` and fill it until its segments have about so many bytes; returns the number of messages.

    Messages have bodies of ``body_bytes`` and go to one queue. Segments have the size that a broker gives them, and
    nothing is compacted: what is measured has the size that was asked for.
    """
    directory.mkdir(parents=True)
    disk = FileDisk(directory)
    journal = Journal(
        JournalSettings(identity=0x5EED_1234_ABCD_9876, compaction_live_ratio_max=0.0, spare_segments_max=0)
    )
    journal.open(Instant(0.0, _BEGAN_MS))
    _settle(journal, disk, 0)
    journal.add_queue(QueueDefinition(1, "orders", "orders", 1))
    raw, sent, size = _encoded(body_bytes), 0, 0
    while size < size_bytes:
        for number in range(sent, sent + BATCH):
            journal.add_message(_Stored(_FIRST_ID + number, raw), 0, [(1, _FIRST_ID + number)])
            gone = number - BEHIND
            if gone >= 0 and gone % STAYS:
                journal.acknowledge(_FIRST_ID + gone, 1, 0)
        sent += BATCH
        _settle(journal, disk, sent)
        if sent % 10_000 == 0:
            size = journal_size(directory)
    disk.close()
    return sent


def journal_size(directory: Path) -> int:
    """Return the bytes of the segments, which are a little longer than their contents."""
    return sum(path.stat().st_size for path in directory.glob("segment-*.journal"))


def _encoded(body_bytes: int) -> bytes:
    """Return a message as a JMS client sends it: with an id, a timestamp and two properties."""
    properties = Properties()
    properties.update({"region": "north", "number": 7})
    message = CoreMessage.build(
        type=MessageType.BYTES,
        address="orders",
        durable=True,
        timestamp=_BEGAN_MS,
        user_id=bytes(range(16)),
        properties=properties,
        body=b"x" * body_bytes,
    )
    return bytes(message.raw)


def _settle(journal: Journal, disk: FileDisk, sent: int) -> None:
    """Execute the journal's requests, at 10,000 messages per second of its time."""
    now = Instant(sent / 10_000, _BEGAN_MS + sent // 10)
    while works := journal.take_work():
        for work in works:
            journal.on_disk_done(work.batch, disk.run(work.operations), now)
