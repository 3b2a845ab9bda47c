"""The parts of a node that have a place in the schedule of a step, each around one subsystem.

Responsible for when a subsystem works in a step. Their order is in ``_schedule``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from embedbroker import storage
from embedbroker.config import BrokerConfig
from embedbroker.ha import Activation
from embedbroker.kernel import Kernel
from embedbroker.protocols import CoreService
from embedclient.model import Instant

from ._admission import Admission
from ._connection_checks import ConnectionChecks
from ._connections import Connections
from ._current_step import CurrentStep, NodeLog
from ._disk_completions import DiskCompletions
from ._gate import DurabilityGate
from ._lifecycle import Lifecycle
from ._node_state import ROLES, NodeState, NodeStateMachine
from ._outgoing_connections import OutgoingConnections
from ._outputs import CheckPassword, Stopped
from ._part import Part

if TYPE_CHECKING:
    from embedbroker.cluster import Discovery, Membership
    from embedbroker.ha.colocated import BackupRequester
    from embedbroker.ha.replication import ReplicaDisk
    from embedbroker.outbound import Bridges, MemberBridges
    from embedbroker.security import SecurityManager

__all__ = [
    "ActivationPart",
    "ActivationRequests",
    "BackupSearch",
    "BridgesPart",
    "ClusterPart",
    "DiscoveryPart",
    "EarlyReplicaWork",
    "End",
    "HostTasks",
    "JournalProgress",
    "JournalWork",
    "KernelWork",
    "LateMessages",
    "OrderlyStopEnd",
    "PasswordHashes",
    "Recovery",
    "ReplicaWork",
]

# A member by itself: looking it up in its enumeration costs more than the comparison, and each step compares.
_RUNNING, _STOPPED = NodeState.RUNNING, NodeState.STOPPED


class PasswordHashes(Part):
    """The hashes of passwords that logins wait for: the host computes them."""

    def __init__(self, security: SecurityManager) -> None:
        self._checks = security.checks
        self.waiting = self._checks.new

    def run(self, step: CurrentStep) -> None:
        for check in self._checks.take_new():
            step.output(CheckPassword(check))


class HostTasks(Part):
    """The tasks of management for the host."""

    def __init__(self, core: CoreService) -> None:
        self.waiting = self._tasks = core.host_tasks

    def run(self, step: CurrentStep) -> None:
        step.outputs += self._tasks
        self._tasks.clear()


class ActivationPart(Part):
    """The effect of the disk, the peers and the time on the role of the broker, and on its journal.

    In a step of traffic, completed work of a replicating broker's disk counts for its journal, and nothing is decided.
    """

    def __init__(
        self,
        activation: Activation,
        lifecycle: Lifecycle,
        machine: NodeStateMachine,
        admission: Admission,
        checks: ConnectionChecks,
        connections: Connections,
        gate: DurabilityGate,
    ) -> None:
        self._activation = activation
        self._replica_disk = activation.replica_disk
        self.timed_only = self._replica_disk is None
        self._lifecycle = lifecycle
        self._machine = machine
        self._admission = admission
        self._checks = checks
        self._connections = connections
        self._gate = gate

    def run(self, step: CurrentStep) -> None:
        if step.timely:
            self._on_time(step.now)
        elif self._replica_disk is not None and self._replica_disk.settle(step.now):
            self._lifecycle.after_disk()

    def _on_time(self, now: Instant) -> None:
        activation, machine = self._activation, self._machine
        activation.on_time(now)
        if machine.state is NodeState.STOPPING and activation.is_blocked:
            self._connections.cut("the broker stops, and its backup is lost")
            self._gate.shut()
            activation.release_disk_work()
        if self._replica_disk is not None and self._replica_disk.settle(now):
            self._lifecycle.after_disk()
        while activation.has_changed and machine.state is not NodeState.STOPPED:
            activation.has_changed = False
            self._lifecycle.follow_activation()
        if self._admission.follow(machine.state, wanted=activation.admits_peers):
            if self._admission.lets_in(machine.state):
                self._checks.begin(now)
            else:
                self._checks.end()

    def next_deadline(self, now: Instant) -> float | None:
        return self._replica_disk.next_deadline() if self._replica_disk is not None else None


class KernelWork(Part):
    """Scans of the kernel that are due, and a slice of its work, while clients are served."""

    def __init__(
        self, kernel: Kernel, machine: NodeStateMachine, completions: DiskCompletions, config: BrokerConfig
    ) -> None:
        self._schedule = kernel.schedule
        self._housekeeping = kernel.housekeeping
        self._machine = machine
        self._completions = completions
        self._work_per_step_max = config.work_per_step_max

    def run(self, step: CurrentStep) -> None:
        if self._machine.state is not _RUNNING:
            return
        schedule, now = self._schedule, step.now.monotonic
        if step.timely and now >= self._housekeeping.next_deadline(now):
            self._housekeeping.run(now)
        if schedule.has_work and now <= self._completions.sure_until:
            schedule.run(self._work_per_step_max)

    def next_deadline(self, now: Instant) -> float | None:
        if self._machine.state is not _RUNNING:
            return None
        monotonic = now.monotonic
        if self._schedule.has_work and monotonic <= self._completions.sure_until:
            return monotonic
        return self._housekeeping.next_deadline(monotonic)


class Recovery(Part):
    """A slice of the work before clients are served, or of the work that an orderly stop waits for."""

    timed_only = True

    def __init__(self, lifecycle: Lifecycle, machine: NodeStateMachine, config: BrokerConfig) -> None:
        self._lifecycle = lifecycle
        self._machine = machine
        self._work_per_step_max = config.work_per_step_max

    def run(self, step: CurrentStep) -> None:
        if self._machine.state is not _RUNNING:
            self._lifecycle.advance(self._work_per_step_max)

    def next_deadline(self, now: Instant) -> float | None:
        return now.monotonic if self._machine.state is not _RUNNING and self._lifecycle.has_work else None


class JournalProgress(Part):
    """Release replies from the gate when the journal is as far as they need; the record follows each new segment."""

    def __init__(
        self,
        journal: storage.Journal,
        gate: DurabilityGate,
        activation: Activation | None,
        machine: NodeStateMachine,
        log: NodeLog,
    ) -> None:
        self._journal = journal
        self._gate = gate
        self._activation = activation
        self._machine = machine
        self._log = log
        # The beginning of the journal's newest segment, according to the record.
        self._rotated_at = 0

    def run(self, step: CurrentStep) -> None:
        journal = self._journal
        if self._gate.reached != journal.reached:
            self._gate.open(journal.reached)
            if journal.rotated_at != self._rotated_at:
                self._rotated_at = journal.rotated_at
                if self._activation is not None and self._activation.note_last_batch(journal.reached):
                    step.timely = True  # the lock store has work from that
        if step.timely:
            journal.on_tick(step.now)
        while journal.notes:
            self._log.warning(journal.notes.pop(0))

    def next_deadline(self, now: Instant) -> float | None:
        return self._journal.next_deadline() if self._machine.state is not _STOPPED else None


class OrderlyStopEnd(Part):
    """Continue an orderly stop when everything that was accepted is durable, or takes too long."""

    timed_only = True

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._orderly_stop = lifecycle.orderly_stop

    def run(self, step: CurrentStep) -> None:
        if self._orderly_stop.is_under_way and self._orderly_stop.is_done(step.now.monotonic):
            self._lifecycle.leave()

    def next_deadline(self, now: Instant) -> float | None:
        # A stop that begins behind this part in a step may be done at once.
        is_done = self._orderly_stop.is_under_way and self._orderly_stop.is_done(now.monotonic)
        return now.monotonic if is_done else self._orderly_stop.next_deadline()


class ClusterPart(Part):
    """Timed work of all clusters, what was gathered for its peers, and what the disk must do for a voter."""

    def __init__(
        self, clusters: Sequence[Membership], dials: OutgoingConnections, completions: DiskCompletions
    ) -> None:
        self._clusters = clusters
        self._first, *self._others = clusters
        self._dials = dials
        self._completions = completions

    def run(self, step: CurrentStep) -> None:
        for cluster in self._clusters:
            # In a step of traffic only what has changed can be due.
            if step.timely or cluster.is_rearmed:
                due = cluster.next_deadline() if cluster.is_rearmed else cluster.deadline
                if due is not None and step.now.monotonic >= due:
                    cluster.on_time()
        # In each step, and there is seldom anything: looked at here, without a call.
        dials, completions = self._dials, self._completions
        if dials.dirty or dials.orders:
            dials.collect(step.outputs, step.now)
        if completions.grants is not None and completions.grants.requests:
            completions.collect_grants(step.outputs, step.now)

    def next_deadline(self, now: Instant) -> float | None:
        # Called in each step: nearly every broker has one, and few steps change when it is due.
        first = self._first
        earliest = first.next_deadline() if first.is_rearmed else first.deadline
        for cluster in self._others:
            due = cluster.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest


class BackupSearch(Part):
    """The search of a colocated broker for a host of its backup."""

    timed_only = True

    def __init__(self, requester: BackupRequester) -> None:
        self._requester = requester

    def run(self, step: CurrentStep) -> None:
        self._requester.on_time()

    def next_deadline(self, now: Instant) -> float | None:
        return self._requester.next_deadline()


class DiscoveryPart(Part):
    """Announcements of this broker, and what it finds, in its present role."""

    def __init__(
        self, discovery: Discovery, cluster: Membership | None, core: CoreService, machine: NodeStateMachine
    ) -> None:
        self._discovery = discovery
        self._cluster = cluster
        self._core = core
        self._machine = machine
        self.waiting = discovery.active
        # Computed only where it may have changed.
        self._due: float | None = None

    def run(self, step: CurrentStep) -> None:
        discovery = self._discovery
        discovery.active.clear()
        # A broker that is not decided yet already searches for others.
        role = ROLES[self._machine.state] if self._cluster is None else self._cluster.role
        discovery.follow(role, self._core.node_id, step.now)
        due = discovery.next_deadline()
        if due is not None and step.now.monotonic >= due:
            discovery.on_time(step.now)
        discovery.active.clear()
        step.outputs += discovery.take_orders()
        self._due = discovery.next_deadline()

    def next_deadline(self, now: Instant) -> float | None:
        return self._due


class LateMessages(Part):
    """Messages of other brokers, for queues of which this broker has got news since."""

    def __init__(self, kernel: Kernel) -> None:
        self._bindings = kernel.late_bindings
        self.waiting = self._bindings.ready

    def run(self, step: CurrentStep) -> None:
        self._bindings.run(step.now.monotonic)

    def next_deadline(self, now: Instant) -> float | None:
        bindings = self._bindings
        return bindings.next_deadline_s if bindings.waiting or bindings.ready else None


class BridgesPart(Part):
    """What bridges have to send, and what is due there; their output, and that of other connections of the node."""

    def __init__(self, bridges: Bridges | MemberBridges, dials: OutgoingConnections) -> None:
        self._bridges = bridges
        self._dials = dials
        self.waiting = bridges.active

    def run(self, step: CurrentStep) -> None:
        self._bridges.run(step.now)
        dials = self._dials
        if dials.dirty or dials.orders:
            dials.collect(step.outputs, step.now)

    def next_deadline(self, now: Instant) -> float | None:
        return self._bridges.next_deadline(now)

    @property
    def deadline_source(self) -> Callable[[Instant], float | None]:
        return self._bridges.next_deadline


class EarlyReplicaWork(Part):
    """Disk work of a replicating broker, taken before output for its backup is collected: both disks work at once."""

    def __init__(self, disk: ReplicaDisk) -> None:
        self.works: list[storage.DiskWork] = []
        self._disk = disk

    def run(self, step: CurrentStep) -> None:
        self.works = self._disk.take_work(step.now)


class ReplicaWork(Part):
    """Disk work of a replicating broker as outputs: what was taken early, and what came since."""

    def __init__(
        self,
        early: EarlyReplicaWork,
        activation: Activation,
        disk: ReplicaDisk,
        journal: storage.Journal,
        gate: DurabilityGate,
    ) -> None:
        self._early = early
        self._activation = activation
        self._disk = disk
        self._journal = journal
        self._gate = gate

    def run(self, step: CurrentStep) -> None:
        step.outputs += self._early.works
        if step.timely or self._disk.has_late_work or not self._activation.is_calm:
            step.outputs += self._disk.take_work(step.now)

    def next_deadline(self, now: Instant) -> float | None:
        return now.monotonic if self._gate.reached != self._journal.reached else None


class JournalWork(Part):
    """What the disk must do for the journal, while it is sure that this broker may write."""

    def __init__(self, journal: storage.Journal, machine: NodeStateMachine, completions: DiskCompletions) -> None:
        self._journal = journal
        self._machine = machine
        self._completions = completions

    def run(self, step: CurrentStep) -> None:
        if step.now.monotonic <= self._completions.sure_until and self._machine.state is not _STOPPED:
            step.outputs += self._journal.take_work()


class ActivationRequests(Part):
    """What an activation requests from its lock store, and when it is due again."""

    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self._due: float | None = None

    def run(self, step: CurrentStep) -> None:
        if not step.timely:
            return
        request = self._activation.take_work(step.now)
        if request is not None:
            step.output(request)
        self._due = self._activation.next_deadline()

    def next_deadline(self, now: Instant) -> float | None:
        return self._due


class End(Part):
    """The last output of a node, once."""

    def __init__(self, lifecycle: Lifecycle, machine: NodeStateMachine) -> None:
        self._lifecycle = lifecycle
        self.waiting: list[NodeState] = machine.ended

    def run(self, step: CurrentStep) -> None:
        if self.waiting:
            self.waiting.clear()
            step.output(Stopped(self._lifecycle.failure, self._lifecycle.restarts))
