"""Discovery by datagrams between ours and a real Artemis, over multicast on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import trio

import embedbroker
from embedbroker import ClusterConnection, EmbeddedBroker
from embedclient import ServerLocator, TransportConfiguration
from embedclient.engine.core import DiscoveryGroup
from embedclient.engine.core._discovery import BroadcastGroup, EntryAdded, EntryExpired
from embedclient.model import MulticastGroup
from embedclient.transport import SystemDatagrams
from tests.embedbroker.runtime.test_cluster_of_brokers import until_known
from tests.interop.artemis import ArtemisBroker, command_line, free_port
from tests.interop.three_nodes import consumers, send, sessions, texts_of

SECONDS_MAX = 90
pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
ADDRESS, LOOPBACK = "231.7.7.7", "127.0.0.1"


@pytest.fixture(scope="module")
def group() -> MulticastGroup:
    return MulticastGroup(ADDRESS, free_port(), LOOPBACK)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, group: MulticastGroup) -> Iterator[ArtemisBroker]:
    """An Artemis that announces itself to the group, and looks for others there."""
    address = f"<group-address>{ADDRESS}</group-address>"
    changes = {
        address: f"<local-bind-address>{LOOPBACK}</local-bind-address>{address}",
        "<group-port>9876</group-port>": f"<group-port>{group.port}</group-port>",
        "<broadcast-period>5000</broadcast-period>": "<broadcast-period>500</broadcast-period>",
    }
    options = ["--clustered", "--cluster-user", "user", "--cluster-password", "password", "--name", "theirs"]
    directory = tmp_path_factory.mktemp("discovery") / "artemis"
    with ArtemisBroker(directory, memory="512M", options=options, changes=changes) as running:
        yield running


@pytest.fixture
def theirs(shared: ArtemisBroker) -> ArtemisBroker:
    """The one of all tests, which runs when a test begins."""
    if not shared.running:
        shared.start()
    return shared


def url_of(group: MulticastGroup) -> str:
    return f"udp://{group.address}:{group.port}?localBindAddress={group.local_bind_address}"


async def broadcast(group: MulticastGroup, url: str) -> None:
    """Announce a broker at a URL, as `broadcast-group` does."""
    host, _, port = url.removeprefix("tcp://").partition(":")
    broadcasts = BroadcastGroup("ours", "start", [TransportConfiguration("c", parameters={"host": host, "port": port})])
    sender = await SystemDatagrams().open_sender(group)
    broadcasts.start(trio.current_time())
    try:
        while (due := broadcasts.next_deadline()) is not None:
            await trio.sleep_until(due)
            data = broadcasts.on_time(trio.current_time())
            if data is not None:
                sender.send_nowait(data)
    finally:
        sender.close()


async def test_our_client_finds_an_artemis_which_leaves_the_list_when_it_is_killed(
    theirs: ArtemisBroker, group: MulticastGroup
) -> None:
    async with (
        ServerLocator(url_of(group)).create_session_factory() as factory,
        factory.create_session() as session,
    ):
        assert factory.connector is not None
        assert factory.connector.port == theirs.port
        await session.create_queue("q")
    refresh_s = 2.0
    receiver = await SystemDatagrams().open_receiver(group)
    discovery = DiscoveryGroup(refresh_timeout_ms=int(refresh_s * 1000))
    with trio.fail_after(SECONDS_MAX):
        [added] = discovery.on_datagram(await receiver.receive(), trio.current_time())
        assert isinstance(added, EntryAdded)
        assert discovery.on_datagram(await receiver.receive(), trio.current_time()) == []
        theirs.kill()
        with trio.move_on_after(refresh_s):
            while True:
                assert discovery.on_datagram(await receiver.receive(), trio.current_time()) == []
        due = discovery.next_deadline()
        assert due is not None
        await trio.sleep_until(due)
    assert discovery.on_time(trio.current_time()) == [EntryExpired(added.entry)]
    receiver.close()


async def test_a_client_of_artemis_finds_our_broker() -> None:
    # A group without the Artemis of the other tests.
    group = MulticastGroup(ADDRESS, free_port(), LOOPBACK)
    async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
        nursery.start_soon(broadcast, group, broker.url)
        target = ("--url", url_of(group), "--destination", "queue://found", "--silent", "--message-count", 5)
        await trio.to_thread.run_sync(partial(command_line, "producer", *target))
        assert await broker.management.message_count("found") == 5
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("finds", [True, False], ids=["ours finds theirs", "theirs finds ours"])
async def test_a_broker_of_either_kind_finds_the_other_by_its_datagrams(
    theirs: ArtemisBroker, group: MulticastGroup, finds: bool
) -> None:
    """Ours either listens only, or announces itself only: no connector of the other is configured anywhere.

    Messages go both ways in the end.
    """
    place = (group.address, group.port, group.local_bind_address)
    ours = EmbeddedBroker(
        name="ours",
        broadcast_groups=[] if finds else [embedbroker.BroadcastGroup("b", *place, broadcast_period_ms=500)],
        discovery_groups=[embedbroker.DiscoveryGroup("d", *place)] if finds else [],
        cluster_connections=ClusterConnection(discovery_group="d" if finds else None, retry_interval_ms=100),
        cluster_user="user",
        cluster_password="password",
    )
    async with ours:
        await until_known(ours, "ours", "artemis")
        theirs.kill()
        await until_known(ours, "ours")
        await trio.to_thread.run_sync(theirs.start)
        await until_known(ours, "ours", "artemis")
        urls = {"theirs": theirs.url, "ours": ours.url}
        async with sessions(urls) as nodes:
            for source, target in (("ours", "theirs"), ("theirs", "ours")):
                async with consumers(nodes, "found", [target]) as at:
                    await send(nodes[source], "found", [f"{source} {number}" for number in range(5)])
                    assert await texts_of(at[target], 5) == [f"{source} {number}" for number in range(5)]
