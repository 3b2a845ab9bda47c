"""The order in which the parts of a node work in a step, and when each is due.

Responsible for that order, with its reasons, and for running in a step of traffic only the parts that traffic concerns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from embedclient.model import Instant

from ._current_step import CurrentStep, NodeLog
from ._lifecycle import Lifecycle, Subsystems
from ._node_state import NodeStateMachine
from ._part import Part
from ._parts import (
    ActivationPart,
    ActivationRequests,
    BackupSearch,
    BridgesPart,
    ClusterPart,
    DiscoveryPart,
    EarlyReplicaWork,
    End,
    HostTasks,
    JournalProgress,
    JournalWork,
    KernelWork,
    LateMessages,
    OrderlyStopEnd,
    PasswordHashes,
    Recovery,
    ReplicaWork,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._assembly import Roles

__all__ = ["StepSchedule", "make_schedule"]


class StepSchedule:
    """``due`` is the deadline of timed work that `next_deadline` returned last."""

    __slots__ = (
        "_is_known", "_on_time", "_on_traffic", "_seldom_due", "_seldom_timed", "_timed", "due", "parts",
    )  # fmt: skip

    def __init__(self, parts: Iterable[Part | None]) -> None:
        self.due = 0.0
        self._seldom_due: float | None = None
        self._arrange(part for part in parts if part is not None)

    def insert(self, part: Part, *, before: Part) -> None:
        """Give a part a place, in front of another one, from the next step on."""
        place = self.parts.index(before)
        self._arrange((*self.parts[:place], part, *self.parts[place:]))

    def _arrange(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(parts)
        # What each step calls, found once. A part that keeps a method of `Part` has nothing to do there.
        self._on_time = tuple(part.run for part in self.parts)
        self._on_traffic = tuple((part.waiting, part.run) for part in self.parts if not part.timed_only)
        timed = [part for part in self.parts if type(part).next_deadline is not Part.next_deadline]
        self._timed = tuple(part.deadline_source for part in timed if not part.timed_only)
        # Only timely steps change what these return. Until the next one, the deadline is known.
        self._seldom_timed = tuple(part.deadline_source for part in timed if part.timed_only)
        self._is_known = False

    def remove(self, part: Part) -> None:
        """Take the place of a part away, from the next step on."""
        self._arrange([each for each in self.parts if each is not part])

    def renew(self) -> None:
        """Compute all deadlines anew: a part has changed those of others."""
        self._is_known = False

    def run(self, step: CurrentStep) -> None:
        """Let each part work in its turn."""
        if step.timely:
            self._is_known = False
            for run in self._on_time:
                run(step)
        else:
            for waiting, run in self._on_traffic:
                if waiting:
                    run(step)

    def next_deadline(self, now: Instant) -> float | None:
        """Return when a timely step is needed, in monotonic seconds; the present moment if work was left."""
        if not self._is_known:
            self._seldom_due = _earliest(self._seldom_timed, None, now)
            self._is_known = self._seldom_due is None or self._seldom_due > now.monotonic
        # As `_earliest`: here in each step.
        earliest = self._seldom_due
        for next_deadline in self._timed:
            due = next_deadline(now)
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        if earliest is None:
            self.due = math.inf
        elif earliest > now.monotonic:  # steps of traffic continue work that was left, too
            self.due = earliest
        return earliest


def _earliest(timed: Iterable[Callable[[Instant], float | None]], earliest: float | None, now: Instant) -> float | None:
    for next_deadline in timed:
        due = next_deadline(now)
        if due is not None and (earliest is None or due < earliest):
            earliest = due
    return earliest


def _search(roles: Roles) -> Part | None:
    return BackupSearch(roles.requester) if roles.requester is not None else None


def make_schedule(
    subsystems: Subsystems,
    lifecycle: Lifecycle,
    machine: NodeStateMachine,
    log: NodeLog,
) -> StepSchedule:
    """Return the schedule of a node; subsystems that its configuration does not have take no part."""
    s, roles = subsystems, subsystems.roles
    journal, activation, replica_disk = s.journal, roles.activation, roles.replica_disk
    upkeep = early = replica_work = None
    if activation is not None:
        upkeep = ActivationPart(activation, lifecycle, machine, s.admission, s.checks, s.connections, s.gate)
        if replica_disk is not None and journal is not None:
            early = EarlyReplicaWork(replica_disk)
            replica_work = ReplicaWork(early, activation, replica_disk, journal, s.gate)
    bridges, discovery = s.bridging.bridges, roles.discovery
    # Output for brokers, the owner and clients.
    of_cluster = ClusterPart(roles.clusters, s.dials, s.completions) if roles.clusters else None
    schedule = StepSchedule((
        # First what the broker is: all parts below depend on the state of the node.
        upkeep,
        # Before the kernel's work: a connection that is given up leaves messages to others.
        s.checks,
        # After the input, whose requests the kernel carries out. Recovery follows: a node that has just recovered
        # serves from the next step on.
        KernelWork(s.kernel, machine, s.completions, s.config),
        Recovery(lifecycle, machine, s.config),
        # After the kernel's work, so that what became durable is visible before it is confirmed; before output is
        # collected, as the gate releases replies.
        JournalProgress(journal, s.gate, activation, machine, log) if journal is not None else None,
        # After the gate: replies that became durable are sent before their connections are closed.
        OrderlyStopEnd(lifecycle),
        # After the records of the input and of the kernel; before output for peers, so that a backup works while the
        # disk here does.
        early,
        # After the role is known; before bridges and cluster, which dial the places that it finds.
        DiscoveryPart(discovery, roles.cluster, s.core, machine) if discovery is not None else None,
        _search(roles),  # after the role is known; before the cluster, which sends its requests
        # Before output is collected: messages that waited for a decision go on, and their senders get answers.
        s.bridging.grouping_part,
        LateMessages(s.kernel) if roles.clusters else None,
        BridgesPart(bridges, s.dials) if bridges is not None else None,  # after the kernel's work
        *(BridgesPart(each, s.dials) for each in s.bridging.of_members),
        of_cluster,
        s.owner_requests,
        HostTasks(s.core),
        PasswordHashes(s.core.security) if s.core.security is not None else None,
        s.connections,
        # In front of all outputs so far: what clients receive is in the audit log before.
        s.audit if s.audit.is_wanted else None,
        # After output was collected: connections that were given up there have left records.
        replica_work,
        JournalWork(journal, machine, s.completions) if journal is not None and replica_disk is None else None,
        # Last, since each part above may have changed what the lock store must store.
        ActivationRequests(activation) if activation is not None else None,
        End(lifecycle, machine),
    ))  # fmt: skip
    s.bridging.on_loaded = lambda loaded: schedule.insert(
        BridgesPart(loaded, s.dials), before=of_cluster or s.owner_requests
    )
    return schedule
