"""An agent of the client over a connection that this broker opens, for parts that make requests at another broker.

Responsible for passing bytes between the agent and the connection, for its timed work, and for noting its end. Does not
depend on the requests.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from embedclient.agent import Agent, ConnectionFailed, LocatorSettings, Notification
from embedclient.engine import (
    BytesReceived,
    CloseConnection,
    ConnectionDialer,
    Dial,
    Dialed,
    DialFailed,
    PeerClosed,
    Pipe,
    SendBytes,
    Tick,
    TransportInput,
    TransportOutput,
    Written,
)
from embedclient.errors import ErrorCode
from embedclient.model import Instant

from ._target import Target

__all__ = ["AgentLink", "Departure"]


@frozen
class Departure:
    """Report that the other broker has ended the connection because it stops.

    Args:
        scale_down_target: Node id of the broker that gets its messages; None without one.
    """

    scale_down_target: str | None


class _InOrder:
    """Choose the connectors in their order."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, count: int) -> int:
        chosen = self._next % count
        self._next += 1
        return chosen


class _FailureListener:
    """Receive the notifications of an agent."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def __call__(self, notification: Notification) -> None:
        if isinstance(notification, ConnectionFailed):
            if notification.error.error_code == ErrorCode.DISCONNECTED:
                self._link.departure = Departure(notification.scale_down_target)
            self._link.fail(str(notification.error))


class _OutputListener:
    """Note the output of an agent outside of its steps."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def __call__(self) -> None:
        self._link.output_waits = True
        self._link.wake()


class AgentLink:
    """One agent from the dial to its end. ``failure`` is set once its connection is lost for good.

    Args:
        settings: Settings of the agent.
        target: The other broker.
        dialer: Opens the connection.
        wake: Called when the link has output, or when one of its calls may be done.
    """

    def __init__(
        self, settings: LocatorSettings, target: Target, dialer: ConnectionDialer, wake: Callable[[], None]
    ) -> None:
        self.failure: str | None = None
        #: Set with the failure if the other broker announced its end.
        self.departure: Departure | None = None
        self.agent = Agent(settings, target.connectors, _InOrder(), target.entropy, target.topology)
        self.agent.on_notification = _FailureListener(self)
        self.agent.on_output = _OutputListener(self)
        #: Whether requests outside of a step of the agent have made output.
        self.output_waits = False
        self._dialer = dialer
        self.wake = wake
        # The number that the agent has given to its connection, and that of the node for the same one.
        self._local = 0
        self._number: int | None = None
        self._pipe: Pipe | None = None

    def begin(self, now: Instant) -> None:
        """Let the agent know the time. Requests may follow."""
        self._step(Tick(), now)

    def fail(self, reason: str) -> None:
        """Note that the connection is of no use any more. The first reason counts."""
        if self.failure is None:
            self.failure = reason
            self.wake()

    def close(self, reason: str, now: Instant) -> None:
        """End the connection at once. Calls that are not done fail."""
        self.fail(reason)
        # The other broker would keep sessions, with their queues, until their time to live is over.
        self.agent.abort(reason, closes_sessions=True)
        self.flush(now)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds."""
        return self.agent.next_deadline()

    def on_time(self, now: Instant) -> None:
        """Run what is due: pings, time-outs of calls."""
        due = self.agent.next_deadline()
        if due is not None and now.monotonic >= due:
            self._step(Tick(), now)

    # -- the connection ------------------------------------------------------------------------------------------

    def opened(self, pipe: Pipe, now: Instant) -> None:
        self._pipe = pipe
        self._step(Dialed(self._local), now)

    def not_opened(self, reason: str, now: Instant) -> None:
        self._number = None
        self._step(DialFailed(self._local, reason), now)

    def receive(self, data: bytes, now: Instant) -> None:
        self._step(BytesReceived(self._local, data), now)

    def written(self, count: int, now: Instant) -> None:
        self._step(Written(self._local, count), now)

    def lost(self, reason: str, now: Instant) -> None:
        self._number = self._pipe = None
        self._step(PeerClosed(self._local, reason), now)

    def _step(self, input: TransportInput, now: Instant) -> None:
        self.output_waits = False
        self._carry_out(self.agent.step(input, now))
        self.wake()

    def flush(self, now: Instant) -> None:
        """Pass on what was requested since the last call."""
        if self.output_waits:
            self.output_waits = False
            self._carry_out(self.agent.take_outputs(now))

    def _carry_out(self, outputs: list[TransportOutput]) -> None:
        for output in outputs:
            match output:
                case Dial():
                    self._local = output.connection
                    self._number = self._dialer.dial(self, output.connector, output.timeout_s)
                case SendBytes():
                    if self._pipe is not None and output.connection == self._local:
                        self._pipe.write(output.data)
                case CloseConnection():
                    self._hang_up(output.reason)

    def _hang_up(self, reason: str) -> None:
        pipe, number = self._pipe, self._number
        self._pipe = self._number = None
        if pipe is not None:
            pipe.close(reason)
        elif number is not None:
            self._dialer.hang_up(number)
