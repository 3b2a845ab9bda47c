"""A client that is configured with the primary alone learns of the backup, and goes on
there.
"""

import trio
import trio.testing

from embedbroker import (
    ClusterConnection,
    EmbeddedBroker,
    MemoryLocks,
    Role,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.testing import SimulatedDisk
from embedclient import ConnectionFactory, Queue

CONNECTORS = {"primary": "vm://primary", "backup": "vm://backup"}
DISK, LOCKS = SimulatedDisk(), MemoryLocks()


def member(
    name: str, other: str, policy: SharedStorePrimary | SharedStoreBackup
) -> EmbeddedBroker:
    return EmbeddedBroker(
        name=name,
        ha_policy=policy,
        connectors=CONNECTORS,
        cluster_connections=ClusterConnection(
            connector=name, static_connectors=[other]
        ),
        cluster_password="secret",
        disk=DISK,
        locks=LOCKS,
    )


async def main() -> None:
    async with (
        member("primary", "backup", SharedStorePrimary()) as primary,
        member("backup", "primary", SharedStoreBackup()) as backup,
        ConnectionFactory(
            "vm://primary?ha=true&reconnectAttempts=-1&retryInterval=100"
        ).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(Queue("orders"))
        await producer.send("before")
        await trio.sleep(1)  # virtual: the backup joins, and the client learns of it
        await primary.crash()
        await backup.wait_for_role(Role.LIVE)
        await producer.send("after")
        async with session.create_consumer(Queue("orders")) as consumer:
            print([(await consumer.receive()).body for _ in range(2)])


trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
