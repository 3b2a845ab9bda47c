"""One broker as a synchronous machine: inputs in, outputs out, and the next moment it must be woken.

Responsible for composing kernel, protocols, journal, cluster and activation, and for handing each input to its
receiver. `StepSchedule` has the order of work after the input, `Lifecycle` the ways from the start to the end. Does not
await, read a clock, open a file or draw a random number.

A step never raises for what a peer or a disk does. An assertion that fails is a bug: the host stops the node as
`crash` would.
"""

from __future__ import annotations

from typing import assert_never

from attrs import evolve

from embedbroker import storage
from embedbroker.config import BrokerConfig, Role
from embedbroker.ha import BackupChanged, LockDone, LockFailed
from embedbroker.kernel import ALLOW_ALL, Kernel
from embedbroker.protocols import CoreService, ResendAccount, restore_message, route_copier
from embedclient.model import Entropy, Instant

from ._admission import Admission
from ._assembly import make_roles, make_security
from ._audit_recording import AuditRecording
from ._bridging import Bridging
from ._connection_checks import ConnectionChecks
from ._connections import Connections
from ._current_step import CurrentStep, NodeLog
from ._disk_completions import DiskCompletions
from ._gate import DurabilityGate
from ._inputs import (
    OF_TRAFFIC,
    Accepted,
    AuditFailed,
    BytesReceived,
    CertificateReceived,
    Command,
    DatagramReceived,
    DecideBranch,
    Dialed,
    DialFailed,
    DiskDone,
    DiskFailed,
    GroupFailed,
    Input,
    MakeRoom,
    Manage,
    PasswordChecked,
    PeerClosed,
    ReloadConfiguration,
    ReplaceUsers,
    ScaleDownTo,
    TaskDone,
    Tick,
    Written,
)
from ._lifecycle import Lifecycle, Subsystems
from ._node_state import ROLES, NodeState, NodeStateMachine
from ._outgoing_connections import OutgoingConnections
from ._outputs import Output
from ._owner_requests import OwnerRequests
from ._scaling_down import ScaledParts, ScalingDown
from ._schedule import make_schedule

__all__ = ["Node"]


# Members by themselves: looking one up in its enumeration costs more than the comparison, and each step compares.
_RUNNING, _WAITING = NodeState.RUNNING, NodeState.WAITING


class Node:
    """A broker. ``journal_settings`` None keeps everything in memory.

    With ``has_locks`` the host has a lock store, and the node is live only while the store grants it. The node writes
    to ``audit_log`` what it does while it is live. With ``deletes_missing`` its configuration is current: unless it
    waits as backup, its start deletes what is missing there, where address settings require that.
    """

    def __init__(
        self,
        config: BrokerConfig,
        entropy: Entropy,
        memory_limit_bytes: int,
        journal_settings: storage.JournalSettings | None = None,
        *,
        has_locks: bool = False,
        audit_log: storage.AuditLog | None = None,
        deletes_missing: bool = True,
    ) -> None:
        self.config = config
        self._machine = machine = NodeStateMachine()
        self._step = step = CurrentStep()
        self._log = log = NodeLog(step)
        self.journal = journal = storage.Journal(journal_settings) if journal_settings is not None else None
        security = make_security(config, log)
        self.kernel = Kernel(
            config, restore_message, log.warning, memory_limit_bytes, journal, log.info, security or ALLOW_ALL,
            route_copier,
        )  # fmt: skip
        self._clock = self.kernel.clock
        self.gate = DurabilityGate()
        self._audit = AuditRecording(audit_log, self.kernel, self.gate, log)
        resend = ResendAccount(config.memory_shares(memory_limit_bytes).resend, config.output_bytes_max)
        self.core = CoreService(self.kernel, self.gate, entropy, "", resend)
        self._owner_requests = OwnerRequests(self.kernel, self.gate, self.core)
        self.core.connect_security(security)
        self.connections = Connections(config, self.core, memory_limit_bytes, log)
        self._dials = OutgoingConnections(config, log)
        roles = make_roles(config, entropy, journal, self._dials, step, log, has_locks=has_locks)
        self.cluster = roles.cluster
        self.core.clusters.update((each.settings.name, each) for each in roles.clusters)
        self.clusters, self.discovery, self.activation = roles.clusters, roles.discovery, roles.activation
        #: The disk of a broker that replicates: its own copy, or that of its backup.
        self.replica_disk = self.core.replica = roles.replica_disk
        self._completions = DiskCompletions(journal, self.replica_disk, roles.grants)
        self._admission = Admission(self.core, self.connections, self.cluster, step.output)
        subsystems = Subsystems(
            config=config,
            kernel=self.kernel,
            journal=journal,
            gate=self.gate,
            core=self.core,
            connections=self.connections,
            dials=self._dials,
            admission=self._admission,
            checks=ConnectionChecks(config, self.connections, self._admission, machine),
            completions=self._completions,
            owner_requests=self._owner_requests,
            audit=self._audit,
            roles=roles,
            bridging=Bridging(config, self.kernel, roles, self._dials, entropy),
        )
        self.member_bridges = subsystems.bridging.of_members
        self._lifecycle = Lifecycle(machine, subsystems, step, log, deletes_missing=deletes_missing)
        self._orderly_stop = self._lifecycle.orderly_stop
        self._schedule = make_schedule(subsystems, self._lifecycle, machine, log)
        scaled = ScaledParts(config, self.kernel, self.core, self.connections, self._dials, roles)
        self._lifecycle.scaling_down = ScalingDown(scaled, self._lifecycle, machine, entropy, self._schedule, log)

    @property
    def state(self) -> NodeState:
        """Return how far the node has come."""
        return self._machine.state

    @property
    def is_running(self) -> bool:
        """Return True while clients are served."""
        return self._machine.state is _RUNNING

    @property
    def is_scaling_down(self) -> bool:
        """Return True while messages move to another broker, or it is searched for."""
        return self._lifecycle.scaling_down.is_under_way

    @property
    def node_id(self) -> str:
        """Return the identity that a primary and its backups share, as text; empty until it is known."""
        return self.core.node_id

    @property
    def role(self) -> Role:
        """Return the role of the broker in its group at this moment."""
        return ROLES[self._machine.state]

    def step(self, input: Input, now: Instant) -> list[Output]:
        """Take one input and return every output that follows from it."""
        step = self._step
        step.now = now
        self.core.now = now
        self._clock.now_ms = now.wall_ms
        self._clock.monotonic = now.monotonic
        if self.journal is not None:
            self.journal.wall_ms = now.wall_ms
        for cluster in self.clusters:
            cluster.now = now
        if self.replica_disk is not None:
            self.replica_disk.set_now(now)
        match input:
            # Traffic is first, and calls its receivers directly.
            case BytesReceived():
                if input.connection < 0:
                    self._dials.on_bytes(input, now)
                # Client input is not read while an orderly stop waits for the disk.
                elif not self._orderly_stop.is_under_way or self._is_of_backup(input.connection):
                    self.connections.on_bytes(input, now)
            case DiskDone():
                if self._completions.on_done(input, now) and self._machine.state is not _RUNNING:
                    self._lifecycle.after_disk()
            case Written():
                if input.connection < 0:
                    self._dials.on_written(input, now)
                else:
                    self.connections.on_written(input)
            case _:
                self._on_other(input, now)
        calm = self._is_calm if self.replica_disk is not None else self._machine.state is _RUNNING
        step.timely = now.monotonic >= self._schedule.due or type(input) not in OF_TRAFFIC or not calm
        self._schedule.run(step)
        outputs, step.outputs = step.outputs, []
        return outputs

    def _on_other(
        self,
        input: (
            DiskFailed | LockDone | LockFailed | Tick | Accepted | CertificateReceived | ReplaceUsers
            | PasswordChecked | MakeRoom | PeerClosed | Dialed | DialFailed | DecideBranch | Manage
            | ReloadConfiguration | ScaleDownTo | TaskDone | AuditFailed
            | DatagramReceived | GroupFailed | BackupChanged | Command
        ),
        now: Instant,
    ) -> None:  # fmt: skip
        """Hand an input that is not traffic to its receiver."""
        match input:
            case DiskFailed():
                if self._completions.on_failed(input, now):
                    self._lifecycle.after_disk()
            case LockDone() | LockFailed():
                self._lifecycle.on_lock_answer(input, now)
            case Tick():
                pass
            case Accepted():
                self.connections.on_accepted(input, now, serving=self._admission.lets_in(self._machine.state))
            case CertificateReceived():
                self.connections.on_certificate(input)
            case ReplaceUsers():
                self._replace_users(input)
            case PasswordChecked():
                assert self.core.security is not None
                self.core.security.checks.on_result(input.number, matches=input.matches)
            case MakeRoom():
                self.connections.make_room(now)
            case PeerClosed():
                if input.connection < 0:
                    self._dials.on_peer_closed(input, now)
                else:
                    self.connections.on_peer_closed(input)
            case Dialed():
                self._dials.on_dialed(input, now)
            case DialFailed():
                self._dials.on_dial_failed(input, now)
            case DecideBranch():
                self._owner_requests.on_decision(input)
            case Manage():
                self._owner_requests.on_call(input)
            case ReloadConfiguration():
                self._owner_requests.on_reload(input)
            case ScaleDownTo():
                self._lifecycle.on_scale_down(input)
            case TaskDone():
                self._owner_requests.on_task_done(input)
            case AuditFailed():
                self._audit.on_input(input, self._step)
            case DatagramReceived() | GroupFailed():
                self._on_group(input, now)
            case BackupChanged():
                self._lifecycle.on_backup_changed(input)
            case Command():
                self._lifecycle.on_command(input)
            case _:
                assert_never(input)

    def _on_group(self, input: DatagramReceived | GroupFailed, now: Instant) -> None:
        assert self.discovery is not None
        if isinstance(input, DatagramReceived):
            self.discovery.on_datagram(input.endpoint, input.data, now)
        else:
            self.discovery.on_failed(input.endpoint, input.reason, now)

    def _replace_users(self, wanted: ReplaceUsers) -> None:
        security = self.core.security
        if security is not None and not security.has(wanted.users, wanted.guest):
            security.replace(evolve(self.config, users=wanted.users, guest=wanted.guest))
            self._log.info(f"security: users are read again: there are {len(wanted.users)}")

    def next_deadline(self) -> float | None:
        """Return when a Tick is due, in monotonic seconds; the present moment means: at once."""
        return self._schedule.next_deadline(self._step.now)

    def _is_of_backup(self, connection: int) -> bool:
        """Return True if the backup is at the far end: the disk work waits for its answers."""
        activation, served = self.activation, self.connections.served.get(connection)
        return activation is not None and served is not None and served is activation.backup_connection

    @property
    def _is_calm(self) -> bool:
        """Return True if traffic has no decisions to make."""
        activation, state = self.activation, self._machine.state
        if activation is None:
            return state is _RUNNING
        return activation.is_calm and state in (_RUNNING, _WAITING)
