"""`embedbroker user`: the users of a broker are shown, added, changed and removed.

Responsible for reading new passwords, so that they need not be in the history of a shell. Does not depend on how a
broker stores users.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from ._failure import WrongInput
from ._groups import CommandGroup
from ._management_client import Change, Client, Manager, changing, managing, print_json
from ._text_table import print_table

__all__ = ["user"]

_new_password = click.option(
    "--new-password",
    help="Password of the user; without one it is asked for, or read as one line from stdin.",
)
_roles = click.option("--role", "roles", metavar="ROLE", multiple=True, help="A role of the user. Repeatable.")
_plaintext = click.option("--plaintext", is_flag=True, help="Store the password in plain text, and not as a hash.")


@click.group(cls=CommandGroup, short_help="Show, add, change and remove users.")
def user() -> None:
    """Manage the users of a broker. NAME is the user of the command; --user is the one that logs in."""


@user.command("list")
@managing
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per user.")
def list_users(client: Client, name: str | None, as_json: bool) -> None:
    """Show user NAME, or all users, with their roles."""

    async def work(manager: Manager) -> None:
        found = json.loads(await manager.invoke("broker", "listUser", name or ""))
        rows = sorted(({**row, "roles": sorted(row["roles"])} for row in found), key=lambda row: str(row["username"]))
        if as_json:
            for row in rows:
                print_json(row)
        else:
            print_table(["NAME", "ROLES"], [[row["username"], ", ".join(row["roles"])] for row in rows])

    client.manage(work)


@user.command("add")
@changing
@click.argument("name")
@_roles
@_new_password
@_plaintext
def add_user(client: Client, name: str, roles: Sequence[str], new_password: str | None, plaintext: bool) -> None:
    """Add user NAME with its password and at least one role."""
    if not roles:
        raise click.UsageError("a new user needs --role, at least once")
    password = _read() if new_password is None else new_password

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "addUser", name, password, ",".join(roles), plaintext)
        return Change("added", "user", name, {"roles": list(roles)})

    client.change(work)


@user.command("reset")
@changing
@click.argument("name")
@_roles
@_new_password
@click.option("--keep-password", is_flag=True, help="Change the roles only.")
@_plaintext
def reset_user(
    client: Client,
    name: str,
    roles: Sequence[str],
    new_password: str | None,
    keep_password: bool,
    plaintext: bool,
) -> None:
    """Give user NAME a new password. With --role, the roles named here replace its present ones."""
    if keep_password and new_password is not None:
        raise click.UsageError("--keep-password and --new-password exclude each other")
    if keep_password and not roles:
        raise click.UsageError("nothing to change: --keep-password needs --role")
    password = None if keep_password else _read() if new_password is None else new_password
    listed = ",".join(roles) if roles else None

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "resetUser", name, password, listed, plaintext)
        return Change("reset", "user", name, {"password": password is not None, "roles": list(roles) or None})

    client.change(work)


@user.command("remove")
@changing
@click.argument("name")
def remove_user(client: Client, name: str) -> None:
    """Remove user NAME. Its sessions go on until they end."""

    async def work(manager: Manager) -> Change:
        await manager.invoke("broker", "removeUser", name)
        return Change("removed", "user", name)

    client.change(work)


def _read() -> str:
    if sys.stdin.isatty():
        password = str(click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise WrongInput("the new password is empty")
    return password
