"""How a node starts, recovers, serves and stops: what each change of its state takes, and when it is allowed.

Responsible for carrying out what the activation decides, for the start from a journal, and for both ends: an orderly
stop and a failure. `NodeStateMachine` holds the transitions. Does not depend on the order of work inside a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from embedbroker import storage
from embedbroker.config import BrokerConfig, PrimaryOnly, ReplicationBackup, Role, SharedStoreBackup, is_at_host
from embedbroker.ha import BackupChanged, LockDone, LockFailed, RoleChanged
from embedbroker.kernel import Kernel
from embedbroker.protocols import CoreService
from embedclient.model import Instant, TransportConfiguration

from ._admission import Admission
from ._assembly import Roles, warn_of_policy
from ._audit_recording import AuditRecording
from ._bridging import Bridging
from ._connection_checks import ConnectionChecks
from ._connections import Connections
from ._current_step import CurrentStep, NodeLog
from ._disk_completions import DiskCompletions
from ._gate import DurabilityGate
from ._inputs import Command, CommandKind, ScaleDownTo
from ._node_state import BEFORE, NodeEvent, NodeState, NodeStateMachine
from ._outgoing_connections import OutgoingConnections
from ._outputs import Managed, Ready, StopListening
from ._owner_requests import OwnerRequests
from ._restoration import Restoration
from ._scaling_down import AtFailure, configured_scale_down
from ._stopping import OrderlyStop

if TYPE_CHECKING:
    from ._outputs import Output
    from ._scaling_down import ScalingDown

__all__ = ["Lifecycle", "Subsystems"]


@frozen
class Subsystems:
    """The parts of a node, for those of its objects that work on most of it."""

    config: BrokerConfig
    kernel: Kernel
    journal: storage.Journal | None
    gate: DurabilityGate
    core: CoreService
    connections: Connections
    dials: OutgoingConnections
    admission: Admission
    checks: ConnectionChecks
    completions: DiskCompletions
    owner_requests: OwnerRequests
    audit: AuditRecording
    roles: Roles
    bridging: Bridging


class Lifecycle:
    """One instance per node. ``failure`` is set when the node ends without a request."""

    #: Set by the node before its first step.
    scaling_down: ScalingDown

    def __init__(
        self,
        machine: NodeStateMachine,
        subsystems: Subsystems,
        step: CurrentStep,
        log: NodeLog,
        *,
        deletes_missing: bool,
    ) -> None:
        self.failure: str | None = None
        self._machine = machine
        self._config = subsystems.config
        self._kernel = subsystems.kernel
        self._journal = subsystems.journal
        self._core = subsystems.core
        self._core.departure = self
        self._connections = subsystems.connections
        self._checks = subsystems.checks
        self._completions = subsystems.completions
        self._audit = subsystems.audit
        self._cluster = subsystems.roles.cluster
        self._bridging = subsystems.bridging
        self._activation = subsystems.roles.activation
        self._hosting = subsystems.roles.hosting
        self._make_node_id = subsystems.roles.make_node_id
        self._step = step
        self._log = log
        self.orderly_stop = OrderlyStop(self._kernel, self._journal)
        self._fails_over = False
        # A backup that takes over to scale down.
        self._hands_over = False
        self._deletes_missing = deletes_missing
        self._restoration: Restoration | None = None
        # The identity of a journal that was read, until it is known whether there is room to go on with it.
        self._needs_room_for: int | None = None

    @property
    def has_work(self) -> bool:
        """Return True if `advance` must be called again at once."""
        if self._restoration is not None:
            return not self._restoration.waits
        return self.orderly_stop.is_under_way and bool(self._kernel.deferred.waiting)

    @property
    def restarts(self) -> bool:
        """Return True if another node must wait in the place of this one, as backup."""
        return self._activation is not None and self._activation.restarts

    # -- inputs --------------------------------------------------------------------------------------------------

    def on_command(self, command: Command) -> None:
        if command.kind is not CommandKind.START:
            self._fails_over |= command.kind is CommandKind.FAIL_OVER
            self._stop_in_order()
            return
        assert self._machine.state is NodeState.NEW, self._machine.state
        warn_of_policy(self._config, self._log.warning)
        if self._activation is None:
            self._become_activating()
        else:
            self._activation.begin(self._step.now)

    def on_backup_changed(self, change: BackupChanged) -> None:
        """Note the role of a hosted backup."""
        assert self._hosting is not None, "a colocated broker has them"
        self._hosting.on_change(change)

    def scale_down(self, connector: TransportConfiguration | None) -> str | None:
        """Move everything to another broker, and stop; return why that is not possible."""
        if self._machine.state is not NodeState.RUNNING or self.scaling_down.is_under_way:
            return "the broker does not serve clients, or scales down already"
        self.scaling_down.begin(self._step.now, connector)
        return None

    def on_scale_down(self, wanted: ScaleDownTo) -> None:
        """Move everything to another broker, and stop. A target that cannot be reached leaves the broker running."""
        if self._machine.state is not NodeState.RUNNING or self.scaling_down.is_under_way:
            self.output(Managed(wanted.request, None, "the broker does not serve clients, or scales down already"))
        else:
            self.scaling_down.begin(self._step.now, wanted.connector, wanted.request)

    def _stop_in_order(self) -> None:
        """Stop as the host requests: after a scale-down if the policy requires one."""
        scaling_down = self.scaling_down
        if self._machine.state is NodeState.RUNNING:
            if scaling_down.is_under_way:
                scaling_down.at_failure = AtFailure.STOP
                return
            if isinstance(self._config.own_policy, PrimaryOnly) and configured_scale_down(self._config) is not None:
                scaling_down.begin(self._step.now, at_failure=AtFailure.STOP)
                return
        self.stop()

    def output(self, output: Output) -> None:
        """Add an output of the step."""
        self._step.output(output)

    def on_lock_answer(self, answer: LockDone | LockFailed, now: Instant) -> None:
        assert self._activation is not None
        self._activation.on_answer(answer, now)
        self.follow_activation()

    def after_disk(self) -> None:
        """Follow the journal, which was read, became more durable, failed or was closed."""
        journal, state = self._journal, self._machine.state
        assert journal is not None
        if journal.state is storage.JournalState.FAILED:
            if self._activation is not None:
                self._activation.note_shortage(lacks_room=journal.lacks_room)
            self.fail_stop(journal.failure or "the journal failed")
        elif journal.state is storage.JournalState.CLOSED:
            if state is NodeState.STOPPING:
                self._depart()
        elif journal.recovered is not None and state is NodeState.RECOVERING and self._restoration is None:
            # Once: background work of the journal is done while messages are still being restored.
            self._restore(journal, journal.recovered)

    def follow_activation(self) -> None:
        """Apply what the activation decided."""
        activation, machine = self._activation, self._machine
        assert activation is not None
        stopping = machine.state is NodeState.STOPPING
        role = Role.LIVE if stopping and not activation.is_over else activation.role_after(self._step.now)
        for entry in activation.take_log_entries():
            (self._log.warning if entry.warning else self._log.info)(entry.text)
        match role:
            case Role.BACKUP if machine.state in BEFORE:
                self._core.node_id = activation.node_id
                if machine.state is NodeState.NEW and not activation.is_undecided:
                    self._become_backup()
            case Role.ACTIVATING if machine.state in BEFORE:
                self._become_activating()
            case Role.LIVE if machine.state is NodeState.RECOVERING:
                self._become_live()
            case Role.STOPPED if activation.failure is not None:
                self.fail_stop(activation.failure)
            case Role.STOPPED if stopping:
                self._become_stopped(None)
            case Role.STOPPED:
                self.stop()
        self._completions.sure_until = activation.sure_until
        if self._completions.release(self._step.now):
            self.after_disk()

    # -- one method for each role: a broker without a lock store begins with the second --------------------------

    def _become_backup(self) -> None:
        self._machine.move(NodeEvent.WAIT_AS_BACKUP)
        # The active broker may adopt a later configuration meanwhile.
        self._deletes_missing = False
        self._step.output(RoleChanged(Role.BACKUP))

    def _become_activating(self) -> None:
        self._machine.move(NodeEvent.ACTIVATE)
        self._checks.begin(self._step.now)
        self._step.output(RoleChanged(Role.ACTIVATING))
        if self._journal is None:
            self._settle(None)
            return
        identity = self._activation.journal_identity if self._activation is not None else None
        if identity is not None:
            self._journal.settings = evolve(self._journal.settings, identity=identity)
        self._journal.open(self._step.now)

    def _become_live(self) -> None:
        self._machine.move(NodeEvent.SERVE)
        if self._must_hand_over:
            self._log.info("takes over to move everything to another broker, and serves no client")
            self._hands_over = True
            if self._cluster is not None and self._cluster.role is not Role.BACKUP:
                # It started with the right to be live, and has not searched for other brokers yet.
                self._cluster.become_backup(self._core.node_id, announce=False)
            is_reachable = not is_at_host(self._config.cluster_connection)
            at_failure = AtFailure.SERVE if is_reachable else AtFailure.STOP
            self.scaling_down.begin(self._step.now, at_failure=at_failure)
        else:
            self.serve()

    @property
    def _must_hand_over(self) -> bool:
        """Return True if this broker took over as a backup that moves everything to another broker."""
        policy, activation = self._config.own_policy, self._activation
        if not isinstance(policy, SharedStoreBackup | ReplicationBackup) or configured_scale_down(self._config) is None:
            return False
        return activation is not None and not activation.has_scaled_down

    def serve(self) -> None:
        """Serve clients from now on."""
        now = self._step.now
        self._hands_over = False
        self._core.begin()
        self._audit.begin(self._core.node_id, now.wall_ms)
        self._kernel.housekeeping.at_start(deletes_missing=self._deletes_missing)
        self._kernel.housekeeping.start(now.monotonic)
        if self._cluster is not None:
            scale_down = configured_scale_down(self._config)
            self._cluster.become_live(
                self._core.node_id,
                getattr(self._config.own_policy, "group_name", None),
                scale_down.group_name if scale_down is not None else None,
            )
        self._bridging.become_live(self._core.node_id)
        self._step.output(RoleChanged(Role.LIVE))
        self._step.output(Ready())

    def _become_stopped(self, failure: str | None) -> None:
        self._machine.move(NodeEvent.END if failure is None else NodeEvent.FAIL)
        self.failure = failure
        self._checks.end()
        self.orderly_stop.is_under_way = False
        self._restoration = self._needs_room_for = None
        self._completions.drop()
        self._audit.end()
        if self._activation is not None:
            self._activation.end()

    # -- from the journal to being live --------------------------------------------------------------------------

    def _restore(self, journal: storage.Journal, recovered: storage.RecoveredState) -> None:
        """Begin with what the journal holds, unless the record of the node shows that it lost something."""
        activation, is_new = self._activation, recovered.last_batch == 0
        if activation is not None:
            activation.meet_journal(None if is_new else recovered.identity, recovered.last_batch)
            if activation.failure is not None:
                self.follow_activation()
                return
        if is_new and self._config.data_directory is not None:
            self._log.info(f"begins with an empty journal in {self._config.data_directory}")
        self._restoration = Restoration(self._kernel, journal, marks=activation is not None)

    def advance(self, limit: int) -> None:
        """Do a slice of the work before clients are served, or of the work that an orderly stop waits for."""
        if self.orderly_stop.is_under_way:
            self._kernel.deferred.run(limit)
        elif self._restoration is not None and self._restoration.advance(limit):
            identity, self._restoration = self._restoration.identity, None
            self._settle_with_room(identity)
        elif self._needs_room_for is not None:
            self._settle_with_room(self._needs_room_for)

    def _settle_with_room(self, journal_identity: int) -> None:
        """Settle if the broker can write; one that must not serve without room waits, or restarts as backup."""
        activation, journal = self._activation, self._journal
        assert journal is not None
        self._needs_room_for = None
        has_room = journal.has_room if activation is not None and activation.needs_room else True
        if has_room:
            self._settle(journal_identity)
        elif has_room is None:
            self._needs_room_for = journal_identity
        elif activation is not None:
            activation.note_shortage(lacks_room=True)
            self.fail_stop("there is no space for the next segment of the journal")

    def _settle(self, journal_identity: int | None) -> None:
        """Become live as soon as the lock store has stored what the node would serve with."""
        self._audit.journal_identity = journal_identity or 0
        activation = self._activation
        if activation is None:
            self._core.node_id = self._make_node_id()
            self._become_live()
            return
        if self._journal is None:
            activation.meet_journal(None, None)
        if activation.failure is None:
            self._core.node_id = activation.node_id or self._make_node_id()
            activation.settle(self._core.node_id, journal_identity, self._last_batch)
        self.follow_activation()

    @property
    def _last_batch(self) -> int | None:
        """Return where the journal ends on disk."""
        return self._journal.reached if self._journal is not None else None

    # -- the end -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin an orderly stop."""
        was = self._machine.state
        if was in (NodeState.STOPPING, NodeState.STOPPED):
            return
        self._machine.move(NodeEvent.STOP)
        self._checks.end()
        self._step.output(StopListening())
        if self._activation is not None:
            self._activation.begin_stop(fails_over=self._fails_over)
        if was is not NodeState.RUNNING:
            self._restoration = self._needs_room_for = None
            self.leave(seal=False)
        else:
            self.orderly_stop.begin(self._step.now.monotonic)

    def leave(self, *, seal: bool = True) -> None:
        """Disconnect clients and peers, and close the journal; with ``seal`` it is marked as complete.

        If the broker scales down, everything moves first.
        """
        self.orderly_stop.is_under_way = False
        self._bridging.leave(self._step.now)
        spared = self._activation.backup_connection if self._activation is not None else None
        scaling_down = self.scaling_down
        if scaling_down.is_ready:
            if self._cluster is not None:
                self._cluster.retire()
            self._connections.disconnect_all(spared, *scaling_down.target())
            scaling_down.move()
            return
        scaling_down.end("the broker stops", self._step.now)
        activation = self._activation
        has_successor = activation is not None and activation.has_successor(fails_over=self._fails_over)
        self._connections.disconnect_all(spared, keeps_bridges=has_successor)
        self.finish_leaving(seal=seal)

    def on_scaled_down(self, failure: str | None) -> None:
        """Leave the cluster, and close the journal. A backup that has moved everything waits as backup again.

        After a ``failure`` something stays, and a backup takes over to try again.
        """
        if self._hands_over and self._activation is not None:
            self._fails_over |= failure is not None
            self._activation.note_scaled_down(is_complete=failure is None)
        self.finish_leaving()

    def finish_leaving(self, *, seal: bool = True) -> None:
        """Leave the cluster, and close the journal."""
        if self._cluster is not None:
            self._cluster.leave("the broker stops")
        if self._journal is None or not seal or self._journal.state is not storage.JournalState.READY:
            self._depart()
        else:
            self._journal.close(self._step.now)
            self.after_disk()  # a journal that was sealed before closes at once

    def _depart(self) -> None:
        """End, once the lock store has stored the kind of end: nothing is written to the journal any more."""
        if self._activation is None:
            self._become_stopped(None)
        else:
            self._activation.leave(fails_over=self._fails_over, last_batch=self._last_batch)
            self.follow_activation()

    def fail_stop(self, reason: str) -> None:
        """End at once: nothing is confirmed any more, and clients lose their connections."""
        if self._machine.state is NodeState.STOPPED:
            return
        if self._machine.state is not NodeState.STOPPING:
            self._step.output(StopListening())
        self._bridging.leave(self._step.now)
        self.scaling_down.end(reason, self._step.now)
        self._connections.cut(reason)
        if self._cluster is not None:
            self._cluster.leave("the broker stops")
        self._become_stopped(reason)
