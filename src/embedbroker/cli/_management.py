"""`embedbroker queue`, `address`, `divert`, `message`, `connection` ...: a broker is managed from a shell.

Responsible for management messages to any broker that takes them, ours and Artemis, and for tables. Does not depend on
what an operation does.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import click
from attrs import frozen

from embedclient import Connection, MessageConsumer, MessageProducer, Session, TemporaryQueue, TextMessage

from ._connection_options import connection_options, factory_for, run_client
from ._failure import Refused

__all__ = ["address", "connection", "consumer", "divert", "message", "producer", "queue", "session"]

_ADDRESS = "activemq.management"
_REPLY_SECONDS_MAX = 60.0
_OPERATIONS = ("CONTAINS", "EQUALS", "NOT_CONTAINS", "NOT_EQUALS", "GREATER_THAN", "LESS_THAN")
F = TypeVar("F", bound=Callable[..., Any])
Columns = Mapping[str, str]

# Title of a column, and the field of the list.
_QUEUES: Columns = {
    "NAME": "name",
    "ADDRESS": "address",
    "ROUTING": "routingType",
    "CONSUMERS": "consumerCount",
    "MESSAGES": "messageCount",
    "DELIVERING": "deliveringCount",
    "ADDED": "messagesAdded",
    "ACKNOWLEDGED": "messagesAcked",
    "DURABLE": "durable",
}
_ADDRESSES: Columns = {
    "NAME": "name",
    "ROUTING": "routingTypes",
    "QUEUES": "queueCount",
    "ROUTED": "routedMessageCount",
    "UNROUTED": "unroutedMessageCount",
}
_CONNECTIONS: Columns = {
    "ID": "connectionID",
    "ADDRESS": "remoteAddress",
    "PROTOCOL": "protocol",
    "CLIENT ID": "clientID",
    "USERS": "users",
    "SESSIONS": "sessionCount",
}
_SESSIONS: Columns = {
    "ID": "id",
    "CONNECTION": "connectionID",
    "USER": "user",
    "CLIENT ID": "clientID",
    "CONSUMERS": "consumerCount",
}
_PRODUCERS: Columns = {
    "ID": "id",
    "SESSION": "session",
    "DESTINATION": "address",
    "ADDRESS": "remoteAddress",
    "USER": "user",
}
_MESSAGES: Columns = {
    "ID": "messageID",
    "PRIORITY": "priority",
    "DURABLE": "durable",
    "TIMESTAMP": "timestamp",
    "JMS ID": "userID",
}
# Title of a column, and the attribute of the control.
_DIVERTS: Columns = {
    "NAME": "UniqueName",
    "ADDRESS": "Address",
    "FORWARDING": "ForwardingAddress",
    "EXCLUSIVE": "Exclusive",
    "ROUTING": "RoutingType",
    "FILTER": "Filter",
}
_MORE_OF_DIVERTS = ("RoutingName", "TransformerClassName", "TransformerPropertiesAsJSON")
_ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
_ROUTING_TYPES = ("STRIP", "PASS", "ANYCAST", "MULTICAST")
_SCHEDULED: Columns = {"ID": "messageID", "DELIVER AT": "_AMQ_SCHED_DELIVERY"} | dict(list(_MESSAGES.items())[1:])
_TEXT_MESSAGE = 3
_CONSUMERS: Columns = {
    "ID": "id",
    "SESSION": "session",
    "QUEUE": "queue",
    "FILTER": "filter",
    "ADDRESS": "remoteAddress",
    "USER": "user",
}


class _Manager:
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


Work = Callable[[_Manager], Awaitable[None]]


@frozen
class _Client:
    """The connection options of one command."""

    url: str
    user: str | None
    password: str | None
    client_id: str | None

    def manage(self, work: Work) -> None:
        """Run ``work`` over a connection to the broker."""

        async def with_connection(connection: Connection) -> None:
            async with connection.session() as session:
                await work(await _manager_of(session))

        run_client(factory_for(self.url, self.user, self.password, self.client_id), with_connection)


def _managing(command: F) -> F:
    """Add the connection options, which the command gets as its first argument, ``client``."""

    @wraps(command)
    def with_client(
        *, url: str, user: str | None, password: str | None, client_id: str | None, **chosen: object
    ) -> None:
        command(client=_Client(url, user, password, client_id), **chosen)

    return connection_options(cast(F, with_client))


async def _manager_of(session: Session) -> _Manager:
    replies = await session.create_temporary_queue()
    return _Manager(session.create_producer(f"queue://{_ADDRESS}"), replies, await session.create_consumer(replies))


# -- lists -----------------------------------------------------------------------------------------------------------


def _list_options(command: F) -> F:
    """Add the options of lists."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="One JSON line per element, with all its fields."),
        click.option("--count", default=100, show_default=True, type=click.IntRange(1), help="Elements of a page."),
        click.option("--page", default=1, show_default=True, type=click.IntRange(1), help="Number of the page."),
        click.option("--descending", is_flag=True, help="Order from high to low."),
        click.option("--sort", "sort_field", metavar="FIELD", help="Field that orders the list."),
        click.option("--value", help="What the field is compared with."),
        click.option("--operation", default="CONTAINS", show_default=True, type=click.Choice(_OPERATIONS)),
        click.option("--field", help="Show only elements whose field fits --operation and --value."),
    )
    for option in options:
        command = option(command)
    return _managing(command)


def _options_text(
    field: str | None, operation: str, value: str | None, sort_field: str | None, descending: bool
) -> str:
    if (field is None) != (value is None):
        raise click.UsageError("--field and --value belong together")
    if field is None and sort_field is None and not descending:
        return ""
    options = {"field": field or "", "operation": operation if field else "", "value": value or ""}
    if sort_field is not None:
        options["sortField"] = sort_field
    options["sortOrder"] = "desc" if descending else "asc"
    return json.dumps(options)


def _list_command(name: str, operation: str, columns: Columns, noun: str) -> click.Command:
    """Return a command that shows a paged list."""

    @_list_options
    def show(
        client: _Client,
        field: str | None,
        value: str | None,
        sort_field: str | None,
        descending: bool,
        page: int,
        count: int,
        as_json: bool,
        **chosen: str,
    ) -> None:
        options = _options_text(field, chosen["operation"], value, sort_field, descending)

        async def work(manager: _Manager) -> None:
            found = json.loads(await manager.invoke("broker", operation, options, page, count))
            rows = found["data"]
            if as_json:
                for row in rows:
                    click.echo(json.dumps(row, ensure_ascii=False))
                return
            _print_table(list(columns), [[_cell(row.get(key)) for key in columns.values()] for row in rows])
            if len(rows) < found["count"]:
                click.echo(f"{len(rows)} of {found['count']} {noun}: see --page and --count", err=True)

        client.manage(work)

    help_text = f"Show {noun}. Fields are those of the JSON lines."
    return click.command(name, help=help_text, short_help=f"Show {noun}.")(show)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = str(value)
    if text.startswith('["'):
        return ", ".join(json.loads(text))
    return " ".join(text.split())


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of equal width, numbers to the right."""
    widths = [max(len(line[index]) for line in (titles, *rows)) for index in range(len(titles))]
    numeric = [bool(rows) and all(row[index].lstrip("-").isdigit() for row in rows) for index in range(len(titles))]
    for line in (titles, *rows):
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


# -- queues ----------------------------------------------------------------------------------------------------------


@click.group(short_help="Show, create, change, pause, purge and delete queues.")
def queue() -> None:
    """Manage the queues of a broker."""


queue.add_command(_list_command("stat", "listQueues", _QUEUES, "queues"))


@queue.command("create")
@_managing
@click.argument("name")
@click.option("--address", help="Address that it is bound to; by default the name of the queue.")
@click.option("--multicast", is_flag=True, help="Every queue of the address gets each message; default: anycast.")
@click.option("--filter", "selector", help="Selector for the messages that it takes.")
@click.option("--non-durable", is_flag=True, help="It does not survive a restart.")
@click.option("--max-consumers", default=-1, show_default=True, type=click.IntRange(-1), help="-1: no limit.")
@click.option("--purge-on-no-consumers", is_flag=True, help="Purge it when its last consumer closes.")
def create_queue(
    client: _Client,
    name: str,
    address: str | None,
    multicast: bool,
    selector: str | None,
    non_durable: bool,
    max_consumers: int,
    purge_on_no_consumers: bool,
) -> None:
    """Create queue NAME, and its address if it does not exist."""
    configuration: dict[str, object] = {
        "name": name,
        "address": address or name,
        "routing-type": "MULTICAST" if multicast else "ANYCAST",
        "durable": not non_durable,
        "max-consumers": max_consumers,
        "purge-on-no-consumers": purge_on_no_consumers,
    }
    if selector is not None:
        configuration["filter-string"] = selector

    async def work(manager: _Manager) -> None:
        await manager.invoke("broker", "createQueue", json.dumps(configuration))
        click.echo(f"created queue {name}", err=True)

    client.manage(work)


@queue.command("delete")
@_managing
@click.argument("name")
@click.option("--close-consumers", is_flag=True, help="Delete it although it has consumers.")
def delete_queue(client: _Client, name: str, close_consumers: bool) -> None:
    """Delete queue NAME with its messages."""

    async def work(manager: _Manager) -> None:
        await manager.invoke("broker", "destroyQueue", name, close_consumers)
        click.echo(f"deleted queue {name}", err=True)

    client.manage(work)


@queue.command("purge")
@_managing
@click.argument("name")
@click.option("--filter", "selector", help="Remove only what this selector matches.")
def purge_queue(client: _Client, name: str, selector: str | None) -> None:
    """Remove the messages that wait in queue NAME, and print how many there were. Those in delivery stay."""

    async def work(manager: _Manager) -> None:
        if selector is None:
            removed = await manager.invoke(f"queue.{name}", "removeAllMessages")
        else:
            removed = await manager.invoke(f"queue.{name}", "removeMessages", selector)
        click.echo(removed)

    client.manage(work)


# -- messages --------------------------------------------------------------------------------------------------------


@click.group(short_help="Show, send, move and delete messages of a queue.")
def message() -> None:
    """Manage the messages that wait in a queue. Those in delivery stay."""


def _chosen(command: F) -> F:
    """Add the options that choose messages."""
    options = (
        click.option("--all", "takes_all", is_flag=True, help="All messages that wait."),
        click.option("--filter", "selector", help="Messages that this selector matches."),
        click.option("--id", "identifiers", type=int, multiple=True, help="One message; see the list. Repeatable."),
    )
    for option in options:
        command = option(command)
    return command


def _check_chosen(identifiers: Sequence[int], selector: str | None, takes_all: bool) -> None:
    if (bool(identifiers), selector is not None, takes_all).count(True) != 1:
        raise click.UsageError("choose the messages with one of --id, --filter and --all")


def _act(
    client: _Client,
    queue_name: str,
    chosen: tuple[Sequence[int], str | None, bool],
    operations: tuple[str, str],
    *arguments: object,
) -> None:
    """Run the operation for one message for each id, or that for many, and print how many messages there were."""
    identifiers, selector, takes_all = chosen
    _check_chosen(identifiers, selector, takes_all)

    async def work(manager: _Manager) -> None:
        resource = f"queue.{queue_name}"
        if not identifiers:
            click.echo(await manager.invoke(resource, operations[1], selector, *arguments))
            return
        found = [await manager.invoke(resource, operations[0], number, *arguments) for number in identifiers]
        click.echo(sum(map(bool, found)))

    client.manage(work)


def _show_messages(rows: Sequence[Mapping[str, object]], columns: Columns, *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    _print_table(list(columns), [[_cell(row.get(key)) for key in columns.values()] for row in rows])


_as_json_lines = click.option(
    "--json", "as_json", is_flag=True, help="One JSON line per message, with all headers and properties."
)


@message.command("browse")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@click.option("--filter", "selector", help="Show only what this selector matches.")
@_as_json_lines
def browse_messages(
    client: _Client,
    queue_name: str,
    selector: str | None,
    as_json: bool,
) -> None:
    """Show the first messages of QUEUE, 200 at most, with their ids. `embedbroker browse` shows bodies."""

    async def work(manager: _Manager) -> None:
        rows = json.loads(await manager.invoke(f"queue.{queue_name}", "listMessagesAsJSON", selector))
        _show_messages(rows, _MESSAGES, as_json=as_json)

    client.manage(work)


@message.command("scheduled")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@_as_json_lines
def show_scheduled_messages(client: _Client, queue_name: str, as_json: bool) -> None:
    """Show the messages of QUEUE that are scheduled for later delivery, the earliest first, 200 at most."""

    async def work(manager: _Manager) -> None:
        rows = json.loads(await manager.invoke(f"queue.{queue_name}", "listScheduledMessagesAsJSON"))
        _show_messages(rows, _SCHEDULED, as_json=as_json)

    client.manage(work)


@message.command("deliver")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@_chosen
def deliver_scheduled_messages(
    client: _Client,
    queue_name: str,
    identifiers: Sequence[int],
    selector: str | None,
    takes_all: bool,
) -> None:
    """Deliver scheduled messages of QUEUE now."""
    _check_chosen(identifiers, selector, takes_all)

    async def work(manager: _Manager) -> None:
        resource = f"queue.{queue_name}"
        for number in identifiers:
            await manager.invoke(resource, "deliverScheduledMessage", number)
        if not identifiers:
            await manager.invoke(resource, "deliverScheduledMessages", selector)
        click.echo(f"requested the delivery of scheduled messages of queue {queue_name}", err=True)

    client.manage(work)


@message.command("count")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@click.option("--filter", "selector", help="Count only what this selector matches, among the first 200.")
def count_messages(client: _Client, queue_name: str, selector: str | None) -> None:
    """Print the number of messages in QUEUE; without a filter, with those in delivery."""

    async def work(manager: _Manager) -> None:
        click.echo(await manager.invoke(f"queue.{queue_name}", "countMessages", *([selector] if selector else [])))

    client.manage(work)


@message.command("send")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option(
    "-p", "--property", "properties", metavar="NAME=VALUE", multiple=True, help="A text property. Repeatable."
)
@click.option("--non-persistent", is_flag=True, help="Messages that need not survive the broker.")
def send_messages(
    client: _Client,
    queue_name: str,
    texts: Sequence[str],
    properties: Sequence[str],
    non_persistent: bool,
) -> None:
    """Send each TEXT to QUEUE alone, whatever else is bound to its address, and print the ids."""
    headers = _texts(properties)

    async def work(manager: _Manager) -> None:
        for text in texts:
            arguments = (headers, _TEXT_MESSAGE, text, not non_persistent, client.user, client.password, True)
            click.echo(await manager.invoke(f"queue.{queue_name}", "sendMessage", *arguments))

    client.manage(work)


def _texts(properties: Sequence[str]) -> dict[str, str]:
    if any("=" not in each for each in properties):
        raise click.UsageError("a property is NAME=VALUE")
    return dict(each.split("=", 1) for each in properties)


@message.command("move")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@click.argument("target", metavar="TARGET")
@_chosen
def move_messages(
    client: _Client,
    queue_name: str,
    target: str,
    identifiers: Sequence[int],
    selector: str | None,
    takes_all: bool,
) -> None:
    """Move messages of QUEUE to queue TARGET, and print how many."""
    chosen = identifiers, selector, takes_all
    _act(client, queue_name, chosen, ("moveMessage", "moveMessages"), target)


@message.command("copy")
@_managing
@click.argument("queue_name", metavar="QUEUE")
@click.argument("target", metavar="TARGET")
@click.option(
    "--id", "identifiers", type=int, multiple=True, required=True, help="A message; see the list. Repeatable."
)
def copy_messages(
    client: _Client,
    queue_name: str,
    target: str,
    identifiers: Sequence[int],
) -> None:
    """Copy messages of QUEUE to queue TARGET, and print how many."""
    _act(client, queue_name, (identifiers, None, False), ("copyMessage", ""), target)


def _message_command(name: str, operations: tuple[str, str], help_text: str) -> click.Command:
    """Return a command that acts on the messages that its options choose."""

    @_managing
    @click.argument("queue_name", metavar="QUEUE")
    @_chosen
    def run(
        client: _Client,
        queue_name: str,
        identifiers: Sequence[int],
        selector: str | None,
        takes_all: bool,
    ) -> None:
        _act(client, queue_name, (identifiers, selector, takes_all), operations)

    return click.command(name, help=help_text)(run)


message.add_command(
    _message_command("delete", ("removeMessage", "removeMessages"), "Delete messages of QUEUE, and print how many.")
)
message.add_command(
    _message_command(
        "expire", ("expireMessage", "expireMessages"), "Move messages of QUEUE to its expiry address; print how many."
    )
)
message.add_command(
    _message_command(
        "reject",
        ("sendMessageToDeadLetterAddress", "sendMessagesToDeadLetterAddress"),
        "Move messages of QUEUE to its dead letter address, and print how many.",
    )
)


@message.command("retry")
@_managing
@click.argument("queue_name", metavar="QUEUE")
def retry_messages(client: _Client, queue_name: str) -> None:
    """Move messages of QUEUE, such as dead letters, back to the queues that they left, and print how many."""

    async def work(manager: _Manager) -> None:
        click.echo(await manager.invoke(f"queue.{queue_name}", "retryMessages"))

    client.manage(work)


def _simple_command(group: click.Group, kind: str, operation: str, done: str) -> None:
    """Add a command that calls an operation of one resource."""

    @_managing
    @click.argument("name")
    def call(client: _Client, name: str) -> None:
        async def work(manager: _Manager) -> None:
            await manager.invoke(f"{kind}.{name}", operation)
            click.echo(f"{done} {kind} {name}", err=True)

        client.manage(work)

    group.command(operation, help=f"Deliver messages of {kind} NAME again.", short_help=f"Resume {kind} NAME.")(call)


def _pause_command(group: click.Group, kind: str) -> None:
    """Add a command that pauses one resource."""

    @_managing
    @click.argument("name")
    @click.option("--persist", is_flag=True, help="It is paused after a restart, too.")
    def pause(client: _Client, name: str, persist: bool) -> None:
        async def work(manager: _Manager) -> None:
            await manager.invoke(f"{kind}.{name}", "pause", persist)
            click.echo(f"paused {kind} {name}", err=True)

        client.manage(work)

    what = "queue NAME" if kind == "queue" else "the queues of address NAME"
    help_text = f"Deliver nothing from {what} until it is resumed. Messages are still accepted."
    group.command("pause", help=help_text, short_help=f"Pause {kind} NAME.")(pause)


_pause_command(queue, "queue")
_simple_command(queue, "queue", "resume", "resumed")


@queue.command("update")
@_managing
@click.argument("name")
@click.option("--filter", "selector", help="Selector for the messages that it takes; an empty one takes all.")
@click.option("--routing-type", type=click.Choice(("ANYCAST", "MULTICAST")), help="Its address must have the type.")
@click.option("--max-consumers", type=click.IntRange(-1), help="-1: no limit.")
@click.option("--exclusive", type=click.BOOL, help="Whether one consumer gets everything.")
@click.option("--purge-on-no-consumers", type=click.BOOL, help="Whether it is purged when its last consumer closes.")
def update_queue(
    client: _Client,
    name: str,
    selector: str | None,
    routing_type: str | None,
    max_consumers: int | None,
    exclusive: bool | None,
    purge_on_no_consumers: bool | None,
) -> None:
    """Change settings of queue NAME, which keeps its messages."""
    wanted = {
        "filter-string": selector,
        "routing-type": routing_type,
        "max-consumers": max_consumers,
        "exclusive": exclusive,
        "purge-on-no-consumers": purge_on_no_consumers,
    }
    changes = {key: value for key, value in wanted.items() if value is not None}
    if not changes:
        raise click.UsageError("nothing to change: name at least one option")

    async def work(manager: _Manager) -> None:
        await manager.invoke("broker", "updateQueue", json.dumps({"name": name, **changes}))
        click.echo(f"updated queue {name}", err=True)

    client.manage(work)


# -- addresses -------------------------------------------------------------------------------------------------------


@click.group(short_help="Show, create, pause and delete addresses.")
def address() -> None:
    """Manage the addresses of a broker."""


address.add_command(_list_command("show", "listAddresses", _ADDRESSES, "addresses"))


@address.command("create")
@_managing
@click.argument("name")
@click.option("--anycast", is_flag=True, help="One of its queues gets each message.")
@click.option("--multicast", is_flag=True, help="Every queue of it gets each message.")
def create_address(
    client: _Client,
    name: str,
    anycast: bool,
    multicast: bool,
) -> None:
    """Create address NAME; it needs a routing type, or both."""
    kinds = [kind for kind, wanted in (("ANYCAST", anycast), ("MULTICAST", multicast)) if wanted]
    if not kinds:
        raise click.UsageError("an address needs --anycast, --multicast or both")

    async def work(manager: _Manager) -> None:
        await manager.invoke("broker", "createAddress", name, ",".join(kinds))
        click.echo(f"created address {name}", err=True)

    client.manage(work)


@address.command("delete")
@_managing
@click.argument("name")
@click.option("--with-queues", is_flag=True, help="Delete its queues, too.")
def delete_address(client: _Client, name: str, with_queues: bool) -> None:
    """Delete address NAME."""

    async def work(manager: _Manager) -> None:
        await manager.invoke("broker", "deleteAddress", name, with_queues)
        click.echo(f"deleted address {name}", err=True)

    client.manage(work)


_pause_command(address, "address")
_simple_command(address, "address", "resume", "resumed")


# -- diverts ---------------------------------------------------------------------------------------------------------


@click.group(short_help="Show, create and destroy diverts.")
def divert() -> None:
    """Manage diverts: messages to one address, or copies of them, are sent to another one."""


@divert.command("list")
@_managing
@click.option("--json", "as_json", is_flag=True, help="One JSON line per divert, with all its attributes.")
def list_diverts(client: _Client, as_json: bool) -> None:
    """Show diverts, in order of their names."""

    async def work(manager: _Manager) -> None:
        attributes = (*_DIVERTS.values(), *(_MORE_OF_DIVERTS if as_json else ()))
        rows = [
            {attribute: await manager.read(f"divert.{name}", attribute) for attribute in attributes}
            for name in sorted(await manager.read("broker", "DivertNames"))
        ]
        if not as_json:
            _print_table(list(_DIVERTS), [[_divert_cell(value) for value in row.values()] for row in rows])
            return
        for row in rows:
            added = row.pop("TransformerPropertiesAsJSON")
            row["TransformerProperties"] = json.loads(added) if added else {}
            click.echo(json.dumps(row, ensure_ascii=False))

    client.manage(work)


def _divert_cell(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else _cell(value)


@divert.command("create")
@_managing
@click.argument("name")
@click.argument("address")
@click.argument("forwarding_address", metavar="FORWARDING")
@click.option("--exclusive", is_flag=True, help="What it takes does not go to the queues of ADDRESS.")
@click.option("--filter", "selector", help="Selector for the messages that it takes.")
@click.option("--routing-name", help="Diverts of one address with the same routing name take turns.")
@click.option(
    "--routing-type", default="STRIP", show_default=True, type=click.Choice(_ROUTING_TYPES), help="That of the copy."
)
@click.option(
    "-p", "--property", "properties", metavar="NAME=VALUE", multiple=True, help="Text added to the copy. Repeatable."
)
def create_divert(
    client: _Client,
    name: str,
    address: str,
    forwarding_address: str,
    selector: str | None,
    properties: Sequence[str],
    **chosen: object,
) -> None:
    """Create divert NAME from ADDRESS to FORWARDING, which may be several addresses with commas."""
    configuration: dict[str, object] = {
        "name": name,
        "address": address,
        "forwarding-address": forwarding_address,
        "exclusive": chosen["exclusive"],
        "routing-type": chosen["routing_type"],
    }
    if selector is not None:
        configuration["filter-string"] = selector
    if chosen["routing_name"] is not None:
        configuration["routing-name"] = chosen["routing_name"]
    if properties:
        added = {"class-name": _ADD_HEADERS, "properties": _texts(properties)}
        configuration["transformer-configuration"] = added

    async def work(manager: _Manager) -> None:
        # Artemis reports success for a name that is taken, and logs a warning.
        if name in await manager.read("broker", "DivertNames"):
            raise Refused(f"divert {name!r} exists already: destroy it first, or choose another name")
        await manager.invoke("broker", "createDivert", json.dumps(configuration))
        if name not in await manager.read("broker", "DivertNames"):
            raise Refused(f"divert {name!r} was not created: a queue may have this name; see the log of the broker")
        click.echo(f"created divert {name}", err=True)

    client.manage(work)


@divert.command("destroy")
@_managing
@click.argument("name")
def destroy_divert(client: _Client, name: str) -> None:
    """Destroy divert NAME. What it has diverted stays where it is."""

    async def work(manager: _Manager) -> None:
        await manager.invoke("broker", "destroyDivert", name)
        click.echo(f"destroyed divert {name}", err=True)

    client.manage(work)


# -- clients ---------------------------------------------------------------------------------------------------------


@click.group(short_help="Show and close connections.")
def connection() -> None:
    """Manage the connections to a broker."""


connection.add_command(_list_command("list", "listConnections", _CONNECTIONS, "connections"))


def _close(found: bool, text: str) -> None:
    if not found:
        raise Refused(f"there is no {text}")
    click.echo(f"closed {text}", err=True)


@connection.command("close")
@_managing
@click.argument("identifier", metavar="ID")
def close_connection(client: _Client, identifier: str) -> None:
    """Close connection ID. Its client may reconnect."""

    async def work(manager: _Manager) -> None:
        _close(await manager.invoke("broker", "closeConnectionWithID", identifier), f"connection {identifier}")

    client.manage(work)


@click.group(short_help="Show and close sessions.")
def session() -> None:
    """Manage the sessions of clients."""


session.add_command(_list_command("list", "listSessions", _SESSIONS, "sessions"))


@session.command("close")
@_managing
@click.argument("connection_id", metavar="CONNECTION")
@click.argument("identifier", metavar="ID")
def close_session(client: _Client, connection_id: str, identifier: str) -> None:
    """Close session ID of CONNECTION, without a notice to its client."""

    async def work(manager: _Manager) -> None:
        closed = await manager.invoke("broker", "closeSessionWithID", connection_id, identifier)
        _close(closed, f"session {identifier} of connection {connection_id}")

    client.manage(work)


@click.group(short_help="Show producers.")
def producer() -> None:
    """Look at the producers of clients."""


producer.add_command(_list_command("list", "listProducers", _PRODUCERS, "producers"))


@click.group(short_help="Show and close consumers.")
def consumer() -> None:
    """Manage the consumers of clients."""


consumer.add_command(_list_command("list", "listConsumers", _CONSUMERS, "consumers"))


@consumer.command("close")
@_managing
@click.argument("session_id", metavar="SESSION")
@click.argument("identifier", metavar="ID")
def close_consumer(client: _Client, session_id: str, identifier: str) -> None:
    """Close consumer ID of SESSION."""

    async def work(manager: _Manager) -> None:
        closed = await manager.invoke("broker", "closeConsumerWithID", session_id, identifier)
        _close(closed, f"consumer {identifier} of session {session_id}")

    client.manage(work)
