"""What brokers that replicate may confirm: nothing that a backup lacks which may be live instead.

Responsible for looking at the stream of the live broker after each of its steps. Does not depend on what gives a broker
the right to be live, and which other broker may have it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from embedbroker.storage import DiskWork, Lane, WriteAt
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .copy_view import Stream, stream_of
from .members import Members

__all__ = ["CopyWatch"]


@define
class _Seen:
    """What was seen of the live broker after its last step."""

    life: int = 0
    state: str = ""
    reached: int = 0
    held_back: bool = False
    written: DiskWork | None = None


@define(eq=False)
class CopyWatch:
    """Of a primary and its backups. ``on_alone`` is called when a broker confirms what no other has."""

    scene: Scene
    members: Members
    on_alone: Callable[[NodeHost], None]
    #: Called when a backup is in sync.
    on_in_sync: list[Callable[[], None]] = field(factory=list, init=False)
    _seen: _Seen = field(factory=_Seen, init=False)

    @property
    def twin(self) -> SimulatedDisk | None:
        """The disk of a backup that has everything the live broker has."""
        active = self.members.active
        stream = stream_of(active) if active is not None and active.ready else None
        if stream is None or not stream.is_in_sync or stream.owes:
            return None
        return self.members.hosts[stream.to].disk

    def look(self) -> None:
        """Nothing counts as durable while a backup is lost that may take over, or before the backup has it."""
        host = self.members.active
        assert host is not None, "somebody has just made a step"
        stream = stream_of(host)
        if stream is None or host.node is None or host.node.journal is None:
            return
        reached, written, before = host.node.journal.reached, host.under_way.get(Lane.JOURNAL), self._seen
        if before.life != self.members.life:
            before = self._seen = _Seen(self.members.life)
        if stream.state != before.state:
            self._note_change(before.state, stream)
            before.held_back = False
        elif reached != before.reached and stream.is_held:
            self.scene.fail(f"{host.name} confirms although its backup is lost")
        elif reached != before.reached and stream.is_in_sync and before.written is not None:
            self._check_copied(before.written, self.members.hosts[stream.to])
        elif reached != before.reached and stream.is_alone and host.ready:
            self.on_alone(host)
        if stream.is_held and not before.held_back and host.node.journal.point() > reached:
            before.held_back = True
            self.scene.hit(Moment.CONFIRMATION_HELD)
        before.state, before.reached = stream.state, reached
        if written is not None:
            before.written = written

    def _check_copied(self, work: DiskWork, backup: NodeHost) -> None:
        for write in work.operations:
            if isinstance(write, WriteAt) and not backup.disk.holds(write.file, write.offset, b"".join(write.data)):
                self.scene.fail(f"what was written to {write.file} is confirmed, and {backup.name} lacks it")

    def _note_change(self, before: str, stream: Stream) -> None:
        if stream.is_in_sync:
            self.scene.hit(Moment.BACKUP_IN_SYNC)
            for look in self.on_in_sync:
                look()
        elif before == "held" and stream.state == "alone":
            self.scene.hit(Moment.WENT_ON_ALONE)
