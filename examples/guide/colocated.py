"""Two brokers that host the backups of each other: one is lost, and goes on inside the
other one.
"""

import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import trio

from embedbroker import (
    BrokerConfig,
    ClusterConnection,
    Colocated,
    EmbeddedBroker,
    Role,
    SharedStorePrimary,
)
from embedclient import ConnectionFactory, Queue


def free_port() -> int:
    """Return a port that is free, and so is the one of the backup that the broker
    hosts.
    """
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", 0)) as taken:
            port = int(taken.getsockname()[1])
            socket.create_server(("127.0.0.1", port + 100)).close()
            return port


def config(
    name: str, other: str, ports: dict[str, int], directory: str
) -> BrokerConfig:
    return BrokerConfig(
        name=name,
        port=ports[name],
        data_directory=Path(directory, name),
        connectors={each: f"tcp://127.0.0.1:{port}" for each, port in ports.items()},
        cluster_connections=ClusterConnection(
            connector=name, static_connectors=[other]
        ),
        cluster_password="of this example",
        ha_policy=Colocated(
            SharedStorePrimary(),
            request_backup=True,
            backup_request_retry_interval_ms=200,
            excludes=[other],  # the port of this connector is that of another broker
        ),
    )


async def main(directory: str) -> None:
    ports = {"a": free_port(), "b": free_port()}
    a = EmbeddedBroker(config("a", "b", ports, directory))
    b = EmbeddedBroker(config("b", "a", ports, directory))
    async with a, b:
        for host, other in ((a, b), (b, a)):
            await host.wait_for_hosted_backup(Role.BACKUP)
            print(host.config.name, "hosts a backup of", other.config.name)
        factory = ConnectionFactory(f"{a.url}?ha=true&reconnectAttempts=-1")
        async with factory.connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue("orders"))
            await producer.send("before")
            await a.crash()
            backup = await b.wait_for_hosted_backup(Role.LIVE)
            await producer.send("after")
            print("a goes on inside b as", backup.name)
            await a.start()
            await a.wait_for_hosted_backup(Role.BACKUP)
            await producer.send("at home again")
            counts = {
                queue.name: queue.message_count for queue in await a.management.queues()
            }
            print("a is", a.role.value, "and has", counts["orders"], "messages")


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
