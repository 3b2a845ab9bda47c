"""One attempt of a bridge to reach the other broker, and the connection that comes of it, over the client's agent.

Responsible for the opening: connection, session, query of the forwarding address, producer. Does not depend on queues,
and on what follows a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from embedbroker.config import BridgeConfig
from embedclient.agent import Call, CoreMessage, LocatorSettings, Producer, Receipt, Session, Upload
from embedclient.engine import ConnectionDialer
from embedclient.model import Instant

from ._agent_link import AgentLink
from ._target import Target

__all__ = ["NOTIFICATIONS_BYTES", "BridgeLink", "LinkOwner"]

_UNLIMITED = 2**31 - 1
#: The notifications of another broker that one step has to apply.
NOTIFICATIONS_BYTES = 64 * 1024


class LinkOwner(Protocol):
    """The owner of a link."""

    def on_link_output(self) -> None:
        """Note that `BridgeLink.flush` must be called in this step."""

    def on_ready(self, link: BridgeLink, session: Session) -> None:
        """Send messages from now on."""

    def on_received(self) -> None:
        """Handle that receipts may have their outcomes."""


class BridgeLink(AgentLink):
    """A connection of a bridge from the dial to its end. ``failure`` is set once it is of no use any more."""

    def __init__(self, config: BridgeConfig, target: Target, dialer: ConnectionDialer, owner: LinkOwner) -> None:
        super().__init__(_settings(config, target), target, dialer, owner.on_link_output)
        self.peer = ""
        self._config = config
        self._target = target
        self._owner = owner
        self._producer: Producer | None = None

    @property
    def is_connected(self) -> bool:
        """Return True if messages can be sent."""
        return self._producer is not None and self.failure is None

    @property
    def place(self) -> str:
        """Return host and port of the other broker."""
        connector = self.agent.connector
        return f"{connector.host}:{connector.port_text}" if connector is not None else ""

    def begin(self, now: Instant) -> None:
        """Dial, and open a session."""
        super().begin(now)
        call = self.agent.create_session(
            username=self._target.user,
            password=self._target.password,
            pre_acknowledge=True,
            client_id=self._config.client_id,
            early=True,
        )
        call.when_done(lambda: self._on_session(call))
        self.flush(now)

    def _on_session(self, call: Call[Session]) -> None:
        refusal = str(call.error) if call.error is not None else self._target.refusal(self.agent.node_id)
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
            connector = self.agent.connector
            self.peer = connector.name if connector is not None else ""
            self._owner.on_ready(self, session)

    def receive(self, data: bytes, now: Instant) -> None:
        super().receive(data, now)
        self._owner.on_received()

    @property
    def is_clear(self) -> bool:
        """Return True if nothing waits in front of a message that is sent now."""
        return self._producer is not None and self._producer.is_clear

    def send_run(self, address: str, messages: Sequence[bytes | bytearray], receipts: Sequence[Receipt]) -> int:
        """Send the first of these messages to an address, as many as may leave now; return how many.

        Their receipts get the outcomes when the other broker has confirmed them.

        Raises:
            JMSException: The first one cannot be sent; its receipt gets nothing.
        """
        assert self._producer is not None
        if self._config.use_duplicate_detection:
            return self._producer.send_run(address, messages, receipts)
        receipt = receipts[0]
        call = self._producer.send(CoreMessage.parse(bytearray(messages[0])))
        if call.error is not None:
            raise call.error
        call.when_done(lambda: receipt.succeed(None) if call.error is None else receipt.fail(call.error))
        return 1

    def send_request(self, request: CoreMessage) -> Call[None]:
        """Send one short message to the other broker itself, beside those of the bridge."""
        assert self._producer is not None
        return self._producer.send_without_credits(request)

    def open_upload(self, header: CoreMessage) -> Upload:
        """Begin a large message.

        Raises:
            JMSException: Its headers are too long, or the connection is over.
        """
        assert self._producer is not None
        self.wake()
        return self._producer.open_upload(header, confirmed=self._config.use_duplicate_detection)


def _settings(config: BridgeConfig, target: Target) -> LocatorSettings:
    return _settings_of(
        target.call_timeout_ms,
        config.check_period_ms,
        config.connection_ttl_ms,
        config.producer_window_size,
        config.confirmation_window_size,
        config.min_large_message_size,
        ha=config.ha,
        blocks=not config.use_duplicate_detection,
    )


@lru_cache(64)
def _settings_of(
    call_timeout_ms: int,
    check_period_ms: int,
    connection_ttl_ms: int,
    producer_window_size: int,
    confirmation_window_size: int,
    min_large_message_size: int,
    *,
    ha: bool,
    blocks: bool,
) -> LocatorSettings:
    """Return the settings of a connection, checked once: all bridges of a cluster have the same."""
    return LocatorSettings(
        call_timeout_ms=call_timeout_ms,
        client_failure_check_period_ms=check_period_ms,
        connection_ttl_ms=connection_ttl_ms,
        ha=ha,
        # An agent requests half of this at a time. The next request leaves while the one before is used up.
        producer_window_size=max(2 * producer_window_size, -1),
        confirmation_window_size=confirmation_window_size,
        consumer_window_size=NOTIFICATIONS_BYTES,
        min_large_message_size=min_large_message_size,
        # The credit of the bridge's consumer is the limit.
        pending_requests_max=_UNLIMITED,
        block_on_durable_send=blocks,
        block_on_non_durable_send=blocks,
        pre_acknowledge=True,
    )
