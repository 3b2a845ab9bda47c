"""`embedbroker run`: a broker as a process, until Ctrl-C or SIGTERM.

Responsible for signals, for the output on stdout and stderr, for exit codes, and for options above a file's values.
Refuses to decide anything about messages; the broker is the same one that programs embed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import click
import trio
from attrs import evolve
from click.core import ParameterSource

from embedbroker import BrokerConfig, EmbeddedBroker, HostedBackup, Role
from embedbroker.runtime import raise_descriptor_limit
from embedclient.errors import BrokerFailed, IllegalStateException, ResourceAllocationException

from ._collector import CollectorForBroker
from ._failure import BrokerStopped, CannotStart, CommandFailed
from ._interrupt import STOP_SIGNALS, let_signals_kill
from ._output import shut_off
from ._properties import as_properties

__all__ = ["run", "with_options"]

DEFAULT_PORT = 61616
AUDIT_RETENTION = BrokerConfig().audit_retention


@click.command()
@click.option("--config", "file", metavar="FILE", help="An Artemis broker.xml. What other options say wins.")
@click.option(
    "-D", "properties", metavar="NAME=VALUE", multiple=True, callback=as_properties, help="For ${NAME} in that file."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free port."
)
@click.option("--data", metavar="DIR", help="Directory of the journal. Without it everything stays in memory.")
@click.option("--audit", metavar="DIR", help="Directory of an audit log: what became of each message. Needs --data.")
@click.option(
    "--audit-retention",
    metavar="BYTES",
    default=AUDIT_RETENTION,
    show_default=True,
    type=click.IntRange(1),
    help="How much of the audit log stays; the oldest goes first.",
)
@click.option("--name", default="embedbroker", show_default=True, help="The broker's name.")
@click.option("--json", "as_json", is_flag=True, help="Events on stdout as JSON lines; the first is 'ready'.")
@click.option("--until-eof", is_flag=True, help="Stop when stdin ends, too: with the program that holds its other end.")
@click.option("-v", "--verbose", is_flag=True, help="Log ordinary events on stderr, too.")
@click.pass_context
def run(
    context: click.Context,
    /,
    file: str | None,
    properties: dict[str, str],
    as_json: bool,
    until_eof: bool,
    verbose: bool,
    **options: str | int | None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM. A second signal stops it at once."""
    handler = logging.StreamHandler()
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler])
    if file is None and properties:
        raise click.UsageError("-D needs --config")
    if until_eof and sys.stdin is None:
        raise click.UsageError("--until-eof: stdin is closed already")
    typed = [name for name in options if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    try:
        if file is None:
            config = with_options(BrokerConfig(), options)
        else:
            config = with_options(_loaded(file, properties), {name: options[name] for name in typed})
        broker = EmbeddedBroker(config)
    except ValueError as error:
        raise CannotStart(str(error)) from error
    raise_descriptor_limit()
    process = _Process(broker, as_json, until_eof)
    handler.addFilter(process.is_news)
    trio.run(process.serve)
    if process.failure is not None:
        raise process.failure


def with_options(config: BrokerConfig, options: Mapping[str, str | int | None]) -> BrokerConfig:
    """Return the configuration, changed by the options of the command line.

    Raises:
        ValueError: an option does not fit the configuration; the text names it.
    """
    if config.acceptors:
        place = {name: value for name, value in options.items() if name in ("host", "port")}
        options = {name: value for name, value in options.items() if name not in place}
        config = _moved(config, place)
    fields = {"data": "data_directory", "audit": "audit_directory"}
    changes = {fields.get(name, name): value for name, value in options.items()}
    if "data_directory" in changes:
        # That of the file belongs to the journal that the file names.
        changes["large_messages_directory"] = None
    return evolve(config, **changes)  # type: ignore[arg-type]


def _moved(config: BrokerConfig, place: Mapping[str, str | int | None]) -> BrokerConfig:
    """Return the configuration with another host and port of its acceptor.

    Raises:
        ValueError: there are several acceptors.
    """
    if not place:
        return config
    [first, *others] = config.acceptors
    if others:
        option, names = next(iter(place)), ", ".join(repr(each.name) for each in config.acceptors)
        raise ValueError(f"--{option}: the file has the acceptors {names}, each with its own {option}; set it there")
    return evolve(config, acceptors=[evolve(first, **place)])  # type: ignore[arg-type]


def _loaded(file: str, properties: Mapping[str, str]) -> BrokerConfig:
    from embedbroker.configfile import ConfigFileError, load_config  # only a run with a file pays for loading it

    try:
        return load_config(file, properties=properties)
    except ConfigFileError as error:
        raise CannotStart("; ".join(error.problems)) from error
    except OSError as error:
        raise CannotStart(f"cannot read {file}: {error.strerror}") from error


class _Process:
    """One broker and the process around it."""

    def __init__(self, broker: EmbeddedBroker, as_json: bool, until_eof: bool) -> None:
        self.failure: CommandFailed | None = None
        self._broker = broker
        self._as_json = as_json
        self._until_eof = until_eof
        self._serving = False

    def is_news(self, record: logging.LogRecord) -> bool:
        """Return True if a record must be logged. The command's last line reports, once, why a broker cannot start."""
        return self._serving or record.levelno != logging.ERROR

    async def serve(self) -> None:
        """Run the broker. Return after a signal, or with `failure` set."""
        with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._obey, signals, nursery.cancel_scope)
                if self._until_eof:
                    nursery.start_soon(self._watch_stdin, nursery.cancel_scope)
                try:
                    async with self._broker as broker:
                        self._serving = True
                        nursery.start_soon(self._report_roles)
                        nursery.start_soon(self._report_hosted_backups)
                        with CollectorForBroker():
                            reason = await broker.wait_failed()
                        self.failure = BrokerStopped(f"the broker stopped: {reason}")
                except (ResourceAllocationException, BrokerFailed) as error:
                    self.failure = BrokerStopped(str(error)) if self._serving else CannotStart(str(error))
                nursery.cancel_scope.cancel()
        if self._serving and self.failure is None:
            self._announce("stopped")

    async def _obey(self, signals: AsyncIterator[int], everything: trio.CancelScope) -> None:
        async for number in signals:
            let_signals_kill()
            self._announce("stopping", signal=signal.Signals(number).name)
            everything.cancel()

    async def _watch_stdin(self, everything: trio.CancelScope) -> None:
        async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
            while await stdin.receive_some():
                pass  # input has no meaning; only its end has
        let_signals_kill()
        self._announce("stopping", signal="EOF")
        everything.cancel()

    async def _report_roles(self) -> None:
        """Announce that a backup waits, and that it is ready when it has become live."""
        while (role := self._broker.role) is not Role.STOPPED:
            if role is Role.LIVE:
                self._announce_ready(self._broker.url)
            elif role is Role.BACKUP:
                self._announce_backup()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._report_sync, role)
                await self._broker.wait_for_role(*(other for other in Role if other is not role))
                nursery.cancel_scope.cancel()

    async def _report_sync(self, role: Role) -> None:
        """Announce, for a broker that replicates, when a whole copy exists, and when none exists any more."""
        with suppress(BrokerFailed, IllegalStateException):  # the task that watches the role reports its end
            while True:
                await self._broker.wait_in_sync()
                self._announce("in-sync", role=role.value)
                await self._broker.wait_out_of_sync()
                self._announce("out-of-sync", role=role.value)

    async def _report_hosted_backups(self) -> None:
        """Announce each backup of another broker that this one hosts, and each of its roles."""
        known: list[HostedBackup] = []
        with suppress(IllegalStateException):  # a broker that hosts none, or its end, which another task reports
            while True:
                found = await self._broker.wait_hosted_backups_change(known)
                names = [backup.name for backup in found]
                ended = [evolve(each, role=Role.STOPPED, url=None) for each in known if each.name not in names]
                for backup in [*ended, *(each for each in found if each not in known)]:
                    self._announce_hosted(backup)
                known = found

    def _announce_hosted(self, backup: HostedBackup) -> None:
        role = backup.role.value
        if self._as_json:
            facts = {"url": backup.url} if backup.url is not None else {}
            self._announce("hosted-backup", name=backup.name, node_id=backup.node_id, role=role, **facts)
        else:
            place = f": {backup.url}" if backup.url is not None else ""
            _print(f"backup {backup.name!r} of node {backup.node_id} is {role}{place}")

    def _announce_backup(self) -> None:
        if self._as_json:
            self._announce("backup", name=self._broker.config.name, pid=os.getpid())
        else:
            _print(f"broker {self._broker.config.name!r} waits as backup")

    def _announce_ready(self, url: str) -> None:
        if self._as_json:
            several = {"urls": self._broker.urls} if self._broker.config.acceptors else {}
            self._announce("ready", url=url, name=self._broker.config.name, pid=os.getpid(), **several)
        else:
            place = (
                "in memory"
                if self._broker.config.data_directory is None
                else f"journal in {self._broker.config.data_directory}"
            )
            places = ", ".join(self._broker.urls.values()) or url
            _print(f"broker {self._broker.config.name!r} is ready: {places} ({place})")

    def _announce(self, event: str, **facts: object) -> None:
        if self._as_json:
            _print(json.dumps({"event": event, **facts}))


def _print(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:
        # The reader of stdout has gone, or its output lies on a full disk. The broker must serve its clients all the
        # same.
        shut_off(sys.stdout)
