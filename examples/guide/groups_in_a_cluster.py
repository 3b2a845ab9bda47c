"""Two brokers of a cluster: the payments of an account arrive at both, and go to one
consumer, in order.
"""

import trio
import trio.testing

from embedbroker import (
    ClusterConnection,
    EmbeddedBroker,
    GroupingHandlerConfig,
    GroupingHandlerType,
)
from embedclient import ConnectionFactory, Queue, TextMessage

NAMES = ("a", "b")
PAYMENTS = Queue("payments")


def member(name: str, handler: GroupingHandlerType) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        connectors={each: f"vm://{each}" for each in NAMES},
        cluster_connections=ClusterConnection(
            connector=name, static_connectors=[each for each in NAMES if each != name]
        ),
        cluster_password="secret",
        grouping_handler=GroupingHandlerConfig("groups", handler),
    )


async def main() -> None:
    async with (
        member("a", GroupingHandlerType.LOCAL),  # it decides
        member("b", GroupingHandlerType.REMOTE),  # it proposes, as all others
        ConnectionFactory("vm://a").connect() as at_a,
        ConnectionFactory("vm://b").connect() as at_b,
        at_a.session() as session_a,
        at_b.session() as session_b,
        session_a.create_consumer(PAYMENTS) as consumer_a,
        session_b.create_consumer(PAYMENTS) as consumer_b,
    ):
        await trio.sleep(1)  # virtual: the brokers learn of each other's consumers
        producers = [
            session.create_producer(PAYMENTS) for session in (session_a, session_b)
        ]
        for step in ("open", "pay", "close"):
            for account in ("anna", "ben"):
                for producer in producers:
                    await producer.send(
                        TextMessage(
                            f"{account}: {step}", properties={"JMSXGroupID": account}
                        )
                    )
        for name, consumer in (("a", consumer_a), ("b", consumer_b)):
            accounts: set[str] = set()
            while (message := await consumer.receive(timeout=1)) is not None:
                accounts.add(message.body.partition(":")[0])
            print(f"consumer at {name}: {sorted(accounts)}")


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
