"""A notebook, cell by cell: nothing needs a block, and the last cell cleans up."""

# %%
from embedbroker import EmbeddedBroker
from embedclient.asyncio import ConnectionFactory

broker = EmbeddedBroker.in_thread().start()
connection = await ConnectionFactory(broker.url).connect()

# %%
await connection.send("orders", "two coffees")

# %%
session = await connection.create_session()
consumer = await session.create_consumer("orders")
message = await consumer.receive()
print(message.body)

# %%
await connection.close()
broker.close()
