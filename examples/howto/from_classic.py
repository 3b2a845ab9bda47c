"""Moved from ActiveMQ Classic: the error has the URL to write, which follows a pair."""

import socket
import tempfile

from embedbroker import EmbeddedBroker, SharedStoreBackup, SharedStorePrimary
from embedclient.blocking import ConnectionFactory
from embedclient.errors import InvalidURLException

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
with (
    tempfile.TemporaryDirectory() as store,
    EmbeddedBroker.in_thread(
        data_directory=store, ha_policy=SharedStorePrimary()
    ) as primary,
    EmbeddedBroker.in_thread(
        port=port, data_directory=store, ha_policy=SharedStoreBackup()
    ),
):
    hosts = f"({primary.url},tcp://127.0.0.1:{port})"
    url = f"{hosts}?ha=true&reconnectAttempts=-1"
    try:
        ConnectionFactory(f"failover:{hosts}")
    except InvalidURLException as error:
        print("the error has the URL:", f"write {url}" in str(error))
    with ConnectionFactory(f"{url}&retryInterval=10").connect() as connection:
        connection.send("orders", "two coffees")
        primary.stop(failover=True)
        with connection.consume("orders") as messages:
            print(messages.receive().body)
