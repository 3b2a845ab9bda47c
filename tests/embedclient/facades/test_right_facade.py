"""The three facades have the same names, and the blocking one is refused where it would stop an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
import trio

import embedclient
import embedclient.asyncio
import embedclient.blocking
from embedclient.errors import IllegalStateException


@pytest.mark.parametrize("facade", [embedclient.asyncio, embedclient.blocking])
def test_a_program_changes_its_import_and_nothing_else(facade: object) -> None:
    names = embedclient.__all__
    assert dir(facade) == names
    assert [name for name in names if getattr(facade, name, None) is None] == []
    # What is not an entry point, and does not block, is one class in all of them.
    assert all(
        getattr(facade, name) is getattr(embedclient, name) for name in ("Queue", "TextMessage", "errors", "Message")
    )


def parameters(function: Callable[..., object]) -> dict[str, tuple[object, object]]:
    found = inspect.signature(function).parameters
    return {name: (each.kind, each.default) for name, each in found.items() if name != "loop"}


@pytest.mark.parametrize("facade", [embedclient.asyncio, embedclient.blocking])
def test_what_is_in_two_facades_takes_the_same_arguments(facade: object) -> None:
    compared = 0
    for name in embedclient.__all__:
        ours, other = getattr(embedclient, name), getattr(facade, name)
        if ours is other or not inspect.isclass(ours):
            continue
        is_made = "ade by " in (ours.__doc__ or "")  # by another object, not by a program
        for method in ["__init__"] * (not is_made) + [each for each in dir(ours) if not each.startswith("_")]:
            mine, others = inspect.getattr_static(ours, method), getattr(other, method, None)
            if inspect.isfunction(mine):
                assert inspect.isfunction(others), f"{name}.{method} is not in {facade}"
                compared += 1
                assert parameters(others) == parameters(mine), f"{name}.{method}"
    assert compared > 10


def test_the_classes_of_the_facades_have_the_same_members() -> None:
    def members(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    different = {}
    for name in embedclient.__all__:
        ours = getattr(embedclient, name)
        if inspect.isclass(ours):
            assert members(getattr(embedclient.asyncio, name)) == members(ours), name
            other = members(getattr(embedclient.blocking, name))
            assert members(ours) <= other, name
            different[name] = other - members(ours)
    # Properties of the blocking class, and attributes of each object of the other classes.
    assert {name: words for name, words in different.items() if words} == {
        "Connection": {"exception_listener"},
        "XAConnection": {"exception_listener"},
        "MessageProducer": {
            "delivery_delay",
            "delivery_mode",
            "disable_message_id",
            "disable_message_timestamp",
            "priority",
            "time_to_live",
        },
        "ServerLocator": {"settings"},
    }


def test_a_blocking_call_is_refused_in_a_thread_of_an_event_loop(url: str) -> None:
    connection = embedclient.blocking.ConnectionFactory(url).connect()
    session = connection.session()

    def refused(loop: str, module: str) -> None:
        calls: list[Callable[[], object]] = [
            embedclient.blocking.ConnectionFactory(url).connect,
            session.create_temporary_queue,
        ]
        for call in calls:
            with pytest.raises(IllegalStateException, match=rf"runs {loop}, .*: use {module}, or call in a thread"):
                call()

    async def on_trio() -> None:
        refused("trio", "embedclient")
        await trio.to_thread.run_sync(session.create_temporary_queue)

    async def on_asyncio() -> None:
        refused("asyncio", r"embedclient\.asyncio")
        await asyncio.to_thread(session.create_temporary_queue)

    trio.run(on_trio)
    asyncio.run(on_asyncio())
    connection.close()
