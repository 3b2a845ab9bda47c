"""`embedbroker bridge`: the bridges of a running broker, and the connectors that they name.

Responsible for the commands on bridges of any broker that takes management messages, ours and Artemis. Does not depend
on what a bridge does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click

from ._failure import Refused
from ._groups import CommandGroup
from ._management_client import ADD_HEADERS, Change, Client, Columns, Manager, changing, managing, print_controls
from ._properties import as_properties

__all__ = ["bridge"]

# Title of a column, and the attribute of the control.
_BRIDGES: Columns = {
    "NAME": "Name",
    "QUEUE": "QueueName",
    "FORWARDING": "ForwardingAddress",
    "STARTED": "Started",
    "CONNECTED": "Connected",
    "PENDING": "MessagesPendingAcknowledgement",
    "ACKNOWLEDGED": "MessagesAcknowledged",
}
_MORE = (
    "FilterString", "StaticConnectors", "TransformerClassName", "TransformerPropertiesAsJSON", "RetryInterval",
    "RetryIntervalMultiplier", "MaxRetryInterval", "ReconnectAttempts", "UseDuplicateDetection", "HA",
)  # fmt: skip


@click.group(cls=CommandGroup, short_help="Show, create, stop and destroy bridges.")
def bridge() -> None:
    """Manage bridges: the messages of a queue are moved to an address of another broker."""


@bridge.command("list")
@managing
@click.option("--json", "as_json", is_flag=True, help="One JSON line per bridge, with all its attributes.")
def list_bridges(client: Client, as_json: bool) -> None:
    """Show bridges, in order of their names."""

    async def work(manager: Manager) -> None:
        await print_controls(manager, "bridge", _BRIDGES, _MORE, as_json=as_json)

    client.manage(work)


@bridge.command("create")
@changing
@click.argument("name")
@click.argument("queue_name", metavar="QUEUE")
@click.argument("connectors", metavar="CONNECTOR...", nargs=-1, required=True)
@click.option("--forwarding-address", help="Address at the other broker; that of each message without.")
@click.option("--filter", "selector", help="Selector for the messages that it takes.")
@click.option(
    "-p",
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    callback=as_properties,
    help="Text added to each message. Repeatable.",
)
@click.option("--remote-user", help="Login at the other broker; its cluster user without.")
@click.option("--remote-password", help="Password of that user.")
@click.option("--ha", is_flag=True, help="It follows the other broker to its backup.")
@click.option("--concurrency", default=1, show_default=True, type=click.IntRange(1), help="Bridges that share QUEUE.")
def create_bridge(
    client: Client,
    name: str,
    queue_name: str,
    connectors: Sequence[str],
    selector: str | None,
    properties: Mapping[str, str],
    **chosen: object,
) -> None:
    """Create bridge NAME, which moves the messages of QUEUE over one of the CONNECTORs of the broker."""
    configuration: dict[str, object] = {
        "name": name,
        "queue-name": queue_name,
        "static-connectors": list(connectors),
        "ha": chosen["ha"],
        "concurrency": chosen["concurrency"],
    }
    optional = {
        "forwarding-address": chosen["forwarding_address"],
        "filter-string": selector,
        "user": chosen["remote_user"],
        "password": chosen["remote_password"],
    }
    configuration |= {key: value for key, value in optional.items() if value is not None}
    if properties:
        added = {"class-name": ADD_HEADERS, "properties": properties}
        configuration["transformer-configuration"] = added

    async def work(manager: Manager) -> Change:
        before = set(await manager.read("broker", "BridgeNames"))
        await manager.invoke("broker", "createBridge", json.dumps(configuration))
        # Artemis reports success in any case, and logs a warning.
        if not set(await manager.read("broker", "BridgeNames")) - before:
            raise Refused(f"bridge {name!r} was not created: see the log of the broker")
        return Change("created", "bridge", name)

    client.change(work)


@bridge.command("destroy")
@changing
@click.argument("name")
def destroy_bridge(client: Client, name: str) -> None:
    """Destroy bridge NAME. What the other broker has not confirmed stays in the queue."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "destroyBridge", name)
        return Change("destroyed", "bridge", name)

    client.change(work)


@bridge.command("start")
@changing
@click.argument("name")
def start_bridge(client: Client, name: str) -> None:
    """Start bridge NAME, or let it try again after it gave up."""
    _switch(client, name, "start", "started")


@bridge.command("stop")
@changing
@click.argument("name")
def stop_bridge(client: Client, name: str) -> None:
    """Stop bridge NAME until it is started, or the broker is. What was sent has a time to be confirmed."""
    _switch(client, name, "stop", "stopped")


def _switch(client: Client, name: str, operation: str, event: str) -> None:
    async def work(manager: Manager) -> Change:
        await manager.invoke(f"bridge.{name}", operation)
        return Change(event, "bridge", name)

    client.change(work)


@bridge.command("add-connector")
@changing
@click.argument("name")
@click.argument("target", metavar="URL")
def add_connector(client: Client, name: str, target: str) -> None:
    """Add connector NAME, the place of another broker, for bridges that are created later."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "addConnector", name, target)
        return Change("added", "connector", name)

    client.change(work)


@bridge.command("remove-connector")
@changing
@click.argument("name")
def remove_connector(client: Client, name: str) -> None:
    """Forget connector NAME. Bridges that use it go on until a restart of the broker."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "removeConnector", name)
        return Change("removed", "connector", name)

    client.change(work)
