"""The work of one task on its partition: rows are sent in portions, each in a separate branch or with duplicate ids.

Responsible for the portions, for repeating one whose connection was lost in the middle, and for naming the rows of a
broker's error. Does not depend on Spark or on the end of prepared branches.

A task has a branch per portion, and not one for all. A portion is small enough to be kept until it is prepared, in a
partition of any size. So a broker that fails in the middle costs one portion. Its branch is lost with its session, and
the same messages go to another branch, on the backup. Branches prepared before are there, too. One branch would cost
the whole partition, whose rows Spark does not give twice within a task. The commit takes all branches of all tasks at
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from embedclient.blocking import ClientSession
from embedclient.errors import ErrorCode, JMSException, XAException
from embedclient.model import XaCode, XaFlag, Xid

from ._sink_broker import Destinations
from ._sink_identity import Task
from ._sink_options import SinkOptions
from ._sink_rows import Row, RowEncoder, RowError

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["BranchWriter", "DuplicateIdWriter", "PortionWriter", "write_partition"]

ATTEMPTS_MAX = 10
"""Attempts to send a portion when connections break; each attempt includes the client's own reconnection."""

# Errors that mean a loss with the connection, not a refusal.
_INTERRUPTIONS = (ErrorCode.UNBLOCKED, ErrorCode.CONNECTION_TIMEDOUT)
_INTERRUPTED_BRANCH = (XaCode.XAER_RMFAIL, XaCode.XA_RBCOMMFAIL, XaCode.XA_RETRY)


class PortionWriter(Protocol):
    """Take a portion, which is at the broker when `write` returns. Raises RowError, JMSException."""

    def write(self, rows: Sequence[Row]) -> None: ...


def write_partition(
    writer: PortionWriter, encoder: RowEncoder, batches: Iterable[RecordBatch], options: SinkOptions
) -> int:
    """Write all rows of a partition, in order; return their number. Raises RowError, JMSException."""
    rows: list[Row] = []
    size = count = 0
    for batch in batches:
        for row in encoder.encode(batch):
            rows.append(row)
            size += len(row.raw)
            if len(rows) >= options.rows_per_branch or size >= options.bytes_per_branch:
                writer.write(rows)
                count += len(rows)
                rows, size = [], 0
    if rows:
        writer.write(rows)
    return count + len(rows)


class _Sender:
    """Send portions through one session."""

    def __init__(self, session: ClientSession, partition: int, credit_timeout_s: float) -> None:
        self._destinations = Destinations(session)
        self._producer = session.create_producer()
        self._partition = partition
        self._credit_timeout_s = credit_timeout_s

    def prepare(self, rows: Sequence[Row]) -> None:
        """Look up the destinations of the rows."""
        for row in rows:
            try:
                self._destinations.prepare(row.target)
            except JMSException as error:
                if error.error_code in _INTERRUPTIONS:
                    raise
                raise self._error(row, str(error)) from error

    def send(self, rows: Sequence[Row], *, confirmed: bool) -> list[Row]:
        """Send all rows; return those whose answer was lost. Raises RowError for one that is refused."""
        raws = [row.raw for row in rows]
        refused = self._producer.send_encoded(raws, confirmed=confirmed, timeout=self._credit_timeout_s)
        for index, error in refused:
            if error.error_code not in _INTERRUPTIONS:
                raise self._error(rows[index], str(error)) from error
        return [rows[index] for index, _ in refused]

    def _error(self, row: Row, reason: str) -> RowError:
        return RowError(f"partition {self._partition}, row {row.number}, to {row.target}: {reason}")


class BranchWriter:
    """Send each portion in a branch and prepare it: invisible before the branch is committed, and safe from crashes."""

    def __init__(self, session: ClientSession, task: Task, options: SinkOptions) -> None:
        self._xa = session.xa_resource
        self._task = task
        self._sender = _Sender(session, task.partition, options.credit_timeout_s)
        self._numbers = 0
        self.prepared: list[Xid] = []

    def write(self, rows: Sequence[Row]) -> None:
        """Send and prepare a portion."""
        for attempts_left in reversed(range(ATTEMPTS_MAX)):
            try:
                self._write_once(rows)
            except JMSException as error:
                if not attempts_left or not _was_interrupted(error):
                    raise _failure(self._task, rows, error) from error
            else:
                return

    def _write_once(self, rows: Sequence[Row]) -> None:
        self._sender.prepare(rows)
        xid = self._task.branch(self._numbers)
        self._numbers += 1
        xa = self._xa
        xa.start(xid)
        try:
            if self._sender.send(rows, confirmed=False):
                raise XAException("sends were lost with the connection", code=XaCode.XAER_RMFAIL)
            xa.end(xid)
            xa.prepare(xid)
        except BaseException:  # a task that Spark kills must not leave its branch to a sweep either
            self._undo(xid)
            raise
        self.prepared.append(xid)

    def _undo(self, xid: Xid) -> None:
        """Roll back with best effort: a remaining branch ends with its session, or the next sweep finds it."""
        with suppress(JMSException):
            self._xa.end(xid, XaFlag.TMFAIL)
        with suppress(JMSException):
            self._xa.rollback(xid)


class DuplicateIdWriter:
    """Send each portion and wait for its confirmation; the broker drops messages sent again with the same ids."""

    def __init__(self, session: ClientSession, task: Task, options: SinkOptions) -> None:
        self._task = task
        self._sender = _Sender(session, task.partition, options.credit_timeout_s)

    def write(self, rows: Sequence[Row]) -> None:
        """Send a portion and wait until all of it is confirmed."""
        left = rows
        failure = JMSException("the broker's answers were lost")
        for _ in range(ATTEMPTS_MAX):
            try:
                self._sender.prepare(left)
                left = self._sender.send(left, confirmed=True)
            except JMSException as error:
                failure = error
                if not _was_interrupted(error):
                    break
            else:
                if not left:
                    return
        raise _failure(self._task, rows, failure) from failure


def _was_interrupted(error: JMSException) -> bool:
    if isinstance(error, XAException):
        return error.error_code in _INTERRUPTED_BRANCH
    return error.error_code == ErrorCode.UNBLOCKED


def _failure(task: Task, rows: Sequence[Row], error: JMSException) -> RowError:
    first, last = rows[0].number, rows[-1].number
    return RowError(f"partition {task.partition}, rows {first} to {last}, to {rows[0].target}: {error}")
