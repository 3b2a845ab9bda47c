"""One Spark for all tests here, on two cores and with one retry per task, and brokers that it reaches over TCP.

These tests run when they are named (`nox -s spark`), because they need the extra `spark` and start slowly. The variable
EMBEDBROKER_SPARK_MASTER names another master than `local[2,2]`, as `local-cluster[2,1,1024]`: two executors beside the
driver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline import java_home
from embedbroker.pipeline._broker_connection import BrokerConnection

ROOT = Path(__file__).parents[2]
MASTER = os.environ.get("EMBEDBROKER_SPARK_MASTER", "local[2,2]")
CLUSTER = "local-cluster[2,1,1024]"
# The first batch of a query costs seconds: workers start, classes load.
TEST_LIMIT_S = 240


def pytest_configure(config: pytest.Config) -> None:
    """Spark warns of pandas 3, which it requests and nothing here uses."""
    config.addinivalue_line("filterwarnings", "ignore:PySpark does not yet fully support pandas:FutureWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time than tests have that do not start a Spark."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S))


def spark_environment() -> dict[str, str]:
    """What Spark and the workers it starts look at, for this process or for one that is started."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": path,
        # Where a cluster's workers find what starts an executor.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def make_spark(**settings: str) -> SparkSession:
    """A session on two cores, each task tried twice. The caller stops it."""
    builder = SparkSession.builder.master(MASTER).appName("tests")
    fixed = {
        # For a cluster what the second number of `local[2,2]` is.
        "spark.task.maxFailures": "2",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    for name, value in {**fixed, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment().items():
            patch.setenv(name, value)
        session = make_spark()
        yield session
        session.stop()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark with its own option for filters on."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ThreadedBroker]:
    """A broker with a journal, in a thread of this process and on a port of 127.0.0.1."""
    config = BrokerConfig(data_directory=str(tmp_path / "broker"))
    with EmbeddedBroker.in_thread(config) as running:
        yield running


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    """Connections that this process shares end with the test that made them, in front of its broker."""
    yield
    for link in BrokerConnection.all_shared():
        BrokerConnection.forget(link.options)
