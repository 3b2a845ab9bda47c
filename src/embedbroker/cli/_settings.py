"""`embedbroker address settings` and `embedbroker security`: settings of a running broker are shown and changed.

Responsible for the words of a shell: names and values of settings, and lists of roles. Does not depend on which
settings a broker has: those of Artemis that do not exist here can be set there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, TypeVar

import click

from ._failure import Refused
from ._groups import CommandGroup
from ._management_client import Change, Client, Manager, changing, managing, print_json, print_rows
from ._text_table import print_table

__all__ = ["security", "settings"]

F = TypeVar("F", bound=Callable[..., Any])
# Elements of a broker.xml whose names in JSON are other words.
_RENAMED = {
    "addressFullPolicy": "addressFullMessagePolicy",
    "redeliveryDelayMultiplier": "redeliveryMultiplier",
    "sendToDlaOnNoRoute": "sendToDLAOnNoRoute",
}
# Permissions with their names in the broker's lists of roles, in the order of the operation's parameters.
_PERMISSIONS = {
    "send": "send",
    "consume": "consume",
    "create-durable-queue": "createDurableQueue",
    "delete-durable-queue": "deleteDurableQueue",
    "create-non-durable-queue": "createNonDurableQueue",
    "delete-non-durable-queue": "deleteNonDurableQueue",
    "manage": "manage",
    "browse": "browse",
    "create-address": "createAddress",
    "delete-address": "deleteAddress",
    "view": "view",
    "edit": "edit",
}
_WITHOUT_VIEW_AND_EDIT = 10


# -- address settings ------------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show, set and remove address settings.")
def settings() -> None:
    """Manage the address settings of a running broker."""


@settings.command("show")
@managing
@click.argument("address")
@click.option("--json", "as_json", is_flag=True, help="One JSON line with all settings.")
def show_settings(client: Client, address: str, as_json: bool) -> None:
    """Show the settings of ADDRESS: what all its matches set. Defaults are not shown."""

    async def work(manager: Manager) -> None:
        found = json.loads(await manager.invoke("broker", "getAddressSettingsAsJSON", address))
        if as_json:
            print_json(found)
        else:
            print_table(("SETTING", "VALUE"), [(name, _text(found[name])) for name in sorted(found)])

    client.manage(work)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@settings.command("set")
@changing
@click.argument("match")
@click.argument("values", metavar="NAME=VALUE...", nargs=-1, required=True)
def set_settings(client: Client, match: str, values: Sequence[str]) -> None:
    """Replace all settings of MATCH, such as `orders.#`. They count at once, and survive a restart.

    Names are those of a broker.xml or of `address settings show`: max-delivery-attempts=3. What is not named comes from
    wider matches. Numbers, true and false are values of that type; a text in quotation marks is always a text.
    """
    wanted = _values_of(values)

    async def work(manager: Manager) -> Change:
        answer = await manager.invoke("broker", "addAddressSettings", match, json.dumps(wanted))
        # Artemis skips names that it does not have.
        skipped = sorted(set(wanted) - set(json.loads(answer)))
        if skipped:
            raise Refused(
                f"the broker does not have {', '.join(skipped)}: the other settings of {match!r} were set; look at the "
                "names with `address settings show`"
            )
        return Change("set", "settings", match, {"values": wanted}, line=f"set settings of {match}")

    client.change(work)


def _values_of(pairs: Sequence[str]) -> dict[str, object]:
    wanted: dict[str, object] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{pair!r} is not a setting: write NAME=VALUE, such as max-delivery-attempts=3")
        name = re.sub(r"[-_](\w)", lambda found: found[1].upper(), name)
        name = _RENAMED.get(name, name)
        if name in wanted:
            raise click.UsageError(f"{name} is given twice: leave one of them out")
        wanted[name] = _value_of(text)
    return wanted


def _value_of(text: str) -> object:
    """Return a number, a boolean or the text of quotation marks; any other word is a text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)) else text


@settings.command("remove")
@changing
@click.argument("match")
def remove_settings(client: Client, match: str) -> None:
    """Remove the settings of MATCH. Those of the configuration are back after a restart."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "removeAddressSettings", match)
        return Change("removed", "settings", match, line=f"removed settings of {match}")

    client.change(work)


# -- security settings -----------------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, short_help="Show, set and remove permissions.")
def security() -> None:
    """Manage the security settings of a running broker: which roles may do what on which addresses."""


@security.command("show")
@managing
@click.argument("address")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per role, with each permission.")
def show_security(client: Client, address: str, as_json: bool) -> None:
    """Show the roles with permissions on ADDRESS. Only its most specific match counts."""

    async def work(manager: Manager) -> None:
        rows = json.loads(await manager.invoke("broker", "getRolesAsJSON", address))
        rows.sort(key=lambda row: str(row["name"]))
        if as_json:
            print_rows(rows, {}, as_json=True)
            return
        table = [
            (str(row["name"]), " ".join(option for option, name in _PERMISSIONS.items() if row.get(name)))
            for row in rows
        ]
        print_table(("ROLE", "PERMISSIONS"), table)

    client.manage(work)


def _permission_options(command: F) -> F:
    """Add an option for each permission."""
    for permission in reversed(_PERMISSIONS):
        help_text = f"Roles, with commas, that may {_DOES.get(permission, permission.replace('-', ' '))}."
        command = click.option(f"--{permission}", metavar="ROLES", help=help_text)(command)
    return command


_DOES = {
    "create-durable-queue": "create durable queues",
    "delete-durable-queue": "delete durable queues",
    "create-non-durable-queue": "create non-durable and temporary queues",
    "delete-non-durable-queue": "delete non-durable and temporary queues",
    "manage": "send management messages",
    "create-address": "create the address",
    "delete-address": "delete the address",
    "view": "read what is managed",
    "edit": "change what is managed",
}


@security.command("set")
@changing
@click.argument("match")
@click.option("--all", "full", metavar="ROLES", help="Roles, with commas, that have every permission.")
@_permission_options
def set_security(client: Client, match: str, full: str | None, **chosen: str | None) -> None:
    """Replace all permissions of MATCH, such as `orders.#`. They count at once, and survive a restart.

    What is not granted here is refused on the addresses of MATCH, even if a wider match grants it.
    """
    roles = {name: _roles(f"--{name}", full, chosen[name.replace("-", "_")]) for name in _PERMISSIONS}
    if not any(roles.values()):
        raise click.UsageError("nothing would be granted: name at least one role, such as --send apps --consume apps")
    lists = [",".join(names) for names in roles.values()]
    # An older Artemis has no operation with all lists.
    needed = len(lists) if roles["view"] or roles["edit"] else _WITHOUT_VIEW_AND_EDIT

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "addSecuritySettings", match, *lists[:needed])
        granted = {_PERMISSIONS[name]: names for name, names in roles.items() if names}
        return Change("set", "security", match, {"permissions": granted}, line=f"set permissions of {match}")

    client.change(work)


def _roles(option: str, *lists: str | None) -> list[str]:
    roles = [role.strip() for text in lists for role in (text or "").split(",") if role.strip()]
    for role in roles:
        if len(role.split()) > 1:
            raise click.UsageError(f"{option}: {role!r} contains a blank; separate roles with commas")
    return list(dict.fromkeys(roles))


@security.command("remove")
@changing
@click.argument("match")
def remove_security(client: Client, match: str) -> None:
    """Remove the permissions of MATCH. Those of the configuration are back after a restart."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "removeSecuritySettings", match)
        return Change("removed", "security", match, line=f"removed permissions of {match}")

    client.change(work)
