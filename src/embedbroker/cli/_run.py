"""`embedbroker run`: a broker as a process, until Ctrl-C or SIGTERM.

Responsible for signals, for what stands on stdout and stderr, and for exit codes. Refuses to decide anything about
messages; the broker is the one that programs embed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator

import click
import trio

from embedbroker import BrokerConfig, EmbeddedBroker
from embedclient.errors import BrokerFailed, ResourceAllocationException

from ._failure import BrokerStopped, CannotStart, CommandFailed
from ._interrupt import STOP_SIGNALS, let_signals_kill

__all__ = ["run"]

DEFAULT_PORT = 61616


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free port."
)
@click.option("--data", metavar="DIR", help="Directory of the journal. Without it everything stays in memory.")
@click.option("--name", default="embedbroker", show_default=True, help="The broker's name.")
@click.option("--json", "as_json", is_flag=True, help="Events on stdout as JSON lines; the first is 'ready'.")
@click.option("--until-eof", is_flag=True, help="Stop when stdin ends, too: with the program that holds its other end.")
@click.option("-v", "--verbose", is_flag=True, help="Log connections that come to nothing on stderr, too.")
def run(host: str, port: int, data: str | None, name: str, as_json: bool, until_eof: bool, verbose: bool) -> None:
    """Run a broker until Ctrl-C or SIGTERM. A second signal stops it at once."""
    try:
        config = BrokerConfig(name=name, host=host, port=port, data_directory=data)
    except ValueError as error:
        raise CannotStart(str(error)) from None
    process = _Process(config, as_json, until_eof)
    handler = logging.StreamHandler()
    handler.addFilter(process.is_news)
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler])
    trio.run(process.serve)
    if process.failure is not None:
        raise process.failure


class _Process:
    """One broker and the process around it."""

    def __init__(self, config: BrokerConfig, as_json: bool, until_eof: bool) -> None:
        self.failure: CommandFailed | None = None
        self._config = config
        self._as_json = as_json
        self._until_eof = until_eof
        self._serving = False

    def is_news(self, record: logging.LogRecord) -> bool:
        """Whether to log a record: why a broker cannot start is told once, by the command's last line."""
        return self._serving or record.levelno != logging.ERROR

    async def serve(self) -> None:
        """Returns after a signal, or with `failure` set."""
        with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._obey, signals, nursery.cancel_scope)
                if self._until_eof:
                    nursery.start_soon(self._watch_stdin, nursery.cancel_scope)
                try:
                    async with EmbeddedBroker(self._config) as broker:
                        self._serving = True
                        self._announce_ready(broker.url)
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
                pass  # whatever is said there means nothing
        let_signals_kill()
        self._announce("stopping", signal="EOF")
        everything.cancel()

    def _announce_ready(self, url: str) -> None:
        if self._as_json:
            self._announce("ready", url=url, name=self._config.name, pid=os.getpid())
        else:
            place = "in memory" if self._config.data_directory is None else f"journal in {self._config.data_directory}"
            _say(f"broker {self._config.name!r} is ready: {url} ({place})")

    def _announce(self, event: str, **facts: str | int) -> None:
        if self._as_json:
            _say(json.dumps({"event": event, **facts}))


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # Whoever started the broker does not listen any more; its clients do. Python keeps the line and writes it once
        # more when the process ends, which must not make a failure of an orderly stop.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
