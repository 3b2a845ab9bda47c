"""`embedbroker journal`: the contents of a stopped broker's directory, a check of it, and a salvaged copy.

Responsible for the output for people and scripts. Does not depend on the format, which is internal to the journal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import attrs
import click

from embedbroker import BrokerConfig
from embedbroker.runtime import MARK_FILE, body_directory_fits, journal_directory, repair_directory
from embedbroker.storage import (
    Disk,
    DiskFault,
    Finding,
    JournalReport,
    RecordKind,
    RecordRow,
    holds_journal,
    inspect_journal,
    journal_rows,
)
from embedclient.errors import ResourceAllocationException

from ._failure import CannotStart, Refused
from ._groups import CommandGroup

__all__ = ["journal"]

_directory = click.argument("directory", type=click.Path(path_type=Path))


@contextmanager
def _readable(directory: Path) -> Iterator[None]:
    """Turn an error that keeps a journal from being read at all into one line."""
    try:
        yield
    except ResourceAllocationException as error:
        raise CannotStart(str(error)) from None
    except DiskFault as fault:
        raise CannotStart(f"{directory}: {fault}") from None


@contextmanager
def _journal_in(directory: Path) -> Iterator[Disk]:
    with _readable(directory), journal_directory(directory) as disk:
        if not holds_journal(disk):
            raise CannotStart(f"there is no journal in {directory}")
        yield disk


def _kind_named(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    name = text.upper().replace("-", "_")
    if name not in RecordKind.__members__:
        raise click.BadParameter(f"{text!r} is not one of {', '.join(RecordKind.__members__)}")
    return name


@click.group(cls=CommandGroup)
def journal() -> None:
    """Look at the journal of a stopped broker."""


@journal.command(short_help="Say whether a broker would start on it.")
@_directory
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def verify(directory: Path, as_json: bool) -> None:
    """Read the whole journal in DIRECTORY and say whether a broker would start on it.

    The exit code is 1 if it would not. A torn tail, which a kill leaves behind, is reported and does not count.
    """
    with _readable(directory), journal_directory(directory) as disk:
        report = inspect_journal(disk)
        if report.refusal is None and not holds_journal(disk):
            raise CannotStart(f"there is no journal in {directory}")
    click.echo(json.dumps(_as_json(report), indent=2) if as_json else "\n".join(_lines(report)))
    if report.refusal is not None:
        sys.exit(1)


def _as_json(report: JournalReport) -> dict[str, object]:
    return {"sound": report.sound, "starts": report.refusal is None, **attrs.asdict(report)}


def _lines(report: JournalReport) -> Iterator[str]:
    for segment in report.segments:
        kind = "compacted, " if segment.compacted else ""
        yield (
            f"{segment.file}: {kind}{segment.used_bytes:,} of {segment.size_bytes:,} bytes used, {segment.batches:,} "
            f"batches ({segment.first_batch} to {segment.last_batch})"
        )
    records = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.records.items()))
    yield f"records: {records or 'none'}"
    yield f"state: {_state(report)}; {'sealed' if report.sealed else 'not sealed'}"
    yield from (f"in doubt: {branch}" for branch in report.in_doubt)
    yield from (f"decided: {branch}" for branch in report.decided)
    yield from (f"note: {note}" for note in report.notes)
    yield from (_finding_line(finding) for finding in report.findings)
    if report.refusal is not None:
        yield f"DAMAGED: a broker refuses to start: {report.refusal}"
        if report.segments:
            yield "`embedbroker journal repair` writes what can be read to another directory"
    else:
        yield "sound" if report.sound else "a broker starts on it"


def _state(report: JournalReport) -> str:
    if report.refusal is not None:
        return "unknown"
    ids = f", {report.duplicate_ids:,} duplicate ids" if report.duplicate_ids else ""
    fencing_tokens = f", {report.fencing_tokens:,} markers" if report.fencing_tokens else ""
    return (
        f"{report.messages:,} messages, {report.queues:,} queues, "
        f"{report.prepared_transactions:,} prepared transactions{ids}{fencing_tokens}"
    )


def _finding_line(finding: Finding) -> str:
    return f"found: {finding.file} at offset {finding.offset}: {finding.text}"


@journal.command(short_help="List its records and damage.")
@_directory
@click.option("--kind", callback=_kind_named, help="Only records of this kind, such as ADD_MESSAGE.")
@click.option("--limit", type=click.IntRange(1, sys.maxsize), help="Stop after so many rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per record.")
def show(directory: Path, kind: str | None, limit: int | None, as_json: bool) -> None:
    """List the records of the journal in DIRECTORY, oldest first, and damage where it turns up."""
    with _journal_in(directory) as disk:
        # Damage is never filtered out.
        rows = (row for row in journal_rows(disk) if kind is None or isinstance(row, Finding) or row.kind == kind)
        for row in islice(rows, limit):
            click.echo(json.dumps(_row_as_json(row)) if as_json else _row_line(row))


def _row_as_json(row: RecordRow | Finding) -> dict[str, object]:
    return {"row": "finding" if isinstance(row, Finding) else "record", **attrs.asdict(row)}


def _row_line(row: RecordRow | Finding) -> str:
    if isinstance(row, Finding):
        return _finding_line(row)
    return f"{row.file} {row.offset:>10} batch {row.batch:<7} {row.kind:<22} {row.size_bytes:>8} bytes  {row.text}"


@journal.command(short_help="Save what can be read to a copy.")
@_directory
@click.argument("copy", type=click.Path(path_type=Path))
@click.option(
    "--large-messages",
    "bodies",
    type=click.Path(path_type=Path),
    help="The large_messages_directory of the broker, if it has one; COPY holds the bodies, too.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
def repair(directory: Path, copy: Path, bodies: Path | None, as_json: bool) -> None:
    """Write what can be read of the journal in DIRECTORY to the directory COPY; DIRECTORY is not changed.

    Messages whose records are damaged are missing in the copy, and one whose acknowledgement is damaged comes again.
    """
    if _is_same(copy, directory):
        raise Refused(f"{copy}: COPY must be another directory than DIRECTORY")
    if bodies is None and (directory / MARK_FILE).exists():
        raise Refused(f"{directory}: its large messages are in another directory, which --large-messages must name")
    if bodies is not None:
        if not body_directory_fits(directory, bodies):
            raise Refused(
                f"{bodies}: holds no large messages of the journal in {directory}: mount its file system, or name the "
                "large_messages_directory of that broker; leave --large-messages out if it has none"
            )
        if _is_same(copy, bodies):
            raise Refused(f"{copy}: COPY must be another directory than that of the large messages")
    with _journal_in(directory):
        pass  # what is not there cannot be saved, and must not leave an empty copy
    with _readable(directory):
        try:
            report = repair_directory(
                directory, copy, segment_size_bytes=BrokerConfig().segment_size_bytes, bodies=bodies
            )
        except ValueError as error:
            raise Refused(f"{copy}: {error}") from None
        except DiskFault as fault:
            raise CannotStart(f"the copy of {directory} in {copy} was not finished: {fault}") from None
    if as_json:
        click.echo(json.dumps({"copy": str(copy), **attrs.asdict(report)}, indent=2))
        return
    for finding in report.findings:
        click.echo(_finding_line(finding))
    click.echo(
        f"saved to {copy}: {report.messages:,} messages, {report.queues:,} queues, "
        f"{report.prepared_transactions:,} prepared transactions"
    )


def _is_same(copy: Path, directory: Path) -> bool:
    """Return True if both are the same directory. A later step that opens an inaccessible path reports its error."""
    try:
        return copy.samefile(directory)
    except OSError:
        return False
