"""The writers that Spark calls: in tasks to write, on the driver to commit or abort.

Responsible for the order of these calls, and for the values of Spark that identify a task and a batch. Does not depend
on the conversion of rows to messages or on the commit of batches.

Spark creates a stream's writer anew for each batch, and again for its commit, in other processes. So the commit
messages contain everything that the commit needs. The writer of a batch write is created once, and is itself sent to
the tasks.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING

from attrs import frozen
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from embedclient.blocking import ClientSession
from embedclient.errors import IllegalStateException
from embedclient.model import Xid

from ._option_reader import OptionError
from ._sink_broker import connected
from ._sink_commit import abort_batch, begin_write, commit_batch, discard_if_over, sweep
from ._sink_identity import Task, Writing
from ._sink_options import SinkOptions, sink_columns
from ._sink_rows import RowEncoder
from ._sink_services import markers_of
from ._sink_task import BranchWriter, DuplicateIdWriter, write_partition

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "StreamWriter", "Written"]

QUERY_ID, BATCH_ID, RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
_log = logging.getLogger("embedbroker.pipeline")


@frozen
class Written(WriterCommitMessage):
    """Hold a task's message to the driver: the branches that wait for the commit, and their write."""

    writing: Writing
    branches: tuple[Xid, ...]
    rows: int


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one write is one batch, named by the option `writeId`, or by a name that does not last."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        """Begin the write. Raises OptionError, and what `begin_write` raises."""
        self._options = options
        self._columns = checked_columns(options, schema, overwrite)
        self._job = str(uuid.uuid4())
        if options.is_exactly_once and options.write_id is None:
            begin_write(options, self._writing())

    def _writing(self) -> Writing:
        options = self._options
        is_named = options.write_id is not None
        scope = f"write/{options.write_id}" if is_named else self._job
        return Writing(scope, options.sink_name, options.write_version, self._job, is_named)

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write a partition, in a task. Raises RowError for a row that cannot be written."""
        return _written(self._options, self._columns, self._writing(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit everything that the tasks have written, or nothing; on the driver."""
        if self._options.is_exactly_once:
            commit_batch(self._options, self._writing(), _branches(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Discard everything that the tasks have written; on the driver."""
        if self._options.is_exactly_once:
            abort_batch(self._options, self._writing())


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: the query's id and Spark's numbers name a batch, so a repeated batch is recognised."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        """Check the options and columns. Raises OptionError."""
        if options.write_id is not None:
            raise OptionError("option 'writeId' is for batch writes: a stream is named by its checkpoint")
        self._options = options
        self._columns = checked_columns(options, schema, overwrite)

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write a partition, in a task. Raises RowError for a row that cannot be written."""
        context = task_context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise IllegalStateException("Spark did not tell this task which query and batch it belongs to")
        run = context.getLocalProperty(RUN) or query
        writing = Writing(query, self._options.sink_name, int(batch), run)
        return _written(self._options, self._columns, writing, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Commit everything that the tasks have written; on the driver.

        Commit nothing if this batch was committed before.
        """
        writing = _writing_of(messages)
        if self._options.is_exactly_once and writing is not None:
            assert writing.batch == batchId, (writing, batchId)
            commit_batch(self._options, writing, _branches(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Discard everything that the tasks have written; on the driver.

        If no task has finished, the next batch sweeps.
        """
        writing = _writing_of(messages)
        if self._options.is_exactly_once and writing is not None:
            abort_batch(self._options, writing)


def checked_columns(options: SinkOptions, schema: StructType, overwrite: bool) -> tuple[str, ...]:
    """Return the columns in the form that the rows' encoder needs. Raises OptionError."""
    if overwrite:
        raise OptionError("messages are added to a queue, never replaced: use mode('append') or outputMode('append')")
    if not options.is_exactly_once:
        warn_of_deduplication(options.sink_name)
    return sink_columns(schema, options)


@cache
def warn_of_deduplication(sink_name: str) -> None:
    """Warn once in each process: a stream makes two writers per batch."""
    _log.warning(
        "sink %r, guarantee=deduplication: a batch that fails leaves part of its rows, and rows that are written again "
        "are dropped only while the broker remembers their ids (id-cache-size, per address)",
        sink_name,
    )


def task_context() -> TaskContext:
    """Return Spark's description of this task."""
    context = TaskContext.get()
    if context is None:
        raise IllegalStateException("rows are written by tasks of Spark")
    return context


def _written(
    options: SinkOptions, columns: tuple[str, ...], writing: Writing, batches: Iterator[RecordBatch]
) -> Written:
    context = task_context()
    task = Task(writing, context.partitionId(), context.attemptNumber(), os.urandom(4).hex())
    encoder = RowEncoder(options, columns, task, lambda: time.time_ns() // 1_000_000)
    with ExitStack() as stack:
        if not options.is_exactly_once:
            session = stack.enter_context(connected(options.connection, xa=False))
            rows = write_partition(DuplicateIdWriter(session, task, options), encoder, batches, options)
            return Written(writing, (), rows)
        # The broker has what a commit needs, or nothing is sent.
        markers = stack.enter_context(markers_of(options.connection))
        session = stack.enter_context(connected(options.connection, xa=True))
        _clear_away(session, task)
        writer = BranchWriter(session, task, options)
        rows = write_partition(writer, encoder, batches, options)
        if discard_if_over(session.xa_resource, markers, writing, writer.prepared):
            _log.info("batch %d of %s is over: this task's branches are rolled back", writing.batch, writing.scope)
            return Written(writing, (), rows)
        return Written(writing, tuple(writer.prepared), rows)


def _clear_away(session: ClientSession, task: Task) -> None:
    """Sweep earlier branches, before the first row, in the first task."""
    if task.partition:
        return
    writing = task.writing

    def is_orphan(xid: Xid, batch: int) -> bool:
        # Spark begins a batch when the previous one is committed, and a run when the previous one has ended.
        return batch < writing.batch or (batch == writing.batch and not writing.is_of_this_run(xid))

    sweep(session.xa_resource, writing, is_orphan)


def _branches(messages: Sequence[WriterCommitMessage | None]) -> list[Xid]:
    """Return the branches in the order of the partitions, and of the rows in each."""
    return [xid for message in messages if isinstance(message, Written) for xid in message.branches]


def _writing_of(messages: Sequence[WriterCommitMessage | None]) -> Writing | None:
    return next((message.writing for message in messages if isinstance(message, Written)), None)
