"""The core layer's way in: ServerLocator, ClientSessionFactory.

Responsible for turning a URL or settings into an agent inside a scope of tasks. Refuses to know JMS.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import outcome

from embedclient.agent import (
    Agent,
    FirstElementPolicy,
    LoadBalancingPolicy,
    LocatorSettings,
    Notification,
    RandomPolicy,
    RandomStickyPolicy,
    RoundRobinPolicy,
    Topology,
)
from embedclient.model import Entropy, TransportConfiguration

from ._closing import CLOSE_TIMEOUT_S, settle_closing
from ._core_session import ClientSession
from ._edge import Edge, Loop
from ._opening import Opening
from ._ownership import own
from ._url import ClientURL, parse_url

DEFAULT_URL = "tcp://localhost:61616"
# Settings of large messages, by their names in a URL.
_OF_LARGE_MESSAGES = {
    "compressLargeMessage": "compress_large_message",
    "compressionLevel": "compression_level",
    "cacheLargeMessagesClient": "cache_large_messages_client",
}
_log = logging.getLogger("embedclient")


class ServerLocator:
    """Knows how to reach brokers. Holds no connection and no task; any number of factories can come from one locator.

    With `ha=true` a factory begins with what the one before has learnt: where the backups are.

    Give a URL, or connectors and settings. A load-balancing policy is any callable that gets the number of connectors
    and returns an index; without one the URL decides, and the default is round robin from a random start. Without a
    URL and connectors it is `tcp://localhost:61616`.

    Raises:
        InvalidURLException: the URL cannot be read, or has a parameter that nobody knows.
        ValueError: both a URL and connectors are given.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        connectors: Iterable[TransportConfiguration] = (),
        settings: LocatorSettings | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
        loop: Loop | None = None,
    ) -> None:
        given = tuple(connectors)
        if url is not None and given:
            raise ValueError("a locator takes a URL or connectors, not both")
        parsed: ClientURL = parse_url(DEFAULT_URL if url is None else url)
        self._loop = loop or self._make_loop()
        self.url = "" if given else parsed.text
        self.connectors = given or parsed.connectors
        self.settings = settings or parsed.settings
        _warn_of_no_effect(self.settings, parsed.ignored)
        for misfit in self.settings.misfits():
            _log.warning("%s", misfit)
        self.defaults = parsed.factory
        self.load_balancing_policy = load_balancing_policy or _policy(parsed.factory.policy, self._loop.entropy)
        # What the latest factory knows of the cluster: with `ha` the next one finds the backup by it.
        self._learnt = Topology()

    def _make_loop(self) -> Loop:
        return trio_loop()

    def create_session_factory(self) -> AbstractAsyncContextManager[ClientSessionFactory]:
        """Connect. The factory and everything made with it ends with the block.

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
        """
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ClientSessionFactory]:
        learnt = self._learnt.copy() if self.settings.ha else None
        agent = Agent(self.settings, self.connectors, self.load_balancing_policy, self._loop.entropy, learnt)
        async with self._loop.open_edge(agent, CLOSE_TIMEOUT_S) as edge:
            await edge.wait(agent.connect())
            self._learnt = agent.topology
            yield ClientSessionFactory(edge, self.settings)


class ClientSessionFactory:
    """One connection to a broker, made again when it is lost as far as the settings say."""

    def __init__(self, edge: Edge, settings: LocatorSettings) -> None:
        self._edge = edge
        self._settings = settings

    @property
    def settings(self) -> LocatorSettings:
        """The settings it works with."""
        return self._settings

    @property
    def connector(self) -> TransportConfiguration | None:
        """The connector in use, None while there is no connection."""
        return self._edge.agent.connector

    def on_notification(self, listener: Callable[[Notification], None] | None) -> None:
        """Set the callable that hears of failures and failovers. It runs inside the event loop and must not block."""
        self._edge.agent.on_notification = None if listener is None else partial(_tell, listener)

    def create_session(
        self,
        *,
        username: str | None = None,
        password: str | None = None,
        xa: bool = False,
        auto_commit_sends: bool = True,
        auto_commit_acks: bool = True,
        pre_acknowledge: bool | None = None,
        ack_batch_size: int | None = None,
    ) -> Opening[ClientSession]:
        """A core session. Both commit flags False make it transacted; with `xa` it has an `xa_resource` instead.

        With `pre_acknowledge` the broker acknowledges before it sends; `ack_batch_size` is how many bytes of messages
        share an acknowledgement. None takes what the settings say.
        """

        async def open_session() -> ClientSession:
            call = self._edge.agent.create_session(
                username=username,
                password=password,
                xa=xa,
                auto_commit_sends=auto_commit_sends,
                auto_commit_acks=auto_commit_acks,
                pre_acknowledge=pre_acknowledge,
                ack_batch_size=ack_batch_size,
            )
            return ClientSession(self._edge, await own(self._edge, call))

        return Opening(open_session)

    async def close(self) -> None:
        """Close the sessions and the connection now, and not only at the end of the block."""
        await settle_closing(self._edge, self._edge.agent.close())


def _tell(listener: Callable[[Notification], None], notification: Notification) -> None:
    """In the middle of a step of the agent, which a user's mistake must not end."""
    result = outcome.capture(listener, notification)
    if isinstance(result, outcome.Error):
        if not isinstance(result.error, Exception):
            result.unwrap()
        _log.error("a listener of the session factory failed", exc_info=result.error)


def _warn_of_no_effect(settings: LocatorSettings, ignored: Iterable[str]) -> None:
    for name in ignored:
        _log.warning("%s has no effect in a client: it is a parameter of acceptors", name)
    usual = LocatorSettings()
    for name, attribute in _OF_LARGE_MESSAGES.items():
        value = getattr(settings, attribute)
        if value != getattr(usual, attribute):
            _log.warning("%s=%s has no effect: this client sends every message in one piece", name, value)


def trio_loop() -> Loop:
    # Imported here, so that asyncio programs do not load trio.
    from ._trio_scope import TrioLoop

    return TrioLoop()


def _policy(name: str, entropy: Entropy) -> LoadBalancingPolicy:
    policies: dict[str, Callable[[], LoadBalancingPolicy]] = {
        "RoundRobin": lambda: RoundRobinPolicy(entropy),
        "Random": lambda: RandomPolicy(entropy),
        "RandomSticky": lambda: RandomStickyPolicy(entropy),
        "FirstElement": FirstElementPolicy,
    }
    return policies[name]()
