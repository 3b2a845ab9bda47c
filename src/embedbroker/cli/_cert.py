"""`embedbroker cert`: certificates for development, in a directory.

Responsible for the files and their names. Does not depend on how a certificate is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from ._certificates import Authority, MissingFeature, Signed, write_private
from ._failure import Refused

__all__ = ["cert"]

_AUTHORITY = "ca-key.pem"
_NAME_SIGNS = frozenset("/\\\0")


def _file_name(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name.strip(".") or _NAME_SIGNS.intersection(name) or name in ("ca", "ca-key", "server"):
            raise click.BadParameter(f"{name!r} cannot be the name of a file for a client's key; choose another name")
    return names


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    default=("localhost", "127.0.0.1", "::1"),
    show_default=True,
    help="Host name or address of the broker; once for each.",
)
@click.option(
    "--client",
    "clients",
    metavar="NAME",
    multiple=True,
    default=("client",),
    show_default=True,
    callback=_file_name,
    help="Name of a client; once for each.",
)
@click.option(
    "--days",
    default=825,
    show_default=True,
    type=click.IntRange(1, 36_500),
    help="Days until the certificates expire.",
)
@click.option("--password", metavar="TEXT", help="Password of PKCS12 files for Java, which are written, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per file.")
def cert(
    directory: Path,
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    days: int,
    password: str | None,
    as_json: bool,
) -> None:
    """Make certificates for development in DIRECTORY: an authority, a broker's and clients'.

    The authority of an earlier call is used again, so that a second call renews the rest. The private key of the
    authority is a file like the others: use none of them in production.
    """
    write = partial(_write_and_show, as_json=as_json)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / _AUTHORITY
        if path.exists():
            authority = Authority.load(path)
        else:
            authority = Authority.make()
            authority.save(path)
        write(directory / "ca.pem", authority.pem(), "trustStorePath of clients, and of a broker that checks clients")
        if password is not None:
            write(directory / "ca.p12", authority.pkcs12(password), "the same for Java")
        signed = {"server": authority.sign("server", hosts, days)}
        signed |= {name: authority.sign(name, (), days) for name in clients}
        for name, each in signed.items():
            _write_key(write, directory, name, each, password)
    except OSError as error:
        raise Refused(f"{error.filename or directory}: {error.strerror}") from None
    except MissingFeature as error:
        raise Refused(str(error)) from None
    except ValueError as error:
        raise Refused(f"{directory / _AUTHORITY} cannot be used, remove it: {error}") from None


def _write_key(
    write: Callable[[Path, bytes, str], None], directory: Path, name: str, signed: Signed, password: str | None
) -> None:
    meaning = "keyStorePath of the broker" if name == "server" else f"keyStorePath of the client {name!r}"
    write(directory / f"{name}.pem", signed.pem(), meaning)
    if password is not None:
        write(directory / f"{name}.p12", signed.pkcs12(password, name), "the same for Java")


def _write_and_show(path: Path, content: bytes, meaning: str, *, as_json: bool) -> None:
    # Replaced as a whole: a broker that reads its files meanwhile finds the old or the new one.
    unfinished = path.with_name(f".{path.name}.new")
    write_private(unfinished, content)
    unfinished.replace(path)
    click.echo(json.dumps({"file": str(path), "meaning": meaning}) if as_json else f"{path.name}: {meaning}")
