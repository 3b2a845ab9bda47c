"""`embedbroker send`: messages from the command line, a file or a pipe into a queue or topic."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from embedclient import Connection, DeliveryMode

from ._connection_options import check_destination, connection_options, factory_for, run_client
from ._message_text import KINDS, Value, message_from, property_from
from ._numbers import Number
from ._stdin import lines_of_stdin, whole_stdin

__all__ = ["send"]


def _properties(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Value]:
    return dict(property_from(text) for text in texts)


@click.command(short_help="Send messages to a queue or topic.")
@connection_options
@click.argument("destination", callback=check_destination)
@click.argument("bodies", metavar="[BODY]...", nargs=-1)
@click.option("--lines", is_flag=True, help="Every line of stdin is a message.")
@click.option("--count", default=1, show_default=True, type=click.IntRange(1), help="How often each one is sent.")
@click.option(
    "--type", "kind", default="text", show_default=True, type=click.Choice(KINDS), help="map and stream: JSON."
)
@click.option("-p", "--property", "properties", multiple=True, metavar="NAME=VALUE", callback=_properties)
@click.option("--priority", default=4, show_default=True, type=click.IntRange(0, 9))
@click.option("--ttl", default=0.0, metavar="SECONDS", type=Number(0), help="How long it is of use; 0: no end")
@click.option("--delay", default=0.0, metavar="SECONDS", type=Number(0), help="Time before it is delivered; 0: at once")
@click.option("--non-persistent", is_flag=True, help="A message that need not survive the broker.")
@click.option("--correlation-id")
@click.option("--transacted", is_flag=True, help="All messages in one transaction.")
def send(
    url: str,
    user: str | None,
    password: str | None,
    client_id: str | None,
    destination: str,
    bodies: tuple[str, ...],
    lines: bool,
    count: int,
    kind: str,
    properties: dict[str, Value],
    priority: int,
    ttl: float,
    delay: float,
    non_persistent: bool,
    correlation_id: str | None,
    transacted: bool,
) -> None:
    """Send each BODY as a message to DESTINATION: a queue name, queue://NAME or topic://NAME.

    Without BODY the whole of stdin is one message, or one per line with --lines.
    """

    async def work(connection: Connection) -> None:
        sent = 0
        async with connection.session(transacted=transacted) as session:
            producer = session.create_producer(destination)
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT
            producer.priority = priority
            producer.time_to_live = ttl
            producer.delivery_delay = delay
            async with aclosing(_given(bodies, lines, connection.settings.frame_size_bytes_max)) as given:
                async for body in given:
                    message = message_from(kind, body, properties)
                    message.correlation_id = correlation_id
                    for _ in range(count):
                        await producer.send(message)
                        sent += 1
            if transacted:
                await session.commit()
        click.echo(f"sent {sent} message{'s' if sent != 1 else ''} to {destination}", err=True)

    run_client(factory_for(url, user, password, client_id), work)


async def _given(bodies: tuple[str, ...], lines: bool, bytes_max: int) -> AsyncGenerator[str | bytes, None]:
    """Return the bodies of the command line; without any, those of stdin."""
    if bodies:
        for body in bodies:
            yield body
    elif lines:
        async with aclosing(lines_of_stdin(bytes_max)) as bodies_of_stdin:
            async for line in bodies_of_stdin:
                yield line
    else:
        yield await whole_stdin(bytes_max)
