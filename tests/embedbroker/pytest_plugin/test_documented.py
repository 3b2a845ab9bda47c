"""Everything that a test may use has a row in the guide, and the twins of plain tests have the same names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from embedbroker import pytest_plugin
from embedbroker.pytest_plugin import (
    PAIR_MODES,
    BrokerClock,
    BrokerCluster,
    BrokerPair,
    DiskSwitch,
    FaultPlan,
    Link,
    ManagedBroker,
)
from embedbroker.pytest_plugin._blocking import (
    BlockingBroker,
    BlockingClock,
    BlockingCluster,
    BlockingDisk,
    BlockingFaultPlan,
    BlockingLink,
    BlockingPair,
)

ROOT = Path(__file__).parents[3]
EXAMPLES = [
    ROOT / "examples" / "test_my_failover.py",
    ROOT / "examples" / "test_my_cluster.py",
    ROOT / "examples" / "guide" / "test_with_fixtures.py",
    ROOT / "examples" / "guide" / "test_in_asyncio.py",
]
PAGE = (ROOT / "docs" / "guide" / "testing.md").read_text()
# What brokers, benches and pipes call.
INNER = {
    Link: {"pipe", "holds", "arrival", "share_that_passes", "forget", "open_dialled", "open_ends", "dropped"}
    | {"carries", "delay_answer", "delay_of", "drop_answer"},
    DiskSwitch: {"loop_latency_s", "run", "lose_power", "close"},
    BrokerClock: {"begin"},
}
TWINS = {
    ManagedBroker: BlockingBroker,
    BrokerPair: BlockingPair,
    BrokerCluster: BlockingCluster,
    Link: BlockingLink,
    DiskSwitch: BlockingDisk,
    FaultPlan: BlockingFaultPlan,
    BrokerClock: BlockingClock,
}


def names_of(kind: type) -> set[str]:
    inner = INNER.get(kind, set())
    return {name for each in kind.__mro__[:-1] for name in vars(each) if not name.startswith("_")} - inner


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_every_name_is_in_the_guide(kind: type) -> None:
    code = " ".join(re.findall(r"`([^`\n]+)`", PAGE))
    assert {name for name in names_of(kind) if not re.search(rf"\b{name}\b", code)} == set()


@pytest.mark.parametrize(("kind", "twin"), TWINS.items(), ids=lambda kind: kind.__name__)
def test_a_twin_has_the_same_names(kind: type, twin: type) -> None:
    # A plain test gets its pair started, and requests nothing of production's broker: that lives in another thread.
    assert names_of(kind) - names_of(twin) <= {"start", "broker", "brokers"}
    assert names_of(twin) - names_of(kind) == set()


def test_every_fixture_and_option_is_in_the_guide() -> None:
    source = Path(pytest_plugin.__file__).read_text()
    fixtures = re.findall(r"^@pytest\.fixture.*\ndef ([a-z]\w+)\(", source, re.MULTILINE)
    options = re.findall(r'^        "(--[a-z-]+)",$', source, re.MULTILINE)
    assert len(fixtures) == 12 and len(options) == 3
    assert [name for name in (*fixtures, *options, "embedbroker_timeout") if f"`{name}" not in PAGE] == []


def test_the_example_of_a_stranger_uses_documented_names_only() -> None:
    source = (ROOT / "examples" / "test_my_failover.py").read_text()
    used = set(re.findall(r"broker_pair\.(\w+)", source))
    assert used == {"url", "failover", "wait_for"}
    assert set(re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)) == {"embedbroker", "embedclient"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["virtual", "real"])
def test_the_examples_pass_in_virtual_and_in_real_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    files = [shutil.copy(example, pytester.path) for example in EXAMPLES]
    result = pytester.runpytest_inprocess("-p", "embedbroker.pytest_plugin", *options, *files)
    result.assert_outcomes(passed=len(PAIR_MODES) * 5 + 3)
