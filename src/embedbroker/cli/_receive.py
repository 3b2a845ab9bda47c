"""`embedbroker receive` and `embedbroker browse`: messages of a queue or topic on stdout.

A received message is acknowledged after it was printed or saved. What a broken pipe kept from the reader, or a full
disk from its file, is delivered again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import click

from embedclient import AcknowledgeMode, Connection, Message, MessageConsumer, Session
from embedclient.errors import BodyTooLargeException, JMSException

from ._body_files import SavePlace, new_file
from ._connection_options import check_destination, connection_options, factory_for, run_client, with_parameter
from ._failure import Refused
from ._message_text import as_json_line, as_text
from ._numbers import Number
from ._progress import body_progress

__all__ = ["browse", "printer", "receive"]


class _Show(Protocol):
    def __call__(self, message: Message, saved: Path | None = None) -> None:
        """Print a message, or where its body is."""


def printer(as_json: bool, headers: bool) -> _Show:
    if sys.stdout is None:
        raise Refused("stdout is closed, so the messages would be lost: open it, or redirect it to a file")

    def show(message: Message, saved: Path | None = None) -> None:
        try:
            text = as_json_line(message, saved) if as_json else as_text(message, with_headers=headers, saved=saved)
        except BodyTooLargeException as error:
            raise Refused(f"{str(error).partition(':')[0]}: receive it with --save, or raise that parameter") from None
        click.echo(text)
        sys.stdout.flush()

    return show


async def _save(message: Message, place: SavePlace) -> Path:
    """Save the body of a message, and return its file, which is whole and on disk."""
    path, overwrites = place.file_for(message)
    try:
        async with new_file(path, overwrites=overwrites) as file:
            with body_progress(path.name) as progress:
                await message.save_to(file, progress=progress)
    except JMSException:  # some of them are of the kind of OSError
        raise
    except FileExistsError:
        advice = "" if place.overwrites else ", or add --overwrite"
        raise Refused(f"'{path}' exists: move it{advice}; the message comes again") from None
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}; the message comes again") from None
    return path


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
@click.option(
    "--save",
    metavar="PATH",
    type=click.Path(path_type=str),
    help="Write the body, of any size, to this file, or each to a file in this directory; print the path.",
)
@click.option("--overwrite", is_flag=True, help="--save may replace a file.")
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
    save: str | None,
    overwrite: bool,
) -> None:
    """Receive messages from DESTINATION: a queue name, queue://NAME or topic://NAME.

    The exit code is 1 if fewer than --count came in time.
    """
    if durable is not None and client_id is None:
        raise click.UsageError("--durable needs --client-id")
    if overwrite and save is None:
        raise click.UsageError("--overwrite needs --save")
    place = None
    if save is not None:
        place = SavePlace.of_option(save, overwrites=overwrite, count=count)
        # Bodies go to files piece by piece, also those that would fit into memory.
        url = with_parameter(url, "maxLargeMessageBodySize", 0)
    show = printer(as_json, headers)
    received = 0

    async def work(connection: Connection) -> None:
        nonlocal received
        async with connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session:
            consumer = await _open_consumer(session, destination, durable, selector)
            while count == 0 or received < count:
                message = await consumer.receive(timeout)
                if message is None:
                    return
                show(message, None if place is None else await _save(message, place))
                await message.acknowledge()
                received += 1

    run_client(factory_for(url, user, password, client_id), work)
    if received < count:
        sys.exit(1)


async def _open_consumer(
    session: Session, destination: str, durable: str | None, selector: str | None
) -> MessageConsumer:
    if durable is not None:
        return await session.create_durable_consumer(destination, durable, selector)
    return await session.create_consumer(destination, selector)


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
    show = printer(as_json, headers)

    async def work(connection: Connection) -> None:
        shown = 0
        async with connection.session() as session, session.create_browser(queue, selector) as browser:
            while (count == 0 or shown < count) and (message := await browser.next_message()) is not None:
                show(message)
                shown += 1

    run_client(factory_for(url, user, password, client_id), work)
