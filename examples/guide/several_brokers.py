"""A list of brokers: which one is tried, a custom policy, and sessions that move to
another broker.
"""

from itertools import count

import trio

from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, JMSException, Queue, ServerLocator


async def main() -> None:
    async with (
        EmbeddedBroker(name="first") as first,
        EmbeddedBroker(name="second") as second,
    ):
        both = f"({first.vm_url},{second.vm_url})"

        locator = ServerLocator(
            f"{both}?connectionLoadBalancingPolicyClassName=RoundRobin"
        )
        used: list[object] = []
        for _ in range(4):
            async with locator.create_session_factory() as factory:
                assert factory.connector is not None
                used.append(factory.connector.parameters["serverId"])
        print("round robin takes turns:", used[0] != used[1] and used[:2] == used[2:])

        # A policy is any callable from the number of brokers to an index. This one
        # begins with the first broker.
        numbers = count()
        attempts = "failoverAttempts=-1&retryInterval=20"
        url = f"{both}?{attempts}&useTopologyForLoadBalancing=false"
        moving = ConnectionFactory(
            url, load_balancing_policy=lambda brokers: next(numbers) % brokers
        )
        async with moving.connect() as connection, connection.session() as session:
            moved = trio.Event()

            def on_failure(error: JMSException, sessions_live_on: bool) -> None:
                print("sessions live on:", sessions_live_on)
                moved.set()

            connection.add_failure_listener(on_failure)
            await first.crash()
            await moved.wait()
            await session.create_producer(Queue("orders")).send("to the second broker")

        async with (
            ConnectionFactory(second.vm_url).connect() as connection,
            connection.session() as session,
            session.create_consumer(Queue("orders")) as consumer,
        ):
            print((await consumer.receive()).body)


trio.run(main)
