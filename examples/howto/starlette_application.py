"""A web application of Starlette: its lifespan shares the connection as state."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from embedclient import Connection
from embedclient.asyncio import ConnectionFactory


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Connection]]:
    url = os.environ.get("BROKER_URL", "tcp://localhost:61616")
    async with ConnectionFactory(url).connect() as connection:
        yield {"connection": connection}


async def take(request: Request) -> JSONResponse:
    name = request.path_params["name"]
    await request.state.connection.send("orders", name)
    return JSONResponse({"accepted": name}, 202)


app = Starlette(
    lifespan=lifespan, routes=[Route("/orders/{name}", take, methods=["POST"])]
)
