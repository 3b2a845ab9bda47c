"""A primary and its backup with a directory each: the backup keeps a copy, takes over, and gives way again."""

import tempfile

import trio

from embedbroker import (
    BrokerConfig,
    ClusterConnection,
    EmbeddedBroker,
    MemoryLockManager,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
)
from embedclient import ConnectionFactory, Queue


async def main(directory: str) -> None:
    manager = MemoryLockManager()  # decides who is live; brokers in several processes need one that they all reach
    common = BrokerConfig(cluster_user="cluster", cluster_password="secret")
    primary = EmbeddedBroker(
        common,
        name="primary",
        data_directory=f"{directory}/primary",
        ha_policy=ReplicationPrimary(),
        cluster_connection=ClusterConnection(),
        lock_manager=manager,
    )
    async with primary:
        backup = EmbeddedBroker(
            common,
            name="backup",
            data_directory=f"{directory}/backup",
            ha_policy=ReplicationBackup(allow_failback=True),
            connectors={"primary": primary.url},
            cluster_connection=ClusterConnection(static_connectors=("primary",)),
            lock_manager=manager,
        )
        async with backup:
            await backup.wait_in_sync()
            print(primary.role.value, backup.role.value, primary.node_id == backup.node_id)
            async with ConnectionFactory(primary.url).connect() as connection, connection.session() as session:
                await session.create_producer(Queue("orders")).send("hello")  # is on both disks when this returns
            await primary.crash()
            await backup.wait_for_role(Role.LIVE)
            print(primary.role.value, backup.role.value)
            async with (
                ConnectionFactory(backup.url).connect() as connection,
                connection.session() as session,
                session.create_consumer(Queue("orders")) as consumer,
            ):
                print(await consumer.receive_body(str))


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
