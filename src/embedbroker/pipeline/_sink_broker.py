"""The sink's connection: opened by its options, tuned for many sends, and the destinations of rows.

Responsible for settings, and for creating missing destinations where the broker allows it. Does not depend on rows or
batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from embedclient.blocking import ClientSession, ServerLocator
from embedclient.errors import ErrorCode, InvalidDestinationException, JMSException
from embedclient.model import RoutingType

from ._options import ConnectionOptions
from ._sink_values import Target

__all__ = ["Destinations", "connected"]

# Where the URL has no such setting: a pause longer than a backup's takeover time, for a minute.
RECONNECT_ATTEMPTS, RETRY_INTERVAL_MS, CONNECT_ATTEMPTS = 120, 500, 20
# Artemis' default of 64 KiB would be half a round trip for every few hundred rows.
PRODUCER_WINDOW_BYTES = 1024 * 1024
CONFIRMATION_WINDOW_BYTES = 1024 * 1024


@contextmanager
def connected(options: ConnectionOptions, *, xa: bool) -> Iterator[ClientSession]:
    """Yield a session of a separate connection: for branches with `xa`, else for sends that are confirmed.

    Raises:
        InvalidURLException: the URL cannot be read.
        ConnectionLostException: no broker could be reached.
        JMSSecurityException: wrong user or password.
    """
    # The first broker supplies the addresses of the backups.
    settings = evolve(ServerLocator(options.url).settings, ha=True)
    if not settings.reconnects:
        settings = evolve(settings, reconnect_attempts=RECONNECT_ATTEMPTS, retry_interval_ms=RETRY_INTERVAL_MS)
    if settings.initial_connect_attempts == 1:
        settings = evolve(settings, initial_connect_attempts=CONNECT_ATTEMPTS)
    if "producerwindowsize" not in options.url.lower():
        settings = evolve(settings, producer_window_size=PRODUCER_WINDOW_BYTES)
    if not xa:
        settings = evolve(settings, block_on_durable_send=False, block_on_non_durable_send=False)
        if settings.confirmation_window_size < 0:
            settings = evolve(settings, confirmation_window_size=CONFIRMATION_WINDOW_BYTES)
    locator = ServerLocator(options.url, settings=settings)
    with (
        locator.create_session_factory() as factory,
        factory.create_session(username=options.user, password=options.password, xa=xa) as session,
    ):
        yield session


class Destinations:
    """The destinations of one session; each is looked up once."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._known: set[Target] = set()

    def prepare(self, target: Target) -> None:
        """Ensure that messages to the target reach a queue; for a topic, that it can have subscriptions.

        Raises:
            InvalidDestinationException: it does not exist and is not created automatically.
        """
        if target in self._known:
            return
        session, address = self._session, target.address
        state = session.query_address(address)
        if not state.exists:
            if state.auto_create_addresses is False:
                raise InvalidDestinationException(f"{target} does not exist and is not created automatically")
            session.create_address(address, [target.routing_type])
        if target.routing_type is RoutingType.ANYCAST and not session.query_queue(address).exists:
            if state.auto_create_queues is False:
                raise InvalidDestinationException(f"{target} does not exist and is not created automatically")
            self._create_queue(address)
        self._known.add(target)

    def _create_queue(self, name: str) -> None:
        try:
            self._session.create_queue(name, name, RoutingType.ANYCAST)
        except JMSException as error:
            # Another task was faster.
            if error.error_code != ErrorCode.QUEUE_EXISTS:
                raise
