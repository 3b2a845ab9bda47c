"""The journal's work beside traffic: preparing the next segment, dropping dead segments, compaction.

Responsible for choosing the next piece of such work and for completing it. Never does two at a time, and never removes
anything before the records that make it unneeded are durable.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define

from .._disk import DiskFault, FaultKind
from .._lane import StepLane
from .._steps import Corruption, Steps
from ._compaction import Compaction, without_survivors
from ._live_index import LiveIndex
from ._record_codec import encode_dropped
from ._segment_pool import SegmentPool
from ._segments import FIRST_BATCH_OFFSET, Segment
from ._settings import JournalSettings

__all__ = ["Background"]

# Segments are examined once in this many calls: candidates change slowly, and calls come with every batch.
_CALLS_PER_LOOK = 16
# A segment that lost this share of its messages since the last look, and this number of them, is emptying.
_EMPTYING_SHARE = 64
_EMPTYING_MIN = 64
# The journal is draining while it loses this share of its messages, and this number, within so many looks.
_DRAINING_SHARE = 256
_DRAINING_MIN = 64
_DRAINING_LOOKS = 4
# Meanwhile a compaction is worth its while if it reads at most this share of the segments that it merges.
_READ_WHILE_DRAINING = 1 / 4
# So many compactions are tried on a full disk before the next segment begins.
_TRIES_ON_FULL_DISK = 2
# A segment with less than this share of the usual size in it is merged with its neighbours.
_SMALL_SHARE = 8
# A duplicate id takes about an eighth of the room of a message: this share of it does not count.
_ID_DISCOUNT = 7 / 8


@define(eq=False)
class _Drain:
    """Whether messages leave the journal so fast that most segments will soon be free without a copy.

    A backlog that moves to another queue does that: what its segments need ends last. The journal may take about twice
    the room meanwhile, not more.
    """

    _peak: int = 0
    # The number of live messages at the last progress, and for how many looks that counts.
    _mark: int = 0
    _looks_left: int = 0
    # How many segments there were when it began.
    _segments: int = 0

    def look(self, living: int, segments: int) -> bool:
        """Return True while the journal is draining. Must be called with each look."""
        if self._mark - living >= max(self._peak // _DRAINING_SHARE, _DRAINING_MIN):
            if not self._looks_left:
                self._segments = segments
            self._mark, self._looks_left = living, _DRAINING_LOOKS
        elif self._looks_left:
            self._looks_left -= 1
        else:
            self._peak = self._mark = living
        return self._looks_left > 0 and segments <= 2 * self._segments + _DRAINING_LOOKS


@define(eq=False)
class Background:
    """The background work of one journal.

    ``segments`` is the journal's own list, oldest first, the current one last.
    """

    settings: JournalSettings
    segment_pool: SegmentPool
    live_index: LiveIndex
    segments: list[Segment]
    # Append one record to the journal, and the durability point that covers everything appended so far.
    append: Callable[[bytes], None]
    point: Callable[[], int]
    note: Callable[[str], None]
    lane: StepLane = Factory(StepLane)
    _calls: int = 0
    # Files are being removed or replaced. If that fails half-way it is unknown which of them count: no more of it.
    _replacing: bool = False
    stopped: bool = False
    # Compaction failed while this was the current segment; it is tried again when the next one is.
    _failed_in: Segment | None = None
    # How much was alive in each segment at the last look.
    _living: dict[Segment, int] = Factory(dict)
    _drain: _Drain = Factory(_Drain)
    # The disk was full while this was the current segment, and how many more compactions may make room meanwhile.
    _no_room_in: Segment | None = None
    _tries_left: int = 0

    @property
    def has_room(self) -> bool | None:
        """Return True if the journal can go on when the current segment is full; None while that is being found out."""
        prepared = self.segment_pool.prepared
        if not self.segments or self.segment_pool.spares or (prepared is not None and prepared.made):
            return True
        current = self.segments[-1]
        if self._no_room_in is current:
            return False
        if self._failed_in is current or self.live_index.ending or not _is_half_full(current):
            return True
        return None

    def choose(self, wall_ms: int, at_leisure: bool = False) -> None:
        """Begin the most urgent work, if there is any and the lane is free; ``at_leisure``: look in this call."""
        if self.lane.steps is not None or not self.segments or self.live_index.ending:
            return
        current = self.segments[-1]
        if self.segment_pool.prepared is None and _is_half_full(current):
            if self._failed_in is not current:
                self.lane.begin(self.segment_pool.prepare(wall_ms))
            return
        if not current.first_number:
            # Behind a cut the next segment has not begun. The list of segments, and of dropped ones, is in the last
            # segments before it: a merge would lose that list.
            return
        self._calls += 1
        # In each call: what waited in a drain may be all that can be freed, and few batches may be left until then.
        needs_room = self._no_room_in is current and self._tries_left > 0 and not self.segment_pool.spares
        if self.stopped or (self._calls % _CALLS_PER_LOOK and not at_leisure and not needs_room):
            return
        is_draining = self._drain.look(len(self.live_index.index), len(self.segments)) and not at_leisure
        dead = self._dead_segments()
        if dead:
            self.lane.begin(self._drop(dead))
        elif needs_room:
            run = self._run_without_messages()
            if len(run) > 1:
                self._tries_left -= 1
                self.lane.begin(self._compact(run, wall_ms))
        elif self._failed_in is not current:
            emptying = set() if at_leisure else self._emptying()
            run = self._worst_run(is_draining=is_draining)
            if run and emptying.isdisjoint(run):
                self.lane.begin(self._compact(run, wall_ms))

    def failed(self, fault: DiskFault) -> None:
        """Handle a failure of the disk in the lane. Traffic goes on with the existing segments."""
        self.lane.failed(fault)
        self.stopped = self.stopped or self._replacing
        self._failed_in = self.segments[-1] if self.segments else None
        if fault.kind is FaultKind.FULL:
            if self._no_room_in is not self._failed_in:
                self._tries_left = _TRIES_ON_FULL_DISK
            self._no_room_in = self._failed_in
        consequence = ""
        if fault.kind is FaultKind.FULL and self.segment_pool.prepared is not None and self.segments:
            current = self.segments[-1]
            left = (current.size - current.end) // 1024
            consequence = f"; the broker goes on until {current.name} is full, with {left} KiB left in it"
        self.note(f"background work on the journal failed: {fault}{consequence}")

    # -- choosing ----------------------------------------------------------------------------------------------------

    def _dead_segments(self) -> list[Segment]:
        """Return segments without live content that nothing older needs, each after those it depends on."""
        dead: dict[Segment, None] = {}
        for segment in self.segments[:-1]:
            if segment.living or segment.pins or segment.orphaned or segment.damaged:
                continue
            if all(need.gone or need in dead for need in segment.needs):
                dead[segment] = None
        return list(dead)

    def _emptying(self) -> set[Segment]:
        """Return segments that lost so much since the last look that they will soon be empty, and free without a copy.

        A segment is one of them for a limited number of looks: each takes a share of what is in it.
        """
        before, self._living = self._living, {segment: segment.living for segment in self.segments[:-1]}
        return {
            segment
            for segment, living in self._living.items()
            if before.get(segment, living) - living > max(segment.added // _EMPTYING_SHARE, _EMPTYING_MIN)
        }

    def _worst_run(self, *, is_draining: bool) -> list[Segment]:
        """Return the run of neighbours that frees most when it is rewritten; empty while that is not worth it."""
        runs: list[list[Segment]] = [[]]
        for segment in self.segments[:-1]:
            if segment.damaged or not self._is_sparse(segment):
                runs.append([])
            elif len(runs[-1]) >= self.settings.compaction_run_max:
                runs.append([segment])
            else:
                runs[-1].append(segment)
        if sum(map(len, runs)) < self.settings.compaction_segments_min:
            return []
        if is_draining:
            runs = [run for run in runs if len(run) - len(without_survivors(run)) <= _READ_WHILE_DRAINING * len(run)]
        worst = max(runs, key=self._gain_bytes, default=[])
        many_small = len(worst) >= self.settings.compaction_run_max // 2
        return worst if self._gain_bytes(worst) >= self.settings.segment_size_bytes // 2 or many_small else []

    def _run_without_messages(self) -> list[Segment]:
        """Return neighbours that need least room when they are rewritten: there is nearly none on a full disk."""
        runs: list[list[Segment]] = [[]]
        for segment in self.segments[:-1]:
            if segment.damaged or segment.living > 0 or len(runs[-1]) >= self.settings.compaction_run_max:
                runs.append([])
            if not segment.damaged and segment.living <= 0:
                runs[-1].append(segment)
        return max(runs, key=lambda run: (len(without_survivors(run)), len(run)))

    def _is_sparse(self, segment: Segment) -> bool:
        if segment.end - FIRST_BATCH_OFFSET < self.settings.segment_size_bytes // _SMALL_SHARE:
            return True
        return self._living_share(segment) <= self.settings.compaction_live_ratio_max

    def _living_share(self, segment: Segment) -> float:
        """Return which share of a segment is still needed, by its records or by its messages: the larger one.

        Duplicate ids that are displaced leave little room beside messages that stay.
        """
        records, living = segment.added + segment.retained, segment.living + segment.retained
        share = living / records if records else 0.0
        if segment.living and segment.ids_gone:
            ids = self.live_index.ids_in(segment)
            messages = segment.added - (ids + segment.ids_gone) * _ID_DISCOUNT
            share = max(share, (segment.living - ids * _ID_DISCOUNT) / messages)
        return share

    def _gain_bytes(self, run: list[Segment]) -> int:
        return sum([each.size - int(self._living_share(each) * (each.end - FIRST_BATCH_OFFSET)) for each in run])

    # -- doing -------------------------------------------------------------------------------------------------------

    def _drop(self, dead: list[Segment]) -> Steps[None]:
        """Free segments. The record makes their absence no damage; the order keeps ending records longest."""
        self.append(encode_dropped([(segment.first, segment.last) for segment in dead]))
        for segment in dead:
            self.segments.remove(segment)
            segment.gone = True
        yield self.point()
        yield from self._recycle(dead)

    def _compact(self, run: list[Segment], wall_ms: int) -> Steps[None]:
        between = self.segments[self.segments.index(run[-1]) + 1 : -1]
        compaction = Compaction(
            self.settings,
            self.segment_pool.identity,
            self.live_index,
            run,
            self.segment_pool.next_generation(),
            wall_ms,
        )
        yield run[-1].last_number  # its last batches may still be on their way to the disk
        try:
            yield from compaction.copy()
        except Corruption as corruption:
            for segment in run:
                segment.damaged = True
            self.note(f"compaction found damage, and the broker will not start on this journal again: {corruption}")
            return
        yield self.point()
        if compaction.empty:
            yield from self._drop(run)
            return
        self._replacing = True
        yield from compaction.replace()
        self._replacing = False
        result = compaction.account()
        at = self.segments.index(run[0])
        self.segments[at : at + len(run)] = [result]
        self.live_index.move(run, result, self.segments)
        alone = compaction.is_self_contained(result)
        for segment in between:
            if result in segment.needs:
                segment.retained = 0
                if alone:
                    del segment.needs[result]
        yield from self._recycle([segment for segment in run if segment.name != result.name])

    def _recycle(self, segments: list[Segment]) -> Steps[None]:
        self._replacing = True
        for segment in segments:
            operations = self.segment_pool.recycle(segment)
            yield operations
            self.segment_pool.recycled(operations, segment.size)
        self._replacing = False


def _is_half_full(segment: Segment) -> bool:
    return segment.end - FIRST_BATCH_OFFSET > segment.size // 2
