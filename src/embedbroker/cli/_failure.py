"""How a command fails: one line on stderr that names what was wrong, and an exit code for the kind of failure.

1 is left to verdicts (a drill that lost a message, a damaged journal), 2 is for wrong options and the files that they
name.
"""

from __future__ import annotations

from typing import IO, Any

import click

__all__ = ["BrokerStopped", "CannotConnect", "CannotStart", "CommandFailed", "Refused", "TooFew", "WrongInput"]


class CommandFailed(click.ClickException):
    """End the command with ``message`` on stderr, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line."""
        click.echo(f"embedbroker: {self.message}", file=file, err=file is None)


class TooFew(CommandFailed):
    """Fewer messages than requested were there; the others were treated."""

    exit_code = 1


class WrongInput(CommandFailed):
    """An option's value, or the file it names, is not what the command needs."""

    exit_code = 2


class CannotStart(CommandFailed):
    """A broker did not start: its configuration file, its port, its directory or its journal is wrong."""

    exit_code = 3


class BrokerStopped(CommandFailed):
    """A broker ended by itself."""

    exit_code = 4


class CannotConnect(CommandFailed):
    """A client found no broker, was refused, or lost its connection for good."""

    exit_code = 5


class Refused(CommandFailed):
    """The request is not possible: a wrong destination or selector, a message that was refused."""

    exit_code = 6
