"""Calls from a test in asyncio to its brokers, which run in another thread.

Responsible for one class per thing of a test: its methods run where its brokers do, wherever they are called. Does not
depend on how a call gets there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

__all__ = ["Carried", "Carrier", "carried", "carried_now"]

T = TypeVar("T")


class Carrier(Protocol):
    """The way from a test in asyncio to the thread of its brokers."""

    @property
    def is_here(self) -> bool:
        """Return True in the thread of the brokers."""

    async def carry(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function in the thread of the brokers, for a task of asyncio."""

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function in the thread of the brokers, and block until it returns."""

    def call_now(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a function that does not wait in the thread of the brokers."""

    async def carry_back(self, function: Callable[..., object], *args: object) -> None:
        """Run a function of the test in asyncio, for a task in the thread of the brokers; await what it returns."""


class Carried(Protocol):
    """An object whose methods run in the thread of the brokers; None: a test in trio, which has no other thread."""

    @property
    def _carrier(self) -> Carrier | None: ...


M = TypeVar("M", bound=Callable[..., Any])


def carried(method: M) -> M:
    """Make an async method of a `Carried` run in the thread of the brokers."""

    @wraps(method)
    async def call(self: Carried, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        carrier = self._carrier
        if carrier is None or carrier.is_here:
            return await method(self, *args, **kwargs)
        return await carrier.carry(method, self, *args, **kwargs)

    return cast(M, call)


def carried_now(method: M) -> M:
    """Make a method of a `Carried` that does not wait run in the thread of the brokers."""

    @wraps(method)
    def call(self: Carried, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        carrier = self._carrier
        if carrier is None or carrier.is_here:
            return method(self, *args, **kwargs)
        return carrier.call_now(method, self, *args, **kwargs)

    return cast(M, call)
