"""The work of two nodes on two disks, step by step: what goes out when, and what waits for what."""

from __future__ import annotations

from embedbroker.config import Role
from embedbroker.node import Node, Output, SendBytes
from embedbroker.replication import ReplicatorState
from embedbroker.storage import DiskWork, Lane, WriteAt, Zero
from embedclient.model import Instant
from tests.embedbroker.ha.replication.replicating import Brokers


class Steps:
    """The outputs of each step of a node."""

    def __init__(self, node: Node) -> None:
        self.outputs: list[list[Output]] = []
        step = node.step

        def recorded(event: object, now: Instant) -> list[Output]:
            outputs = step(event, now)  # type: ignore[arg-type]  # what a host gives
            self.outputs.append(outputs)
            return outputs

        node.step = recorded  # type: ignore[assignment]  # looked at from outside


def in_sync() -> Brokers:
    brokers = Brokers("ab")
    brokers.primary("a")
    brokers.backup("b")
    brokers.until_role("a", Role.LIVE)
    brokers.until_in_sync("a")
    return brokers


def duplication_state(brokers: Brokers) -> ReplicatorState:
    disk = brokers.node("a").replica_disk
    assert disk is not None and disk.replicator is not None
    return disk.replicator.state


def test_the_backup_gets_a_batch_in_the_step_in_which_the_disk_gets_it() -> None:
    brokers = in_sync()
    steps = Steps(brokers.node("a"))
    brokers.writer("a", "b")
    brokers.run(0.5)
    batches = 0
    for outputs in steps.outputs:
        works = [each for each in outputs if isinstance(each, DiskWork) and each.lane is Lane.JOURNAL]
        sent = [len(each.data) for each in outputs if isinstance(each, SendBytes)]
        for work in works:
            size = sum(sum(map(len, each.data)) for each in work.operations if isinstance(each, WriteAt))
            batches += 1
            assert max(sent, default=0) > size, (work, sent)
    assert batches > 20
    assert duplication_state(brokers) is ReplicatorState.SYNCHRONISED


def test_the_zeros_of_a_new_segment_do_not_travel() -> None:
    brokers = in_sync()
    steps, copied = Steps(brokers.node("a")), Steps(brokers.node("b"))
    brokers.writer("a", "b")
    brokers.run(5.0)

    def zeroed(work: DiskWork) -> int:
        return sum(each.size for each in work.operations if isinstance(each, Zero))

    prepared = 0
    for outputs in steps.outputs:
        size = sum(zeroed(each) for each in outputs if isinstance(each, DiskWork))
        if size:
            prepared += size
            assert max(len(each.data) for each in outputs if isinstance(each, SendBytes)) < size // 2
    assert prepared > 16 * 1024
    works = [each for outputs in copied.outputs for each in outputs if isinstance(each, DiskWork)]
    assert sum(map(zeroed, works)) == prepared


def test_nothing_is_confirmed_while_a_backup_does_not_answer_and_everything_when_it_is_given_up() -> None:
    brokers = in_sync()
    writer = brokers.writer("a")
    brokers.run(0.5)
    brokers.part("a", "b")
    brokers.run(0.2)
    confirmed = len(writer.confirmed)
    brokers.run(1.0)
    assert len(writer.confirmed) == confirmed
    assert duplication_state(brokers) is ReplicatorState.SYNCHRONISED
    brokers.until(lambda: duplication_state(brokers) is ReplicatorState.ALONE)
    brokers.run(1.0)
    assert len(writer.confirmed) > confirmed


def test_a_backup_whose_disk_fails_once_gets_everything_again() -> None:
    brokers = in_sync()
    writer = brokers.writer("a")
    brokers.run(0.5)
    disk = brokers.hosts["b"].disk
    disk.fail_at(disk.operations + 1)
    brokers.until(lambda: duplication_state(brokers) is ReplicatorState.ALONE)
    brokers.until_in_sync("a")
    assert "disk failed" in brokers.said("b")
    assert brokers.said("a").count("afresh") == 2
    brokers.run(0.5)
    brokers.crash("a")
    brokers.until_role("b", Role.LIVE)
    kept = set(brokers.kept("b"))
    assert [number for number in writer.confirmed if number not in kept] == []


def test_a_backup_whose_disk_goes_on_failing_stops_and_the_primary_goes_on() -> None:
    brokers = in_sync()
    writer = brokers.writer("a")
    brokers.run(0.5)
    disk = brokers.hosts["b"].disk
    for operation in range(20):
        disk.fail_at(disk.operations + operation)
    brokers.until_role("b", Role.STOPPED)
    assert "the backup's disk failed" in (brokers.failures["b"] or "")
    confirmed = len(writer.confirmed)
    brokers.run(1.0)
    assert len(writer.confirmed) > confirmed
