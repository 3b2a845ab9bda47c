"""The demo's output for people: its progress, a table, the verdict, a page.

Does not depend on how the demo is conducted.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import click
import trio
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .._failure import Refused, WrongInput
from .._interrupt import run_interruptibly
from .._text_table import print_framed
from ..drill import Ha
from ._conductor import OpenSpark, conduct
from ._orders import Orders
from ._page import page_of
from ._plan import DemoPlan, Findings, Progress

__all__ = ["run_demo"]

_REFRESH_S, _LINE_S = 0.25, 5.0


def run_demo(
    messages: int, seed: int, ha: str, output: Path | None, open_spark: OpenSpark, *, as_json: bool = False
) -> None:
    """Run the demo, show its findings, and end with 1 if they are not what was promised.

    Raises:
        WrongInput: ``output`` exists and is not empty.
    """
    if output is not None and output.exists() and any(output.iterdir()):
        raise WrongInput(f"{output} is not empty")
    directory = Path(tempfile.mkdtemp(prefix="embedbroker-demo-"))
    plan = DemoPlan(Orders(messages, seed), Ha(ha), directory)
    goes = True
    try:
        folder = (output or directory) / "totals"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise WrongInput(f"cannot write {folder}: {error.strerror}") from None
        goes = False
        findings = run_interruptibly(partial(_conduct_visibly, plan, folder, open_spark))
        goes = not findings.objections
    except (click.exceptions.Exit, KeyboardInterrupt):
        goes = True  # interrupted: the files are not kept
        raise
    finally:
        if goes:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            click.echo(f"what the brokers wrote is in {directory}", err=True)
    page = None if output is None else output / "report.html"
    if page is not None:
        try:
            page.write_text(page_of(findings, rows_of(findings)), encoding="utf-8")
        except OSError as error:
            raise Refused(f"cannot write {page}: {error.strerror}") from None
    if as_json:
        click.echo(json.dumps(_as_json(findings, page), indent=2, ensure_ascii=False))
    else:
        _show(findings)
        if page is not None:
            click.echo(f"report: {page}")
    if findings.objections:
        sys.exit(1)


async def _conduct_visibly(plan: DemoPlan, folder: Path, open_spark: OpenSpark) -> Findings:
    console = Console(stderr=True)
    with Live(console=console, auto_refresh=False, transient=not console.is_terminal) as live:

        async def watch(progress: Progress) -> None:
            while console.is_terminal:
                live.update(progress_line(plan, progress), refresh=True)
                await trio.sleep(_REFRESH_S)
            while True:
                # A file or a build's log gets lines, and fewer of them.
                console.print(progress_line(plan, progress), soft_wrap=True)
                await trio.sleep(_LINE_S)

        return await conduct(plan, folder, open_spark, watch)


def progress_line(plan: DemoPlan, progress: Progress) -> Text:
    """Return one line of progress, short enough for a terminal of 80 columns."""
    count = plan.orders.count
    sent, read = min(progress.confirmed, count), min(progress.read, count)
    line = Text(progress.phase, style="bold", no_wrap=True)
    if sent:
        line.append(f" {100 * read // count:3}%")
        line.append(f"  sent {sent:,}  read {read:,}  totals {progress.published:,}", style="default")
    if progress.killed_at is not None:
        gap = progress.producer_gap_s
        line.append("  failover ..." if gap is None else f"  failover {gap:.1f} s", style="red")
    return line


def rows_of(findings: Findings) -> list[tuple[str, str]]:
    """Return the rows of the table."""
    plan, progress = findings.plan, findings.progress
    return [
        ("orders", f"{plan.orders.count:,}"),
        ("orders per second, failover included", f"{findings.rows_per_second:,.0f}"),
        ("batches of Spark", f"{progress.batches:,}"),
        ("confirmed when the live broker was killed", f"{progress.confirmed_at_kill:,}"),
        ("of these read by Spark", f"{progress.read_at_kill:,}"),
        ("until the producer went on", _seconds(progress.producer_gap_s)),
        ("until Spark had a batch begun afterwards", _seconds(progress.query_gap_s)),
        ("transactions sent again", f"{progress.again:,}"),
        ("totals in Parquet, and in the queue", f"{len(findings.parquet):,}, {progress.published:,}"),
        ("totals that the orders add up to", f"{len(findings.expected):,}"),
    ]


def _as_json(findings: Findings, page: Path | None) -> dict[str, object]:
    plan, progress = findings.plan, findings.progress
    return {
        "passed": not findings.objections,
        "objections": findings.objections,
        "orders": plan.orders.count,
        "orders_per_s": round(findings.rows_per_second, 1),
        "batches": progress.batches,
        "confirmed_at_kill": progress.confirmed_at_kill,
        "read_at_kill": progress.read_at_kill,
        "producer_gap_s": progress.producer_gap_s,
        "query_gap_s": progress.query_gap_s,
        "sent_again": progress.again,
        "totals": len(findings.expected),
        "totals_in_parquet": len(findings.parquet),
        "totals_in_queue": progress.published,
        "audit": findings.audited,
        "report": None if page is None else str(page),
    }


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"


def _show(findings: Findings) -> None:
    console = Console()
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows_of(findings):
        table.add_row(name, value)
    print_framed(console, table)
    for line in findings.audited:
        console.print(f"audit: {line}", highlight=False, markup=False, soft_wrap=True)
    for objection in findings.objections:
        console.print(f"[bold red]FAILED[/] {objection}", highlight=False, soft_wrap=True)
    if not findings.objections:
        console.print("[bold green]PASSED[/] nothing lost, nothing twice", highlight=False)
