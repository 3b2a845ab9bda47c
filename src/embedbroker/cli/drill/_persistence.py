"""What every client of a drill has: its kind of work, a listener for losses, and a new connection after a final loss.

A client whose connection is only interrupted does not open another one; the client library reconnects. A connection
that was being opened when the broker died is replaced here. Does not depend on what the client does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

from embedclient import Connection, FailoverEventType
from embedclient.errors import JMSException

from ._run import QUEUE
from ._stage import Stage

__all__ = ["Work", "on_loss", "persist", "work_of"]

_LIVES_MAX = 1_000


class Work(Enum):
    """How a client works: a message, or a batch of acknowledgements, at a time; in transactions; in XA branches."""

    SINGLE = "single"
    TRANSACTIONS = "transactions"
    BRANCHES = "branches"


_WORKS = tuple(Work)


def work_of(number: int) -> Work:
    """Return the kind of work of client ``number``; the kinds alternate."""
    return _WORKS[number % len(_WORKS)]


def on_loss(connection: Connection, stage: Stage, name: str) -> None:
    """Report to the stage when this client notices that its connection is gone."""

    def on_event(event: FailoverEventType) -> None:
        if event is FailoverEventType.FAILURE_DETECTED:
            stage.connection_lost(name)

    connection.add_failover_listener(on_event)


async def persist(stage: Stage, name: str, live: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
    """Run ``live`` until it returns; it calls its argument when it is open."""
    was_open = False

    def opened() -> None:
        nonlocal was_open
        if not was_open:
            was_open = True
            stage.run.ready()

    reason = ""
    for _ in range(_LIVES_MAX):
        try:
            await live(opened)
        except JMSException as error:
            reason = str(error)
            stage.ledger.interrupted(QUEUE)
            stage.connection_lost(name)
        else:
            return
    stage.run.fail(f"{name}: {reason}")
