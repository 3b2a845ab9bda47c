"""A replicating broker that is not active: the active broker that it joins, and the result.

Responsible for the choice among the active brokers of the cluster, and for one replica after the other. Logs the reason
for the operator when no broker accepts this one. Does not decide which broker is active.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import frozen

from embedbroker.cluster import CONTROL_CHANNEL, ControlLink, Member, Membership, enclose
from embedbroker.config import ReplicationBackup, Role
from embedbroker.replication import (
    STREAM_FORMAT,
    Ending,
    EndingKind,
    PrimaryChoice,
    PrimaryStatus,
    Refusal,
    Replica,
    ReplicaRegistration,
    ReplicaState,
)

from .._outputs import RoleChanged
from ._node_record import NodeRecord
from ._replica_disk import ReplicaDisk

if TYPE_CHECKING:
    from embedbroker.config import BrokerConfig, ReplicationPrimary
    from embedbroker.storage import JournalSettings

__all__ = ["BackupRole", "InSync", "ReplicationEnd"]

#: How long a backup waits for an active broker before that looks like a mistake in the configuration, in seconds.
ALONE_AFTER_S = 10.0
_LOGGED_MAX = 100


@frozen
class InSync:
    """The files here hold everything that the active broker confirmed."""

    status: PrimaryStatus


@frozen
class ReplicationEnd:
    """Replication is over. ``status`` is set if the active broker accepted this backup, otherwise None."""

    ending: Ending
    status: PrimaryStatus | None


class BackupRole:
    """One instance per broker start. ``report`` receives the result of each replica."""

    def __init__(
        self,
        config: BrokerConfig,
        policy: ReplicationPrimary | ReplicationBackup,
        settings: JournalSettings,
        membership: Membership,
        replica_disk: ReplicaDisk,
        node_record: NodeRecord,
        log: Callable[[bool, str], None],
        output: Callable[[RoleChanged], None],
        report: Callable[[InSync | ReplicationEnd], None],
    ) -> None:
        assert config.cluster_connection is not None
        self.wants_fail_back = False
        self.choice = PrimaryChoice(policy.group_name, policy.retry_replication_wait_ms / 1000)
        # The only node of which this may be a backup.
        self._node_id = policy.node_id if isinstance(policy, ReplicationBackup) else None
        self.choice.only = self._node_id
        self._group_name = policy.group_name
        self._saved_max = policy.max_saved_replicated_journals_size
        self._answer_timeout_s = config.cluster_connection.call_timeout_ms / 1000
        self._statics = config.cluster_connection.static_connectors
        self._cluster_name = config.cluster_connection.name
        self._settings = settings
        self._membership = membership
        self._replica_disk = replica_disk
        self._node_record = node_record
        self._log = log
        self._output = output
        self._report = report
        self._logged: dict[str, None] = {}
        self._joins = False
        # The node id and the link of the present replica.
        self._attempt: tuple[str, ControlLink] | None = None
        #: The data here may be the newest of its node.
        self.keeps = False
        self._doubts_at: float | None = None
        membership.topology.listen(lambda _change: self.choice.forget())

    @property
    def is_in_sync(self) -> bool:
        """Return True if the files here hold everything that the active broker confirmed."""
        replica = self._replica_disk.replica
        return replica is not None and replica.state is ReplicaState.IN_SYNC

    @property
    def is_joined(self) -> bool:
        """Return True if a replica of this broker is connected to an active broker."""
        return self._replica_disk.replica is not None

    # -- looking for one -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Join a fitting active broker, now and whenever the last one is lost."""
        self._joins = True
        if self._doubts_at is None:
            self._doubts_at = self._membership.now.monotonic + ALONE_AFTER_S

    def keep(self, node_id: str | None) -> None:
        """Join only the active broker of a node, because the data here may be the newest of it; None: join any that the
        policy allows."""
        self.choice.only = node_id if node_id is not None else self._node_id
        self.keeps = node_id is not None

    def pause(self) -> None:
        """Join no active broker; end the replica, which reports when its files are at rest."""
        self._joins = False
        if self._replica_disk.replica is not None:
            self._replica_disk.replica.close()

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        replica = self._replica_disk.replica
        if replica is not None:
            return replica.next_deadline()
        if not self._joins:
            return None
        now = self._membership.now.monotonic
        candidates = self._candidates()
        if self.choice.next(candidates, now) is not None:
            return now
        dues = [self._doubts_at, self.choice.next_deadline(candidates)]
        return min((due for due in dues if due is not None), default=None)

    def on_time(self) -> None:
        """Join an active broker, or log that there is no candidate."""
        replica, now = self._replica_disk.replica, self._membership.now
        if replica is not None:
            replica.on_time(now)
        elif self._joins:
            candidates = self._candidates()
            node_id = self.choice.next(candidates, now.monotonic)
            if node_id is not None:
                self._node_record.live_at = self._membership.topology.members[node_id].live
                self._join(node_id, candidates[node_id])
            elif self._doubts_at is not None and now.monotonic >= self._doubts_at:
                self._doubts_at = None
                # The refusal of a candidate has been logged already.
                if not candidates:
                    self.warn(self._doubts())

    def _fitting(self) -> dict[str, Member]:
        members = self._membership.topology.members.values()
        return {
            member.node_id: member
            for member in members
            if member.live is not None and self.choice.fits(member.node_id, member.backup_group_name)
        }

    def _candidates(self) -> dict[str, ControlLink]:
        found: dict[str, ControlLink] = {}
        for node_id, member in self._fitting().items():
            link = self._membership.link_to(member.live) if member.live is not None else None
            if link is not None:
                found[node_id] = link
        return found

    def _doubts(self) -> str:
        places = ", ".join(self._statics) or "no static_connectors"
        others = [each for each in self._membership.topology.members.values() if each.live is not None]
        if self._fitting():
            return "the live broker is known, but there is no connection to it: is it to be reached from here?"
        if self.keeps:
            return (
                f"keeps the data of node {self.choice.only}, which may be the newest, and is the backup of no other"
                " node for that reason: it requests votes again until it may be live, and looks for a broker that is"
                f" (at: {places}). If that node is given up, remove the data directory here"
            )
        if self.choice.only is not None:
            return (
                f"waits for the broker that is live for node {self.choice.only}, whose data is newer than what is"
                f" here: start that one, and see that this one finds it (looked at: {places})"
            )
        if others:
            names = sorted({repr(each.backup_group_name) for each in others})
            return (
                f"there are live brokers, but of other groups ({', '.join(names)}): the group_name here is"
                f" {self._group_name!r}, and must be that of a primary"
            )
        return (
            f"no live broker was found (looked at: {places}): is one of the brokers configured as primary, does it run,"
            " and are cluster_user, cluster_password and static_connectors right on both sides?"
        )

    # -- one of them ---------------------------------------------------------------------------------------------

    def _join(self, node_id: str, link: ControlLink) -> None:
        membership = self._membership
        self._node_record.forget_newest_segment()
        replica = Replica(link, self._settings, self._saved_max, self._answer_timeout_s, self.warn, self._inform)
        self._replica_disk.replica = replica
        replica.owner = self
        self._attempt = node_id, link
        registration = ReplicaRegistration(
            STREAM_FORMAT,
            node_id,
            self._group_name,
            self.wants_fail_back,
            membership.connector,
            self._cluster_name,
        )
        replica.begin(registration, membership.now)
        link.send(enclose(registration), CONTROL_CHANNEL)

    def on_accepted(self, status: PrimaryStatus) -> None:
        """Record which node's data is copied."""
        self._node_record.note_accepted(status)

    def on_segment(self, generation: int) -> None:
        """Record the newest segment, without which a copy is not complete."""
        self._node_record.note_newest_segment(generation)

    def on_in_sync(self, status: PrimaryStatus) -> None:
        """Report that this backup may take over."""
        self._logged.clear()
        self._output(RoleChanged(Role.BACKUP, in_sync=True))
        self._report(InSync(status))

    def on_over(self, ending: Ending, status: PrimaryStatus | None) -> None:
        """Report the end of the attempt, and decide when the next one begins."""
        assert self._attempt is not None
        node_id, link = self._attempt
        self._attempt = None
        self._replica_disk.replica = None
        if ending.in_sync:
            self._output(RoleChanged(Role.BACKUP))
        self.choice.tried(node_id, self._membership.now.monotonic)
        if ending.kind is EndingKind.REFUSED and ending.refusal is not Refusal.ALREADY_REPLICATING:
            self.warn(f"{link.name} does not take this backup, which tries others and comes back: {ending.text}")
        if ending.disk_failed:
            # What can be read in this directory may not be on the disk: it must not be trusted.
            self._replica_disk.record_file.fail(ending.text)
            return
        if ending.kind is EndingKind.FAIL_OVER:
            # The former active broker waits for this, so that nothing it sent is lost.
            link.fail("it has handed over")
        if self._joins and self._doubts_at is None:
            self._doubts_at = self._membership.now.monotonic + ALONE_AFTER_S
        self._report(ReplicationEnd(ending, status))

    def _inform(self, text: str) -> None:
        self._log(False, text)

    def warn(self, text: str) -> None:
        """Log a warning once, although its cause may repeat."""
        self.report_once(True, text)

    def report_once(self, warning: bool, text: str) -> None:
        """Log a text once, although its cause may repeat."""
        if text not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged[text] = None
            self._log(warning, text)
