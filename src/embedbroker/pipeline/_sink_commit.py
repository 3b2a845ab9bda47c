"""The end of a batch, on the driver: all of its branches at once, or none; and branches that will never be committed.

Responsible for which branches are committed and which are orphans. Does not depend on how branches were created.

History that it must handle (each step may be the driver's last):

1. Tasks prepare their branches; no consumer receives a message. A driver that dies here begins the batch again. The new
   tasks create new branches, and the earlier ones are orphans, which the first task of the new run rolls back.
2. The sink commits: branches and marker, one record. A driver that dies before Spark has recorded the batch writes it
   again. The marker shows that it was committed, and the branches prepared the second time are rolled back.
3. An attempt that lost (speculation, or a task taken for dead) may prepare its branch at any later time. It will never
   be committed. After a batch is committed, each remaining branch of it and of earlier batches is an orphan.
4. Such an attempt may prepare after that, and there may be no next batch. So each task checks the marker after its last
   prepare. Either the sweep finds the branch, or the task finds the marker moved and rolls its branches back. A task
   that is killed between the two leaves them to the next batch, or the next run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from embedclient.blocking import XAResource
from embedclient.errors import IllegalStateException, XAException
from embedclient.model import XaCode, Xid

from ._services import ServiceRefused
from ._sink_broker import connected
from ._sink_identity import Writing
from ._sink_options import SinkOptions
from ._sink_services import BRANCHES_MAX, Markers, markers_of

__all__ = ["abort_batch", "begin_write", "commit_batch", "discard_if_over", "sweep"]

_log = logging.getLogger("embedbroker.pipeline")


def begin_write(options: SinkOptions, writing: Writing) -> None:
    """Create the marker of a write without a name: it shows that the write is not over.

    Raises what `markers_of` does.
    """
    with markers_of(options.connection) as markers:
        markers.create(writing.marker, writing.batch - 1)


def commit_batch(options: SinkOptions, writing: Writing, branches: Sequence[Xid]) -> bool:
    """Commit a batch, and roll back its remaining branches. Return False if it was committed before.

    Raises:
        ServiceRefused: a branch does not exist any more, or another run of the query is ahead; nothing was committed.
        JMSException: the broker could not be reached; the batch is committed or not, and may be tried again.
        IllegalStateException: the batch has too many branches for one commit.
    """
    if len(branches) > BRANCHES_MAX:
        raise IllegalStateException(
            f"a batch of {len(branches):,} branches cannot be committed at once, {BRANCHES_MAX:,} is the most: write "
            "smaller batches, or set rowsPerBranch and bytesPerBranch higher"
        )
    with markers_of(options.connection) as markers:
        committed = _commit(markers, writing, branches)
        if not writing.lasts:
            markers.remove(writing.marker)
    if not committed:
        _log.info(
            "batch %d of %s was committed before: what was prepared again is rolled back", writing.batch, writing.scope
        )
    _sweep_connected(options, writing, lambda xid, batch: batch <= writing.batch)
    return committed


def _commit(markers: Markers, writing: Writing, branches: Sequence[Xid]) -> bool:
    while True:
        expected = markers.get(writing.marker)
        try:
            return markers.commit(writing.marker, expected, writing.batch, branches)
        except ServiceRefused as refused:
            # Another run moved it in between: a new attempt reads its current value. It only ever rises.
            if refused.status != "moved" or markers.get(writing.marker) == expected:
                raise


def abort_batch(options: SinkOptions, writing: Writing) -> None:
    """Roll back the prepared branches of a batch that failed, and of earlier ones."""
    if not writing.lasts:
        with markers_of(options.connection) as markers:
            markers.remove(writing.marker)
    _sweep_connected(options, writing, lambda xid, batch: batch <= writing.batch)


def discard_if_over(xa: XAResource, markers: Markers, writing: Writing, branches: Sequence[Xid]) -> bool:
    """Roll back the branches that a task has prepared, if its batch is over; return True if it was."""
    if not branches or not writing.is_over(markers.get(writing.marker)):
        return False
    for xid in branches:
        _roll_back(xa, xid)
    return True


def _sweep_connected(options: SinkOptions, writing: Writing, is_orphan: Callable[[Xid, int], bool]) -> None:
    with connected(options.connection, xa=True) as session:
        sweep(session.xa_resource, writing, is_orphan)


def sweep(xa: XAResource, writing: Writing, is_orphan: Callable[[Xid, int], bool]) -> int:
    """Roll back those prepared branches of this query that will never be committed; return their number."""
    count = 0
    for xid in xa.recover():
        batch = writing.batch_of(xid)
        if batch is None or not is_orphan(xid, batch):
            continue
        count += _roll_back(xa, xid)
    if count:
        _log.info("rolled back %d branches of %s that no commit would have reached", count, writing.scope)
    return count


def _roll_back(xa: XAResource, xid: Xid) -> bool:
    """Roll back a branch. Return False if it was ended elsewhere first."""
    try:
        xa.rollback(xid)
    except XAException as error:
        if error.error_code != XaCode.XAER_NOTA:
            raise
        return False
    return True
