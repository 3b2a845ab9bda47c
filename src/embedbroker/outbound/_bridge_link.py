"""One attempt of a bridge to reach the other broker, and the connection that comes of it, over the client's agent.

Responsible for the opening (connection, session, query of the forwarding address, producer), for further sessions, and
for passing bytes between the agent and the connection. Does not depend on queues, and on what follows a failure.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from embedbroker.config import BridgeConfig
from embedclient.agent import (
    Agent,
    Call,
    ConnectionFailed,
    CoreMessage,
    LocatorSettings,
    Notification,
    Producer,
    Session,
    Upload,
)
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
    TransportOutput,
    Written,
)
from embedclient.errors import ErrorCode
from embedclient.model import Instant

from ._target import Target

__all__ = ["BridgeLink", "Departure", "LinkOwner"]

_UNLIMITED = 2**31 - 1


@frozen
class Departure:
    """Report that the other broker has ended the connection because it stops.

    Args:
        scale_down_target: Node id of the broker that gets its messages; None without one.
    """

    scale_down_target: str | None


class LinkOwner(Protocol):
    """The owner of a link."""

    def on_output(self) -> None:
        """Note that `BridgeLink.flush` must be called in this step."""

    def on_ready(self, link: BridgeLink) -> None:
        """Send messages from now on."""


class BridgeLink:
    """A connection of a bridge from the dial to its end. ``failure`` is set once it is of no use any more."""

    def __init__(self, config: BridgeConfig, target: Target, dialer: ConnectionDialer, owner: LinkOwner) -> None:
        self.failure: str | None = None
        #: Set with the failure if the other broker announced its end.
        self.departure: Departure | None = None
        self.peer = ""
        self._config = config
        self._target = target
        self._dialer = dialer
        self._owner = owner
        self._agent = Agent(_settings(config, target), target.connectors, _InOrder(), target.entropy, target.topology)
        self._agent.on_notification = _FailureListener(self)
        self._producer: Producer | None = None
        # The number that the agent has given to its connection, and that of the node for the same one.
        self._local = 0
        self._number: int | None = None
        self._pipe: Pipe | None = None

    @property
    def is_connected(self) -> bool:
        """Return True if messages can be sent."""
        return self._producer is not None and self.failure is None

    @property
    def place(self) -> str:
        """Return host and port of the other broker."""
        connector = self._agent.connector
        return f"{connector.host}:{connector.port_text}" if connector is not None else ""

    def begin(self, now: Instant) -> None:
        """Dial."""
        # Outputs that come of this bear the time of the step.
        self._step(Tick(), now)
        call = self.open_session()
        call.when_done(lambda: self._on_session(call))
        self.flush(now)

    def open_session(self) -> Call[Session]:
        """Open a session beside those of before, with the same login."""
        self._owner.on_output()
        return self._agent.create_session(
            username=self._target.user,
            password=self._target.password,
            pre_acknowledge=True,
            client_id=self._config.client_id,
        )

    def _on_session(self, call: Call[Session]) -> None:
        refusal = str(call.error) if call.error is not None else self._target.refusal(self._agent.node_id)
        if refusal is not None:
            self.fail(refusal)
            return
        session, address = call.result, self._config.forwarding_address
        if address is None:
            self._open(session)
            return
        query = session.addressing.query_address(address)

        def answered() -> None:
            if query.error is not None:
                self.fail(str(query.error))
            elif not query.result.exists:
                self.fail(f"the other broker has no address {address!r}; create it there")
            else:
                self._open(session)

        query.when_done(answered)

    def _open(self, session: Session) -> None:
        if self.failure is None:
            self._producer = session.create_producer(None)
            connector = self._agent.connector
            self.peer = connector.name if connector is not None else ""
            self._owner.on_ready(self)

    def send(self, message: CoreMessage) -> Call[None]:
        """Send a message. The call is done when the other broker has confirmed it."""
        assert self._producer is not None
        self._owner.on_output()
        if self._config.use_duplicate_detection:
            return self._producer.send_confirmed(message)
        return self._producer.send(message)

    def open_upload(self, header: CoreMessage) -> Upload:
        """Begin a large message.

        Raises:
            JMSException: Its headers are too long, or the connection is over.
        """
        assert self._producer is not None
        self._owner.on_output()
        return self._producer.open_upload(header, confirmed=self._config.use_duplicate_detection)

    def fail(self, reason: str) -> None:
        """Give the connection up. The first reason counts."""
        if self.failure is None:
            self.failure = reason
            self._owner.on_output()

    def close(self, reason: str, now: Instant) -> None:
        """End the connection at once. Calls that are not done fail."""
        self.fail(reason)
        self._agent.abort(reason)
        self.flush(now)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds."""
        return self._agent.next_deadline()

    def on_time(self, now: Instant) -> None:
        """Run what is due: pings, time-outs of calls."""
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

    def _step(self, input: Tick | Dialed | DialFailed | BytesReceived | Written | PeerClosed, now: Instant) -> None:
        self._carry_out(self._agent.step(input, now))
        self._owner.on_output()

    def flush(self, now: Instant) -> None:
        """Pass on what was sent since the last call."""
        self._carry_out(self._agent.take_outputs(now))

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

    def __init__(self, link: BridgeLink) -> None:
        self._link = link

    def __call__(self, notification: Notification) -> None:
        if isinstance(notification, ConnectionFailed):
            if notification.error.error_code == ErrorCode.DISCONNECTED:
                self._link.departure = Departure(notification.scale_down_target)
            self._link.fail(str(notification.error))


def _settings(config: BridgeConfig, target: Target) -> LocatorSettings:
    blocks = not config.use_duplicate_detection
    return LocatorSettings(
        call_timeout_ms=target.call_timeout_ms,
        call_failover_timeout_ms=target.call_failover_timeout_ms,
        client_failure_check_period_ms=config.check_period_ms,
        connection_ttl_ms=config.connection_ttl_ms,
        ha=config.ha,
        producer_window_size=config.producer_window_size,
        confirmation_window_size=config.confirmation_window_size,
        min_large_message_size=config.min_large_message_size,
        # The credit of the bridge's consumer is the limit.
        pending_requests_max=_UNLIMITED,
        block_on_durable_send=blocks,
        block_on_non_durable_send=blocks,
        pre_acknowledge=True,
    )
