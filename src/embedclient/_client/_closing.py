"""How long closing waits for the broker: one budget for a connection and everything in it, none without a connection.

1. The broker is unavailable; a program with four sessions of four consumers each is interrupted.
2. Every block that it leaves closes something. With 5 s for each, the end takes 100 s. A container is killed after 30.
Therefore all closing of one connection shares one budget (see `TimeBudget`), and a lost connection ends the wait at
once. A request to close then needs no answer: the broker drops the object with the connection, or receives the request
after a reconnect.
"""

from __future__ import annotations

from typing import Final, TypeVar

from embedclient.agent import Call

from ._edge import Edge

T = TypeVar("T")

CLOSE_TIMEOUT_S: Final = 5.0


async def settle_closing(edge: Edge, call: Call[T]) -> bool:
    """Wait for the end of a request that closes something. Return True if it ended.

    A cancellation does not end the wait. On asyncio it is raised afterwards, so that what follows needs a `finally`.
    """
    await settle_in_time(edge, call)
    await edge.raise_cancellation()
    return call.done


async def settle_in_time(edge: Edge, call: Call[T]) -> bool:
    """Wait as `settle_closing` does, but leave a cancellation to the caller's next wait."""
    bounded = edge.agent.while_connected(call)
    left_s = edge.close_budget.begin(edge.now().monotonic)
    try:
        await edge.settle(bounded, left_s)
    finally:
        edge.close_budget.end(edge.now().monotonic)
        bounded.succeed(None)
    return call.done


async def settle_or_hurry(edge: Edge, call: Call[T], timeout_s: float) -> bool:
    """Wait for a request, at most `timeout_s` seconds; after a cancellation no longer than closing may take.

    Return True if it ended. The caller's next wait raises the cancellation.
    """
    deadline = edge.now().monotonic + timeout_s
    if not await edge.settle_unless_cancelled(call, timeout_s) and edge.now().monotonic < deadline:
        await settle_in_time(edge, call)
    return call.done
