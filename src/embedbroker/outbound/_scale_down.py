"""Scale-down: a broker that leaves for good moves everything it has to another broker first.

Responsible for the choice of the other broker, for attempts and the pauses between them, and for the order of what
moves. Does not depend on how clients are disconnected meanwhile, and on what follows.

1. `begin` connects to a target, and creates the queues there. Clients are still served.
2. The owner disconnects clients, which learn the target, and calls `move`.
3. Messages move, address by address. Each leaves this broker when the target has confirmed it.

A connection that is lost is made again. What was not confirmed is sent again under the same ids for duplicate
detection, so that the same target takes it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from attrs import frozen

from embedbroker.kernel import BRIDGE_ID_PREFIX, Kernel, Queue, common_routing_type, split_id_with_address
from embedclient.agent import Call, LocatorSettings
from embedclient.engine import ConnectionDialer
from embedclient.errors import JMSException
from embedclient.model import Entropy, Instant, RoutingType, TransportConfiguration

from ._address_move import AddressMove, MoveCounts, Route, ToSameQueues
from ._agent_link import AgentLink
from ._branch_move import BranchMove
from ._forwarded_move import STORE_AND_FORWARD, Forwarded
from ._remote_broker import RemoteBroker, RequestRefused, Work
from ._target import ConnectorsTarget

__all__ = ["TRANSITIONS", "ScaleDown", "ScaleDownSettings", "ScaleDownState"]

# How long a target is searched for where none is known yet, and how often.
_SEARCH_S: Final = 10.0
_SEARCH_PAUSE_S: Final = 0.25
# Attempts with one target after its connection was lost, and the pause between them.
_RECONNECT_ATTEMPTS: Final = 10
_RECONNECT_PAUSE_S: Final = 0.5
_CALL_TIMEOUT_MS: Final = 30_000
_SILENCE_S: Final = 30.0
_CHUNK_BYTES: Final = 100 * 1024
_WINDOW_BYTES: Final = 1024 * 1024
_UNLIMITED: Final = 2**31 - 1
# Portions of work in one step.
_PORTIONS_PER_STEP: Final = 64
_IDS_PER_REQUEST: Final = 500
_MULTICAST: Final = 0
_INTERNAL: Final = "$.artemis.internal."


class ScaleDownState(Enum):
    """List the states of a scale-down."""

    NEW = "new"
    #: It searches for a target, or connects to one. Nothing has moved.
    CONNECTING = "connecting"
    #: The target is there, with the queues of this broker.
    READY = "ready"
    MOVING = "moving"
    #: All is over; ``failure`` is the reason if something stays.
    OVER = "over"


TRANSITIONS: Final[dict[ScaleDownState, tuple[ScaleDownState, ...]]] = {
    ScaleDownState.NEW: (ScaleDownState.CONNECTING,),
    ScaleDownState.CONNECTING: (ScaleDownState.READY, ScaleDownState.OVER),
    ScaleDownState.READY: (ScaleDownState.MOVING, ScaleDownState.OVER),
    ScaleDownState.MOVING: (ScaleDownState.OVER,),
    ScaleDownState.OVER: (),
}


@frozen
class ScaleDownSettings:
    """Settings of a scale-down.

    Attributes:
        node: The 16 bytes of this broker's node id.
        user: Name of the login at the target.
        password: Password of the login.
        commit_interval: Messages of one transaction here; -1: a number that is chosen here.
    """

    node: bytes
    user: str
    password: str | None
    commit_interval: int = -1


class ScaleDown:
    """One scale-down of a broker.

    Args:
        kernel: Kernel of this broker.
        settings: Settings.
        find: Returns the brokers that may be the target, the first choice first; none as long as none is known.
        dialer: Opens connections.
        entropy: Random bits for names.
    """

    def __init__(
        self,
        kernel: Kernel,
        settings: ScaleDownSettings,
        find: Callable[[], list[TransportConfiguration]],
        dialer: ConnectionDialer,
        entropy: Entropy,
    ) -> None:
        self.state = ScaleDownState.NEW
        self.counts = MoveCounts()
        self.failure: str | None = None
        self.connector: TransportConfiguration | None = None
        #: Node id of the target, once it is known.
        self.target_node_id: str | None = None
        self._kernel = kernel
        self._settings = settings
        self._find = find
        self._dialer = dialer
        self._entropy = entropy
        self._is_woken = False
        self._link: AgentLink | None = None
        self._remote: RemoteBroker | None = None
        self._work: Iterator[Call[Any] | None] | None = None
        self._waits_for: Call[Any] | None = None
        self._current: AddressMove | BranchMove | None = None
        self._candidates: list[TransportConfiguration] = []
        self._alone: dict[str, bool] = {}
        self._searches_until = 0.0
        # The next attempt; otherwise the moment at which the target has been silent for too long.
        self._due: float | None = None
        self._attempts_left = 0

    # -- the owner -----------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Return True if the target is there, and nothing has moved."""
        return self.state is ScaleDownState.READY

    @property
    def is_over(self) -> bool:
        """Return True if nothing follows."""
        return self.state is ScaleDownState.OVER

    def begin(self, now: Instant) -> None:
        """Search for a target and connect to it; `state` shows the outcome."""
        self._enter(ScaleDownState.CONNECTING)
        self._searches_until = now.monotonic + _SEARCH_S
        self._due = now.monotonic
        self._is_woken = True

    def move(self, now: Instant) -> None:
        """Move everything: no client is connected any more."""
        self._enter(ScaleDownState.MOVING)
        self._attempts_left = _RECONNECT_ATTEMPTS
        if self._link is None or self._link.failure is not None:
            self._due = now.monotonic
        else:
            self._begin_work(self._move_all(), now)
        self._is_woken = True

    def end(self, reason: str, now: Instant) -> None:
        """End it in any state: what is not confirmed stays here."""
        if self.state is not ScaleDownState.OVER:
            self._drop_link(reason, now)
            self._finish(reason)

    def _enter(self, state: ScaleDownState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state

    def _finish(self, failure: str | None) -> None:
        self.failure = failure
        self._due = None
        self.state = ScaleDownState.OVER

    def wake(self) -> None:
        """Let the node call `run` in this step."""
        self._is_woken = True

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` is due, in monotonic seconds; the present moment if work was left."""
        if self.state is ScaleDownState.OVER:
            return None
        if self._is_woken:
            return now.monotonic
        link_due = self._link.next_deadline() if self._link is not None else None
        return min([due for due in (link_due, self._due) if due is not None], default=None)

    def run(self, now: Instant) -> None:
        """Do what is due, and a portion of the work."""
        self._is_woken = False
        link = self._link
        if link is not None:
            link.on_time(now)
            if link.failure is not None:
                self._on_lost(link.failure, now)
        if self._work is not None and self._link is not None:
            self._advance(now)
        if self._link is not None:
            self._link.flush(now)
        if self._due is not None and now.monotonic >= self._due:
            self._due = None
            if self._work is None:
                self._attempt(now)
            else:
                self._on_lost(f"it has answered nothing for {_SILENCE_S:g} s", now)

    def _begin_work(self, work: Work[None], now: Instant) -> None:
        self._work, self._waits_for = work, None
        self._due = now.monotonic + _SILENCE_S
        self.wake()

    def _advance(self, now: Instant) -> None:
        """Run portions of the work, as far as its calls are done."""
        work = self._work
        assert work is not None
        for _ in range(_PORTIONS_PER_STEP):
            if self._waits_for is not None and not self._waits_for.done:
                return
            self._due = now.monotonic + _SILENCE_S
            try:
                call = self._waits_for = next(work)
            except StopIteration:
                self._work = None
                self._on_done(now)
                return
            except JMSException as error:
                self._on_lost(str(error), now)
                return
            if call is not None:
                call.when_done(self.wake)
        self.wake()

    # -- attempts ------------------------------------------------------------------------------------------------

    def _attempt(self, now: Instant) -> None:
        connector = self.connector if self.state is ScaleDownState.MOVING else self._next_candidate(now)
        if connector is None:
            return
        settings = self._settings
        target = ConnectorsTarget([connector], settings.user, settings.password, self._entropy)
        link = self._link = AgentLink(_LOCATOR, target, self._dialer, self.wake)
        link.begin(now)
        self.connector = connector
        self._remote = RemoteBroker(link.agent, settings.user, settings.password)
        self._begin_work(self._move_all() if self.state is ScaleDownState.MOVING else self._prepare(), now)

    def _next_candidate(self, now: Instant) -> TransportConfiguration | None:
        if not self._candidates:
            self._candidates = self._find()
        if self._candidates:
            return self._candidates.pop(0)
        if now.monotonic >= self._searches_until:
            self._finish("no other broker is known that could get the messages")
        else:
            self._due = now.monotonic + _SEARCH_PAUSE_S
        return None

    def _on_lost(self, reason: str, now: Instant) -> None:
        """Handle a target that cannot be used, or is lost. Another one follows only if nothing has moved."""
        self._drop_link(reason, now)
        assert self.connector is not None
        name = self.connector.name or "the other broker"
        self._kernel.log(f"scale-down to {name}: {reason}")
        if self.state is ScaleDownState.MOVING and self._attempts_left:
            self._attempts_left -= 1
            self._due = now.monotonic + _RECONNECT_PAUSE_S
        elif self.state is ScaleDownState.CONNECTING and self._candidates:
            self._due = now.monotonic
        elif self.state is ScaleDownState.READY:
            # `move` connects again.
            self._due = None
        else:
            self._finish(reason)

    def _drop_link(self, reason: str, now: Instant) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.give_back()
        self._work = self._waits_for = None
        link, self._link = self._link, None
        if link is not None:
            link.close(reason, now)

    def _on_done(self, now: Instant) -> None:
        if self.state is ScaleDownState.CONNECTING:
            self._due = None
            self._enter(ScaleDownState.READY)
            return
        counts = self.counts
        stays = f"{counts.kept} messages stay here: {counts.reason}" if counts.kept else None
        self._drop_link("the broker has scaled down", now)
        self._finish(stays)

    # -- what moves ----------------------------------------------------------------------------------------------

    def _prepare(self) -> Work[None]:
        """Create the queues at the target, so that clients find them there."""
        remote = self._remote
        assert remote is not None
        yield from remote.open()
        if remote.node_id is not None and remote.node_id.replace("-", "") == self._settings.node.hex():
            raise JMSException("this is the broker itself: name another one")
        self.target_node_id = remote.node_id
        for queue in self._queues():
            yield from remote.queue_id(queue.definition)
            yield None

    def _move_all(self) -> Work[None]:
        remote = self._remote
        assert remote is not None
        if not remote.is_open:
            yield from remote.open()
        by_address: dict[str, list[Queue]] = {}
        for queue in self._queues():
            by_address.setdefault(queue.definition.address, []).append(queue)
        settings = self._settings
        route = Route(settings.node, _CHUNK_BYTES, settings.commit_interval)
        # First, because what clients and other members have sent here arrives there again, as soon as they go there.
        takes_ids = yield from self._move_duplicate_ids(remote)
        for address, queues in by_address.items():
            uses_ids_of_clients = not takes_ids and self._is_alone(address)
            composer = ToSameQueues(address, remote, settings.node, uses_ids_of_clients=uses_ids_of_clients)
            yield from self._carry_out(AddressMove(self._kernel, queues, composer, remote, route, self.counts))
        yield from self._carry_out(BranchMove(self._kernel, remote, route, self.counts))
        for queue in list(self._kernel.address_manager.queues.values()):
            if queue.name.startswith(STORE_AND_FORWARD) and queue.message_count:
                forwarded = Forwarded(queue.name, settings.node, self.target_node_id)
                yield from self._carry_out(AddressMove(self._kernel, [queue], forwarded, remote, route, self.counts))
        if takes_ids:
            # They were the oldest there by now, and the first to be forgotten.
            yield from self._move_duplicate_ids(remote)

    def _is_alone(self, name: str) -> bool:
        """Return True if an address has one queue only; the same for each attempt, although queues get empty."""
        if name not in self._alone:
            addresses = self._kernel.address_manager
            address = addresses.addresses.get(name)
            self._alone[name] = (
                address is not None and len(address.queues) == 1 and not addresses.resolution.is_wild(name)
            )
        return self._alone[name]

    def _carry_out(self, move: AddressMove | BranchMove) -> Work[None]:
        self._current = move
        yield from move.work()
        self._current = None

    def _move_duplicate_ids(self, remote: RemoteBroker) -> Work[bool]:
        """Let the target know the duplicate ids that are in force here: those of clients, and those of bridges.

        Return False if it refuses them.
        """
        for address_name, anycast, values in self._duplicate_ids():
            yield from remote.ensure_address(address_name, anycast=anycast)
            of_bridges = [value for value in values if value.startswith(BRIDGE_ID_PREFIX)]
            of_clients = [value for value in values if not value.startswith(BRIDGE_ID_PREFIX)]
            name = BRIDGE_ID_PREFIX.decode() + address_name
            plain = [value.removeprefix(BRIDGE_ID_PREFIX) for value in of_bridges]
            for cache_name, ids in ((name, plain), (address_name, of_clients)):
                if not (yield from self._send_ids(remote, cache_name, ids)):
                    return False
        return True

    def _duplicate_ids(self) -> list[tuple[str, bool, list[bytes]]]:
        """Return each address that messages were sent to, whether it is anycast, and its ids, the oldest first."""
        manager = self._kernel.address_manager
        found: list[tuple[str, bool, list[bytes]]] = []
        elsewhere: dict[str, list[bytes]] = {}
        for address in manager.addresses.values():
            values = list(address.duplicate_ids.numbers) if address.duplicate_ids is not None else []
            if address.name.startswith(STORE_AND_FORWARD):
                # It keeps those of addresses that other members have, and this broker has not.
                for name, value in filter(None, map(split_id_with_address, values)):
                    elsewhere.setdefault(name, []).append(value)
            elif values and not address.name.startswith(_INTERNAL):
                found.append((address.name, address.definition.anycast, values))
        for name, values in elsewhere.items():
            bindings, settings = manager.remote_bindings_of(name), self._kernel.settings.of(name)
            found.append((name, common_routing_type(bindings, None, settings) == RoutingType.ANYCAST, values))
        return found

    def _send_ids(self, remote: RemoteBroker, cache: str, values: list[bytes]) -> Work[bool]:
        for start in range(0, len(values), _IDS_PER_REQUEST):
            portion = values[start : start + _IDS_PER_REQUEST]
            # Each byte that is no UTF-8 becomes half of a pair, which a broker of this project turns back.
            texts: list[object] = [value.decode("utf-8", "surrogateescape") for value in portion]
            try:
                yield from remote.manage("broker", operation="updateDuplicateIdCache", arguments=[cache, texts])
            except RequestRefused as refusal:
                # Artemis 2.44 does. The ids of messages that moved are in force there all the same.
                self._kernel.inform(f"scale-down: the other broker takes no duplicate ids of {cache!r}: {refusal}")
                return False
        return True

    def _queues(self) -> list[Queue]:
        """Return the queues that move: those with messages, and durable subscriptions, which must miss nothing."""
        return [
            queue
            for queue in self._kernel.address_manager.queues.values()
            if not queue.definition.temporary
            and not queue.name.startswith(_INTERNAL)
            and (queue.message_count or queue.pledged or queue.consumers or (queue.durable and _is_multicast(queue)))
        ]


def _is_multicast(queue: Queue) -> bool:
    return queue.definition.routing_type == _MULTICAST


_LOCATOR: Final = LocatorSettings(
    call_timeout_ms=_CALL_TIMEOUT_MS,
    confirmation_window_size=_WINDOW_BYTES,
    producer_window_size=_WINDOW_BYTES,
    min_large_message_size=_CHUNK_BYTES,
    # The window of a move is the limit.
    pending_requests_max=_UNLIMITED,
    block_on_durable_send=False,
    pre_acknowledge=True,
)
