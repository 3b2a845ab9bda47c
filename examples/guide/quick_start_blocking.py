"""The same without async: the broker and the connection have separate threads."""

from embedbroker import EmbeddedBroker
from embedclient import Queue
from embedclient.blocking import ConnectionFactory

orders = Queue("orders")
with (
    EmbeddedBroker.in_thread() as broker,
    ConnectionFactory(broker.url).connect() as connection,
    connection.session() as session,
):
    session.create_producer(orders).send("two coffees")
    with session.create_consumer(orders) as consumer:
        print(consumer.receive().body)
