"""Management creates a bridge in a broker that runs; a restart keeps it."""

from pathlib import Path
from tempfile import TemporaryDirectory

from embedbroker import BridgeConfig, EmbeddedBroker
from embedclient import Queue
from embedclient.blocking import ConnectionFactory

BRIDGE = BridgeConfig(
    "to-office",
    queue="orders",
    static_connectors=["office"],
    forwarding_address="all-orders",
)


def main(folder: Path) -> None:
    with EmbeddedBroker.in_thread(name="office") as office:
        office.management.create_queue("all-orders")
        with EmbeddedBroker.in_thread(name="shop", data_directory=folder) as shop:
            shop.management.create_queue("orders")
            shop.management.add_connector("office", office.url)
            shop.management.create_bridge(BRIDGE)

        with EmbeddedBroker.in_thread(name="shop", data_directory=folder) as shop:
            print("after a restart:", shop.management.bridge_names())
            with (
                ConnectionFactory(shop.url).connect() as connection,
                connection.session() as session,
            ):
                session.create_producer(Queue("orders")).send("tea")
            with (
                ConnectionFactory(office.url).connect() as connection,
                connection.session() as session,
                session.create_consumer(Queue("all-orders")) as consumer,
            ):
                print("the office got", consumer.receive_body(str, timeout=10))
            shop.management.delete_bridge("to-office")
            print("at the end:", shop.management.bridge_names())


with TemporaryDirectory() as directory:
    main(Path(directory))
