"""The checker of permissions: what a user with few rights must not do has no effect, and what it may do has one.

It looks at queues and consumers of the broker, through all lives. Does not depend on how the broker decides.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.kernel import Consumer, Kernel, Queue, Session

from ._broker_view import BrokerView
from ._scene import Moment, Scene

__all__ = ["INTAKE", "STOLEN", "VISITOR", "PermissionChecker"]

VISITOR = "visitor"
"""Name of the user with few rights. The keys of its messages begin with it."""

INTAKE = "intake"
"""Name of the address, and of its queue, that it may send to."""

STOLEN = "stolen"
"""Beginning of the names of queues and addresses that it tries to create."""

#: To look at every message in every step would cost more than all other checks together.
_CHECK_PERIOD_STEPS = 16


@define(eq=False)
class PermissionChecker:
    """Check the effects of one user on a broker."""

    scene: Scene
    broker: BrokerView
    _permitted: dict[str, None] = field(factory=dict, init=False)
    _forbidden: dict[str, None] = field(factory=dict, init=False)
    _steps: int = field(default=0, init=False)
    #: Consumers of the kernel, each of which belongs to another user.
    _rightful: set[Consumer] = field(factory=set, init=False)
    _kernel: Kernel | None = field(default=None, init=False)

    def watch(self) -> None:
        """Register with the broker."""
        self.broker.after_step.append(self._check_step)
        self.broker.on_ready.append(self.check_now)

    def permitted(self, key: str) -> None:
        """The broker has confirmed a message that its user may send."""
        self._permitted[key] = None
        self.scene.hit(Moment.PERMITTED_PASSED)

    def forbidden(self, key: str) -> None:
        """A message belongs to a transaction with a forbidden one: it must not come, wherever it goes to."""
        self._forbidden[key] = None

    def _check_step(self) -> None:
        node = self.broker.node
        if node is None:
            return
        self._check_consumers(node.kernel)
        self._steps += 1
        if self._steps % _CHECK_PERIOD_STEPS == 0:
            self.check_now()

    def _check_consumers(self, kernel: Kernel) -> None:
        if kernel is not self._kernel:
            self._kernel = kernel
            self._rightful.clear()
        rightful = self._rightful
        for queue in kernel.address_manager.queues.values():
            if rightful.issuperset(queue.consumers):
                continue
            for consumer in queue.consumers:
                owner = consumer.owner
                if isinstance(owner, Session) and owner.principal.user == VISITOR:
                    self.scene.fail(f"{VISITOR} consumes queue {queue.name}, which is forbidden")
                rightful.add(consumer)

    def check_now(self) -> None:
        """Check every message of every queue."""
        node = self.broker.node
        if node is None:
            return
        manager = node.kernel.address_manager
        for name in (*manager.queues, *manager.addresses):
            if name.startswith(STOLEN):
                self.scene.fail(f"{VISITOR} has created {name}, which is forbidden")
        for queue in manager.queues.values():
            for key in _keys_in(queue):
                if key.startswith(VISITOR) and (queue.name != INTAKE or key in self._forbidden):
                    self.scene.fail(f"{key} is in queue {queue.name}, and must not have been sent")

    def check_at_the_end(self) -> None:
        """Check that what was permitted and confirmed is there."""
        node = self.broker.node
        assert node is not None, "the broker runs in the end"
        self.check_now()
        found = set(_keys_in(node.kernel.address_manager.queues[INTAKE]))
        missing = [key for key in self._permitted if key not in found]
        if missing:
            self.scene.fail(f"{VISITOR} may send to {INTAKE}, and {missing[:5]} are missing there")


def _keys_in(queue: Queue) -> list[str]:
    references = list(queue.undelivered())
    for consumer in queue.consumers:
        references.extend(consumer.unsettled.values())
    return [str(reference.message.property("key")) for reference in references]
