"""Names that load on first use: what a package offers, and what it does with a name that it does not have."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import embedbroker
import embedclient
from embedclient import errors
from embedclient.model import JMSMessage

PACKAGES = [
    "embedbroker",
    "embedbroker.locks",
    "embedbroker.pipeline",
    "embedbroker.pytest_plugin",
    "embedbroker.runtime",
    "embedbroker.storage",
    "embedclient",
    "embedclient._client",
    "embedclient.agent",
    "embedclient.engine.core",
    "embedclient.model",
    "embedclient.transport",
    "embedclient.wire.core",
]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_promised_name_is_found_and_no_other(package: str) -> None:
    if package == "embedbroker.pipeline":
        pytest.importorskip("pyspark")
    module = import_module(package)
    assert [name for name in module.__all__ if getattr(module, name) is None] == []
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


def test_a_name_is_loaded_once_and_stays() -> None:
    code = (
        "import sys, embedclient; assert 'embedclient.model' not in sys.modules and 'Queue' not in vars(embedclient); "
        "embedclient.Queue; assert vars(embedclient)['Queue'] is sys.modules['embedclient.model'].Queue"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_may_be_another_one_inside_or_the_module_itself() -> None:
    assert embedclient.Message is JMSMessage
    assert embedclient.errors is errors
    assert dir(embedclient) == embedclient.__all__ and dir(embedbroker) == embedbroker.__all__


_LOCKS = "LockManager('CuratorDistributedLockManager', {'connect-string': '127.0.0.1:1'})"


@pytest.mark.parametrize(
    ("library", "extra", "program"),
    [
        ("pyspark", "spark", "from embedbroker.pipeline import EmbedbrokerDataSource"),
        ("pytest", "testing", "from embedbroker.pytest_plugin import BrokerPair"),
        (
            "kazoo",
            "zookeeper",
            "from embedbroker import ClusterConnection, EmbeddedBroker, LockManager, ReplicationPrimary\n"
            f"EmbeddedBroker.in_thread(ha_policy=ReplicationPrimary(lock_manager={_LOCKS}), data_directory='.',\n"
            "    connectors={'a': 'tcp://localhost'}, cluster_password='a',\n"
            "    cluster_connections=ClusterConnection(connector='a')).start()",
        ),
    ],
)
def test_a_missing_library_names_the_extra_that_brings_it(
    library: str, extra: str, program: str, tmp_path: Path
) -> None:
    code = f"import sys; sys.modules[{library!r}] = None\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert library in done.stderr and f"pip install 'embedbroker[{extra}]'" in done.stderr.splitlines()[-1]
