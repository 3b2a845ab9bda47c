"""A script without async: a broker on disk, a message sent and received."""

import tempfile

from embedbroker import EmbeddedBroker
from embedclient.blocking import ConnectionFactory

with (
    tempfile.TemporaryDirectory() as directory,
    EmbeddedBroker.in_thread(data_directory=directory) as broker,
    ConnectionFactory(broker.url).connect() as connection,
    connection.session() as session,
):
    connection.send("orders", "two coffees")
    print(session.create_consumer("orders").receive().body)
