"""What must not be loaded yet when a program has what it asked for: modules are counted here, times in benchmarks."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from types import ModuleType

import pytest

import embedbroker
import embedclient
import embedclient.asyncio
import embedclient.blocking

# A family is a module with everything below it, or every module that begins so (a name that ends in an underscore).
EVERYWHERE = """
    _pytest asyncio cryptography dataclasses decimal difflib email json pytest tempfile trio.testing uuid xml xmltodict
    pandas pyarrow pyspark
    embedbroker.cli embedbroker.ledger embedbroker.pipeline embedbroker.testing
    embedclient.wire.core._cluster_packets embedclient.wire.core._federation_packets
    embedclient.wire.core._discovery_datagram embedclient.wire.core._xa_packets
    embedclient.engine.core._discovery embedclient.model._multicast embedclient.transport._datagrams
    embedclient.transport._udp
"""
BROKER = """
    embedbroker.kernel.selector._evaluation embedbroker.kernel.selector._grammar embedbroker.kernel.selector._tokens
    embedbroker.locks._ embedbroker.runtime._directory embedbroker.runtime._disk embedbroker.runtime._file_locks
    embedbroker.runtime._flocks embedbroker.runtime._journal_directory
    embedbroker.runtime._lock embedbroker.storage._
    embedbroker.storage.audit embedbroker.storage.inspect embedbroker.storage.journal
    embedbroker.storage.recovery
    embedclient._client embedclient.agent embedclient.model._jms_
"""
# `embedbroker` begins with the facade of `embedclient`, for its lazy names.
BELOW_THE_FACADE = "embedclient.agent embedclient.engine embedclient.errors embedclient.model embedclient.wire"
CLIENT = "embedbroker embedclient.asyncio embedclient.blocking embedclient.transport"


def loaded_by(statement: str) -> set[str]:
    """The modules a statement loads beside those of trio."""
    code = f"import sys, trio; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def of_family(module: str, family: str) -> bool:
    return module == family or module.startswith(family if family.endswith("_") else f"{family}.")


@pytest.mark.parametrize(
    ("statement", "families"),
    [
        ("import embedbroker", f"{EVERYWHERE} {BROKER} {BELOW_THE_FACADE} embedbroker.kernel embedbroker.node"),
        ("from embedbroker import EmbeddedBroker", f"{EVERYWHERE} {BROKER}"),
        ("from embedclient import ConnectionFactory", f"{EVERYWHERE} {CLIENT}"),
    ],
)
def test_what_is_not_needed_yet_is_not_loaded(statement: str, families: str) -> None:
    loaded = loaded_by(statement)
    assert [module for module in sorted(loaded) if any(of_family(module, family) for family in families.split())] == []


def test_each_family_exists() -> None:
    """A module that was renamed would leave a rule here that cannot fail."""
    code = (
        "import embedbroker.testing, embedbroker.ledger, embedbroker.cli, embedbroker.pipeline; "
        "import embedclient.blocking, embedclient.asyncio"
    )
    later = "from embedbroker import ThreadedBroker; from embedbroker.runtime import _directory, journal_directory"
    packets = "from embedclient.wire.core import NodeAnnounce, FederationStream, SessionXaEnd"
    discovery = "from embedclient.agent import announced_entry; from embedclient.transport import SystemDatagrams"
    selector = "from embedbroker.kernel import parse_selector; parse_selector('a = 1')"
    loaded = loaded_by(f"{code}; {later}; {packets}; {discovery}; {selector}")
    ours = [
        family for family in f"{EVERYWHERE} {BROKER} {BELOW_THE_FACADE} {CLIENT}".split() if family.startswith("embed")
    ]
    assert [family for family in ours if not any(of_family(module, family) for module in loaded)] == []


def test_a_broker_in_memory_never_loads_the_journal() -> None:
    """Nor anything else that only some brokers need, from the first message to the stop."""
    program = """
import sys, trio
before = set(sys.modules)
from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory, Queue

async def main():
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.url).connect() as connection:
        async with connection.session() as session, session.create_consumer(Queue("q")) as consumer:
            await session.create_producer(Queue("q")).send("hello")
            assert (await consumer.receive()).body == "hello"

trio.run(main)
print(*sorted(set(sys.modules) - before))
"""
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    later = f"{EVERYWHERE} embedbroker.storage._ embedbroker.locks._ embedbroker.kernel.selector._grammar".split()
    assert [name for name in run.stdout.split() if any(of_family(name, family) for family in later)] == []


def callables_of(facade: ModuleType) -> Iterator[tuple[str, object]]:
    """Each public class, function and method of a facade, and what programs construct."""
    for name in facade.__all__:
        public = getattr(facade, name)
        if not inspect.isclass(public):
            yield from [(name, public)] * inspect.isfunction(public)
            continue
        yield name, public
        is_made = "ade by " in (public.__doc__ or "")  # by another object, not by a program
        for method in dir(public):
            member = inspect.getattr_static(public, method)
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            is_public = not method.startswith("_") or method in ("__aenter__", "__enter__", "__aiter__", "__iter__")
            if inspect.isfunction(function) and (is_public or (method == "__init__" and not is_made)):
                yield f"{name}.{method}", function


@pytest.mark.parametrize("facade", [embedbroker, embedclient, embedclient.asyncio, embedclient.blocking])
def test_the_types_of_public_signatures_are_found(facade: ModuleType) -> None:
    """`typing.get_type_hints` finds them in the module of the function, also those that load on first use."""
    assert without_types(facade) == {}
    assert len(list(callables_of(facade))) > 200


def test_the_types_of_other_public_modules_are_found() -> None:
    names = ("config", "configfile", "cluster", "locks", "runtime", "testing")
    modules = [importlib.import_module(f"embedbroker.{name}") for name in names]
    assert [name for module in modules for name in without_types(module)] == []
    assert all(list(callables_of(module)) for module in modules)


def without_types(facade: ModuleType) -> dict[str, str]:
    """The public callables whose types are not found, each with the reason."""
    missing = {}
    for name, public in callables_of(facade):
        try:
            typing.get_type_hints(public)
        except NameError as error:
            missing[name] = str(error)
    return missing
