"""What the journal does beside traffic: preparing the next segment, dropping dead segments, compaction.

Responsible for choosing the next piece of such work. Refuses to do two at a time, and to do any before the records it
relies on are durable.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define

from ._lane import StepLane
from ._liveness import Liveness
from ._record_codec import encode_dropped
from ._segments import FIRST_BATCH_OFFSET, Segment
from ._settings import JournalSettings
from ._steps import Steps
from ._supply import SegmentSupply

__all__ = ["Background"]


@define(eq=False)
class Background:
    """``segments`` is the journal's own list, oldest first, the current one last; this removes what is dropped."""

    settings: JournalSettings
    supply: SegmentSupply
    liveness: Liveness
    segments: list[Segment]
    # Append one record to the journal, and the durability point that covers everything appended so far.
    append: Callable[[bytes], None]
    point: Callable[[], int]
    lane: StepLane = Factory(StepLane)

    def choose(self, wall_ms: int) -> None:
        """Begin the most urgent work, if there is any and the lane is free."""
        if not self.lane.idle:
            return
        current = self.segments[-1] if self.segments else None
        if current is None:
            return
        if self.supply.prepared is None and current.end - FIRST_BATCH_OFFSET > current.size // 2:
            self.lane.begin(self.supply.prepare(wall_ms))
            return
        dead = self._dead_segments()
        if dead:
            self.lane.begin(self._drop(dead))

    def _dead_segments(self) -> list[Segment]:
        """Segments in which nothing lives and that nothing older needs, each after those it depends on."""
        dead: dict[Segment, None] = {}
        for segment in self.segments[:-1]:
            if segment.living or segment.pins or segment.orphans:
                continue
            if all(need.gone or need in dead for need in segment.needs):
                dead[segment] = None
        return list(dead)

    def _drop(self, dead: list[Segment]) -> Steps[None]:
        """Free segments. The record makes their absence no damage; the order keeps what ends things longest."""
        self.append(encode_dropped([(segment.first, segment.last) for segment in dead]))
        for segment in dead:
            self.segments.remove(segment)
            segment.gone = True
        yield self.point()
        for segment in dead:
            operations = self.supply.recycle(segment)
            yield operations
            self.supply.recycled(operations, segment.size)
