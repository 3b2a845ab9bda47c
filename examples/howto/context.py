"""A message in five lines: the simplified API of JMS."""

from embedbroker import EmbeddedBroker
from embedclient.blocking import ConnectionFactory

broker = EmbeddedBroker.in_thread().start()
with ConnectionFactory(broker.url).create_context() as context:
    context.create_producer().send("orders", "two coffees")
    print(context.create_consumer("orders").receive_body(str, timeout=5))
broker.close()
