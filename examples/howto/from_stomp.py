"""Moved from stomp.py: a listener that acknowledges each message, and a sender."""

import threading

from embedbroker import EmbeddedBroker
from embedclient.blocking import (
    AcknowledgeMode,
    ConnectionFactory,
    Message,
    TextMessage,
)

done = threading.Event()


def on_message(message: Message) -> None:
    print(message.body, "for table", message.properties["table"])
    message.acknowledge()
    done.set()


with (
    EmbeddedBroker.in_thread() as broker,
    ConnectionFactory(broker.url, user="u", password="p").connect() as connection,
    connection.session(acknowledge_mode=AcknowledgeMode.INDIVIDUAL) as session,
):
    consumer = session.create_consumer("orders", selector="table = 7")
    consumer.set_message_listener(on_message)
    connection.send("orders", TextMessage("one tea", properties={"table": 6}))
    connection.send("orders", TextMessage("two coffees", properties={"table": 7}))
    assert done.wait(timeout=10)
    broker.wait_for(queue="orders", count=1)  # the tea
