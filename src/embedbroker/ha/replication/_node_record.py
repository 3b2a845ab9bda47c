"""The record of a replicating broker: the node of its data, and the changes of the record in each phase of a start.

Responsible for every record that is written, except for the epochs of a lock manager (`LeaseHolder`). Does not decide
anything from it: `ReplicationActivation` does, and `ActiveRole` while the broker is active.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from embedbroker.config import ReplicationBackup, ReplicationPrimary
from embedbroker.replication import PrimaryStatus, ReplicaRecord, ScaleDownMark
from embedclient.model import TransportConfiguration

from .._record_file import RecordFile
from ..quorum._round import Electorate
from ..quorum._voter import connector_text
from ._decisions import may_be_newest, needs_vote
from ._initial_record import initial_record

__all__ = ["NodeRecord"]


class NodeRecord:
    """The record during one broker start. With votes it contains the partner with the same data, and the number of
    voters."""

    def __init__(
        self,
        policy: ReplicationPrimary | ReplicationBackup,
        record_file: RecordFile,
        electorate: Electorate,
        *,
        has_manager: bool,
    ) -> None:
        #: Whether this broker needs votes before it is active with data from before.
        self.votes = needs_vote(policy, has_manager=has_manager)
        #: Where the active broker is whose copy this one is, or becomes.
        self.live_at: TransportConfiguration | None = None
        self._policy = policy
        self._record_file = record_file
        self._electorate = electorate
        self._has_manager = has_manager
        #: Whether an earlier start of this backup has moved everything to another broker.
        self.has_scaled_down = False
        # Of the copy that is made, or that was made, in this broker start.
        self._newest_segment: int | None = None
        if self.votes:
            electorate.observer = self

    @property
    def record(self) -> ReplicaRecord:
        """Return the record as it was read, or written last."""
        return self._record_file.record

    @property
    def may_be_newest(self) -> bool:
        """Return True if the data here may be the newest of its node."""
        return may_be_newest(self._policy, self.record)

    def begin(self, make_node_id: Callable[[], str]) -> ReplicaRecord:
        """Return the record of this start, from the one that was found."""
        record_file = self._record_file
        record_file.record = initial_record(
            self._policy, record_file.record, make_node_id, is_unfinished=record_file.is_unfinished
        )
        self._electorate.remembered = record_file.record.quorum if self.votes else 0
        return record_file.record

    def meet_journal(self, identity: int | None, last_batch: int | None, newest_segment: int) -> str | None:
        """Return why the broker must not go on with the journal that was read, None if it may.

        ``identity`` None: there is no journal, or an empty one where the node had another. ``last_batch`` is where it
        ends, ``newest_segment`` the highest generation of its files.
        """
        known, noted = self.record.journal_identity, self.record.last_batch
        if known is None:
            return None
        if identity == known:
            segment = self.record.newest_segment
            if noted is not None and last_batch is not None and last_batch < noted:
                lack = f"ends with batch {last_batch}, but batch {noted} was on disk"
            elif segment is not None and newest_segment < segment:
                lack = f"ends with segment {newest_segment}, but segment {segment} was on disk"
            else:
                return None
            return (
                f"the journal of node {self.record.node_id} {lack}: its newest segments are missing, or it is an older"
                " copy. Bring the missing files back, or remove all of the journal and the record beside it"
                " (node.state); then a backup gets its copy from the live broker. Without another copy remove the"
                " record alone: a primary becomes a new node with the messages that are left"
            )
        if identity is None:
            return (
                f"there is no journal, but node {self.record.node_id} has one: bring it back, or remove the record"
                " beside it (node.state) too; then a backup gets its copy from the live broker, and a primary is a new"
                " node"
            )
        return (
            f"the journal is not that of node {self.record.node_id}: put that back, or remove the record beside it"
            " (node.state), and it becomes the journal of a new node"
        )

    # -- what is written -----------------------------------------------------------------------------------------

    def settle(
        self, node_id: str, journal_identity: int | None, last_batch: int | None, then: Callable[[], None]
    ) -> None:
        """Record that this broker is about to be active, and that no other broker has what it will confirm."""
        self.has_scaled_down = self.record.scale_down is ScaleDownMark.DONE
        # The lock manager has increased the epoch already.
        epoch = self.record.epoch + (0 if self._has_manager else 1)
        quorum = self._quorum(node_id)
        record = ReplicaRecord(node_id, journal_identity, epoch, in_sync=True, quorum=quorum, last_batch=last_batch)
        if self._scales_down and not self.has_scaled_down:
            # A crash in the middle must not leave the rest here: the next start goes on.
            record = evolve(record, scale_down=ScaleDownMark.UNDER_WAY)
        self._record_file.write(record, then)

    def note_last_batch(self, last_batch: int, on_failed: Callable[[str], None]) -> None:
        """Record how far the journal of this active broker is on disk. A disk that fails to note it is no reason to
        stop."""
        self._record_file.write(evolve(self.record, last_batch=last_batch), on_failed=on_failed)

    def note_accepted(self, status: PrimaryStatus) -> None:
        """Record that an active broker remembers this backup from now on. Should both die in the moment in which the
        copy is whole, this record must name the node of the copy, too. Otherwise the other broker waits for an answer
        that never comes."""
        if self.votes and self.record.node_id != status.node_id and not self.record.in_sync:
            self._record_file.write(evolve(self._whole_copy(status), in_sync=False))

    def note_in_sync(self, status: PrimaryStatus) -> None:
        """Record that the files here are a whole copy."""
        record = self._whole_copy(status)
        if record != self.record:
            self._record_file.write(record)

    def forget_newest_segment(self) -> None:
        """Forget the newest segment of the copy here, because another copy begins. It is not written before that one is
        whole."""
        self._newest_segment = None

    def note_newest_segment(self, generation: int) -> None:
        """Record the newest segment that the copy here has on disk."""
        self._newest_segment = generation
        if self.record.in_sync and self.record.newest_segment is not None:
            self._record_file.write(evolve(self.record, newest_segment=generation))

    def note_left_behind(self, then: Callable[[], None] | None = None) -> None:
        """Record that another broker goes on without this copy."""
        if self.record.in_sync or then is not None:
            self._record_file.write(evolve(self.record, in_sync=False), then)

    def believe_stale(self) -> None:
        """Handle the answer of a lock manager that there is newer data. It is not written, because each request returns
        it again."""
        self._record_file.record = evolve(self.record, in_sync=False)

    def note_partner(self, connector: TransportConfiguration) -> None:
        """Record that a backup has all that this active broker has; it is in sync only when `is_written`."""
        partner = connector_text(connector)
        if self.votes and self.record.partner != partner:
            self._record_file.write(evolve(self.record, partner=partner))

    def note_alone(self) -> None:
        """Record that there is no backup any more that could count itself as a copy."""
        if self.votes and self.record.partner is not None:
            self._record_file.write(evolve(self.record, partner=None))

    @property
    def is_written(self) -> bool:
        """Return True if everything that was noted survives a power cut."""
        return self._record_file.is_idle

    def count_on(self, then: Callable[[], None]) -> None:
        """Record that this active broker goes on without a copy: those that are left behind have a smaller epoch."""
        record = self.record
        self._record_file.write(evolve(record, epoch=record.epoch + 1, partner=None), then)

    def note_gave_way(self, then: Callable[[], None]) -> None:
        """Record that the broker was active, and lets a primary take over."""
        self._record_file.write(evolve(self.record, gave_way=True), then)

    def note_scaled_down(self, then: Callable[[], None]) -> None:
        """Record that everything that was here is at another broker."""
        self._record_file.write(evolve(self.record, scale_down=ScaleDownMark.DONE), then)

    @property
    def _scales_down(self) -> bool:
        scale_down = self._policy.scale_down if isinstance(self._policy, ReplicationBackup) else None
        return scale_down is not None and scale_down.enabled

    def on_growth(self) -> None:
        """Record the number of active brokers if it is larger than ever before."""
        record = self.record
        if record.in_sync and record.node_id and self._quorum(record.node_id) > record.quorum:
            self._record_file.write(evolve(record, quorum=self._quorum(record.node_id)))

    def _whole_copy(self, status: PrimaryStatus) -> ReplicaRecord:
        return ReplicaRecord(
            status.node_id,
            status.journal_identity,
            status.epoch,
            in_sync=True,
            partner=connector_text(self.live_at) if self.votes and self.live_at is not None else None,
            quorum=self._quorum(status.node_id),
            newest_segment=self._newest_segment,
        )

    def _quorum(self, node_id: str) -> int:
        return self._electorate.size_with(node_id) if self.votes else 0
