"""Requests of the broker's owner, from the input to the answer: decisions on XA branches, and management calls.

Responsible for answering when the effect is carried out and durable. `Kernel.branches` decides, the registry of
management carries out calls.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from embedbroker.kernel import ALLOW_ALL, Kernel, Session
from embedbroker.protocols import CoreService

from ._current_step import CurrentStep
from ._gate import DurabilityGate
from ._inputs import DecideBranch, Manage, ReloadConfiguration, TaskDone
from ._outputs import BranchDecided, Managed
from ._part import Part

if TYPE_CHECKING:
    from embedbroker.management import Failure as Failed
    from embedbroker.management import Success

__all__ = ["OwnerRequests"]


class OwnerRequests(Part):
    """Answers that wait until their effect is durable, in order."""

    def __init__(self, kernel: Kernel, gate: DurabilityGate, core: CoreService) -> None:
        self._kernel = kernel
        self._gate = gate
        self._core = core
        self.waiting: deque[tuple[int, BranchDecided | Managed]] = deque()
        # Created for the first management call: the owner may do everything.
        self._session: Session | None = None

    def on_decision(self, wanted: DecideBranch) -> None:
        """Decide; the answer contains whether there was such a branch."""
        kernel, waiting = self._kernel, self.waiting
        answer = BranchDecided(wanted.request, kernel.branches.decide(wanted.xid, commit=wanted.commit))
        # Behind what it took, which may be carried out over several steps.
        kernel.deferred.add_action(lambda: waiting.append((kernel.store.point(), answer)))

    def on_reload(self, wanted: ReloadConfiguration) -> None:
        """Adopt parts of a configuration, in the order of Artemis; the answer names refusals. The rest holds."""
        kernel = self._kernel
        try:
            kernel.settings_table.reload(wanted.address_settings, wanted.security_settings)
        except ValueError as error:
            self.waiting.append((0, Managed(wanted.request, None, str(error))))
            return
        refusals: list[str] = []
        if wanted.diverts is not None:
            refusals += [refused.text for refused in kernel.diverts.reload(wanted.diverts)]
        addresses = kernel.configured_addresses
        if wanted.addresses is not None:
            addresses.remove_missing(wanted.addresses)
        for name, address in (wanted.addresses or {}).items():
            refusals += [f"address {name!r}: {refused.text}" for refused in addresses.reload(name, address)]
        for settings in (wanted.address_settings or {}).values():
            # As at the start: what is moved there would be lost.
            kernel.address_manager.provide_targets(settings)
        self.waiting.append((kernel.store.point(), Managed(wanted.request, None, "; ".join(refusals) or None)))

    def on_call(self, wanted: Manage) -> None:
        """Read an attribute, or run an operation; the answer contains the result or the failure."""
        from embedbroker.management import Failure

        kernel, waiting = self._kernel, self.waiting
        if self._session is None:
            self._session = Session(
                kernel,
                "management",
                auto_commit_sends=True,
                auto_commit_acknowledges=True,
                pre_acknowledge=False,
                authority=ALLOW_ALL,
            )

        def respond(outcome: Success | Failed) -> None:
            if isinstance(outcome, Failure):
                waiting.append((0, Managed(wanted.request, None, outcome.text)))
            else:
                point = kernel.store.point() if outcome.changes else 0
                waiting.append((point, Managed(wanted.request, outcome.value, None)))

        registry = self._core.management
        if wanted.operation is not None:
            registry.invoke(self._session, wanted.resource, wanted.operation, wanted.arguments, respond)
        else:
            registry.read(self._session, wanted.resource, wanted.attribute or "", respond)

    def on_task_done(self, done: TaskDone) -> None:
        """Complete the management call that waits for a task of the host."""
        self._core.management.on_task_done(done.number, done.value, done.failure)

    def run(self, step: CurrentStep) -> None:
        """Answer what is durable: up to the point to which replies may go."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= self._gate.confirmed:
            step.output(waiting.popleft()[1])
