"""The end of a batch, on the driver: all of its branches at once, or none; and branches that nobody will end.

Responsible for which branches are committed and which are orphans. Refuses to know how branches came to be.

History of what this is for (each step may be the driver's last):

1. Tasks prepare their branches; nobody sees a message. A driver that dies here begins the batch again: the new tasks
   make branches of their own, and those of before are orphans, which the first task of the new run rolls back.
2. The sink commits: branches and marker, one record. A driver that dies before Spark has noted the batch writes it
   again; the marker says that it was committed, and what was prepared the second time is rolled back.
3. An attempt that lost (speculation, or a task taken for dead) prepares its branch whenever it comes to that. Nobody
   will commit it: after a batch is committed, every branch of it and of batches before it that is left is an orphan.
4. Such an attempt prepares after that, and there is no next batch. So each task looks at the marker behind its last
   prepare: either the sweep finds the branch, or the task finds the marker moved, and rolls its branches back. One that
   is killed between the two leaves them to the next batch, or the next run.
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
    """Before a write without a name: its marker says that it is not over. Raises what `markers_of` does."""
    with markers_of(options.connection) as markers:
        markers.create(writing.marker, writing.batch - 1)


def commit_batch(options: SinkOptions, writing: Writing, branches: Sequence[Xid]) -> bool:
    """Commit a batch, and roll back what is left of it. False if it was committed before.

    Raises:
        ServiceRefused: a branch is not there any more, or another run of the query is ahead; nothing was committed.
        JMSException: the broker could not be reached; the batch is committed or not, and may be tried again.
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
            # Somebody set it in between: another try sees what it is now. It only ever rises.
            if refused.status != "moved" or markers.get(writing.marker) == expected:
                raise


def abort_batch(options: SinkOptions, writing: Writing) -> None:
    """Roll back what is prepared of a batch that failed, and of those before it."""
    if not writing.lasts:
        with markers_of(options.connection) as markers:
            markers.remove(writing.marker)
    _sweep_connected(options, writing, lambda xid, batch: batch <= writing.batch)


def discard_if_over(xa: XAResource, markers: Markers, writing: Writing, branches: Sequence[Xid]) -> bool:
    """For a task that has prepared its branches: roll them back if its batch is over."""
    if not branches or not writing.is_over(markers.get(writing.marker)):
        return False
    for xid in branches:
        _roll_back(xa, xid)
    return True


def _sweep_connected(options: SinkOptions, writing: Writing, is_orphan: Callable[[Xid, int], bool]) -> None:
    with connected(options.connection, xa=True) as session:
        sweep(session.xa_resource, writing, is_orphan)


def sweep(xa: XAResource, writing: Writing, is_orphan: Callable[[Xid, int], bool]) -> int:
    """Roll back those prepared branches of this query that nobody will commit; returns how many."""
    count = 0
    for xid in xa.recover():
        batch = writing.batch_of(xid)
        if batch is None or not is_orphan(xid, batch):
            continue
        count += _roll_back(xa, xid)
    if count:
        _log.info("rolled back %d branches of %s that nobody would have committed", count, writing.scope)
    return count


def _roll_back(xa: XAResource, xid: Xid) -> bool:
    """False if somebody else was faster."""
    try:
        xa.rollback(xid)
    except XAException as error:
        if error.error_code != XaCode.XAER_NOTA:
            raise
        return False
    return True
