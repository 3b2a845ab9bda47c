"""A web application on asyncio: its lifespan opens the connection for all requests."""

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from fastapi import FastAPI

from embedbroker import EmbeddedBroker
from embedclient.asyncio import ConnectionFactory


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with ExitStack() as stack:
        url = os.environ.get("BROKER_URL")
        if url is None:
            url = stack.enter_context(EmbeddedBroker.in_thread()).url
        async with ConnectionFactory(url).connect() as app.state.connection:
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{name}", status_code=202)
async def take(name: str) -> dict[str, str]:
    await app.state.connection.send("orders", name)
    return {"accepted": name}


@app.get("/prices/{name}")
async def price(name: str) -> str:
    reply = await app.state.connection.request("prices", name, timeout=5)
    return str(reply.body)
