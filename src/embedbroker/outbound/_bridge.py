"""A bridge: it moves the messages of one queue to an address of another broker, over as many connections as it takes.

Responsible for its states, for attempts and the pauses between them, and for the waits of a stop. Does not depend on
the packets of a connection, and on what is done to a message.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from embedbroker.config import BridgeConfig
from embedbroker.kernel import Kernel, Service
from embedclient.agent import Session
from embedclient.engine import ConnectionDialer
from embedclient.model import Instant

from ._bridge_consumer import BridgeConsumer
from ._bridge_link import BridgeLink
from ._bridged_message import Forwarding
from ._target import BridgeTarget

__all__ = ["TRANSITIONS", "Bridge", "BridgeOwner", "BridgeState"]


class BridgeState(Enum):
    """List the states of a bridge, with the names of Artemis."""

    STOPPED = "STOPPED"
    #: It has had no connection since it was started.
    STARTING = "STARTING"
    #: It has, or had, a connection.
    STARTED = "STARTED"
    #: It waits for confirmations.
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    #: It waits for confirmations.
    STOPPING = "STOPPING"

    # By identity: that of `Enum` is a call in Python for each look at a table of states.
    __hash__ = object.__hash__


TRANSITIONS: Final[dict[BridgeState, tuple[BridgeState, ...]]] = {
    BridgeState.STOPPED: (BridgeState.STARTING,),
    BridgeState.STARTING: (BridgeState.STARTED, BridgeState.PAUSING, BridgeState.STOPPING),
    BridgeState.STARTED: (BridgeState.PAUSING, BridgeState.STOPPING),
    BridgeState.PAUSING: (BridgeState.PAUSED,),
    BridgeState.PAUSED: (BridgeState.STARTING, BridgeState.STOPPING),
    BridgeState.STOPPING: (BridgeState.STOPPED,),
}

_ACTIVE: Final = (BridgeState.STARTING, BridgeState.STARTED)
# A connection that lasts so long is of use, also without messages, in seconds.
_OF_USE_AFTER_S: Final = 60.0
_WAITING: Final = {BridgeState.PAUSING: BridgeState.PAUSED, BridgeState.STOPPING: BridgeState.STOPPED}


class BridgeOwner(Protocol):
    """The owner of a bridge: it is informed of what happens to it."""

    def on_started(self) -> None:
        """Note the start, perhaps without a connection yet."""

    def on_stopped(self, state: str) -> None:
        """Note a stop or a pause, by the name of the state."""

    def on_connected(self, link: BridgeLink, session: Session) -> None:
        """Use a connection that is ready, and its session, beside the bridge."""

    def on_disconnected(self, link: BridgeLink, now: Instant) -> None:
        """Handle the end of a connection, or of an attempt: it may end the bridge."""

    def on_given_up(self, attempts: int, reason: str, now: Instant) -> None:
        """Handle the end of all attempts."""


class _Lines:
    """The lines of the log about the connection: one for each reason, because attempts repeat.

    The same reason is news again after a connection that was of use: it lasted, or messages were confirmed. A target
    that refuses the first message of each connection is no news.
    """

    def __init__(self, name: str, kernel: Kernel) -> None:
        self._name = name
        self._kernel = kernel
        self._reason: str | None = None
        # Whether a line about the end of the connection precedes, and when the connection began and with which count.
        self._is_connection_news = True
        self._connected_at: float | None = None
        self._count = 0

    def on_connected(self, peer: str, count: int) -> None:
        """Log a connection, unless the line about the end of the one before was left out."""
        self._connected_at, self._count = self._kernel.monotonic, count
        if self._is_connection_news:
            self._is_connection_news = False
            self._kernel.inform(f"bridge {self._name!r} is connected to {peer}")

    def on_failed(self, reason: str, count: int) -> None:
        """Log why there is no connection, with the count of confirmed messages."""
        begun, self._connected_at = self._connected_at, None
        was_of_use = begun is not None and (count > self._count or self._kernel.monotonic - begun >= _OF_USE_AFTER_S)
        if reason != self._reason or was_of_use:
            self._reason = reason
            self._is_connection_news = True
            self._kernel.log(f"bridge {self._name!r} is not connected, and tries again: {reason}")


class Bridge:
    """One bridge, with at most one connection.

    Args:
        config: The bridge, for one connection.
        kernel: Kernel of this broker.
        forwarding: Makes the messages that it sends.
        target: The other broker.
        dialer: Opens connections.
        owner: Observes it.
        active: Receives the bridge when it has output, or work for `run`.
    """

    def __init__(
        self,
        config: BridgeConfig,
        kernel: Kernel,
        forwarding: Forwarding,
        target: BridgeTarget,
        dialer: ConnectionDialer,
        owner: BridgeOwner,
        active: dict[object, None],
    ) -> None:
        self.config = config
        self.name = config.name
        self.state = BridgeState.STOPPED
        self._kernel = kernel
        self._target = target
        self._dialer = dialer
        self._owner = owner
        self._active = active
        self._consumer = BridgeConsumer(kernel, config, forwarding, self)
        self._link: BridgeLink | None = None
        # True while `run` works: at its end it passes on all output of the connection.
        self._runs = False
        # The deadline of the connection as `next_deadline` found it last.
        self._link_due: float | None = None
        # The next attempt, and the end of a wait for confirmations, in monotonic seconds.
        self._due: float | None = None
        self._pause_ms: float = config.retry_interval_ms
        self._attempts = 0
        self._has_connected = False
        self._lines = _Lines(config.name, kernel)

    # -- for management ------------------------------------------------------------------------------------------

    @property
    def is_started(self) -> bool:
        """Return True if it is started, with a connection or without."""
        return self.state in _ACTIVE

    @property
    def is_connected(self) -> bool:
        """Return True if it has a connection and sends."""
        return self._link is not None and self._link.is_connected

    @property
    def pending_count(self) -> int:
        """Return the number of messages that were sent and are not confirmed."""
        return len(self._consumer.pending)

    @property
    def acknowledged_count(self) -> int:
        """Return the number of messages that the other broker has confirmed."""
        return self._consumer.acknowledged_count

    def start(self) -> str | None:
        """Start, or try again after giving up; return why that is not possible now."""
        if self.state in _WAITING:
            return f"bridge {self.name!r} is {self.state.value}: start it when that is over"
        if self.state not in _ACTIVE:
            self._enter(BridgeState.STARTING)
            self._owner.on_started()
        if self._link is None and self._due is None:
            self._begin_series()
        return None

    def stop(self) -> str | None:
        """Stop when what was sent is confirmed, or after ``pending_ack_timeout_ms``; return why that is not possible.

        The other broker may have what is not confirmed by then; it drops the repetition.
        """
        if self.state is BridgeState.PAUSING:
            return f"bridge {self.name!r} is PAUSING: stop it when that is over"
        if self.state not in (BridgeState.STOPPED, BridgeState.STOPPING):
            self._enter(BridgeState.STOPPING)
            self._begin_wait()
        return None

    def pause(self) -> str | None:
        """Pause when what was sent is confirmed, as `stop` does; return why that is not possible."""
        if self.state in (BridgeState.STOPPING, BridgeState.STOPPED):
            return f"bridge {self.name!r} is {self.state.value}: start it instead"
        if self.state in _ACTIVE:
            self._enter(BridgeState.PAUSING)
            self._begin_wait()
        return None

    def resume(self) -> str | None:
        """Start again after a pause; return why that is not possible."""
        if self.state is not BridgeState.PAUSED:
            return f"bridge {self.name!r} is {self.state.value}, not PAUSED"
        return self.start()

    def end(self, now: Instant) -> None:
        """End with its owner: what is not confirmed returns to the queue."""
        self._due = None
        self._drop_link("the bridge ends", now)
        self.state = BridgeState.STOPPED

    def destroy(self, now: Instant) -> None:
        """End for good, while the broker goes on: what is not confirmed returns to the queue."""
        was_stopped = self.state is BridgeState.STOPPED
        self._due = None
        self._drop_link("the bridge is destroyed", now)
        self.state = BridgeState.STOPPED
        if not was_stopped:
            observers = self._kernel.observers
            observers.call(observers.commit.service_stopped, Service.BRIDGE, self.name)
        self._kernel.inform(f"bridge {self.name!r} is destroyed")

    def _enter(self, state: BridgeState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `run` is due, in monotonic seconds."""
        link_due = self._link_due = self._link.next_deadline() if self._link is not None else None
        if self._due is None or link_due is None:
            return link_due if self._due is None else self._due
        return min(self._due, link_due)

    def run(self, now: Instant) -> None:
        """Do what is due, follow the connection, and pass on what was sent."""
        self._runs = True
        self._work(now)
        self._runs = False
        link = self._link
        if link is not None and (link.output_waits or link.failure is not None):
            self.on_output()

    def _work(self, now: Instant) -> None:
        link, due = self._link, self._due
        if link is not None:
            # What has begun since the deadline was computed is due later than now.
            if self._link_due is not None and now.monotonic >= self._link_due:
                link.on_time(now)
            self._consumer.advance()
            link.flush(now)
            if link.failure is not None:
                self._on_lost(link.failure, now)
        if self.state not in _ACTIVE and self.state in _WAITING:
            timed_out = due is not None and now.monotonic >= due
            if timed_out or self._link is None or not self._consumer.pending:
                self._end_wait(now)
        elif self._due is not None and now.monotonic >= self._due and self._link is None:
            self._due = None
            self._attempt(now)

    # -- attempts ------------------------------------------------------------------------------------------------

    def _begin_series(self) -> None:
        """Attempt at once, with all attempts and the shortest pause."""
        self._attempts = 0
        self._pause_ms = self.config.retry_interval_ms
        self._has_connected = False
        self._due = self._kernel.monotonic
        self.on_output()

    def hurry(self) -> None:
        """Attempt at once in place of the rest of a pause: the other broker has announced itself."""
        if self._link is None and self._due is not None and self.state in _ACTIVE:
            self._due = min(self._due, self._kernel.monotonic)
            self.on_output()

    def _attempt(self, now: Instant) -> None:
        self._attempts += 1
        if self.config.queue not in self._kernel.address_manager.queues:
            self._pause_before_retry(f"queue {self.config.queue!r} does not exist; create it", now)
            return
        self._target.begin_attempt(self._attempts)
        if not self._target.connectors:
            group = self.config.discovery_group
            reason = (
                f"no broker has announced itself to discovery group {group!r}" if group else "no connector leads there"
            )
            self._pause_before_retry(reason, now)
            return
        self._link = BridgeLink(self.config, self._target, self._dialer, self)
        self._link.begin(now)

    def _on_lost(self, reason: str, now: Instant) -> None:
        self._drop_link(reason, now)
        if self.state in _ACTIVE:
            self._pause_before_retry(reason, now)

    def _drop_link(self, reason: str, now: Instant) -> None:
        """End the connection. What is not confirmed returns to its place in the queue first."""
        self._consumer.detach()
        link, self._link = self._link, None
        if link is not None:
            link.close(reason, now)
            self._owner.on_disconnected(link, now)

    def _pause_before_retry(self, reason: str, now: Instant) -> None:
        config = self.config
        limit = config.reconnect_attempts if self._has_connected else config.initial_connect_attempts
        if 0 <= limit < self._attempts:
            self._owner.on_given_up(self._attempts, reason, now)
            return
        pause_ms = self._pause_ms
        # Bounded before it is multiplied again: any number of attempts must not overflow.
        longest_ms = max(config.max_retry_interval_ms, config.retry_interval_ms)
        self._pause_ms = min(pause_ms * config.retry_interval_multiplier, longest_ms)
        self._due = now.monotonic + pause_ms / 1000
        self._lines.on_failed(reason, self.acknowledged_count)

    def on_ready(self, link: BridgeLink, session: Session) -> None:
        """Take messages from the queue."""
        refused = self._consumer.attach(link)
        if refused is not None:
            link.fail(refused.text)
            return
        if self.state is BridgeState.STARTING:
            self._enter(BridgeState.STARTED)
        self._attempts = 0
        self._pause_ms = self.config.retry_interval_ms
        self._has_connected = True
        self._target.note_connected(link.agent.node_id, link.agent.connector)
        self._lines.on_connected(link.peer, self.acknowledged_count)
        self._owner.on_connected(link, session)

    def on_received(self) -> None:
        """Acknowledge what was confirmed."""
        self._consumer.settle_confirmed()

    def on_output(self) -> None:
        """Let the node call `run` in this step."""
        self._active[self] = None

    def on_link_output(self) -> None:
        """Let the node call `run` in this step, unless it does now."""
        if not self._runs:
            self._active[self] = None

    def on_confirmed(self) -> None:
        """Let the node call `run`: a stop or a pause may wait for this."""
        self._active[self] = None

    def on_queue_gone(self) -> None:
        """Give the connection up: there is nothing to take. The next attempts wait for the queue."""
        if self._link is not None:
            self._link.fail(f"queue {self.config.queue!r} was deleted")

    # -- stop and pause ------------------------------------------------------------------------------------------

    def _begin_wait(self) -> None:
        self._consumer.stop()
        self._due = self._kernel.monotonic + self.config.pending_ack_timeout_ms / 1000
        self.on_output()

    def _end_wait(self, now: Instant) -> None:
        waited = self._consumer.pending
        if waited:
            self._kernel.log(
                f"bridge {self.name!r}: {len(waited)} messages are not confirmed after "
                f"{self.config.pending_ack_timeout_ms} ms, and return to queue {self.config.queue!r}"
            )
        self._due = None
        state = _WAITING[self.state]
        self._drop_link(f"the bridge is {state.value}", now)
        self._enter(state)
        self._owner.on_stopped(state.value)
