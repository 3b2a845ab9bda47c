"""Names that load on first use: what a package offers, and what it does with a name that it does not have."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

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


def test_a_missing_library_names_the_extra_that_brings_it() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
        "from embedbroker.pipeline import EmbedbrokerDataSource"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is missing; install the extra: pip install 'embedbroker[spark]'" in done.stderr
