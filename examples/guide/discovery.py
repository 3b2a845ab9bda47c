"""Brokers and a client find each other by a multicast group: no place of any of them is
configured.
"""

import json
import os

import trio

from embedbroker import (
    BroadcastGroup,
    ClusterConnection,
    DiscoveryGroup,
    EmbeddedBroker,
)
from embedclient import ConnectionFactory, Queue

# A group for each run of this program, on the loopback interface.
ADDRESS, PORT, INTERFACE = "231.7.7.7", 10_000 + os.getpid() % 50_000, "127.0.0.1"


def member(name: str) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        broadcast_groups=[BroadcastGroup("announce", ADDRESS, PORT, INTERFACE)],
        discovery_groups=[DiscoveryGroup("find", ADDRESS, PORT, INTERFACE)],
        cluster_connections=ClusterConnection(discovery_group="find"),
        cluster_password="secret",
    )


async def main() -> None:
    async with member("a") as a, member("b"):
        await trio.sleep(1)  # the datagrams arrive, and the brokers connect
        print(
            len(json.loads(await a.management.invoke("broker", "listNetworkTopology"))),
            "members",
        )
        url = f"udp://{ADDRESS}:{PORT}?localBindAddress={INTERFACE}"
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
        ):
            await session.create_producer(Queue("orders")).send("hello")
            async with session.create_consumer(Queue("orders")) as consumer:
                print((await consumer.receive()).body)


trio.run(main)
