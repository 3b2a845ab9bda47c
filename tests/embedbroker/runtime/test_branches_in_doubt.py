"""An owner of a broker decides XA branches whose transaction manager is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker
from embedbroker.kernel import Session
from embedbroker.runtime._disk import FileDisk
from embedbroker.runtime._embedded import life_of
from embedbroker.storage import DiskFault, DiskOperation, FaultKind
from embedclient.errors import IllegalStateException
from embedclient.model import Xid

from ..node.branches import xid


def in_doubt(broker: EmbeddedBroker, *numbers: int) -> None:
    """Prepare empty branches inside the broker, as sessions that are gone by now did."""
    kernel = life_of(broker).host.node.kernel
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
            outcomes = life_of(broker).host.node.kernel.branches.outcomes()
            assert [(outcome.xid, outcome.committed) for outcome in outcomes] == [(xid(1), True), (xid(2), False)]


async def test_management_decides_branches(tmp_path: Path) -> None:
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        in_doubt(broker, 1, 2, 3)
        first, second, _third = found = await broker.management.prepared_transactions()
        assert [(each.format_id, each.branch_qualifier, each.global_transaction_id) for each in found] == [
            (7, "branch", "transaction 1"), (7, "branch", "transaction 2"), (7, "branch", "transaction 3"),
        ]  # fmt: skip
        assert (first.sent, first.received) == ([], [])
        assert await broker.management.commit_prepared_transaction(first.id)
        assert await broker.management.rollback_prepared_transaction(second.id)
        assert not await broker.management.rollback_prepared_transaction(first.id)
        for _ in range(2):
            assert await broker.management.heuristic_transactions() == {first.id: True, second.id: False}
            (left,) = await broker.management.prepared_transactions()
            assert left.global_transaction_id == "transaction 3"
            # The time of the begin, and after a restart that of the start.
            created = datetime.strptime(left.created, "%m/%d/%y, %I:%M:%S %p").replace(tzinfo=UTC)
            assert abs(datetime.now(UTC) - created) < timedelta(minutes=5)
            await broker.crash()
            await broker.start()


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
        management = broker.management
        assert (management.prepared_transactions(), management.heuristic_transactions()) == ([], {})
        assert not management.commit_prepared_transaction("x") and not management.rollback_prepared_transaction("x")
