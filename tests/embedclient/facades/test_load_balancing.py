"""Connections of one factory spread over a cluster, through every facade."""

from __future__ import annotations

import time

from embedbroker import BrokerConfig, ClusterConnection, EmbeddedBroker
from tests.embedclient.facades.conftest import Client

FORMED_S = 60.0


async def test_connections_are_spread_over_nodes_that_the_url_does_not_name(client: Client) -> None:
    first = ClusterConnection(retry_interval_ms=20)
    config = BrokerConfig(name="a", cluster_password="secret", cluster_connections=first)
    with EmbeddedBroker.in_thread(config) as named:
        second = ClusterConnection(static_connectors=["a"], retry_interval_ms=20)
        config = BrokerConfig(
            name="b", connectors={"a": named.url}, cluster_password="secret", cluster_connections=second
        )
        with EmbeddedBroker.in_thread(config) as other:
            calls: list[int] = []

            def in_turn(count: int) -> int:
                calls.append(count)
                return len(calls) % count

            factory = client.connection_factory(named.url, load_balancing_policy=in_turn)
            async with factory.connect():
                until = time.monotonic() + FORMED_S
                while calls[-1] == 1:
                    assert time.monotonic() < until, "the client did not learn of the other broker"
                    async with factory.connect():
                        pass
                for _ in range(4):
                    async with factory.connect() as connection, connection.session() as session:
                        await session.create_producer("orders").send("one")
            counts: list[int] = []
            for broker in (named, other):
                await client.aside(lambda broker=broker: counts.append(broker.management.message_count("orders")))  # type: ignore[misc]
            assert counts == [2, 2]
