"""The places of audit logs, and the content of one of their segments as rows.

Responsible for finding the logs of journals and for reading segments that a broker may be writing or removing. Does not
judge, and does not depend on Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

from attrs import frozen

from embedbroker.storage import (
    SegmentHeader,
    SegmentScan,
    audit_number,
    read_header,
    read_records,
    segment_range,
)

from ._archives import member_bytes, members
from ._audit_log_records import LogKind, LogSummary, Row, log_summary

__all__ = ["LogFolder", "LogSource", "confirmed_now", "log_places", "log_sources", "segment_rows_of"]

_HEADER_BYTES = 4096
# Places beside a journal and in its directory to search for a log that was not named.
_USUAL = ("audit", "../audit")


@frozen
class LogFolder:
    """Locate an audit log.

    It is a directory, or a folder in an archive. In an archive ``folder`` is its name there, and ``archived`` the
    (number, journal identity) of its segments.
    """

    path: str
    folder: str | None = None
    archived: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """Return the name for reports."""
        return self.path if self.folder is None else f"{self.path}:{self.folder or '.'}"

    def segments(self) -> tuple[tuple[int, int], ...]:
        """Return the segments at this moment, oldest first. A file whose header cannot be read has the identity 0."""
        if self.folder is not None:
            return self.archived
        numbers = sorted(number for name in os.listdir(self.path) if (number := audit_number(name)) is not None)
        found = [(number, _identity(Path(self.path), number)) for number in numbers]
        return tuple([(number, identity) for number, identity in found if identity is not None])

    def read(self, number: int) -> bytes:
        """Return the bytes of a whole segment.

        Raises:
            FileNotFoundError: retention removed it.
        """
        name = file_name(number)
        if self.folder is not None:
            return member_bytes(self.path, f"{self.folder}/{name}" if self.folder else name)
        return (Path(self.path) / name).read_bytes()


@frozen
class LogSource:
    """Hold the log of one broker: its place, and the (number, journal identity) of its segments, oldest first."""

    number: int
    folder: LogFolder
    segments: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """Return the name for reports."""
        return self.folder.name

    def gaps(self) -> list[str]:
        """Return texts on segments missing in the middle: retention removes only the oldest."""
        return [
            f"{self.name}: segments {before + 1} to {after - 1} are missing"
            for (before, _), (after, _) in pairwise(self.segments)
            if after > before + 1
        ]


def log_places(places: Sequence[str | os.PathLike[str]]) -> tuple[list[LogFolder], list[Path]]:
    """Return the audit logs in these places or in their usual place, and the places with only an audit log.

    Raises:
        ValueError: an archive has an unknown type.
    """
    found: dict[LogFolder, None] = {}
    alone: list[Path] = []
    for place in places:
        path = Path(place).resolve()
        if path.is_file():
            folders, has_journal = _in_archive(path)
            found.update(dict.fromkeys(folders))
            if folders and not has_journal:
                alone.append(path)
        elif path.is_dir() and _has_log(path):
            found[LogFolder(str(path))] = None
            if not any(name.startswith("segment-") for name in os.listdir(path)):
                alone.append(path)
        elif path.is_dir():
            beside = [(path / usual).resolve() for usual in _USUAL]
            found.update({LogFolder(str(each)): None for each in beside if each.is_dir() and _has_log(each)})
    return list(found), alone


def _has_log(path: Path) -> bool:
    return any(audit_number(name) is not None for name in os.listdir(path))


def _in_archive(path: Path) -> tuple[list[LogFolder], bool]:
    """Return the logs in an archive, and whether it has a journal, too."""
    segments: dict[PurePosixPath, list[tuple[int, int]]] = {}
    names: dict[PurePosixPath, str] = {}
    has_journal = False
    for member, data in members(path, _is_of_a_broker, _HEADER_BYTES):
        folder, _, name = member.rpartition("/")
        number = audit_number(name)
        if number is None:
            has_journal = True
        else:
            place = PurePosixPath(folder)
            segments.setdefault(place, []).append((number, _identity_in(data)))
            names.setdefault(place, folder)
    folders = [LogFolder(str(path), names[place], tuple(sorted(found))) for place, found in sorted(segments.items())]
    return folders, has_journal


def _is_of_a_broker(name: str) -> bool:
    return audit_number(name) is not None or segment_range(name) is not None


def log_sources(folders: Sequence[LogFolder]) -> list[LogSource]:
    """Return the segments of the logs at this moment."""
    return [LogSource(number, folder, folder.segments()) for number, folder in enumerate(folders)]


def file_name(number: int) -> str:
    """Return the file name of a segment."""
    return f"audit-{number:010}.log"


def _identity(path: Path, number: int) -> int | None:
    """Return the journal identity of a segment, or None if its file was removed: it was the oldest."""
    try:
        with (path / file_name(number)).open("rb") as file:
            return _identity_in(file.read(_HEADER_BYTES))
    except FileNotFoundError:
        return None


def _identity_in(data: bytes) -> int:
    header = read_header(data)
    return header.identity if isinstance(header, SegmentHeader) else 0


def _read(folder: LogFolder, number: int) -> tuple[LogSummary, SegmentScan]:
    """Read one segment. Raises FileNotFoundError."""
    data = folder.read(number)
    stretches, reading = [], None
    for part in read_records(file_name(number), len(data), lambda offset, count: data[offset : offset + count]):
        if isinstance(part, SegmentScan):
            reading = part
        else:
            stretches.append(part)
    assert reading is not None
    return LogSummary.of(stretches), reading


def confirmed_now(sources: Sequence[LogSource]) -> dict[str, int]:
    """Return by name of a log the last confirmation of its newest life: from the newest segment with one."""
    found = {}
    for source in sources:
        confirmed = 0
        for number, _ in reversed(source.segments):
            try:
                confirmed = _read(source.folder, number)[0].confirmed
            except FileNotFoundError:
                continue
            if confirmed:
                break
        found[source.name] = confirmed
    return found


def segment_rows_of(source: int, folder: LogFolder, number: int, *, newest: bool) -> Iterator[Row]:
    """Yield the rows of one segment; none for one that retention has removed."""
    try:
        summary, reading = _read(folder, number)
    except FileNotFoundError:
        return
    name = f"{folder.name}/{file_name(number)}"
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
