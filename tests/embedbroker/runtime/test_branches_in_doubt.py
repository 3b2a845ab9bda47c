"""An owner of a broker decides XA branches whose transaction manager is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker
from embedbroker.kernel import Session
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import DiskFault, DiskOperation, FaultKind
from embedclient.errors import IllegalStateException
from embedclient.model import Xid

from ..node.branches import xid


def in_doubt(broker: EmbeddedBroker, *numbers: int) -> None:
    """Prepare empty branches inside the broker, as sessions that are gone by now did."""
    kernel = broker._running().host.node.kernel
    session = Session(kernel, "s", auto_commit_sends=False, auto_commit_acknowledges=False, pre_acknowledge=False)
    for number in numbers:
        assert kernel.branches.start(session, xid(number)) is None
        assert kernel.branches.end(session, xid(number)) is None
        assert kernel.branches.prepare(session, xid(number)) is None


@pytest.mark.parametrize("durable", [True, False])
async def test_decisions(tmp_path: Path, durable: bool) -> None:
    async with EmbeddedBroker(data_directory=str(tmp_path) if durable else None) as broker:
        in_doubt(broker, 1, 2, 3)
        assert broker.prepared_branches == [xid(1), xid(2), xid(3)]
        assert await broker.commit_branch(xid(1))
        assert await broker.rollback_branch(xid(2))
        assert not await broker.commit_branch(xid(2))
        assert not await broker.rollback_branch(Xid(0, b"", b""))
        assert broker.prepared_branches == [xid(3)]
        if durable:
            await broker.crash()
            await broker.start()
            assert broker.prepared_branches == [xid(3)]
            outcomes = broker._running().host.node.kernel.branches.outcomes()
            assert [(outcome.xid, outcome.committed) for outcome in outcomes] == [(xid(1), True), (xid(2), False)]


async def test_a_decision_ends_with_the_broker(tmp_path: Path) -> None:
    class FullDisk(FileDisk):
        full = False

        def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
            if self.full:
                raise DiskFault(FaultKind.FULL, "segment", "no space left on device")
            return super().run(operations)

    disk = FullDisk(tmp_path)
    async with EmbeddedBroker(disk=disk) as broker:
        in_doubt(broker, 1)
        disk.full = True
        with pytest.raises(IllegalStateException, match="stopped before"):
            await broker.commit_branch(xid(1))
        await broker.stop()
        with pytest.raises(IllegalStateException, match="not running"):
            await broker.commit_branch(xid(1))


def test_from_other_threads() -> None:
    with EmbeddedBroker.in_thread() as broker:
        assert broker.prepared_branches == []
        assert not broker.commit_branch(xid(1))
        assert not broker.rollback_branch(xid(1))
