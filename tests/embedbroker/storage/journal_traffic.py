"""A journal with messages that come and go, and others that stay: what compaction is made for."""

from __future__ import annotations

from random import Random

from embedbroker.kernel import QueueDefinition
from embedbroker.storage import Journal, JournalSettings, ListFiles, segment_range
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, SMALL, RecordedJournal, StoredMessage, recover


class Traffic:
    """A journal with a queue through which messages flow, and another one in which some stay."""

    def __init__(self, seed: int = 0, settings: JournalSettings = SMALL) -> None:
        self.random = Random(seed)
        self.recorded = RecordedJournal(SimulatedDisk(), settings)
        self.recorded.open()
        self.recorded.settle()
        self.recorded.call("add_queue", QueueDefinition(1, "flow", "a", 1))
        self.recorded.call("add_queue", QueueDefinition(2, "rest", "a", 1))
        self.next_id = 10

    @property
    def journal(self) -> Journal:
        return self.recorded.journal

    def take_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def message(self, size: int = 300) -> StoredMessage:
        return StoredMessage(self.take_id(), b"m" * size)

    def add(self, queue_id: int, size: int = 300) -> int:
        message = self.message(size)
        self.recorded.call("add_message", message, 0, [(queue_id, self.take_id())])
        return message.message_id

    def flow(self, count: int, stay_every: int = 0, lag: int = 5) -> list[int]:
        """Send messages through the flow and acknowledge each a little later; some stay in the other queue."""
        waiting: list[int] = []
        stayed: list[int] = []
        for number in range(count):
            waiting.append(self.add(1))
            if stay_every and number % stay_every == 0:
                stayed.append(self.add(2))
            if len(waiting) > lag:
                self.recorded.call("acknowledge", waiting.pop(0), 1, 0)
            self.recorded.settle(self.random)
        for message_id in waiting:
            self.recorded.call("acknowledge", message_id, 1, 0)
        self.recorded.settle(self.random)
        return stayed

    def fill(self) -> list[int]:
        """Messages that stay, until the current segment is full."""
        current, stayed = self.newest, [self.add(2)]
        while self.newest == current:
            stayed.append(self.add(2))
        self.recorded.call("acknowledge", stayed.pop(), 2, 0)  # it is in the next segment
        self.recorded.settle()
        return stayed

    @property
    def newest(self) -> str:
        """The name of the current segment."""
        return self.journal.statistics().segments[-1].name

    def size_bytes(self) -> int:
        (names,) = self.recorded.disk.run((ListFiles(),))
        assert isinstance(names, tuple)
        return sum(len(self.recorded.disk.content(name)) for name in names if name.startswith("segment-"))

    def recovered(self) -> list[int]:
        journal = recover(self.recorded.disk.copy())
        assert journal.recovered is not None, journal.failure
        assert journal.notes == []
        return [message.message_id for message in journal.recovered.take_messages(1 << 20)]


def replaced_by(name: str) -> list[str]:
    """The files that a merged segment makes superfluous, while the journal has not removed them yet."""
    segments = segment_range(name)
    assert segments is not None, name
    first, last = segments
    return [f"segment-{generation:010}.journal" for generation in range(first, last + 1) if first != last]


def compacted(journal: Journal) -> bool:
    return any(segment.is_merged for segment in journal.statistics().segments)


# -- space ---------------------------------------------------------------------------------------------------------


def look_for_work(recorded: RecordedJournal) -> None:
    for _look in range(40):
        recorded.journal.on_tick(NOW)
        recorded.settle()
