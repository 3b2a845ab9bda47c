"""`embedbroker queue`, `address`, `divert`, `message`, `connection` ...: a broker is managed from a shell.

Responsible for the commands on resources and clients of any broker that takes management messages, ours and Artemis.
Does not depend on what an operation does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ._failure import Refused
from ._groups import CommandGroup
from ._management_client import (
    ADD_HEADERS,
    Change,
    Client,
    Columns,
    Manager,
    changing,
    managing,
    print_controls,
    print_json,
    print_rows,
)
from ._settings import settings

__all__ = ["address", "connection", "consumer", "divert", "message", "producer", "queue", "session"]

_OPERATIONS = ("CONTAINS", "EQUALS", "NOT_CONTAINS", "NOT_EQUALS", "GREATER_THAN", "LESS_THAN")
F = TypeVar("F", bound=Callable[..., Any])

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


_GROUPS: Columns = {"GROUP": "groupID", "CONSUMER": "consumerID", "SESSION": "sessionID", "CONNECTION": "connectionID"}


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
    return managing(command)


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
        client: Client,
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

        async def work(manager: Manager) -> None:
            found = json.loads(await manager.invoke("broker", operation, options, page, count))
            rows = found["data"]
            print_rows(rows, columns, as_json=as_json)
            if len(rows) < found["count"] and not as_json:
                click.echo(f"{len(rows)} of {found['count']} {noun}: see --page and --count", err=True)

        client.manage(work)

    help_text = f"Show {noun}. Fields are those of the JSON lines."
    return click.command(name, help=help_text, short_help=f"Show {noun}.")(show)


# -- queues ----------------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show, create, change, pause, purge and delete queues.")
def queue() -> None:
    """Manage the queues of a broker."""


# Two names: that of Artemis' command line, and that of all other lists here.
queue.add_command(_list_command("stat", "listQueues", _QUEUES, "queues"))
queue.add_command(_list_command("list", "listQueues", _QUEUES, "queues"))


@queue.command("create")
@changing
@click.argument("name")
@click.option("--address", help="Address that it is bound to; by default the name of the queue.")
@click.option("--multicast", is_flag=True, help="Every queue of the address gets each message; default: anycast.")
@click.option("--filter", "selector", help="Selector for the messages that it takes.")
@click.option("--non-durable", is_flag=True, help="It does not survive a restart.")
@click.option("--max-consumers", default=-1, show_default=True, type=click.IntRange(-1), help="-1: no limit.")
@click.option("--purge-on-no-consumers", is_flag=True, help="Purge it when its last consumer closes.")
def create_queue(
    client: Client,
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

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "createQueue", json.dumps(configuration))
        return Change("created", "queue", name)

    client.change(work)


@queue.command("delete")
@changing
@click.argument("name")
@click.option("--close-consumers", is_flag=True, help="Delete it although it has consumers.")
def delete_queue(client: Client, name: str, close_consumers: bool) -> None:
    """Delete queue NAME with its messages."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "destroyQueue", name, close_consumers)
        return Change("deleted", "queue", name)

    client.change(work)


@queue.command("purge")
@changing
@click.argument("name")
@click.option("--filter", "selector", help="Remove only what this selector matches.")
def purge_queue(client: Client, name: str, selector: str | None) -> None:
    """Remove the messages that wait in queue NAME, and print how many there were. Those in delivery stay."""

    async def work(manager: Manager) -> Change:
        if selector is None:
            removed = await manager.invoke(f"queue.{name}", "removeAllMessages")
        else:
            removed = await manager.invoke(f"queue.{name}", "removeMessages", selector)
        return Change("purged", "queue", name, {"messages": removed}, [removed])

    client.change(work)


# -- messages --------------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show, send, move and delete messages of a queue.")
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
    client: Client,
    queue_name: str,
    chosen: tuple[Sequence[int], str | None, bool],
    operations: tuple[str, str],
    event: str,
    target: str | None = None,
    *,
    rejects_duplicates: bool = False,
) -> None:
    """Run the operation for one message for each id, or that for many, and report how many messages there were."""
    identifiers, selector, takes_all = chosen
    _check_chosen(identifiers, selector, takes_all)
    arguments: tuple[object, ...] = () if target is None else (target, *[True] * rejects_duplicates)
    more = {} if target is None else {"target": target}

    async def work(manager: Manager) -> Change:
        resource = f"queue.{queue_name}"
        if not identifiers:
            count = await manager.invoke(resource, operations[1], selector, *arguments)
            return Change(event, "queue", queue_name, {**more, "messages": count}, [count])
        found = [await manager.invoke(resource, operations[0], number, *arguments) for number in identifiers]
        absent = [number for number, was_there in zip(identifiers, found, strict=True) if not was_there]
        count = len(found) - len(absent)
        facts = {**more, "messages": count, "missing": absent}
        return Change(event, "queue", queue_name, facts, [count], missing=_missing(queue_name, absent))

    client.change(work)


def _missing(queue_name: str, absent: Sequence[int]) -> str | None:
    """Return the reason for a failure because of messages that do not wait; None without such messages."""
    if not absent:
        return None
    which = "message" if len(absent) == 1 else "messages"
    shown = ", ".join(map(str, absent))
    return f"queue {queue_name!r} has no waiting {which} {shown}: `message browse` and `message scheduled` show the ids"


_as_json_lines = click.option(
    "--json", "as_json", is_flag=True, help="One JSON line per message, with all headers and properties."
)


@message.command("browse")
@managing
@click.argument("queue_name", metavar="QUEUE")
@click.option("--filter", "selector", help="Show only what this selector matches.")
@_as_json_lines
def browse_messages(
    client: Client,
    queue_name: str,
    selector: str | None,
    as_json: bool,
) -> None:
    """Show the first messages of QUEUE, 200 at most, with their ids. `embedbroker browse` shows bodies."""

    async def work(manager: Manager) -> None:
        rows = json.loads(await manager.invoke(f"queue.{queue_name}", "listMessagesAsJSON", selector))
        print_rows(rows, _MESSAGES, as_json=as_json)

    client.manage(work)


@message.command("scheduled")
@managing
@click.argument("queue_name", metavar="QUEUE")
@_as_json_lines
def show_scheduled_messages(client: Client, queue_name: str, as_json: bool) -> None:
    """Show the messages of QUEUE that are scheduled for later delivery, the earliest first, 200 at most."""

    async def work(manager: Manager) -> None:
        rows = json.loads(await manager.invoke(f"queue.{queue_name}", "listScheduledMessagesAsJSON"))
        print_rows(rows, _SCHEDULED, as_json=as_json)

    client.manage(work)


@message.command("deliver")
@changing
@click.argument("queue_name", metavar="QUEUE")
@_chosen
def deliver_scheduled_messages(
    client: Client,
    queue_name: str,
    identifiers: Sequence[int],
    selector: str | None,
    takes_all: bool,
) -> None:
    """Deliver scheduled messages of QUEUE now."""
    _check_chosen(identifiers, selector, takes_all)

    async def work(manager: Manager) -> Change:
        resource = f"queue.{queue_name}"
        for number in identifiers:
            await manager.invoke(resource, "deliverScheduledMessage", number)
        if not identifiers:
            await manager.invoke(resource, "deliverScheduledMessages", selector)
        # The broker does not return how many there were.
        line = f"requested the delivery of scheduled messages of queue {queue_name}"
        return Change("delivery-requested", "queue", queue_name, line=line)

    client.change(work)


@message.command("count")
@managing
@click.argument("queue_name", metavar="QUEUE")
@click.option("--filter", "selector", help="Count only what this selector matches, among the first 200.")
@click.option("--json", "as_json", is_flag=True, help="The number in a JSON line.")
def count_messages(client: Client, queue_name: str, selector: str | None, as_json: bool) -> None:
    """Print the number of messages in QUEUE; without a filter, with those in delivery."""

    async def work(manager: Manager) -> None:
        count = await manager.invoke(f"queue.{queue_name}", "countMessages", *([selector] if selector else []))
        if as_json:
            print_json({"queue": queue_name, "messages": count})
        else:
            click.echo(count)

    client.manage(work)


@message.command("send")
@changing
@click.argument("queue_name", metavar="QUEUE")
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option(
    "-p", "--property", "properties", metavar="NAME=VALUE", multiple=True, help="A text property. Repeatable."
)
@click.option("--non-persistent", is_flag=True, help="Messages that need not survive the broker.")
def send_messages(
    client: Client,
    queue_name: str,
    texts: Sequence[str],
    properties: Sequence[str],
    non_persistent: bool,
) -> None:
    """Send each TEXT to QUEUE alone, whatever else is bound to its address, and print the ids."""
    headers = _texts(properties)

    async def work(manager: Manager) -> Change:
        identifiers = []
        for text in texts:
            arguments = (headers, _TEXT_MESSAGE, text, not non_persistent, client.user, client.password, True)
            identifiers.append(await manager.invoke(f"queue.{queue_name}", "sendMessage", *arguments))
        return Change("sent", "queue", queue_name, {"ids": [int(each) for each in identifiers]}, identifiers)

    client.change(work)


def _texts(properties: Sequence[str]) -> dict[str, str]:
    if any("=" not in each for each in properties):
        raise click.UsageError("a property is NAME=VALUE")
    return dict(each.split("=", 1) for each in properties)


@message.command("move")
@changing
@click.argument("queue_name", metavar="QUEUE")
@click.argument("target", metavar="TARGET")
@_chosen
@click.option(
    "--reject-duplicates", is_flag=True, help="Drop messages whose duplicate id TARGET has; with --id, refuse them."
)
def move_messages(
    client: Client,
    queue_name: str,
    target: str,
    identifiers: Sequence[int],
    selector: str | None,
    takes_all: bool,
    reject_duplicates: bool,
) -> None:
    """Move messages of QUEUE to queue TARGET, and print how many."""
    chosen = identifiers, selector, takes_all
    operations = ("moveMessage", "moveMessages")
    _act(client, queue_name, chosen, operations, "moved", target, rejects_duplicates=reject_duplicates)


@message.command("copy")
@changing
@click.argument("queue_name", metavar="QUEUE")
@click.argument("target", metavar="TARGET")
@click.option(
    "--id", "identifiers", type=int, multiple=True, required=True, help="A message; see the list. Repeatable."
)
def copy_messages(
    client: Client,
    queue_name: str,
    target: str,
    identifiers: Sequence[int],
) -> None:
    """Copy messages of QUEUE to queue TARGET, and print how many."""
    _act(client, queue_name, (identifiers, None, False), ("copyMessage", ""), "copied", target)


def _message_command(name: str, event: str, operations: tuple[str, str], help_text: str) -> None:
    """Add a command that acts on the messages that its options choose."""

    @changing
    @click.argument("queue_name", metavar="QUEUE")
    @_chosen
    def run(
        client: Client,
        queue_name: str,
        identifiers: Sequence[int],
        selector: str | None,
        takes_all: bool,
    ) -> None:
        _act(client, queue_name, (identifiers, selector, takes_all), operations, event)

    message.command(name, help=help_text)(run)


_message_command(
    "delete", "deleted", ("removeMessage", "removeMessages"), "Delete messages of QUEUE, and print how many."
)
_message_command(
    "expire",
    "expired",
    ("expireMessage", "expireMessages"),
    "Move messages of QUEUE to its expiry address; print how many.",
)
_message_command(
    "reject",
    "rejected",
    ("sendMessageToDeadLetterAddress", "sendMessagesToDeadLetterAddress"),
    "Move messages of QUEUE to its dead letter address, and print how many.",
)


@message.command("retry")
@changing
@click.argument("queue_name", metavar="QUEUE")
def retry_messages(client: Client, queue_name: str) -> None:
    """Move messages of QUEUE, such as dead letters, back to the queues that they left, and print how many."""

    async def work(manager: Manager) -> Change:
        retried = await manager.invoke(f"queue.{queue_name}", "retryMessages")
        return Change("retried", "queue", queue_name, {"messages": retried}, [retried])

    client.change(work)


def _simple_command(group: click.Group, kind: str, operation: str, done: str, texts: tuple[str, str]) -> None:
    """Add a command that calls an operation of one resource. ``texts`` are its help and its line in the list."""

    @changing
    @click.argument("name")
    def call(client: Client, name: str) -> None:
        async def work(manager: Manager) -> Change:
            await manager.invoke(f"{kind}.{name}", operation)
            return Change(done, kind, name)

        client.change(work)

    help_text, short_help = texts
    group.command(operation, help=help_text, short_help=short_help)(call)


def _resume_command(group: click.Group, kind: str) -> None:
    """Add a command that resumes one resource."""
    _simple_command(
        group, kind, "resume", "resumed", (f"Deliver messages of {kind} NAME again.", f"Resume {kind} NAME.")
    )


def _pause_command(group: click.Group, kind: str) -> None:
    """Add a command that pauses one resource."""

    @changing
    @click.argument("name")
    @click.option("--persist", is_flag=True, help="It is paused after a restart, too.")
    def pause(client: Client, name: str, persist: bool) -> None:
        async def work(manager: Manager) -> Change:
            await manager.invoke(f"{kind}.{name}", "pause", persist)
            return Change("paused", kind, name, {"persist": persist})

        client.change(work)

    what = "queue NAME" if kind == "queue" else "the queues of address NAME"
    help_text = f"Deliver nothing from {what} until it is resumed. Messages are still accepted."
    group.command("pause", help=help_text, short_help=f"Pause {kind} NAME.")(pause)


_pause_command(queue, "queue")
_resume_command(queue, "queue")
_simple_command(
    queue,
    "queue",
    "disable",
    "disabled",
    (
        "Let queue NAME take no messages until it is enabled, also after a restart. What it has is delivered.",
        "Let queue NAME take no messages.",
    ),
)
_simple_command(
    queue, "queue", "enable", "enabled", ("Let queue NAME take messages again.", "Let queue NAME take messages again.")
)


@queue.command("groups")
@managing
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per group, with all its fields.")
def show_groups(client: Client, name: str, as_json: bool) -> None:
    """Show the message groups of queue NAME, and the consumer of each."""

    async def work(manager: Manager) -> None:
        rows = json.loads(await manager.invoke(f"queue.{name}", "listGroupsAsJSON"))
        print_rows(rows, _GROUPS, as_json=as_json)

    client.manage(work)


@queue.command("reset-groups")
@changing
@click.argument("name")
@click.option("--group", metavar="ID", help="Only this group, or bucket of groups.")
def reset_groups(client: Client, name: str, group: str | None) -> None:
    """Let the next message of each message group of queue NAME choose a consumer again.

    Messages in delivery stay with the consumer before.
    """

    async def work(manager: Manager) -> Change:
        if group is None:
            await manager.invoke(f"queue.{name}", "resetAllGroups")
        else:
            await manager.invoke(f"queue.{name}", "resetGroup", group)
        return Change("reset", "queue", name, {"group": group}, line=f"reset the groups of queue {name}")

    client.change(work)


@queue.command("update")
@changing
@click.argument("name")
@click.option("--filter", "selector", help="Selector for the messages that it takes; an empty one takes all.")
@click.option("--routing-type", type=click.Choice(("ANYCAST", "MULTICAST")), help="Its address must have the type.")
@click.option("--max-consumers", type=click.IntRange(-1), help="-1: no limit.")
@click.option("--exclusive", type=click.BOOL, help="Whether one consumer gets everything.")
@click.option("--purge-on-no-consumers", type=click.BOOL, help="Whether it is purged when its last consumer closes.")
def update_queue(
    client: Client,
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

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "updateQueue", json.dumps({"name": name, **changes}))
        return Change("updated", "queue", name)

    client.change(work)


# -- addresses -------------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show, create, pause and delete addresses; their settings.")
def address() -> None:
    """Manage the addresses of a broker."""


address.add_command(settings)
address.add_command(_list_command("show", "listAddresses", _ADDRESSES, "addresses"))
address.add_command(_list_command("list", "listAddresses", _ADDRESSES, "addresses"))


@address.command("create")
@changing
@click.argument("name")
@click.option("--anycast", is_flag=True, help="One of its queues gets each message.")
@click.option("--multicast", is_flag=True, help="Every queue of it gets each message.")
def create_address(
    client: Client,
    name: str,
    anycast: bool,
    multicast: bool,
) -> None:
    """Create address NAME; it needs a routing type, or both."""
    kinds = [kind for kind, wanted in (("ANYCAST", anycast), ("MULTICAST", multicast)) if wanted]
    if not kinds:
        raise click.UsageError("an address needs --anycast, --multicast or both")

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "createAddress", name, ",".join(kinds))
        return Change("created", "address", name)

    client.change(work)


@address.command("delete")
@changing
@click.argument("name")
@click.option("--with-queues", is_flag=True, help="Delete its queues, too.")
def delete_address(client: Client, name: str, with_queues: bool) -> None:
    """Delete address NAME."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "deleteAddress", name, with_queues)
        return Change("deleted", "address", name)

    client.change(work)


_pause_command(address, "address")
_resume_command(address, "address")


# -- diverts ---------------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show, create and destroy diverts.")
def divert() -> None:
    """Manage diverts: messages to one address, or copies of them, are sent to another one."""


@divert.command("list")
@managing
@click.option("--json", "as_json", is_flag=True, help="One JSON line per divert, with all its attributes.")
def list_diverts(client: Client, as_json: bool) -> None:
    """Show diverts, in order of their names."""

    async def work(manager: Manager) -> None:
        await print_controls(manager, "divert", _DIVERTS, _MORE_OF_DIVERTS, as_json=as_json)

    client.manage(work)


@divert.command("create")
@changing
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
    client: Client,
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
        added = {"class-name": ADD_HEADERS, "properties": _texts(properties)}
        configuration["transformer-configuration"] = added

    async def work(manager: Manager) -> Change:
        # Artemis reports success for a name that is taken, and logs a warning.
        if name in await manager.read("broker", "DivertNames"):
            raise Refused(f"divert {name!r} exists already: destroy it first, or choose another name")
        await manager.invoke("broker", "createDivert", json.dumps(configuration))
        if name not in await manager.read("broker", "DivertNames"):
            raise Refused(f"divert {name!r} was not created: a queue may have this name; see the log of the broker")
        return Change("created", "divert", name)

    client.change(work)


@divert.command("destroy")
@changing
@click.argument("name")
def destroy_divert(client: Client, name: str) -> None:
    """Destroy divert NAME. What it has diverted stays where it is."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "destroyDivert", name)
        return Change("destroyed", "divert", name)

    client.change(work)


# -- clients ---------------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show and close connections.")
def connection() -> None:
    """Manage the connections to a broker."""


connection.add_command(_list_command("list", "listConnections", _CONNECTIONS, "connections"))


def _closed(found: bool, kind: str, identifier: str, owner: tuple[str, str] | None = None) -> Change:
    """Report a client that was closed. ``owner`` is what it belongs to: kind and id."""
    of_owner = "" if owner is None else f" of {' '.join(owner)}"
    if not found:
        raise Refused(f"there is no {kind} {identifier}{of_owner}: `{kind} list` shows the ids")
    line = f"closed {kind} {identifier}{of_owner}"
    return Change("closed", kind, identifier, {} if owner is None else dict([owner]), line=line)


@connection.command("close")
@changing
@click.argument("identifier", metavar="ID")
def close_connection(client: Client, identifier: str) -> None:
    """Close connection ID. Its client may reconnect."""

    async def work(manager: Manager) -> Change:
        return _closed(await manager.invoke("broker", "closeConnectionWithID", identifier), "connection", identifier)

    client.change(work)


@click.group(cls=CommandGroup, short_help="Show and close sessions.")
def session() -> None:
    """Manage the sessions of clients."""


session.add_command(_list_command("list", "listSessions", _SESSIONS, "sessions"))


@session.command("close")
@changing
@click.argument("connection_id", metavar="CONNECTION")
@click.argument("identifier", metavar="ID")
def close_session(client: Client, connection_id: str, identifier: str) -> None:
    """Close session ID of CONNECTION, without a notice to its client."""

    async def work(manager: Manager) -> Change:
        closed = await manager.invoke("broker", "closeSessionWithID", connection_id, identifier)
        return _closed(closed, "session", identifier, ("connection", connection_id))

    client.change(work)


@click.group(cls=CommandGroup, short_help="Show producers.")
def producer() -> None:
    """Look at the producers of clients."""


producer.add_command(_list_command("list", "listProducers", _PRODUCERS, "producers"))


@click.group(cls=CommandGroup, short_help="Show and close consumers.")
def consumer() -> None:
    """Manage the consumers of clients."""


consumer.add_command(_list_command("list", "listConsumers", _CONSUMERS, "consumers"))


@consumer.command("close")
@changing
@click.argument("session_id", metavar="SESSION")
@click.argument("identifier", metavar="ID")
def close_consumer(client: Client, session_id: str, identifier: str) -> None:
    """Close consumer ID of SESSION."""

    async def work(manager: Manager) -> Change:
        closed = await manager.invoke("broker", "closeConsumerWithID", session_id, identifier)
        return _closed(closed, "consumer", identifier, ("session", session_id))

    client.change(work)
