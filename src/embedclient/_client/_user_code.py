"""Calls what a program gave us to call, and survives what it does.

Responsible for what an exception of a listener means to the task that calls it. Refuses to know what listeners are for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable

import outcome

_log = logging.getLogger("embedclient")


async def succeeds(name: str, called: object, listener: Callable[..., object], *arguments: object) -> bool:
    """Call a listener, and wait for it if it is asynchronous. False if it failed, which is logged: `name` of `called`.

    A cancellation goes on. A cancelled nursery of the listener may bring both in one group: whoever cancels it must not
    meet the failure.
    """
    result = await outcome.acapture(_invoke, listener, arguments)
    if isinstance(result, outcome.Value):
        return True
    failure, rest = _parts(result.error)
    if failure is not None:
        _log.error("%s of %s failed", name, called, exc_info=failure)
    if rest is not None:
        raise rest
    return False


async def _invoke(listener: Callable[..., Awaitable[None] | object], arguments: tuple[object, ...]) -> None:
    result = listener(*arguments)
    if isawaitable(result):
        await result


def _parts(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    if isinstance(error, BaseExceptionGroup):
        return error.split(Exception)
    return (error, None) if isinstance(error, Exception) else (None, error)
