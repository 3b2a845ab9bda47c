"""`embedbroker mask`: a password in the form that a configuration contains instead of it.

Responsible for reading the password and for random salts. Does not depend on the forms, which are in
`embedbroker.security`.
"""

from __future__ import annotations

import json
import os
import sys

import click

from embedbroker.security import DEFAULT_KEY, SALT_BYTES, InvalidMask, hash_password, hash_password_as_artemis
from embedbroker.security import mask as masked

from ._failure import WrongInput

__all__ = ["mask"]


@click.command()
@click.argument("password", required=False)
@click.option("--hash", "hashes", is_flag=True, help="A hash, from which the password cannot be computed: for users.")
@click.option("--artemis", is_flag=True, help="With --hash: the format of artemis-users.properties.")
@click.option(
    "--key",
    envvar="ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY",
    show_envvar=True,
    help="Key of a mask, 4 to 56 bytes; without one that of Artemis, which is public.",
)
@click.option("--json", "as_json", is_flag=True, help="The form as JSON.")
def mask(password: str | None, hashes: bool, artemis: bool, key: str | None, as_json: bool) -> None:
    """Print the masked or hashed form of PASSWORD, `ENC(...)`.

    Without PASSWORD it is asked for, or read as one line from stdin, so that it is in no history of a shell.
    """
    if artemis and not hashes:
        raise click.UsageError("--artemis is a format of --hash; a mask is always that of Artemis")
    if password is None:
        password = _read()
    if not password:
        raise WrongInput("the password is empty")
    if hashes:
        make = hash_password_as_artemis if artemis else hash_password
        form = make(password, os.urandom(SALT_BYTES))
    else:
        try:
            form = f"ENC({masked(password, key or DEFAULT_KEY)})"
        except InvalidMask as error:
            raise WrongInput(str(error)) from None
    click.echo(json.dumps({"kind": "hash" if hashes else "mask", "password": form}) if as_json else form)


def _read() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
