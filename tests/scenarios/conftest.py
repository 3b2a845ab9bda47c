"""Fixtures of the scenarios: pairs and groups of brokers whose policies the test chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from embedbroker import HAPolicy, pytest_plugin
from embedbroker.pytest_plugin import BrokerPair, ManagedBroker
from tests.scenarios.groups import brokers_of, pair_of

MakePair: TypeAlias = Callable[..., BrokerPair]
MakeBrokers: TypeAlias = Callable[..., dict[str, ManagedBroker]]


@pytest.fixture
def make_pair(request: pytest.FixtureRequest) -> MakePair:
    """A pair with these policies and, for both, these settings; the test starts it."""
    bench = pytest_plugin._bench_of(request)

    def make(primary: HAPolicy, backup: HAPolicy, **settings: Any) -> BrokerPair:
        return pair_of(bench, primary, backup, settings)

    return make


@pytest.fixture
def make_brokers(request: pytest.FixtureRequest) -> MakeBrokers:
    """Brokers by name, in groups that share a store or replicate as their policies say; the test starts them."""
    bench = pytest_plugin._bench_of(request)
    return lambda *groups: brokers_of(bench, groups, {})
