"""`embedbroker receive` and `embedbroker browse`: messages of a queue or topic on stdout.

A received message is acknowledged after it was printed. What a broken pipe kept from the reader is delivered again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from embedclient import AcknowledgeMode, Connection, Message, MessageConsumer, Session

from ._connection_options import check_destination, connection_options, factory_for, run_client
from ._failure import Refused
from ._message_text import as_json_line, as_text
from ._numbers import Number

__all__ = ["browse", "receive"]


def _printer(as_json: bool, headers: bool) -> Callable[[Message], None]:
    if sys.stdout is None:
        raise Refused("stdout is closed, so the messages would be lost: open it, or redirect it to a file")

    def show(message: Message) -> None:
        click.echo(as_json_line(message) if as_json else as_text(message, with_headers=headers))
        sys.stdout.flush()

    return show


@click.command(short_help="Receive messages from a queue or topic.")
@connection_options
@click.argument("destination", callback=check_destination)
@click.option(
    "--count", default=1, show_default=True, type=click.IntRange(0), help="0: until interrupted or timed out."
)
@click.option("--timeout", type=Number(0), metavar="SECONDS", help="How long to wait for each message.")
@click.option("--selector", help="A JMS selector, such as \"color = 'red' AND size > 3\".")
@click.option("--durable", metavar="NAME", help="As a durable subscription of a topic; needs --client-id.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per message.")
@click.option("--headers", is_flag=True, help="Print headers and properties, too.")
def receive(
    url: str,
    user: str | None,
    password: str | None,
    client_id: str | None,
    destination: str,
    count: int,
    timeout: float | None,
    selector: str | None,
    durable: str | None,
    as_json: bool,
    headers: bool,
) -> None:
    """Receive messages from DESTINATION: a queue name, queue://NAME or topic://NAME.

    The exit code is 1 if fewer than --count came in time.
    """
    if durable is not None and client_id is None:
        raise click.UsageError("--durable needs --client-id")
    show = _printer(as_json, headers)
    received = 0

    async def open_consumer(session: Session) -> MessageConsumer:
        if durable is not None:
            return await session.create_durable_consumer(destination, durable, selector)
        return await session.create_consumer(destination, selector)

    async def work(connection: Connection) -> None:
        nonlocal received
        async with connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session:
            consumer = await open_consumer(session)
            while count == 0 or received < count:
                message = await consumer.receive(timeout)
                if message is None:
                    return
                show(message)
                await message.acknowledge()
                received += 1

    run_client(factory_for(url, user, password, client_id), work)
    if received < count:
        sys.exit(1)


@click.command()
@connection_options
@click.argument("queue", callback=check_destination)
@click.option("--count", default=0, type=click.IntRange(0), help="Stop after so many; 0 shows all.")
@click.option("--selector", help="A JMS selector, such as \"color = 'red' AND size > 3\".")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per message.")
@click.option("--headers", is_flag=True, help="Print headers and properties, too.")
def browse(
    url: str,
    user: str | None,
    password: str | None,
    client_id: str | None,
    queue: str,
    count: int,
    selector: str | None,
    as_json: bool,
    headers: bool,
) -> None:
    """Show the messages of QUEUE and leave them there."""
    show = _printer(as_json, headers)

    async def work(connection: Connection) -> None:
        shown = 0
        async with connection.session() as session, session.create_browser(queue, selector) as browser:
            while (count == 0 or shown < count) and (message := await browser.next_message()) is not None:
                show(message)
                shown += 1

    run_client(factory_for(url, user, password, client_id), work)
