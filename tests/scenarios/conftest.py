"""Fixtures of the scenarios: pairs and groups of brokers whose policies the test chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest

from embedbroker import HAPolicy, pytest_plugin
from embedbroker.pytest_plugin import BrokerPair, ManagedBroker, bench_of
from embedbroker.pytest_plugin._bench import Bench, Surface
from tests.scenarios.groups import brokers_of, pair_of
from tests.scenarios.nodes import MakeCluster

MakePair: TypeAlias = Callable[..., BrokerPair]
MakeBrokers: TypeAlias = Callable[..., dict[str, ManagedBroker]]


def bench_over_tcp(request: pytest.FixtureRequest, surface: Surface = Surface.SOCKETS) -> Bench:
    """The bench of an async test whose brokers are reached over sockets, in real time."""
    bench = bench_of(request, surface)
    assert bench.surface is not Surface.VIRTUAL, "another fixture has made the bench of this test"
    return bench


@pytest.fixture
def broker_over_tcp(request: pytest.FixtureRequest) -> ManagedBroker:
    """A broker over sockets, which runs when the test begins."""
    return bench_over_tcp(request).broker("broker", {}, starts=True)


@pytest.fixture(params=["in virtual time", pytest.param("over TCP", marks=pytest.mark.search)])
def broker(request: pytest.FixtureRequest) -> ManagedBroker:
    """A broker, which runs when the test begins."""
    bench = bench_over_tcp(request) if request.param == "over TCP" else bench_of(request)
    return bench.broker("broker", {}, starts=True)


@pytest.fixture(params=pytest_plugin.PAIR_MODES)
def pair_over_tcp(request: pytest.FixtureRequest) -> BrokerPair:
    """`broker_pair` with sockets, in real time."""
    return bench_over_tcp(request).pair(request.param)


@pytest.fixture
def cluster_over_tcp(request: pytest.FixtureRequest) -> MakeCluster:
    """`broker_cluster` with sockets, in real time; with the parameter `Surface.REAL` also with files."""
    bench_over_tcp(request, getattr(request, "param", Surface.SOCKETS))
    make: MakeCluster = request.getfixturevalue("broker_cluster")
    return make


@pytest.fixture
def make_pair(request: pytest.FixtureRequest) -> MakePair:
    """A pair with these policies and, for both, these settings; the test starts it.

    One that replicates has a lock manager, but with ``lock_manager=False`` it decides by votes.
    """
    bench = bench_of(request)

    def make(primary: HAPolicy, backup: HAPolicy, *, lock_manager: bool = True, **settings: Any) -> BrokerPair:
        return pair_of(bench, primary, backup, settings, lock_manager=lock_manager)

    return make


@pytest.fixture
def make_brokers(request: pytest.FixtureRequest) -> MakeBrokers:
    """Brokers by name, in groups that share a store or replicate as their policies say; the test starts them."""
    bench = bench_of(request)

    def make(
        *groups: Mapping[str, HAPolicy], lock_manager: bool = True, **settings: object
    ) -> dict[str, ManagedBroker]:
        return brokers_of(bench, groups, settings, lock_manager=lock_manager)

    return make
