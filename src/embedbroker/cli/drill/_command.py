"""`embedbroker drill`: progress, the tables, and the exit code.

Responsible for the output that a person or a script reads. Does not depend on how the drill is conducted.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio
from rich.console import Console
from rich.live import Live

from .._failure import Refused
from .._interrupt import run_interruptibly
from .._output import shut_off
from .._text_table import print_framed
from ._conductor import conduct
from ._options import configs_of, options, plan_of
from ._page import page_of
from ._pair_files import BrokerFile
from ._plan import Findings
from ._run import Run
from ._scene import Setting
from ._tables import as_json, progress_line, verdict_tables

__all__ = ["drill"]

_REFRESH_S = 0.25
_LINE_S = 5.0


class _Console(Console):
    """A console that raises when its reader is gone.

    The library's own would end the process with 1, the code of a failed drill.
    """

    def on_broken_pipe(self) -> None:
        raise  # the error during whose handling it is called


@click.command(short_help="Let brokers fail under load and judge what that did.")
@options
def drill(
    config: Path | None,
    backup_config: Path | None,
    properties: Mapping[str, str],
    artemis_home: Path | None,
    two_lives: bool,
    json_wanted: bool,
    report: Path | None,
    keep: bool,
    **others: Any,
) -> None:
    """Let brokers fail under load, several times, and say what that did to the messages.

    One broker process, a pair, or a cluster of them gets durable messages from producers and gives them to consumers, a
    third each in transactions and in XA branches. The broker that serves is struck while sends and transactions are
    open; the backup takes over, and gives way when the primary is back. Clients reconnect by themselves. The exit code
    is 0 only if no confirmed message was lost and none came twice unmarked.
    """
    plan = plan_of(**others)
    configs = configs_of(plan, config, backup_config, artemis_home, properties, two_lives=two_lives)
    directory = Path(tempfile.mkdtemp(prefix="embedbroker-drill-"))
    setting = Setting(plan, directory, configs, properties, artemis_home, two_lives)
    files: list[BrokerFile] = []
    served: list[Run] = []
    stopped: click.exceptions.Exit | None = None
    goes = True
    try:
        files = setting.files()
        goes = False
        findings = run_interruptibly(partial(_conduct_visibly, setting, files, served))
        goes = not findings.objections()
    except click.exceptions.Exit as stop:
        goes = True  # interrupted: the files are not kept
        if not served:
            raise
        stopped = stop
        findings = served[0].findings(interrupted=True)
    except KeyboardInterrupt:
        goes = True
        raise
    finally:
        if goes and not (keep and files):
            setting.clear(files)
            shutil.rmtree(directory)
        else:
            if not served:
                setting.clear(files)  # nothing worth a look, and in the way of the next drill
            places = " and ".join(dict.fromkeys(str(file.store) for file in files))
            journals = f", their journals in {places}" if configs and served else ""
            click.echo(f"what the brokers wrote is in {directory}{journals}", err=True)
    # From here on an interrupt stops only the output of text: everything else has been cleared up.
    try:
        if report is not None:
            _write(report, page_of(findings))
    finally:
        _show(findings, json_wanted)
    if stopped is not None:
        raise stopped
    if findings.objections():
        sys.exit(1)


def _write(report: Path, page: str) -> None:
    try:
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write {report}: {error.strerror}") from None


async def _conduct_visibly(setting: Setting, files: list[BrokerFile], served: list[Run]) -> Findings:
    """Conduct the drill and show its progress. ``served`` receives the run as soon as the brokers have started."""
    console = _Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=not console.is_terminal) as live:

        async def watch(run: Run) -> None:
            served.append(run)
            places = " and ".join(f"tcp://{file.host}:{file.port}" for file in files)
            noun = "broker" if len(files) == 1 else "brokers"
            try:
                console.print(f"{noun} at {places}, in {setting.directory}", highlight=False, soft_wrap=True)
                while console.is_terminal:
                    live.update(progress_line(run, console.width), refresh=True)
                    await trio.sleep(_REFRESH_S)
                while True:
                    # A file or a build's log gets lines, and fewer of them.
                    await trio.sleep(_LINE_S)
                    console.print(progress_line(run), soft_wrap=True)
            except OSError:
                shut_off(sys.stderr)  # stderr has no reader any more; the drill's findings are of use all the same

        dead_letters = tuple(dict.fromkeys(file.dead_letters for file in files if file.dead_letters is not None))
        return await conduct(setting.plan, partial(setting.nodes, files), watch, dead_letters)


def _show(findings: Findings, json_wanted: bool) -> None:
    if json_wanted:
        click.echo(json.dumps(as_json(findings), indent=2))
        return
    console = _Console()
    for table in verdict_tables(findings):
        print_framed(console, table)
    for objection in findings.objections():
        console.print(f"[bold red]FAILED[/] {objection}", highlight=False)
    if findings.interrupted:
        rounds = f"{len(findings.rounds)} of {findings.plan.rounds} rounds"
        console.print(f"[bold yellow]INTERRUPTED[/] after {rounds}, so nothing counts as lost", highlight=False)
    elif not findings.objections():
        console.print("[bold green]PASSED[/] nothing confirmed was lost", highlight=False)
