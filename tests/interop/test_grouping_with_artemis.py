"""Message groups in a cluster of our broker and a real Artemis, either of which decides on the queue of each group."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker import (
    AddressConfiguration,
    ClusterConnection,
    EmbeddedBroker,
    GroupingHandlerConfig,
    GroupingHandlerType,
    MessageLoadBalancing,
    QueueConfiguration,
)
from embedclient import Queue, TextMessage
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.test_cluster_with_artemis import PASSWORD, USER, connected, exchange

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
GROUPS = [f"g{number}" for number in range(6)]


@pytest.mark.parametrize("theirs_is", ["LOCAL", "REMOTE"])
def test_each_group_is_on_one_broker(theirs_is: str, tmp_path: Path) -> None:
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{free_port()}", "--queues", "orders"]
    names += ["--max-hops", "1"]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    handler = f"<grouping-handler name='groups'><type>{theirs_is}</type><timeout>2000</timeout></grouping-handler>"
    changes = {
        "ON_DEMAND": "STRICT",
        "</cluster-connections>": f"</cluster-connections>{handler}",
    }
    ours_is = GroupingHandlerType.REMOTE if theirs_is == "LOCAL" else GroupingHandlerType.LOCAL
    with (
        ArtemisBroker(tmp_path / "artemis", memory="512M", options=options, changes=changes) as theirs,
        EmbeddedBroker.in_thread(
            name="ours",
            addresses={"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})},
            connectors={"theirs": theirs.url},
            cluster_connections=ClusterConnection(
                static_connectors=("theirs",), message_load_balancing=MessageLoadBalancing.STRICT
            ),
            grouping_handler=GroupingHandlerConfig("groups", ours_is, timeout_ms=2_000),
            cluster_user=USER,
            cluster_password=PASSWORD,
        ) as ours,
    ):
        exchange(ours.url, theirs.url, "STRICT")
        urls = {"ours": ours.url, "theirs": theirs.url}
        for turn in range(2):
            for order in (urls.values(), reversed(urls.values())):
                for url in order:
                    send(url, str(turn))
        places = {name: taken(url) for name, url in urls.items()}
    texts = [*places["ours"], *places["theirs"]]
    assert len(texts) == len(GROUPS) * 2 * 2 * 2
    for group in GROUPS:
        on = {name for name, found in places.items() for text in found if text.startswith(group)}
        assert len(on) == 1, (group, on)
    # Groups are on both.
    assert all(places.values()), places


def send(url: str, text: str) -> None:
    with connected(url) as session:
        producer = session.create_producer(Queue("orders"))
        for group in GROUPS:
            producer.send(TextMessage(f"{group} {text}", properties={"JMSXGroupID": group}))


def taken(url: str) -> list[str]:
    found: list[str] = []
    with connected(url) as session, session.create_consumer(Queue("orders")) as consumer:
        while (message := consumer.receive(timeout=2)) is not None:
            found.append(str(message.body))
    return found
