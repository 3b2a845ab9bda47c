"""Management messages of one command: calls to any broker that takes them, ours and Artemis, tables and JSON lines.

Responsible for the one way in which commands that change a broker report what they did. Does not depend on what an
operation does.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import click
from attrs import field, frozen

from embedclient import Connection, MessageConsumer, MessageProducer, Session, TemporaryQueue, TextMessage

from ._connection_options import connection_options, factory_for, run_client
from ._failure import Refused, TooFew
from ._text_table import print_table

__all__ = [
    "ADD_HEADERS",
    "Change",
    "Client",
    "Columns",
    "Manager",
    "cell",
    "changing",
    "managing",
    "print_controls",
    "print_json",
    "print_rows",
]

ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
"""Class of Artemis' transformer that adds properties."""

_ADDRESS = "activemq.management"
_REPLY_SECONDS_MAX = 60.0
F = TypeVar("F", bound=Callable[..., Any])
#: Title of a column, and the field of its values.
Columns = Mapping[str, str]


class Manager:
    """Call operations over one session, whose replies come to a temporary queue."""

    def __init__(self, producer: MessageProducer, replies: TemporaryQueue, consumer: MessageConsumer) -> None:
        self._producer = producer
        self._replies = replies
        self._consumer = consumer

    async def invoke(self, resource: str, operation: str, *arguments: object) -> Any:
        """Return the result of an operation.

        Raises:
            Refused: the broker refused the operation, or did not reply in time.
        """
        return await self._request(resource, "_AMQ_OperationName", operation, arguments)

    async def read(self, resource: str, attribute: str) -> Any:
        """Return the value of an attribute.

        Raises:
            Refused: the resource does not exist, or the broker did not reply in time.
        """
        return await self._request(resource, "_AMQ_Attribute", attribute, ())

    async def _request(self, resource: str, kind: str, name: str, arguments: Sequence[object]) -> Any:
        request = TextMessage(json.dumps(arguments), reply_to=self._replies)
        request.properties["_AMQ_ResourceName"] = resource
        request.properties[kind] = name
        await self._producer.send(request)
        reply = await self._consumer.receive(_REPLY_SECONDS_MAX)
        if not isinstance(reply, TextMessage):
            raise Refused(f"{resource}.{name}: no reply within {_REPLY_SECONDS_MAX:g} s")
        result = json.loads(reply.text) if reply.text else [None]
        if not reply.properties.get("_AMQ_OperationSucceeded"):
            raise Refused(str(result[0]))
        return result[0]


@frozen
class Change:
    """Report what a command changed: a line for a reader, or one JSON line.

    Attributes:
        event: What was done, such as ``created``.
        kind: Kind of the changed resource, such as ``queue``.
        name: Its name.
        more: Further names and values of the JSON line.
        printed: Lines on stdout in place of the line for a reader, such as a number of messages.
        line: The line for a reader, on stderr; None: event, kind and name.
        missing: Why fewer messages than requested were found; None if all were.
    """

    event: str
    kind: str
    name: str
    more: Mapping[str, object] = field(factory=dict)
    printed: Sequence[object] | None = None
    line: str | None = None
    missing: str | None = None

    def show(self, *, as_json: bool) -> None:
        """Print the report.

        Raises:
            TooFew: Fewer messages than requested were found.
        """
        if as_json:
            print_json({"event": self.event, self.kind: self.name, **self.more})
        elif self.printed is None:
            click.echo(self.line or f"{self.event} {self.kind} {self.name}", err=True)
        else:
            for line in self.printed:
                click.echo(line)
        if self.missing is not None:
            raise TooFew(self.missing)


Work = Callable[[Manager], Awaitable[None]]


@frozen
class Client:
    """The connection options of one command, and the form of its report."""

    url: str
    user: str | None
    password: str | None
    client_id: str | None
    as_json: bool = False

    def manage(self, work: Work) -> None:
        """Run ``work`` over a connection to the broker."""

        async def with_connection(connection: Connection) -> None:
            async with connection.session() as session:
                await work(await _manager_of(session))

        run_client(factory_for(self.url, self.user, self.password, self.client_id), with_connection)

    def change(self, work: Callable[[Manager], Awaitable[Change]]) -> None:
        """Run ``work``, which changes the broker, and report what it did."""

        async def and_report(manager: Manager) -> None:
            (await work(manager)).show(as_json=self.as_json)

        self.manage(and_report)


async def _manager_of(session: Session) -> Manager:
    replies = await session.create_temporary_queue()
    return Manager(session.create_producer(f"queue://{_ADDRESS}"), replies, await session.create_consumer(replies))


def managing(command: F) -> F:
    """Add the connection options, which the command gets as its first argument, ``client``."""

    @wraps(command)
    def with_client(
        *, url: str, user: str | None, password: str | None, client_id: str | None, **chosen: object
    ) -> None:
        command(client=Client(url, user, password, client_id), **chosen)

    return connection_options(cast(F, with_client))


def changing(command: F) -> F:
    """Like `managing`, for a command that changes the broker: add --json, too."""

    @wraps(command)
    def with_client(
        *, url: str, user: str | None, password: str | None, client_id: str | None, as_json: bool, **chosen: object
    ) -> None:
        command(client=Client(url, user, password, client_id, as_json), **chosen)

    option = click.option("--json", "as_json", is_flag=True, help="Report what was done as one JSON line on stdout.")
    return connection_options(option(cast(F, with_client)))


# -- tables ----------------------------------------------------------------------------------------------------------


def print_json(value: object) -> None:
    """Print a value as one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_rows(rows: Sequence[Mapping[str, object]], columns: Columns, *, as_json: bool) -> None:
    """Print a table of these columns, or each row as a JSON line with all its fields."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    print_table(list(columns), [[cell(row.get(key)) for key in columns.values()] for row in rows])


async def print_controls(manager: Manager, kind: str, columns: Columns, more: Sequence[str], *, as_json: bool) -> None:
    """Print the attributes of all controls of a kind that may have a transformer, in order of their names.

    Args:
        manager: Session with the broker.
        kind: Kind of the controls, "bridge" or "divert".
        columns: Titles of the table, with the attribute of each.
        more: Attributes that only JSON lines have.
        as_json: Whether each control is a JSON line.
    """
    attributes = (*columns.values(), *(more if as_json else ()))
    rows = [
        {attribute: await manager.read(f"{kind}.{name}", attribute) for attribute in attributes}
        for name in sorted(await manager.read("broker", f"{kind.title()}Names"))
    ]
    if not as_json:
        print_table(list(columns), [[cell(value) for value in row.values()] for row in rows])
        return
    for row in rows:
        added = row.pop("TransformerPropertiesAsJSON")
        row["TransformerProperties"] = json.loads(added) if added else {}
        print_json(row)


def cell(value: object) -> str:
    """Return a value as the text of one cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if text.startswith('["'):
        return ", ".join(json.loads(text))
    return " ".join(text.split())
