"""An object that a request opens belongs to the caller; if the caller is cancelled, the object is closed.

1. A task requests a consumer; the request is sent.
2. The task is cancelled while it waits.
3. The broker's answer arrives: the consumer exists, and would take messages that the program never receives.
Therefore a cancelled wait leaves a callback that closes the object. Does not depend on sessions and consumers.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from embedclient.agent import Call

from ._edge import Edge


class Opened(Protocol):
    def close(self) -> Call[None]: ...


OpenedT = TypeVar("OpenedT", bound=Opened)


async def own(edge: Edge, call: Call[OpenedT]) -> OpenedT:
    """Wait for the object that `call` opens. If the wait fails, the object is closed as soon as it exists."""
    opened: OpenedT | None = None
    try:
        opened = await edge.wait(call)
    finally:
        if opened is None:
            if call.done:
                _close(call)
                edge.flush_soon()
            else:
                call.on_done = _close
    return opened


def _close(call: Call[OpenedT]) -> None:
    # A request that was withdrawn before it was sent is done without a result.
    if call.error is None and call.result is not None:
        call.result.close()
