"""The work and the copied parts that a primary has sent to its backup, and how much of it is answered.

Responsible for the numbers of works and copied parts, for what is unanswered and since when. Does not depend on states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from attrs import Factory, define

from embedbroker.storage import DiskOperation, Lane
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    CopyBegin,
    CopyMark,
    Packet,
    StreamChunk,
    StreamMark,
    StreamOperation,
    StreamWork,
    encode_chunk,
    encode_work,
)

from ._events import STREAM_CHANNEL, StreamConnection
from ._operations import size_of
from ._stream_packets import sealed

__all__ = ["SendWindow"]

# The time of a slow disk to make room for a file of a copy and sync it. Where that writes the file's bytes, they count
# too.
_ROOM_S_PER_FILE = 0.05
_ROOM_BYTES_PER_S = 50 * 1024 * 1024


@define(eq=False)
class _Flow:
    """One lane: the numbers of what was sent last and answered last, and the sizes of what lies between.

    `0 <= answered <= sent`
    """

    sent: int = 0
    answered: int = 0
    unanswered_bytes: int = 0
    _sizes: deque[int] = Factory(deque)

    def add(self, size: int) -> int:
        self.sent += 1
        self.unanswered_bytes += size
        self._sizes.append(size)
        return self.sent

    def answer(self, number: int) -> None:
        if not self.answered < number <= self.sent:
            raise RemoteProtocolError(f"an answer to number {number}, between {self.answered} and {self.sent}")
        while self.answered < number:
            self.answered += 1
            self.unanswered_bytes -= self._sizes.popleft()


@define(eq=False)
class SendWindow:
    """The stream to one backup, from the moment it joins to its end. ``quiet_since`` is when it last answered, or began
    to owe."""

    line: StreamConnection
    quiet_since: float
    _flows: dict[Lane, _Flow] = Factory(lambda: {lane: _Flow() for lane in Lane})
    # The sum of all lanes, because each step reads it.
    _unanswered: int = 0
    # How long the backup may take to make room for all files of the copy.
    _room_s: float = 0.0

    def send(self, packet: Packet) -> None:
        """Send a packet that is not answered by number."""
        self.line.write_pieces([sealed(packet)])

    def send_work(
        self,
        lane: Lane,
        operations: Sequence[DiskOperation],
        parts: Sequence[StreamOperation],
        done: dict[Lane, int],
        now: float,
    ) -> int:
        """Send a work and return its number. ``done`` are the numbers of works that are done for the journal."""
        number = self._add(lane, size_of(operations), now)
        after = (done[Lane.JOURNAL], done[Lane.BACKGROUND])
        self.line.write_pieces(encode_work(StreamWork(lane, number, after, parts), STREAM_CHANNEL))
        return number

    def send_begin(self, begin: CopyBegin, now: float) -> None:
        self._add(Lane.COPY, 0, now)
        size = sum([file.size for file in begin.files])
        self._room_s = _ROOM_S_PER_FILE * len(begin.files) + size / _ROOM_BYTES_PER_S
        self.send(begin)

    def send_chunk(self, file: int, offset: int, data: bytes, now: float) -> None:
        number = self._add(Lane.COPY, len(data), now)
        self.line.write_pieces(encode_chunk(StreamChunk(number, file, offset, data), STREAM_CHANNEL))

    def send_mark(self, mark: StreamMark, now: float) -> int:
        """Send a mark and return the number that its answer has in the copy lane."""
        number = self._add(Lane.COPY, 0, now)
        self.send(CopyMark(mark, number))
        return number

    def on_answer(self, lane: int, number: int, now: float) -> None:
        """Note that the backup did more of what was sent.

        Raises:
            RemoteProtocolError: That was never sent, or answered before.
        """
        flow = self._flows.get(lane)  # type: ignore[call-overload]  # an IntEnum is found by its number
        if flow is None:
            raise RemoteProtocolError(f"an answer in lane {lane}")
        before = flow.answered
        flow.answer(number)
        self._unanswered -= number - before
        self.quiet_since = now
        if lane == Lane.COPY:
            self._room_s = 0.0

    @property
    def extra_s(self) -> float:
        """Return how many seconds longer than usual an answer may take: the first of a copy comes when there is room
        for all of it."""
        return self._room_s

    def answered(self, lane: Lane) -> int:
        return self._flows[lane].answered

    def unanswered_bytes(self, lane: Lane) -> int:
        return self._flows[lane].unanswered_bytes

    @property
    def backlog_bytes(self) -> int:
        """Return the bytes of work that the backup has not done yet."""
        return self.unanswered_bytes(Lane.JOURNAL) + self.unanswered_bytes(Lane.BACKGROUND)

    @property
    def owes(self) -> bool:
        """Return True if an answer of the backup is outstanding."""
        return self._unanswered > 0

    def _add(self, lane: Lane, size: int, now: float) -> int:
        if not self._unanswered:
            self.quiet_since = now
        self._unanswered += 1
        return self._flows[lane].add(size)
