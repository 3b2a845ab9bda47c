"""`embedbroker perf`: throughput and transfer times through the client, against any CORE broker or one that it starts.

Responsible for options and for how figures are shown; `_perf_load` makes them.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

import click
import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from embedclient import ConnectionFactory
from embedclient.errors import JMSException, JMSSecurityException

from ._broker_process import BrokerProcess
from ._connection_options import check_destination, factory_for, failure_of
from ._interrupt import run_interruptibly
from ._numbers import Number
from ._perf_load import Figures, Load, Meter, measure

__all__ = ["perf"]

_REFRESH_S = 0.25


@click.command(short_help="Measure throughput and transfer times.")
@click.option("--url", help="The broker. Without it the command starts one for the measurement, in a separate process.")
@click.option("--user", envvar="EMBEDBROKER_USER")
@click.option("--password", envvar="EMBEDBROKER_PASSWORD")
@click.option(
    "--destination",
    default="queue://perf",
    show_default=True,
    callback=check_destination,
    help="topic://NAME: every consumer gets all.",
)
@click.option("--seconds", default=10.0, show_default=True, type=Number(0.1), help="Measured time.")
@click.option("--warmup", default=2.0, show_default=True, type=Number(0), help="Seconds before it.")
@click.option("--producers", default=1, show_default=True, type=click.IntRange(1, 1000))
@click.option("--consumers", default=1, show_default=True, type=click.IntRange(1, 1000))
@click.option("--size", default=1024, show_default=True, type=click.IntRange(8, 90_000), help="Bytes per message.")
@click.option("--durable", is_flag=True, help="Messages on disk; every send waits for the broker's answer.")
@click.option("--max-pending", default=100, show_default=True, type=click.IntRange(1), help="Per producer.")
@click.option("--rate", type=Number(1), metavar="N", help="Messages per second of all producers together.")
@click.option("--json", "as_json", is_flag=True, help="Figures as JSON on stdout.")
def perf(
    url: str | None,
    user: str | None,
    password: str | None,
    destination: str,
    seconds: float,
    warmup: float,
    producers: int,
    consumers: int,
    size: int,
    durable: bool,
    max_pending: int,
    rate: float | None,
    as_json: bool,
) -> None:
    """Measure how many messages get through, and how long each takes from send to receipt.

    Producers and consumers run in this process, so what Python needs for them is part of the figures.
    """
    load = Load(destination, seconds, warmup, producers, consumers, size, durable, max_pending, rate)
    if url is None:
        figures = run_interruptibly(partial(_with_own_broker, load))
    else:
        figures = run_interruptibly(partial(_measure, factory_for(url, user, password, None), load))
    click.echo(json.dumps(figures.as_json(), indent=2) if as_json else figures.as_text())


async def _with_own_broker(load: Load) -> Figures:
    with tempfile.TemporaryDirectory(prefix="embedbroker-perf-") as directory:
        broker = BrokerProcess(Path(directory), 0, durable=load.durable)
        try:
            await broker.start()
            return await _measure(ConnectionFactory(broker.url), load, broker)
        finally:
            await broker.stop()


async def _measure(factory: ConnectionFactory, load: Load, broker: BrokerProcess | None = None) -> Figures:
    # Progress is for a person at a terminal; without a terminal nothing but the figures is printed.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        async def watch(meter: Meter) -> None:
            began = trio.current_time()
            while True:
                live.update(progress_line(meter, trio.current_time() - began), refresh=live.console.is_terminal)
                await trio.sleep(_REFRESH_S)

        try:
            return await measure(factory, load, None if broker is None else broker.cpu_seconds, watch)
        except JMSSecurityException as error:
            raise failure_of(factory, error, connected=False) from None
        except JMSException as error:
            raise failure_of(factory, error, connected=True) from None


def progress_line(meter: Meter, elapsed_s: float) -> Text:
    """Return one line of progress."""
    load = meter.load
    phase = "measuring" if meter.open else "ending" if not meter.sending else "warming up"
    line = Text(f"{elapsed_s:5.1f} of {load.warmup_s + load.seconds:.1f} s  {phase:10}", style="bold", no_wrap=True)
    line.append(f"  sent {meter.sent:,}  received {meter.received:,}", style="default")
    return line
