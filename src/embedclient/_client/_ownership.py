"""What a request opens belongs to the caller, or to nobody: a cancelled opening closes what it opened after all.

1. A task asks for a consumer; the request leaves.
2. The task is cancelled while it waits.
3. The broker's answer arrives: the consumer exists, and would swallow messages that nobody will ever receive.
So whoever stops waiting leaves word to close it. Refuses to know sessions and consumers.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from embedclient.agent import Call

from ._edge import Edge


class Opened(Protocol):
    def close(self) -> Call[None]: ...


OpenedT = TypeVar("OpenedT", bound=Opened)


async def own(edge: Edge, call: Call[OpenedT]) -> OpenedT:
    """Wait for what `call` opens; if this wait does not end well, it is closed as soon as it is there."""
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
    # A request that was withdrawn before it left is done without a result.
    if call.error is None and call.result is not None:
        call.result.close()
