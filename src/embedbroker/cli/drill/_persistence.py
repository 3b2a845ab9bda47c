"""What every client of a drill does when its connection ends for good: open another one, a limited number of times.

A client whose connection is only interrupted does not come here; the client library brings it back. Here ends what was
being opened when the broker died. Refuses to know what the client does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from embedclient.errors import JMSException

from ._stage import QUEUE, Stage

__all__ = ["persist"]

_LIVES_MAX = 100


async def persist(stage: Stage, name: str, live: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
    """Run ``live`` until it returns; it calls its argument when it is open."""
    was_open = False

    def opened() -> None:
        nonlocal was_open
        if not was_open:
            was_open = True
            stage.ready()

    reason = ""
    for _ in range(_LIVES_MAX):
        try:
            await live(opened)
        except JMSException as error:
            reason = str(error)
            stage.ledger.interrupted(QUEUE)
        else:
            return
    stage.fail(f"{name}: {reason}")
