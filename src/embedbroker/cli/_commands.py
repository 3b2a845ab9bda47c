"""The list of commands. Each command has its own module, which is imported on demand.

So `embedbroker run` does not import what only a drill needs. Does not depend on what the commands do.
"""

from __future__ import annotations

import errno
import logging
import signal
import sys
from importlib import import_module

import click

from ._failure import Refused
from ._groups import CommandGroup
from ._output import shut_off, write_whatever_comes

__all__ = ["commands"]

# Name -> module and attribute, in the order of the help text.
_HOMES = {
    "run": ("._run", "run"),
    "drill": (".drill", "drill"),
    "perf": ("._perf", "perf"),
    "send": ("._send", "send"),
    "receive": ("._receive", "receive"),
    "request": ("._request", "request"),
    "browse": ("._receive", "browse"),
    "queue": ("._management", "queue"),
    "address": ("._management", "address"),
    "divert": ("._management", "divert"),
    "bridge": ("._bridges", "bridge"),
    "security": ("._settings", "security"),
    "message": ("._management", "message"),
    "connection": ("._management", "connection"),
    "session": ("._management", "session"),
    "consumer": ("._management", "consumer"),
    "producer": ("._management", "producer"),
    "transaction": ("._transactions", "transaction"),
    "user": ("._users", "user"),
    "journal": ("._journal", "journal"),
    "pipeline": ("._pipeline", "pipeline"),
    "mask": ("._mask", "mask"),
    "cert": ("._cert", "cert"),
}

# Errors of the disk behind stdout, or behind a temporary directory.
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _LazyGroup(CommandGroup):
    """Import a command when it is named, or when its help is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        module, attribute = _HOMES[cmd_name]
        command = getattr(import_module(module, __package__), attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # While a command is imported, or in one without an event loop; click would end it with 1, a verdict's code.
            raise click.exceptions.Exit(128 + signal.SIGINT) from None
        except BrokenPipeError:
            # Such as `| head -1`; click would end it with 1 here, too.
            shut_off(sys.stdout)
            shut_off(sys.stderr)
            raise click.exceptions.Exit(128 + signal.SIGPIPE) from None
        except OSError as error:
            if error.errno not in _CANNOT_WRITE:
                raise
            raise Refused(f"cannot write: {error.strerror}") from None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="embedbroker")
def commands() -> None:
    """A message broker in Python that speaks Apache Artemis' CORE protocol, and tools around it."""
    # The command's last line reports a problem of a connection, once; in a drill such problems are expected.
    logging.getLogger("embedclient").setLevel(logging.ERROR)
    write_whatever_comes()
