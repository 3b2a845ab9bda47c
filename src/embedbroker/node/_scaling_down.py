"""The scale-down of a node: before it stops, another broker gets everything that it has.

Responsible for the place of a scale-down in the life of the node and in its steps, and for the brokers that may be the
target. `ScaleDown` of ``outbound`` moves messages; `Lifecycle` stops the node.

Clients are served until the target has the queues of this broker. Then they are disconnected with the target's node id,
and messages move when everything that they left is carried out, durable and visible.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from embedbroker.config import BrokerConfig, PrimaryOnly, ReplicationBackup, SharedStoreBackup
from embedbroker.config import ScaleDown as ScaleDownConfig
from embedclient.model import IN_VM_CONNECTOR_FACTORY, Entropy, Instant, TransportConfiguration

from ._current_step import CurrentStep, NodeLog
from ._node_state import NodeState, NodeStateMachine
from ._outputs import Managed, Output
from ._part import Part

if TYPE_CHECKING:
    from embedbroker.cluster import Membership
    from embedbroker.kernel import Kernel
    from embedbroker.outbound import ScaleDown
    from embedbroker.protocols import CoreService

    from ._assembly import Roles
    from ._connections import Connections
    from ._outgoing_connections import OutgoingConnections

__all__ = ["AtFailure", "ScaledParts", "ScalingDown", "configured_scale_down"]


class NodeEnd(Protocol):
    """End the node."""

    def stop(self) -> None:
        """Begin an orderly stop."""

    def serve(self) -> None:
        """Serve clients."""

    def on_scaled_down(self, failure: str | None) -> None:
        """Leave the cluster, and close the journal; ``failure`` is the reason if something stays."""

    def output(self, output: Output) -> None:
        """Add an output of the step."""


class PartSchedule(Protocol):
    """Let parts work in the steps of the node."""

    def insert(self, part: Part, *, before: Part) -> None:
        """Add a part, which works in front of another one."""

    def remove(self, part: Part) -> None:
        """Remove a part that was inserted."""

    def renew(self) -> None:
        """Compute all deadlines anew: a part has changed those of others."""


@frozen
class ScaledParts:
    """The parts of a node that a scale-down concerns."""

    config: BrokerConfig
    kernel: Kernel
    core: CoreService
    connections: Connections
    dials: OutgoingConnections
    roles: Roles


class AtFailure(Enum):
    """Define what a node does when no target can be reached, and nothing has moved."""

    GO_ON = "go on"
    STOP = "stop"
    SERVE = "serve clients, which a backup that takes over to scale down did not do"


def configured_scale_down(config: BrokerConfig) -> ScaleDownConfig | None:
    """Return the scale-down of the policy, at an orderly stop or when a backup takes over; None for none."""
    policy = config.own_policy
    configured = policy.scale_down if isinstance(policy, PrimaryOnly | SharedStoreBackup | ReplicationBackup) else None
    return configured if configured is not None and configured.enabled else None


class ScalingDown(Part):
    """One instance per node. It has a place in the schedule from the beginning of a scale-down on."""

    def __init__(
        self,
        parts: ScaledParts,
        lifecycle: NodeEnd,
        machine: NodeStateMachine,
        entropy: Entropy,
        schedule: PartSchedule,
        log: NodeLog,
    ) -> None:
        self._parts = parts
        self._lifecycle = lifecycle
        self._machine = machine
        self._entropy = entropy
        self._schedule = schedule
        self._log = log
        self._process: ScaleDown | None = None
        # The chosen target, and the request that waits for the outcome.
        self._wanted: TransportConfiguration | None = None
        self._request: int | None = None
        self.at_failure = AtFailure.GO_ON
        # Clients are gone, and messages may move once all is settled.
        self._awaits_settling = False

    # -- the life of the node ------------------------------------------------------------------------------------

    @property
    def is_under_way(self) -> bool:
        """Return True from the beginning of a scale-down until nothing is left to move."""
        return self._process is not None

    @property
    def is_ready(self) -> bool:
        """Return True if the target is there and nothing has moved."""
        return self._process is not None and self._process.is_ready

    def begin(
        self,
        now: Instant,
        connector: TransportConfiguration | None = None,
        request: int | None = None,
        *,
        at_failure: AtFailure = AtFailure.GO_ON,
    ) -> None:
        """Search for a target, while clients are served; ``connector`` None: that of the configuration."""
        self.at_failure = at_failure
        from embedbroker.outbound import ScaleDown, ScaleDownSettings

        s = self._parts
        configured = configured_scale_down(s.config)
        self._wanted = connector
        self._request = request
        settings = ScaleDownSettings(
            bytes.fromhex(s.core.node_id.replace("-", "")),
            s.config.cluster_user,
            s.config.cluster_password,
            -1 if configured is None else configured.commit_interval,
        )
        self._process = ScaleDown(s.kernel, settings, self._find, s.dials, self._entropy)
        self._process.begin(now)
        self._schedule.insert(self, before=s.connections)

    def _find(self) -> list[TransportConfiguration]:
        """Return the brokers that may be the target, in order of preference."""
        config, discovery = self._parts.config, self._parts.roles.discovery
        if self._wanted is not None:
            return [self._wanted]
        configured = configured_scale_down(config) or ScaleDownConfig()
        if configured.connectors and configured.group_name is None:
            return [config.connectors[name] for name in configured.connectors]
        if configured.discovery_group is not None and configured.group_name is None and discovery is not None:
            return discovery.places(configured.discovery_group)
        for cluster in self._parts.roles.clusters:
            if configured.cluster_name in (None, cluster.settings.name):
                return self._members_of(cluster, configured.group_name)
        return [each for each in config.connectors.values() if each.factory == IN_VM_CONNECTOR_FACTORY][:1]

    def _members_of(self, cluster: Membership, group_name: str | None) -> list[TransportConfiguration]:
        """Return the members of one of several cluster connections that may be the target.

        At one acceptor all of them have the same topology. So those to which only another cluster connection leads are
        left out, and those to which this one leads are first.
        """
        members = cluster.scale_down_targets(group_name)
        others = [each for each in self._parts.roles.clusters if each is not cluster]
        if not others:
            return members
        own = [each for each in members if cluster.searches_at(each)]
        return own + [each for each in members if each not in own and not any(o.searches_at(each) for o in others)]

    def target(self) -> tuple[str | None, TransportConfiguration | None]:
        """Return node id and place of the target, for clients."""
        process = self._process
        assert process is not None and process.connector is not None
        found = [each.topology.member_at(process.connector) for each in self._parts.roles.clusters]
        member = next((each for each in found if each is not None), None)
        node_id = process.target_node_id or (None if member is None else member.node_id)
        return node_id, process.connector.announced

    def move(self) -> None:
        """Move everything, because clients are gone."""
        self._awaits_settling = True
        branches = self._parts.kernel.branches
        for branch in list(branches.unprepared):
            branches.undo(branch.xid, "the broker scales down")

    def end(self, reason: str, now: Instant) -> None:
        """End a scale-down in any state, because the node ends."""
        process = self._process
        if process is not None:
            process.end(reason, now)
            self._conclude(process)

    def _conclude(self, process: ScaleDown) -> None:
        self._process = None
        self._awaits_settling = False
        self._schedule.remove(self)
        request, self._request = self._request, None
        moved, failure = process.counts.moved, process.failure
        if failure is not None:
            self._log.warning(f"scale-down failed, {moved} messages were moved: {failure}")
        else:
            name = process.connector.name if process.connector is not None else ""
            self._log.info(f"scaled down: {moved} messages were moved to {name}")
        if request is not None:
            self._lifecycle.output(Managed(request, moved, failure))

    # -- steps ---------------------------------------------------------------------------------------------------

    def run(self, step: CurrentStep) -> None:
        process, kernel, now = self._process, self._parts.kernel, step.now
        if process is None:
            return
        if self._machine.state is NodeState.STOPPING:
            kernel.schedule.run(self._parts.config.work_per_step_max)
        if self._awaits_settling:
            if not self._is_settled:
                return
            self._awaits_settling = False
            process.move(now)
        process.run(now)
        self._follow(process, now)
        self._parts.dials.collect(step.outputs, now)

    @property
    def _is_settled(self) -> bool:
        """Return True if nothing is left to do here, and all records are on disk."""
        kernel = self._parts.kernel
        return not kernel.schedule.has_work and kernel.store.point() <= kernel.store.reached

    def _follow(self, process: ScaleDown, now: Instant) -> None:
        is_running = self._machine.state is NodeState.RUNNING
        if process.is_ready and is_running:
            self._lifecycle.stop()
            self._schedule.renew()
        elif process.is_over and (process.failure is not None or self._is_settled):
            # What has moved must be gone from the disk: after a crash it would be at both brokers.
            target = process.target_node_id
            if process.failure is None and target is not None:
                # One link to the target is enough.
                any(cluster.announce_scale_down(target) for cluster in self._parts.roles.clusters)
            self._conclude(process)
            if not is_running:
                self._lifecycle.on_scaled_down(process.failure)
            elif self.at_failure is AtFailure.STOP:
                self._lifecycle.stop()
            elif self.at_failure is AtFailure.SERVE:
                self._lifecycle.serve()

    def next_deadline(self, now: Instant) -> float | None:
        process = self._process
        if process is None:
            return None
        if self._machine.state is NodeState.STOPPING and self._parts.kernel.schedule.has_work:
            return now.monotonic
        return None if self._awaits_settling or process.is_over else process.next_deadline(now)
