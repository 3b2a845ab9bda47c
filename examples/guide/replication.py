"""A primary and its backup with a directory each: the backup keeps a copy, takes over,
and gives way again.
"""

import tempfile

import trio

from embedbroker import (
    ClusterConnection,
    EmbeddedBroker,
    MemoryLockManager,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
)
from embedclient import ConnectionFactory, Queue

# Names will do within one trio run; between machines these are URLs such as
# tcp://host-a:61616.
CONNECTORS = {"primary": "vm://primary", "backup": "vm://backup"}
PAIR = "(vm://primary,vm://backup)?ha=true&reconnectAttempts=-1&retryInterval=20"


async def main(directory: str) -> None:
    # Decides which broker is live. Several processes need one that all of them reach.
    manager = MemoryLockManager()

    def member(
        name: str, other: str, policy: ReplicationPrimary | ReplicationBackup
    ) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            data_directory=f"{directory}/{name}",
            ha_policy=policy,
            connectors=CONNECTORS,
            cluster_connections=ClusterConnection(
                connector=name, static_connectors=(other,)
            ),
            cluster_password="secret",
            lock_manager=manager,
        )

    async with (
        member("primary", "backup", ReplicationPrimary()) as primary,
        member("backup", "primary", ReplicationBackup(allow_failback=True)) as backup,
    ):
        await backup.wait_in_sync()
        print(primary.role.value, backup.role.value, primary.node_id == backup.node_id)
        async with (
            ConnectionFactory(PAIR).connect() as connection,
            connection.session() as session,
        ):
            # It is on both disks when this returns.
            await session.create_producer(Queue("orders")).send("hello")
            await primary.crash()
            await backup.wait_for_role(Role.LIVE)
            print(primary.role.value, backup.role.value)
            async with session.create_consumer(Queue("orders")) as consumer:
                print(await consumer.receive_body(str))
        await primary.start()  # gets a copy of what it missed, as a backup
        await primary.wait_for_role(Role.LIVE)
        await backup.wait_for_role(Role.BACKUP)
        print(primary.role.value, backup.role.value)


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
