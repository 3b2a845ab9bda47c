"""Where audit logs stand, and what one of their segments says as rows.

Responsible for finding the logs of journals and for reading segments that a broker may be writing or removing. Refuses
to judge, and to know Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from attrs import frozen

from embedbroker.storage import (
    SegmentHeader,
    SegmentReading,
    audit_number,
    read_header,
    read_records,
)

from ._audit_log_records import LogKind, LogSummary, Row, log_summary

__all__ = ["LogSource", "confirmed_now", "log_places", "log_sources", "segment_rows_of"]

_HEADER_BYTES = 4096
# Where a log is looked for that nobody named, beside a journal and in its directory.
_USUAL = ("audit", "../audit")


@frozen
class LogSource:
    """The log of one broker: a directory and the (number, journal identity) of its segments, oldest first."""

    number: int
    directory: str
    segments: tuple[tuple[int, int], ...]

    def gaps(self) -> list[str]:
        """Segments that are missing in the middle: retention takes the oldest."""
        return [
            f"{self.directory}: segments {before + 1} to {after - 1} are missing"
            for (before, _), (after, _) in pairwise(self.segments)
            if after > before + 1
        ]


def log_places(places: Sequence[str | os.PathLike[str]]) -> tuple[list[Path], list[Path]]:
    """Which of these places hold an audit log, or have one where it usually stands; and which are none but that."""
    found: dict[Path, None] = {}
    alone: list[Path] = []
    for place in places:
        path = Path(place).resolve()
        if not path.is_dir():
            continue
        names = os.listdir(path)
        if any(audit_number(name) is not None for name in names):
            found[path] = None
            if not any(name.startswith("segment-") for name in names):
                alone.append(path)
            continue
        for usual in _USUAL:
            beside = (path / usual).resolve()
            if beside.is_dir() and any(audit_number(name) is not None for name in os.listdir(beside)):
                found[beside] = None
    return list(found), alone


def log_sources(places: Sequence[Path]) -> list[LogSource]:
    """What is there at this moment. A file whose header cannot be read has the identity 0."""
    sources = []
    for number, path in enumerate(places):
        numbers = sorted(found for name in os.listdir(path) if (found := audit_number(name)) is not None)
        segments = [(each, _identity(path, each)) for each in numbers]
        sources.append(LogSource(number, str(path), tuple([each for each in segments if each[1] is not None])))  # type: ignore[misc]  # none is None
    return sources


def file_name(number: int) -> str:
    """Of a segment."""
    return f"audit-{number:010}.log"


def _identity(path: Path, number: int) -> int | None:
    """None when the file went: it was the oldest."""
    try:
        with (path / file_name(number)).open("rb") as file:
            header = read_header(file.read(_HEADER_BYTES))
    except FileNotFoundError:
        return None
    return header.identity if isinstance(header, SegmentHeader) else 0


def _read(directory: str, number: int) -> tuple[LogSummary, SegmentReading]:
    """Raises FileNotFoundError."""
    path = Path(directory) / file_name(number)
    data = path.read_bytes()
    stretches, reading = [], None
    for part in read_records(path.name, len(data), lambda offset, count: data[offset : offset + count]):
        if isinstance(part, SegmentReading):
            reading = part
        else:
            stretches.append(part)
    assert reading is not None
    return LogSummary.of(stretches), reading


def confirmed_now(sources: Sequence[LogSource]) -> dict[str, int]:
    """By directory, up to where its newest life has confirmed by now: the newest segment that says so says it."""
    found = {}
    for source in sources:
        confirmed = 0
        for number, _ in reversed(source.segments):
            try:
                confirmed = _read(source.directory, number)[0].confirmed
            except FileNotFoundError:
                continue
            if confirmed:
                break
        found[source.directory] = confirmed
    return found


def segment_rows_of(source: int, directory: str, number: int, *, newest: bool) -> Iterator[Row]:
    """The rows of one segment; none of one that retention has removed."""
    try:
        summary, reading = _read(directory, number)
    except FileNotFoundError:
        return
    name = f"{directory}/{file_name(number)}"
    header = reading.header
    lives = [facts["life"] for _, facts in summary.facts if "life" in facts]
    common = {
        "source": source,
        "journal": header.identity if header is not None else 0,
        "generation": number,
        "life": lives[0] if lives else number,
    }
    for finding in reading.findings:
        torn = newest and finding.offset >= reading.end
        yield {**common, "kind": LogKind.DAMAGED, "number": finding.offset, "flags": torn, "text": finding.text}
    if header is None:
        return
    if header.cut_short:
        text = f"{name}: the log could not be written behind this segment; what came next is not in it"
        yield {**common, "kind": LogKind.DAMAGED, "number": reading.end, "flags": 0, "text": text}
    yield {**common, "kind": LogKind.READ_TO, "number": reading.end, "flags": 0, "text": name}
    for row in log_summary(summary):
        yield {**common, **row}
