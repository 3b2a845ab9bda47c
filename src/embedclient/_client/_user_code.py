"""Calls of a program's listeners, which survive the listeners' exceptions.

Responsible for the effect of a listener's exception on the task that calls it. Does not depend on the purpose of
listeners.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable

import outcome

_log = logging.getLogger("embedclient")


async def succeeds(name: str, called: object, listener: Callable[..., object], *arguments: object) -> bool:
    """Call a listener, and wait for it if it is asynchronous. Return False if it failed.

    A failure is logged, as one of `name` of `called`. A cancellation is raised. A cancelled nursery of the listener may
    raise both in one group; then only the cancellation is raised, because the canceller must not get the failure.
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
