"""What a sink is tested with: partitions as lists of bodies, and what a queue holds, message by message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import pyarrow as pa

from embedbroker.pipeline._sink_broker import connected
from embedbroker.pipeline._sink_identity import Task, Writing
from embedbroker.pipeline._sink_options import SinkOptions
from embedbroker.pipeline._sink_rows import RowEncoder
from embedbroker.pipeline._sink_services import markers_of
from embedbroker.pipeline._sink_task import BranchWriter, DuplicateIdWriter, write_partition
from embedclient.blocking import ServerLocator
from embedclient.model import Xid

NOW_MS = 1_700_000_000_000
RECEIVE_TIMEOUT_S = 20.0


def batches(bodies: Sequence[str], rows: int = 100) -> Iterable[pa.RecordBatch]:
    """A partition as Spark hands it over."""
    for start in range(0, len(bodies), rows):
        part = [body.encode() for body in bodies[start : start + rows]]
        yield pa.record_batch([pa.array(part, pa.binary())], names=["body"])


def write(options: SinkOptions, task: Task, partition: Iterable[pa.RecordBatch]) -> list[Xid]:
    """What a task does, without a Spark around it; returns the branches that it has prepared."""
    encoder = RowEncoder(options, ("body",), task, lambda: NOW_MS)
    with ExitStack() as stack:
        if options.is_exactly_once:
            stack.enter_context(markers_of(options.connection))
        session = stack.enter_context(connected(options.connection, xa=options.is_exactly_once))
        if not options.is_exactly_once:
            write_partition(DuplicateIdWriter(session, task, options), encoder, partition, options)
            return []
        writer = BranchWriter(session, task, options)
        write_partition(writer, encoder, partition, options)
        return writer.prepared


def task(writing: Writing, partition: int = 0, attempt: int = 0, nonce: str = "0000") -> Task:
    return Task(writing, partition, attempt, nonce)


def content(url: str, queue: str) -> list[str]:
    """All bodies in a queue, in order; it keeps them."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        if not session.query_queue(queue).exists:
            return []
        with session.create_consumer(queue, browse_only=True) as consumer:
            bodies = []
            while (message := consumer.receive_nowait()) is not None:
                bodies.append(message.body.decode())
            return bodies


def prepared(url: str) -> list[Xid]:
    """The branches that still have to be ended."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session(xa=True) as session:
        return session.xa_resource.recover()
