"""Shared by `send`, `receive`, `browse` and `perf`: the broker's address, the client's identity, and failures.

Does not depend on what these commands do with the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import click

from embedclient import Connection, ConnectionFactory
from embedclient.errors import JMSException
from embedclient.model import split_members, url_parameters

from ._failure import CannotConnect, CommandFailed, Refused
from ._interrupt import run_interruptibly

__all__ = ["check_destination", "connection_options", "factory_for", "failure_of", "run_client", "with_parameter"]

DEFAULT_URL = "tcp://localhost:61616"
_KINDS = ("queue", "topic", "temp-queue", "temp-topic")
F = TypeVar("F", bound=Callable[..., Any])
Work = Callable[[Connection], Awaitable[None]]


def connection_options(command: F) -> F:
    """Add --url, --user, --password and --client-id."""
    options = (
        click.option("--client-id", help="The connection's client id."),
        click.option("--password", envvar="EMBEDBROKER_PASSWORD", show_envvar=True),
        click.option("--user", envvar="EMBEDBROKER_USER", show_envvar=True),
        click.option(
            "--url",
            default=DEFAULT_URL,
            show_default=True,
            envvar="EMBEDBROKER_URL",
            show_envvar=True,
            help="Any broker that speaks CORE; the parameters are those of Artemis URLs.",
        ),
    )
    for option in options:
        command = option(command)
    return command


def factory_for(url: str, user: str | None, password: str | None, client_id: str | None) -> ConnectionFactory:
    """Return the factory of connections to the broker.

    Raises:
        Refused: the URL cannot be read.
    """
    try:
        return ConnectionFactory(url, user=user, password=password, client_id=client_id)
    except JMSException as error:
        raise Refused(str(error)) from None


def with_parameter(url: str, name: str, value: object) -> str:
    """Return a URL with a parameter for all its brokers. One that is there keeps its value."""
    url = url.strip()
    if url.startswith("("):
        inside, bracket, query = url.partition(")")
        start, end = inside + bracket, ""
        # As in Artemis, the first entry of a list may contain parameters of the whole list.
        queries = [query, split_members(inside[1:])[0]]
    else:
        query, separator, fragment = url.partition("#")
        start, end = "", separator + fragment
        queries = [query]
    if any(parameter.name == name for text in queries for parameter in url_parameters(text.partition("?")[2])):
        return url
    mark = "&" if "?" in query else "?"
    return f"{start}{query}{mark}{name}={value}{end}"


def run_client(factory: ConnectionFactory, work: Work) -> None:
    """Connect, and run ``work`` with the connection. An error that the broker returns becomes one line."""
    run_interruptibly(partial(_run, factory, work))


async def _run(factory: ConnectionFactory, work: Work) -> None:
    connected = False
    try:
        async with factory.connect() as connection:
            connected = True
            await work(connection)
    except JMSException as error:
        raise failure_of(factory, error, connected=connected) from None


def failure_of(factory: ConnectionFactory, error: JMSException, *, connected: bool) -> CommandFailed:
    """Return the error with which a command ends: no broker, or a broker that rejected the request."""
    kind = Refused if connected and not isinstance(error, ConnectionError) else CannotConnect
    return kind(f"{factory.url}: {error}")


def check_destination(_: click.Context, __: click.Parameter, text: str) -> str:
    """Check a destination.

    An unknown kind, as in `topics://prices`, would become the name of a queue; an empty name is no destination.
    """
    kind, separator, name = text.partition("://")
    if not (name if separator else text):
        raise click.BadParameter("the name of a destination must not be empty")
    if separator and kind not in _KINDS:
        # Nothing else is shown: the text may be a URL with a password.
        shown = f"{kind}://" if kind.replace("-", "").isalpha() else "the text before ://"
        kinds = ", ".join(f"{known}://" for known in _KINDS)
        raise click.BadParameter(f"{shown} is no kind of destination; write one of {kinds}, or the name alone")
    return text
