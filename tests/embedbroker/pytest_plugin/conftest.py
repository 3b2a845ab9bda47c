"""Tests of tests: each writes a file of tests and runs it with the plugin, in this process unless it states another."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import TypeAlias

import pytest

# Loaded before an inner session begins, which forgets at its end what it was the first to load.
from embedbroker.ha import replication, shared_store
from embedbroker.pytest_plugin import _blocking, _foreign, _plugins, _run, _runner, _thread, _topologies
from embedclient import asyncio, blocking

_HEADER = """
import pytest
import trio
from embedbroker import Role
from embedbroker.pytest_plugin import LeftBehind, WaitTimeout
from embedclient import ConnectionFactory, Queue, TextMessage, blocking
from embedclient.errors import IllegalStateException, JMSException

ORDERS = Queue("orders")

async def put(url, *texts):
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        for text in texts:
            await session.create_producer(ORDERS).send(text)
"""
_LOADED = (
    _blocking,
    _foreign,
    _plugins,
    _run,
    _runner,
    _thread,
    _topologies,
    asyncio,
    blocking,
    replication,
    shared_store,
)
Inner: TypeAlias = Callable[..., pytest.RunResult]


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Inner:
    """Run some tests: their source, and arguments for pytest."""
    # What else is installed here is for the tests that name it.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(source: str, *arguments: str, subprocess: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test_inner=_HEADER + dedent(source))
        everything = ("-p", "embedbroker.pytest_plugin", *arguments)
        if subprocess:
            return pytester.runpytest_subprocess(*everything)
        return pytester.runpytest_inprocess(*everything)

    return run
