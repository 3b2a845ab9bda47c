"""The core layer's entry point: ServerLocator, ClientSessionFactory.

Responsible for turning a URL or settings into an agent inside a scope of tasks. Does not depend on JMS.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
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
from embedclient.errors import ConnectionLostException, JMSException
from embedclient.model import TLS, Entropy, TLSSettings, TransportConfiguration, summary

from ._closing import CLOSE_TIMEOUT_S, settle_closing
from ._core_session import ClientSession
from ._edge import BackgroundScope, Edge, Loop
from ._expiry import Expiry
from ._opening import ClosedByBlock, Opening, ScopeOpening, end_background
from ._ownership import own
from ._url import ClientURL, DiscoverySettings, parse_url

DEFAULT_URL = "tcp://localhost:61616"
# Forged datagrams may have any number of node ids.
_UNREACHED_MAX = 100
# As the system has it, or asyncio.
_REFUSED = re.compile(rf"{os.strerror(errno.ECONNREFUSED)}|\[Errno {errno.ECONNREFUSED}\]")
_log = logging.getLogger("embedclient")


class ServerLocator:
    """Create session factories, each with a connection to one of the brokers that the locator describes.

    A locator holds no connection and no task; any number of factories can come from one locator. While one of them is
    open, the next one chooses among the nodes of its cluster. With `ha=true` the locator keeps these nodes, and their
    backups, also between factories.

    Args:
        url: an Artemis URL; None without connectors is `tcp://localhost:61616`.
        connectors: the brokers, in place of a URL.
        settings: settings, in place of those of the URL.
        load_balancing_policy: a callable that gets the number of connectors and returns an index. Without one the URL
            decides, and the default is round robin from a random start.
        tls: `TLSSettings` or an ``ssl.SSLContext`` of a client; all connections then use TLS. None: the URL decides.
        group_address: the multicast group to which the brokers announce themselves, in place of a URL.
        group_port: the port of that group; None is 9876.
        local_bind_address: address or name of the interface on which the datagrams arrive; None: what the URL has, or
            the system's choice.
        initial_wait_timeout_ms: milliseconds that an attempt waits for an announcement, 0 for no limit; None: what
            the URL has, or 10 seconds.
        refresh_timeout_ms: milliseconds for which the next factory connects to the broker that a search has found
            without another search, 0 for a search each time; None: what the URL has, or 0.
        loop: the event loop to run on; None is trio.

    Raises:
        InvalidURLException: the URL cannot be read, or has an unknown parameter.
        TypeError: `tls` is neither `TLSSettings` nor an ``ssl.SSLContext``, or a value of the group has a wrong type.
        ValueError: more than one of URL, connectors and group are given, a value of the group is wrong, or has no
            effect without a group.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        connectors: Iterable[TransportConfiguration] = (),
        settings: LocatorSettings | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
        tls: TLS | None = None,
        group_address: str | None = None,
        group_port: int | None = None,
        local_bind_address: str | None = None,
        initial_wait_timeout_ms: int | None = None,
        refresh_timeout_ms: int | None = None,
        loop: Loop | None = None,
    ) -> None:
        given = tuple(connectors)
        if group_address is not None and (url is not None or given):
            raise ValueError("a locator takes a URL, connectors or a group_address, only one of them")
        if url is not None and given:
            raise ValueError("a locator takes a URL or connectors, not both")
        parsed: ClientURL = parse_url(DEFAULT_URL if url is None else url)
        self._loop = loop or self._make_loop()
        self.url = "" if given else parsed.text
        check_tls(tls)
        self._tls = tls
        self._discovery = None if given else parsed.discovery
        # None if discovery finds them.
        named = given or parsed.connectors
        of_discovery = group_address, group_port, local_bind_address, initial_wait_timeout_ms, refresh_timeout_ms
        if any(each is not None for each in of_discovery):
            # Imported here, so that programs without discovery do not load it.
            from ._discovery_arguments import DiscoveryArguments

            self._discovery = DiscoveryArguments(*of_discovery).changed(self._discovery)
        if group_address is not None:
            self.url, named = "", ()
        self.connectors = tuple(each if tls is None else each.with_tls(tls) for each in named)
        self.settings = settings or parsed.settings
        _warn_of_no_effect(self.settings, parsed.ignored, parsed.notes)
        for misfit in self.settings.misfits():
            _log.warning("%s", misfit)
        self.defaults = parsed.factory
        self.load_balancing_policy = load_balancing_policy or _policy(parsed.factory.policy, self._loop.entropy)
        # What all factories have received. Each of them needs it for its next connections.
        self._topology = Topology()
        self._open_count = 0
        # The broker that the last search found, and until when it needs no other one.
        self._found: tuple[TransportConfiguration, Expiry] | None = None

    def _make_loop(self) -> Loop:
        return trio_loop()

    def __repr__(self) -> str:
        if self.url:
            return summary(self, repr(self.url))
        if self._discovery is not None:
            return summary(self, self._discovery.group)
        return summary(self, ", ".join(each.place_text for each in self.connectors))

    def create_session_factory(self) -> Opening[ClientSessionFactory]:
        """Connect: `async with locator.create_session_factory() as factory`.

        The factory and everything made with it ends with the block. `await` returns a factory without a block, which
        lives until its `close()`.

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
            ConnectionTimedOutException: with ``udp://``, no broker announced itself in time.
            IllegalStateException: the program does not run the event loop that this client is for.
        """
        return ScopeOpening(self._open(), self._loop)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ClientSessionFactory]:
        if self._open_count == 0 and not self.settings.ha:
            # Without `ha` a topology keeps nodes that are gone.
            self._topology = Topology()
        self._open_count += 1
        try:
            opened = self._open_named() if self._discovery is None else self._open_discovered(self._discovery)
            async with opened as factory:
                yield factory
        finally:
            self._open_count -= 1

    @asynccontextmanager
    async def _open_named(self) -> AsyncIterator[ClientSessionFactory]:
        agent = self._agent(self.connectors)
        async with self._loop.open_edge(agent, CLOSE_TIMEOUT_S) as edge:
            try:
                await edge.wait(agent.connect())
            except ConnectionLostException as error:
                if _REFUSED.search(str(error)):
                    error.add_note("No broker listens there. `embedbroker run` starts one on port 61616.")
                raise
            yield ClientSessionFactory(edge, self.settings)

    def _agent(self, connectors: tuple[TransportConfiguration, ...]) -> Agent:
        return Agent(self.settings, connectors, self.load_balancing_policy, self._loop.entropy, self._topology)

    @asynccontextmanager
    async def _open_discovered(self, discovery: DiscoverySettings) -> AsyncIterator[ClientSessionFactory]:
        """Connect to a node of the cluster that other factories are connected to, or to a broker that announces itself.

        Each attempt is a search, and a dial of what it has found. Before the first one come the nodes of the cluster.
        """
        # Imported here, so that programs without discovery do not load it.
        from ._broker_search import BrokerSearch

        attempts = self.settings.initial_connect_attempts or 1
        connectors = self._members() or self._found_before()
        unreached: dict[str, None] = {}
        while True:
            search: BrokerSearch | None = None
            failure: JMSException | None = None
            if not connectors:
                attempts -= 1
                search = BrokerSearch(discovery, unreached)
                try:
                    await self._loop.search(search)
                except OSError as error:
                    failure = ConnectionLostException(error.strerror or str(error))
                    failure.__cause__ = error
                if search.found is not None:
                    connectors = (self._with_tls_of_this_end(search.found.connector),)
            if connectors:
                agent = self._agent(connectors)
                async with self._loop.open_edge(agent, CLOSE_TIMEOUT_S) as edge:
                    try:
                        await edge.wait(agent.connect(attempts=1, balanced=search is None))
                    except JMSException as error:
                        failure = error
                        self._found = None
                    else:
                        if search is not None and discovery.refresh_timeout_ms:
                            self._found = connectors[0], Expiry(self._loop, discovery.refresh_timeout_ms / 1000)
                        yield ClientSessionFactory(edge, self.settings)
                        return
            connectors = ()
            if search is None:
                continue
            if search.found is not None:
                _note(unreached, search.found.node_id)
            if attempts == 0:
                raise failure or search.failure()
            if failure is not None:  # otherwise the search has waited long enough
                await self._loop.sleep(self.settings.retry_interval_ms / 1000)

    def _members(self) -> tuple[TransportConfiguration, ...]:
        """Return the nodes of the cluster that open factories are connected to."""
        if not self.settings.use_topology_for_load_balancing:
            return ()
        return tuple([self._with_tls_of_this_end(each) for each in self._topology.members(former=False)])

    def _found_before(self) -> tuple[TransportConfiguration, ...]:
        """Return the broker that a search has found, if that is not too long ago."""
        if self._found is None or self._found[1].is_over:
            return ()
        return (self._found[0],)

    def _with_tls_of_this_end(self, connector: TransportConfiguration) -> TransportConfiguration:
        """Return a connector that a broker announced. The files of key stores that it names are not of this machine."""
        return connector.with_local_tls(()) if self._tls is None else connector.with_tls(self._tls)


def _note(unreached: dict[str, None], node_id: str) -> None:
    """Add a node id as the newest one, and forget the oldest of too many."""
    unreached.pop(node_id, None)
    unreached[node_id] = None
    if len(unreached) > _UNREACHED_MAX:
        del unreached[next(iter(unreached))]


class ClientSessionFactory(ClosedByBlock):
    """A connection to a broker, which is restored after a loss as the settings allow.

    Made by `ServerLocator.create_session_factory`.
    """

    def __init__(self, edge: Edge, settings: LocatorSettings) -> None:
        self._edge = edge
        self._settings = settings
        self._background: BackgroundScope | None = None

    def __repr__(self) -> str:
        place = self.connector
        return summary(self, "not connected" if place is None else f"to {place.place_text}")

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the factory."""
        return self._settings

    @property
    def connector(self) -> TransportConfiguration | None:
        """Return the connector in use, None while there is no connection."""
        return self._edge.agent.connector

    @property
    def members(self) -> tuple[TransportConfiguration, ...]:
        """Return where the live brokers of the cluster are, as the connected broker announces them at this moment.

        A broker outside any cluster is the only one, with the connector in use. Without a connection there are none.
        """
        agent = self._edge.agent
        if not agent.connected or agent.connector is None:
            return ()
        return tuple(agent.topology.members(former=False)) or (agent.connector,)

    def on_notification(self, listener: Callable[[Notification], None] | None) -> None:
        """Set the callable that receives notifications of failures and failovers; None removes it.

        It runs inside the event loop and must not block.

        Args:
            listener: a function; its errors are logged.
        """
        self._edge.agent.on_notification = None if listener is None else partial(_notify, listener)

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
        """Create a core session: `async with factory.create_session() as session`.

        Args:
            username: the user; None sends none.
            password: the user's password.
            xa: the session takes part in XA transactions and has an `xa_resource`.
            auto_commit_sends: False makes sends part of the session's transaction.
            auto_commit_acks: False makes acknowledgements part of the session's transaction. Both flags False make the
                session transacted.
            pre_acknowledge: the broker acknowledges messages before it sends them; None uses the setting.
            ack_batch_size: bytes of messages that share an acknowledgement; None uses the setting.

        Raises:
            JMSSecurityException: wrong user or password, when it is opened.
            ConnectionClosedException: this program closed the factory.
            ConnectionLostException: the connection is lost for good.
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

    def _live_in(self, scope: BackgroundScope) -> None:
        self._background = scope

    async def close(self) -> None:
        """Close the sessions and the connection now, before the end of the block."""
        try:
            await settle_closing(self._edge, self._edge.agent.close())
        finally:
            await end_background(self._edge, self)


def _notify(listener: Callable[[Notification], None], notification: Notification) -> None:
    """Call a listener within a step of the agent. An error of the listener must not end that step, so it is logged."""
    result = outcome.capture(listener, notification)
    if isinstance(result, outcome.Error):
        if not isinstance(result.error, Exception):
            result.unwrap()
        _log.error("a listener of the session factory failed", exc_info=result.error)


def _warn_of_no_effect(settings: LocatorSettings, ignored: Iterable[str], notes: Iterable[str]) -> None:
    for note in notes:
        _log.warning("%s", note)
    for name in ignored:
        _log.warning("%s has no effect in a client: it is a parameter of acceptors", name)
    if settings.cache_large_messages_client:
        _log.warning("cacheLargeMessagesClient has no effect: save_to() writes a large message to a file")


def check_tls(value: object) -> None:
    """Check an argument that switches TLS on.

    Raises:
        TypeError: it is neither `TLSSettings` nor an ``ssl.SSLContext``.
    """
    if value is not None and not isinstance(value, TLSSettings) and not callable(getattr(value, "wrap_bio", None)):
        raise TypeError(f"tls must be TLSSettings or an ssl.SSLContext, not {type(value).__name__}")


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
