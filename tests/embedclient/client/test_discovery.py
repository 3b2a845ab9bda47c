"""A client that finds its broker by datagrams, in virtual time and over a network in memory."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, InitialContext, ServerLocator
from embedclient._client import BrokerSearch, TrioLoop
from embedclient._client._url import DiscoverySettings
from embedclient.engine.core._discovery import BroadcastGroup
from embedclient.errors import ConnectionLostException, ConnectionTimedOutException
from embedclient.model import (
    IN_VM_CONNECTOR_FACTORY,
    TCP_CONNECTOR_FACTORY,
    BroadcastEndpoint,
    MulticastGroup,
    TransportConfiguration,
)
from embedclient.transport import ByteStream
from embedclient.transport import dial as dial_connector
from embedclient.transport._datagrams import DatagramReceiver, Datagrams, DatagramSender
from embedclient.transport._memory_datagrams import MemoryMulticast
from embedclient.wire.core import DiscoveryDatagram, encode_discovery_datagram

URL = "udp://231.7.7.7:9876"
GROUP = MulticastGroup("231.7.7.7", 9876)

pytestmark = pytest.mark.usefixtures("autojump_clock", "virtual_tcp")


@pytest.fixture
def virtual_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect to brokers of this process by TCP connectors whose host is their server id: no real time passes."""

    async def dial(connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        assert connector.factory == TCP_CONNECTOR_FACTORY
        inside = TransportConfiguration("b", IN_VM_CONNECTOR_FACTORY, {"serverId": connector.host})
        return await dial_connector(inside, timeout_s)

    monkeypatch.setattr("embedclient._client._trio_edge.dial", dial)


def locator(network: MemoryMulticast, parameters: str = "") -> ServerLocator:
    return ServerLocator(URL + parameters, loop=TrioLoop(network.at("client")))


def connector_of(broker: EmbeddedBroker) -> TransportConfiguration:
    return TransportConfiguration("b", parameters={"host": broker.vm_url.removeprefix("vm://")})


async def broadcast(network: MemoryMulticast, host: str, connectors: Sequence[TransportConfiguration]) -> None:
    group = BroadcastGroup(host, f"start of {host}", connectors)
    sender = await network.at(host).open_sender(GROUP)
    group.start(trio.current_time())
    while True:
        due = group.next_deadline()
        assert due is not None
        await trio.sleep_until(due)
        data = group.on_time(trio.current_time())
        if data is not None:
            sender.send_nowait(data)


@asynccontextmanager
async def broadcasting(network: MemoryMulticast, *connectors: TransportConfiguration) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broadcast, network, "broker", connectors)
        yield
        nursery.cancel_scope.cancel()


async def test_the_broker_that_announces_itself_is_connected_to() -> None:
    network = MemoryMulticast(Random(1), latency_s=0.1)
    async with (
        EmbeddedBroker() as broker,
        broadcasting(network, connector_of(broker)),
        locator(network).create_session_factory() as factory,
        factory.create_session() as session,
    ):
        assert factory.connector == connector_of(broker)
        await session.create_queue("q")


async def test_a_broker_that_was_found_needs_no_other_search_until_the_refresh_timeout(
    autojump_clock: MockClock,
) -> None:
    network = MemoryMulticast(Random(1), latency_s=0.1)
    found = locator(network, "?refreshTimeout=10000&discoveryInitialWaitTimeout=1000")
    async with EmbeddedBroker() as broker:
        async with broadcasting(network, connector_of(broker)), found.create_session_factory():
            pass
        autojump_clock.jump(9)
        start = trio.current_time()
        async with found.create_session_factory() as factory:
            assert factory.connector == connector_of(broker)
        assert trio.current_time() == start
        autojump_clock.jump(1)
        with pytest.raises(ConnectionTimedOutException):
            async with found.create_session_factory():
                pass
    # One that is gone is forgotten at once.
    for refresh in (60_000, 0):
        other = ServerLocator(URL, refresh_timeout_ms=refresh, loop=TrioLoop(network.at("client")))
        for _ in range(2):
            async with (
                EmbeddedBroker() as broker,
                broadcasting(network, connector_of(broker)),
                other.create_session_factory() as factory,
            ):
                assert factory.connector == connector_of(broker)


@pytest.mark.parametrize(("refresh_ms", "clocks", "is_known"), [(60_000, (0, 500), True), (1, (500, 0), False)])
def test_the_refresh_timeout_counts_in_the_next_run_of_trio_too(
    refresh_ms: int, clocks: tuple[int, int], is_known: bool
) -> None:
    """Each run has another clock, also each connection of a blocking program."""
    network = MemoryMulticast(Random(1), latency_s=0.1)
    found = locator(network, f"?refreshTimeout={refresh_ms}&discoveryInitialWaitTimeout=1000")
    in_time: list[bool] = []

    async def search() -> None:
        async with (
            EmbeddedBroker(name="found") as broker,
            broadcasting(network, connector_of(broker)),
            found.create_session_factory(),
        ):
            pass

    async def connect_again() -> None:
        async with EmbeddedBroker(name="found"):
            start = trio.current_time()
            with suppress(ConnectionTimedOutException):
                async with found.create_session_factory():
                    pass
            in_time.append(trio.current_time() == start)

    for run, seconds in zip((search, connect_again), clocks, strict=True):
        clock = MockClock(autojump_threshold=0)
        clock.jump(seconds)
        trio.run(run, clock=clock)
    assert in_time == [is_known]


async def test_arguments_name_group_interface_and_wait_in_place_of_a_url() -> None:
    network = MemoryMulticast(Random(1), latency_s=0.1)
    found = ServerLocator(group_address=GROUP.address, initial_wait_timeout_ms=0, loop=TrioLoop(network.at("client")))
    async with (
        EmbeddedBroker() as broker,
        broadcasting(network, connector_of(broker)),
        found.create_session_factory() as factory,
    ):
        assert factory.connector == connector_of(broker)
    other = ServerLocator(
        group_address="231.7.7.8",
        group_port=7,
        local_bind_address="127.0.0.1",
        initial_wait_timeout_ms=3000,
        loop=TrioLoop(network.at("client")),
    )
    start = trio.current_time()
    with pytest.raises(ConnectionTimedOutException, match=r"231\.7\.7\.8:7 on the interface of 127\.0\.0\.1: .* 3 s;"):
        await other.create_session_factory()
    assert trio.current_time() - start == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": URL, "group_address": "231.7.7.7"}, "only one of them"),
        ({"group_address": "10.0.0.1"}, "10.0.0.1"),
        ({"initial_wait_timeout_ms": 5}, "initial_wait_timeout_ms needs discovery"),
        ({"refresh_timeout_ms": 5}, "refresh_timeout_ms needs discovery"),
        ({"url": URL, "refresh_timeout_ms": -1}, "must be milliseconds, or 0 for a search each time"),
        ({"local_bind_address": "127.0.0.1"}, "local_bind_address needs discovery"),
        ({"group_port": 5555}, "group_port needs a group_address"),
        ({"url": URL, "group_port": 5555}, "in a URL the port is a part of it"),
        ({"group_address": "231.7.7.7", "group_port": 0}, "group_port must be from 1 to 65535, not 0"),
        ({"group_address": "231.7.7.7", "local_bind_address": ""}, "local_bind_address must not be empty"),
        ({"url": URL, "initial_wait_timeout_ms": -1}, "must be milliseconds"),
        ({"url": URL, "initial_wait_timeout_ms": "5"}, "initial_wait_timeout_ms must be an int, not '5'"),
        ({"url": URL, "initial_wait_timeout_ms": 0.5}, "initial_wait_timeout_ms must be an int, not 0.5"),
        ({"url": URL, "local_bind_address": 5}, "local_bind_address must be a str .*, not 5"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    error = TypeError if "must be an int" in message or "must be a str" in message else ValueError
    with pytest.raises(error, match=message):
        ServerLocator(**arguments)


async def test_an_interface_replaces_that_of_a_url() -> None:
    network = MemoryMulticast(Random(1), latency_s=0.1)
    found = ServerLocator(URL, local_bind_address="127.0.0.1", loop=TrioLoop(network.at("client")))
    with pytest.raises(ConnectionTimedOutException, match=r"on the interface of 127\.0\.0\.1"):
        await found.create_session_factory()


def test_a_locator_shows_its_group() -> None:
    locator = ServerLocator(group_address="231.7.7.8", local_bind_address="lo")
    assert repr(locator) == "<ServerLocator multicast group 231.7.7.8:9876 on the interface of lo>"


def test_each_element_of_a_jgroups_file_without_a_meaning_is_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is named by properties of JNDI, as another group is by ``udp://``."""
    file = tmp_path / "stack.xml"
    file.write_text("<config><UDP mcast_addr='231.7.7.9' mcast_port='7'/><PING/><MERGE3/><AUTH/></config>")
    context = InitialContext(
        {
            "connectionFactory.a": "udp://231.7.7.7:9876?discoveryInitialWaitTimeout=5",
            "connectionFactory.b": f"jgroups://channel?file={file}",
        }
    )
    assert caplog.messages == []
    factories = [context.lookup(name) for name in "ab"]
    urls = [factory.url for factory in factories if isinstance(factory, ConnectionFactory)]
    assert [url.partition("?")[0] for url in urls] == ["udp://231.7.7.7:9876", "jgroups://channel"]
    assert [message.partition("stack.xml': ")[2] for message in caplog.messages] == [
        "MERGE3 has no meaning here",
        "AUTH has no meaning here: datagrams are neither encrypted nor authenticated",
    ]


async def test_a_lost_datagram_costs_a_period_and_not_the_connection() -> None:
    network = MemoryMulticast(Random(1), loss_chance=0.9)
    async with (
        EmbeddedBroker() as broker,
        broadcasting(network, connector_of(broker)),
        locator(network, "?discoveryInitialWaitTimeout=200000").create_session_factory() as factory,
    ):
        assert factory.connector == connector_of(broker)


async def test_without_a_broadcast_the_error_names_group_port_and_interface_after_the_initial_wait() -> None:
    url = locator(MemoryMulticast(Random(1)), "?localBindAddress=127.0.0.1&discoveryInitialWaitTimeout=3000")
    start = trio.current_time()
    with pytest.raises(ConnectionTimedOutException) as caught:
        async with url.create_session_factory():
            pass
    assert trio.current_time() - start == pytest.approx(3.0)
    assert str(caught.value) == (
        "multicast group 231.7.7.7:9876 on the interface of 127.0.0.1: no datagram came within 3 s; a broker must have "
        "a broadcast-group with this address and port, and localBindAddress must name an interface on which it sends"
    )


async def test_the_default_interface_is_named_too_after_ten_seconds() -> None:
    start = trio.current_time()
    with pytest.raises(ConnectionTimedOutException, match=r"^multicast group 231\.7\.7\.7:9876 on the default interf"):
        async with locator(MemoryMulticast(Random(1))).create_session_factory():
            pass
    assert trio.current_time() - start == pytest.approx(10.0)


async def test_each_attempt_of_a_first_connection_waits_once() -> None:
    start = trio.current_time()
    parameters = "?initialConnectAttempts=3&discoveryInitialWaitTimeout=1000"
    with pytest.raises(ConnectionTimedOutException):
        async with locator(MemoryMulticast(Random(1)), parameters).create_session_factory():
            pass
    assert trio.current_time() - start == pytest.approx(3.0)


@pytest.mark.parametrize("parameters", ["?discoveryInitialWaitTimeout=0", "?initialConnectAttempts=-1"])
async def test_a_client_without_a_limit_waits_for_a_broker_that_starts_later(parameters: str) -> None:
    network = MemoryMulticast(Random(1))
    start = trio.current_time()

    async def start_later(nursery: trio.Nursery, broker: EmbeddedBroker) -> None:
        await trio.sleep_until(start + 1_005)
        nursery.start_soon(broadcast, network, "broker", [connector_of(broker)])

    async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
        nursery.start_soon(start_later, nursery, broker)
        async with locator(network, parameters).create_session_factory() as factory:
            assert factory.connector == connector_of(broker)
            assert trio.current_time() - start == pytest.approx(1_005)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "useless",
    [
        TransportConfiguration("c", "com.example.Factory", {"host": "h", "port": "1"}),
        TransportConfiguration("c", IN_VM_CONNECTOR_FACTORY, {"serverId": "0"}),
        TransportConfiguration("c", TCP_CONNECTOR_FACTORY, {"host": "h", "port": "http"}),
        TransportConfiguration("c", TCP_CONNECTOR_FACTORY, {"host": "h", "port": "1", "tcpSendBufferSize": "any"}),
    ],
    ids=["factory", "in VM", "port", "buffer"],
)
async def test_datagrams_of_no_use_are_logged_once_and_named_in_the_error(
    useless: TransportConfiguration, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryMulticast(Random(1))
    async with broadcasting(network, useless):
        with pytest.raises(
            ConnectionTimedOutException,
            match=r": [56] datagrams came, and none was of use \(the last one: its connector",
        ):
            async with locator(network, "?discoveryInitialWaitTimeout=11000").create_session_factory():
                pass
    assert [record.message for record in caplog.records if "is of no use" in record.message] == [
        f"{GROUP}: a datagram is of no use: its connector names no way that is known here"
    ]


async def test_other_traffic_in_the_group_does_not_disturb_a_search() -> None:
    network = MemoryMulticast(Random(1))

    async def disturb() -> None:
        sender = await network.at("other").open_sender(GROUP)
        while True:
            sender.send_nowait(Random(2).randbytes(100))
            await trio.sleep_until(trio.current_time() + 0.3)

    async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
        nursery.start_soon(disturb)
        await trio.testing.wait_all_tasks_blocked()
        async with (
            broadcasting(network, connector_of(broker)),
            locator(network).create_session_factory() as factory,
        ):
            assert factory.connector == connector_of(broker)
        nursery.cancel_scope.cancel()


async def test_a_group_that_cannot_be_joined_is_an_error_that_names_it() -> None:
    expected = r"cannot join multicast group 231\.7\.7\.7:9876 on the interface of 203\.0\.113\.7: "
    with pytest.raises(ConnectionLostException, match=expected):
        async with ServerLocator(f"{URL}?localBindAddress=203.0.113.7").create_session_factory():
            pass


async def test_a_cancelled_search_leaves_the_group() -> None:
    network = MemoryMulticast(Random(1))
    with trio.move_on_after(1) as scope:
        async with locator(network).create_session_factory():
            pass
    assert scope.cancelled_caught
    assert network.is_empty


async def test_any_number_of_useless_datagrams_leaves_a_search_as_it_was() -> None:
    """Each from another node: a table of nodes would fill, and have no room for a broker."""
    search = BrokerSearch(DiscoverySettings(GROUP, 1_000))
    useless = TransportConfiguration("c", TCP_CONNECTOR_FACTORY, {"port": "http"})
    for number in range(1_500):
        data = encode_discovery_datagram(DiscoveryDatagram(f"n{number}", "u", (useless,)))
        assert not search.on_datagram(data)
    good = TransportConfiguration("c", TCP_CONNECTOR_FACTORY, {"port": "61616"})
    assert search.on_datagram(encode_discovery_datagram(DiscoveryDatagram("broker", "u", (useless, good))))
    assert search.found is not None and search.found.connector == good


def test_the_near_end_that_a_broker_announces_is_of_its_machine() -> None:
    search = BrokerSearch(DiscoverySettings(GROUP, 1_000))
    parameters = {"port": "61616", "localAddress": "10.0.0.1", "localPort": "any"}
    announced = TransportConfiguration("c", TCP_CONNECTOR_FACTORY, parameters)
    assert search.on_datagram(encode_discovery_datagram(DiscoveryDatagram("broker", "u", (announced,))))
    assert search.found is not None
    assert search.found.connector == TransportConfiguration("c", TCP_CONNECTOR_FACTORY, {"port": "61616"})


GONE = TransportConfiguration("gone", parameters={"host": "gone"})


async def test_a_broker_that_cannot_be_reached_gives_way_to_another_one() -> None:
    network = MemoryMulticast(Random(1))
    async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(broadcast, network, "gone", [GONE])

        async def broadcast_later() -> None:
            await trio.sleep_until(start + 1)
            await broadcast(network, "broker", [connector_of(broker)])

        nursery.start_soon(broadcast_later)
        parameters = "?initialConnectAttempts=2&retryInterval=1500"
        async with locator(network, parameters).create_session_factory() as factory:
            assert factory.connector == connector_of(broker)
            # The datagram at 2 s is of the broker that is gone.
            assert trio.current_time() - start == pytest.approx(3.0)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("wait_ms", "expected_s"), [(10_000, 4.0), (2_000, 2.5)])
async def test_a_broker_alone_is_dialled_once_for_each_attempt(wait_ms: int, expected_s: float) -> None:
    """Its second datagram, or the end of the wait, shows that there is no other one."""
    network = MemoryMulticast(Random(1))
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(broadcast, network, "gone", [GONE])
        parameters = f"?initialConnectAttempts=2&retryInterval=500&discoveryInitialWaitTimeout={wait_ms}"
        with pytest.raises(ConnectionLostException, match="gone"):
            async with locator(network, parameters).create_session_factory():
                pass
        assert trio.current_time() - start == pytest.approx(expected_s)
        nursery.cancel_scope.cancel()


class LateInterface:
    """Datagrams of a host whose interface is down for the first openings."""

    def __init__(self, inner: Datagrams, failures: int) -> None:
        self._inner = inner
        self._failures = failures

    async def open_sender(self, group: BroadcastEndpoint) -> DatagramSender:
        return await self._inner.open_sender(group)

    async def open_receiver(self, group: BroadcastEndpoint) -> DatagramReceiver:
        await trio.lowlevel.checkpoint()
        if self._failures:
            self._failures -= 1
            raise OSError(errno.ENODEV, f"cannot join {group}: No such device")
        return await self._inner.open_receiver(group)


@pytest.mark.parametrize(("failures", "expected_s"), [(2, 2.0), (3, 1.4)])
async def test_a_group_that_cannot_be_joined_yet_costs_an_attempt_and_a_pause(failures: int, expected_s: float) -> None:
    network = MemoryMulticast(Random(1))
    loop = TrioLoop(LateInterface(network.at("client"), failures))
    url = f"{URL}?initialConnectAttempts=3&retryInterval=700"
    async with EmbeddedBroker() as broker, broadcasting(network, connector_of(broker)):
        start = trio.current_time()
        if failures == 3:
            with pytest.raises(ConnectionLostException, match=r"cannot join .*: No such device"):
                async with ServerLocator(url, loop=loop).create_session_factory():
                    pass
        else:
            async with ServerLocator(url, loop=loop).create_session_factory() as factory:
                assert factory.connector == connector_of(broker)
        assert trio.current_time() - start == pytest.approx(expected_s)
