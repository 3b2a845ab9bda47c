"""`embedbroker drill`: options, progress, the table, and the exit code.

Responsible for what a person or a script sees. Refuses to know how the drill is conducted.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import trio
from rich.console import Console
from rich.live import Live

from .._failure import Refused
from .._interrupt import run_interruptibly
from ._conductor import conduct
from ._page import page_of
from ._plan import DrillPlan, Findings, KillRecord
from ._stage import Stage
from ._tables import as_json, progress_line, verdict_tables

__all__ = ["drill"]

_REFRESH_S = 0.25
_LINE_S = 5.0


def _report_file(_: click.Context, __: click.Parameter, text: str | None) -> Path | None:
    """Known before the drill begins: whether there is a place for its report."""
    if text is None:
        return None
    path = Path(text)
    if not os.access(path.absolute().parent, os.W_OK):
        raise click.BadParameter(f"{path.absolute().parent} is no directory that can be written to")
    return path


@click.command(short_help="Kill a broker under load and judge what that did.")
@click.option(
    "--seconds", default=30.0, show_default=True, type=click.FloatRange(1), help="How long messages are sent."
)
@click.option("--producers", default=4, show_default=True, type=click.IntRange(1, 500))
@click.option("--consumers", default=4, show_default=True, type=click.IntRange(1, 500))
@click.option("--size", default=1024, show_default=True, type=click.IntRange(1, 90_000), help="Bytes per message.")
@click.option("--kills", default=5, show_default=True, type=click.IntRange(0, 1000), help="How often the broker dies.")
@click.option("--seed", type=int, help="For the moments of the kills and the sizes of transactions.")
@click.option("--json", "json_wanted", is_flag=True, help="The verdict as JSON on stdout.")
@click.option(
    "--report",
    metavar="FILE.html",
    type=click.Path(dir_okay=False, writable=True),
    callback=_report_file,
    help="Write a page.",
)
@click.option("--keep", is_flag=True, help="Keep the broker's directory even if all went well.")
def drill(
    seconds: float,
    producers: int,
    consumers: int,
    size: int,
    kills: int,
    seed: int | None,
    json_wanted: bool,
    report: Path | None,
    keep: bool,
) -> None:
    """Kill a broker under load, several times, and say what that did to the messages.

    A broker process on a temporary directory gets durable messages from producers and gives them to consumers, half of
    them in transactions. It is killed with SIGKILL while sends and transactions are open, and started again; clients
    reconnect by themselves. The exit code is 0 only if no confirmed message was lost and none came twice unmarked.
    """
    plan = DrillPlan(seconds, producers, consumers, size, kills, random.randrange(2**32) if seed is None else seed)
    directory = Path(tempfile.mkdtemp(prefix="embedbroker-drill-"))
    passed = False
    try:
        findings = run_interruptibly(partial(_conduct_visibly, plan, directory))
        _show(findings, json_wanted)
        if report is not None:
            _write(report, page_of(findings))
        passed = not findings.objections()
    finally:
        if passed and not keep:
            shutil.rmtree(directory)
        else:
            click.echo(f"the broker's journal and log are in {directory}", err=True)
    if not passed:
        sys.exit(1)


def _write(report: Path, page: str) -> None:
    try:
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write {report}: {error.strerror}") from None


async def _conduct_visibly(plan: DrillPlan, directory: Path) -> Findings:
    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=not console.is_terminal) as live:

        async def watch(stage: Stage, kills: Sequence[KillRecord]) -> None:
            console.print(f"broker at {stage.broker_url}, in {directory}", highlight=False, soft_wrap=True)
            while console.is_terminal:
                live.update(progress_line(stage, kills, console.width), refresh=True)
                await trio.sleep(_REFRESH_S)
            while True:
                # A file or a build's log gets lines, and fewer of them.
                await trio.sleep(_LINE_S)
                console.print(progress_line(stage, kills), soft_wrap=True)

        return await conduct(plan, directory, watch)


def _show(findings: Findings, json_wanted: bool) -> None:
    if json_wanted:
        click.echo(json.dumps(as_json(findings), indent=2))
        return
    console = Console()
    for table in verdict_tables(findings):
        console.print(table)
    for objection in findings.objections():
        console.print(f"[bold red]FAILED[/] {objection}", highlight=False)
    if not findings.objections():
        console.print("[bold green]PASSED[/] nothing confirmed was lost", highlight=False)
