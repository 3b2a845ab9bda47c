"""`embedbroker send`: messages from the command line, a file or a pipe into a queue or topic."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from attrs import Factory, define
from click.core import ParameterSource

from embedclient import Connection, DeliveryMode, Message, MessageProducer
from embedclient.errors import JMSException

from ._body_files import file_message
from ._connection_options import check_destination, connection_options, factory_for, run_client
from ._failure import CommandFailed, Refused
from ._message_text import KINDS, Value, as_json_line, message_from, property_from
from ._numbers import Number
from ._progress import body_progress, message_progress
from ._stdin import lines_of_stdin, whole_stdin

__all__ = ["message_options", "send"]

F = TypeVar("F", bound=Callable[..., Any])


def _properties(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, Value]:
    return dict(property_from(text) for text in texts)


def message_options(command: F) -> F:
    """Add the options that describe each message."""
    options = (
        click.option(
            "--type", "kind", default="text", show_default=True, type=click.Choice(KINDS), help="map and stream: JSON."
        ),
        click.option("-p", "--property", "properties", multiple=True, metavar="NAME=VALUE", callback=_properties),
        click.option("--priority", default=4, show_default=True, type=click.IntRange(0, 9)),
        click.option("--ttl", default=0.0, metavar="SECONDS", type=Number(0), help="How long it is of use; 0: no end"),
        click.option(
            "--delay", default=0.0, metavar="SECONDS", type=Number(0), help="Time before it is delivered; 0: at once"
        ),
        click.option("--non-persistent", is_flag=True, help="A message that need not survive the broker."),
        click.option("--correlation-id"),
    )
    for option in reversed(options):
        command = option(command)
    return command


_files = click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of any size is a bytes message; repeatable.",
)


@click.command(short_help="Send messages to a queue or topic.")
@connection_options
@click.argument("destination", callback=check_destination)
@click.argument("bodies", metavar="[BODY]...", nargs=-1)
@click.option("--lines", is_flag=True, help="Every line of stdin is a message.")
@_files
@click.option("--count", default=1, show_default=True, type=click.IntRange(1), help="How often each one is sent.")
@message_options
@click.option("--transacted", is_flag=True, help="All messages in one transaction.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per message that was sent, with its id.")
@click.pass_context
def send(
    context: click.Context,
    url: str,
    user: str | None,
    password: str | None,
    client_id: str | None,
    destination: str,
    bodies: tuple[str, ...],
    lines: bool,
    files: tuple[Path, ...],
    count: int,
    kind: str,
    properties: dict[str, Value],
    priority: int,
    ttl: float,
    delay: float,
    non_persistent: bool,
    correlation_id: str | None,
    transacted: bool,
    as_json: bool,
) -> None:
    """Send each BODY as a message to DESTINATION: a queue name, queue://NAME or topic://NAME.

    Without BODY the whole of stdin is one message, or one per line with --lines, or the content of each --file.
    """
    if files:
        _check_alone(context, bodies, lines, kind)
        _check_repeatable(files, count)
    sent = _Sent(as_json, transacted)

    async def work(connection: Connection) -> None:
        async with connection.session(transacted=transacted) as session:
            producer = session.create_producer(destination)
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT
            producer.priority, producer.time_to_live, producer.delivery_delay = priority, ttl, delay
            for file in files:
                for _ in range(count):
                    sent.add(await _send_file(producer, file, properties, correlation_id), file)
            bytes_max = connection.settings.frame_size_bytes_max
            with sent.shown(reads=not bodies and not files):
                async with aclosing(_given(bodies, lines, bool(files), bytes_max)) as given:
                    async for body in given:
                        message = message_from(kind, body, properties)
                        message.correlation_id = correlation_id
                        for _ in range(count):
                            await producer.send(message)
                            sent.add(message)
            if transacted:
                await session.commit()
                sent.commit()

    with _reported(sent, destination, bool(files), transacted):
        run_client(factory_for(url, user, password, client_id), work)


@define
class _Sent:
    """Count what was sent, and print it as JSON if wanted: in a transaction once it is committed."""

    as_json: bool
    transacted: bool
    number: int = 0
    lines: list[str] = Factory(list)
    progress: Callable[[int], None] | None = None

    @contextmanager
    def shown(self, *, reads: bool) -> Iterator[None]:
        """Show the number on a terminal during the block, unless lines are typed or printed there, too."""
        if (reads and sys.stdin is not None and sys.stdin.isatty()) or (self.as_json and sys.stdout.isatty()):
            yield
            return
        with message_progress() as self.progress:
            yield

    def add(self, message: Message, file: Path | None = None) -> None:
        self.number += 1
        if self.progress is not None:
            self.progress(self.number)
        if self.as_json and self.transacted:
            self.lines.append(as_json_line(message, file))
        elif self.as_json:
            click.echo(as_json_line(message, file))

    def commit(self) -> None:
        for line in self.lines:
            click.echo(line)


@contextmanager
def _reported(sent: _Sent, destination: str, has_files: bool, transacted: bool) -> Iterator[None]:
    """Print how many messages were sent. A transaction without its commit sends nothing."""
    try:
        yield
    except CommandFailed as error:
        if sent.number and not transacted:
            before = f"{_messages(sent.number)} before it {'were' if sent.number != 1 else 'was'} sent"
            raise type(error)(f"{error.message}; {before}") from None
        raise
    except click.exceptions.Exit:  # a signal
        if sent.number and has_files and not transacted:
            click.echo(f"interrupted; sent {_messages(sent.number)} to {destination} before", err=True)
        raise
    click.echo(f"sent {_messages(sent.number)} to {destination}", err=True)


def _messages(number: int) -> str:
    return f"{number} message{'s' if number != 1 else ''}"


def _check_alone(context: click.Context, bodies: tuple[str, ...], lines: bool, kind: str) -> None:
    """Check that no option contradicts --file."""
    if bodies or lines:
        raise click.UsageError("--file takes the place of BODY and --lines")
    if kind != "bytes" and context.get_parameter_source("kind") is not ParameterSource.DEFAULT:
        raise click.UsageError(f"--file sends bytes messages, not --type {kind}")


def _check_repeatable(files: tuple[Path, ...], count: int) -> None:
    """Check that each file can be read for each of its messages."""
    for file in files:
        if count > 1 and not file.is_file():
            raise click.UsageError(
                f"--count {count} cannot repeat {file}: a pipe or device is read once. Save its content in a file, and "
                "send that"
            )


async def _send_file(
    producer: MessageProducer, path: Path, properties: dict[str, Value], correlation_id: str | None
) -> Message:
    try:
        async with file_message(path, properties) as message:
            message.correlation_id = correlation_id
            with body_progress(path.name) as progress:
                await producer.send(message, progress=progress)
            return message
    except JMSException:  # some of them are of the kind of OSError
        raise
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}; it was not sent") from None


async def _given(
    bodies: tuple[str, ...], lines: bool, has_files: bool, bytes_max: int
) -> AsyncGenerator[str | bytes, None]:
    """Yield the bodies of the command line; without any, and without files, those of stdin."""
    if bodies or has_files:
        for body in bodies:
            yield body
    elif lines:
        async with aclosing(lines_of_stdin(bytes_max)) as bodies_of_stdin:
            async for line in bodies_of_stdin:
                yield line
    else:
        yield await whole_stdin(bytes_max)
