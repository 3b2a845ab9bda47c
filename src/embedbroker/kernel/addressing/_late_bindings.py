"""Queues one broker further, of which a broker of a cluster learns after its start, and messages that wait for them.

Responsible for how long a message waits that another broker sent for such a queue. Does not depend on bridges, or on
how news of queues arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .._clock import Clock
from ..message._message import Message
from ._addresses import AddressManager
from ._cluster_groups import RoutingUndecided
from ._remote_binding import RemoteBinding, group_of

__all__ = ["LateBindings"]

_WAIT_S: Final = 5.0
# A neighbour believes in a way over this broker for five seconds after it has connected again.
_WAIT_FOR_NEIGHBOUR_S: Final = 7.0


class LateBindings:
    """One instance per broker. Without `begin` nothing waits.

    ``ready`` has the actions of messages that may be tried again, which the owner runs at its next turn.
    """

    __slots__ = ("_addresses", "_clock", "_neighbour_until_s", "_until_s", "ready", "waiting")

    def __init__(self, addresses: AddressManager, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock
        self._until_s = self._neighbour_until_s = 0.0
        self.waiting: list[Callable[[], None]] = []
        self.ready: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Let messages wait from now on, for some seconds: the broker is live, and connects to its neighbours."""
        self._until_s = self._clock.monotonic + _WAIT_S
        self._neighbour_until_s = self._clock.monotonic + _WAIT_FOR_NEIGHBOUR_S

    def check(self, message: Message, ids: frozenset[int], sender: bytes | None) -> None:
        """Check that the bindings are known that another broker has chosen for a message.

        A way back to that broker does not count. If both have it from each other, messages would go back and forth, and
        some of a group would overtake others. Then the other broker forgets it, or it learns of a way round in a ring.

        Args:
            message: Message that came over a bridge of the cluster.
            ids: Ids of the chosen bindings.
            sender: The 16 bytes of the node id of that broker; None if they are unknown.

        Raises:
            RoutingUndecided: One is a queue one broker further, and the time to wait for it is not over.
        """
        now = self._clock.monotonic
        if now >= self._neighbour_until_s:
            return
        further = frozenset([each for each in ids if group_of(each) is not None])
        if not further:
            return
        address = self._addresses.resolution.find(message.address)
        known = address.chosen(further)[1] if address is not None else ()
        if any(each.leads_over(sender) for each in known) or (len(known) < len(further) and now < self._until_s):
            raise RoutingUndecided(self.waiting.append)

    def on_binding(self, _binding: RemoteBinding, _binding_id: int) -> None:
        """Let what waits be tried again. Observes `CommitObserver.remote_binding_added`."""
        self.ready += self.waiting
        self.waiting.clear()

    @property
    def next_deadline_s(self) -> float | None:
        """Return when `run` is due, in monotonic seconds; None for never."""
        now = self._clock.monotonic
        if self.ready:
            return now
        if not self.waiting:
            return None
        return self._until_s if now < self._until_s else self._neighbour_until_s

    def run(self, now_s: float) -> None:
        """Run the actions of messages that may be tried again."""
        if now_s >= self._until_s:
            self.ready += self.waiting
            self.waiting.clear()
        # One that waits again is not tried twice.
        ready = self.ready[:]
        self.ready.clear()
        for action in ready:
            action()
