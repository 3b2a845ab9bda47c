"""`embedbroker request`: one message to a service, and its reply on stdout."""

from __future__ import annotations

import click

from embedclient import Connection, DeliveryMode, Message

from ._connection_options import check_destination, connection_options, factory_for, run_client
from ._failure import TooFew
from ._message_text import Value, message_from
from ._numbers import Number
from ._receive import printer
from ._send import message_options
from ._stdin import whole_stdin

__all__ = ["request"]


@click.command(short_help="Send a message to a service, and print its reply.")
@connection_options
@click.argument("destination", callback=check_destination)
@click.argument("body", required=False)
@message_options
@click.option(
    "--timeout", default=10.0, show_default=True, metavar="SECONDS", type=Number(0), help="How long to wait for it."
)
@click.option("--json", "as_json", is_flag=True, help="The reply as a JSON line.")
@click.option("--headers", is_flag=True, help="Print headers and properties, too.")
def request(
    url: str,
    user: str | None,
    password: str | None,
    client_id: str | None,
    destination: str,
    body: str | None,
    kind: str,
    properties: dict[str, Value],
    priority: int,
    ttl: float,
    delay: float,
    non_persistent: bool,
    correlation_id: str | None,
    timeout: float,
    as_json: bool,
    headers: bool,
) -> None:
    """Send BODY to DESTINATION, and print the first reply to it. Without BODY the whole of stdin is the message.

    The reply comes to a temporary queue, which the request names as the place for replies.
    """
    show = printer(as_json, headers)
    replies: list[Message] = []

    async def work(connection: Connection) -> None:
        async with connection.session() as session:
            inbox = await session.create_temporary_queue()
            async with session.create_consumer(inbox) as consumer:
                producer = session.create_producer(destination)
                producer.delivery_mode = DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT
                producer.priority, producer.time_to_live, producer.delivery_delay = priority, ttl, delay
                given = await whole_stdin(connection.settings.frame_size_bytes_max) if body is None else body
                message = message_from(kind, given, properties)
                message.correlation_id = correlation_id
                message.reply_to = inbox
                await producer.send(message)
                reply = await consumer.receive(timeout=timeout)
                if reply is not None:
                    replies.append(reply)
                    show(reply)

    run_client(factory_for(url, user, password, client_id), work)
    if not replies:
        raise TooFew(f"no reply within {timeout:g} s: is a service at {destination}?")
