"""The last check of a shared store: files of its journal are lost while all brokers are down, and one of them starts.

Responsible for a broker on copies of disk and record, so that nothing of the scenario changes. Refuses to judge what
the broker has then: with files missing it must not become live, and with all of them it must.
"""

from __future__ import annotations

from copy import deepcopy

from attrs import define, evolve

from embedbroker.config import BrokerConfig, SharedStorePrimary
from embedbroker.locks import LockSession, LockWork, StoreRecord, called
from embedbroker.node import Command, CommandKind, DiskDone, Input, LockDone, Node, NodeState, Tick
from embedbroker.storage import (
    DiskWork,
    JournalSettings,
    ListFiles,
    Remove,
    SyncDirectory,
    inspect_journal,
    segment_range,
)
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._locks import SimulatedLocks
from embedclient.model import Entropy, Instant

__all__ = ["LostFiles"]

_MEMORY_LIMIT_BYTES = 64 * 1024 * 1024
_STEPS_MAX = 100_000
_ENDS = NodeState.RUNNING, NodeState.STOPPED


@define(eq=False)
class LostFiles:
    """The journal of a group, as it would be found when all brokers are killed at this moment, and its record."""

    disk: SimulatedDisk
    record: StoreRecord
    config: BrokerConfig
    settings: JournalSettings
    entropy: Entropy
    now: Instant

    def complaint(self) -> str | None:
        """Return what is wrong with how a broker starts, None if nothing."""
        if not self._is_served_without(()):
            return "a broker refuses a journal that lost nothing"
        (names,) = deepcopy(self.disk).run((ListFiles(),))
        assert isinstance(names, tuple)
        segments = tuple([name for name in names if segment_range(name)])
        for missing in (segments, self._newest(segments)):
            if missing and self._is_served_without(missing):
                return f"a broker is live without {', '.join(missing)}"
        return None

    def _newest(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The files from the one on that holds the batch of the record."""
        noted = self.record.last_batch or 0
        reports = inspect_journal(deepcopy(self.disk)).segments
        first = next((report.file for report in reports if noted and report.last_batch >= noted), None)
        return names[names.index(first) :] if first is not None else ()

    def _is_served_without(self, missing: tuple[str, ...]) -> bool:
        disk, locks = deepcopy(self.disk), SimulatedLocks()
        disk.repair()
        disk.run((*[Remove(name) for name in missing], SyncDirectory()))
        locks.write(self.record)
        config = evolve(self.config, ha_policy=SharedStorePrimary())
        session = locks.open(called(config.ha_policy, config.name))
        node = Node(config, self.entropy, _MEMORY_LIMIT_BYTES, self.settings, has_locks=True)
        inputs: list[Input] = [Command(CommandKind.START)]
        for _ in range(_STEPS_MAX):
            if node.state in _ENDS:
                break
            answer = inputs.pop(0) if inputs else Tick()
            inputs += self._answers(node, answer, disk, session)
        return node.state is NodeState.RUNNING

    def _answers(self, node: Node, answer: Input, disk: SimulatedDisk, session: LockSession) -> list[Input]:
        """One step, and what disk and locks make of it at once."""
        answers: list[Input] = []
        for output in node.step(answer, self.now):
            if isinstance(output, DiskWork):
                answers.append(DiskDone(output.batch, disk.run(output.operations)))
            elif isinstance(output, LockWork):
                answers.append(LockDone(output.batch, session.run(output.operations)))
        return answers
