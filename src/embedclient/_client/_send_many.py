"""Many messages in one call: the fixed cost of a send is paid once for all of them.

Responsible for waiting where the agent requires it, and for a limit to that wait. Does not depend on the contents of
the messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from embedclient.agent import Call, CoreMessage
from embedclient.agent import Producer as AgentProducer
from embedclient.errors import ConnectionTimedOutException, JMSException, MessageFormatException, RemoteProtocolError

from ._edge import Edge
from ._inbox import OneTask

# After this many messages the client checks for a cancellation and writes its output, which the broker can process
# meanwhile.
MESSAGES_PER_PAUSE = 64


async def post_all(
    edge: Edge,
    one_task: OneTask,
    producer: AgentProducer,
    messages: Sequence[bytearray],
    confirmed: bool,
    timeout_s: float | None,
) -> list[tuple[int, JMSException]]:
    """Send all messages in order. Return the index and the error of each refused message."""
    refused: list[tuple[int, JMSException]] = []
    unanswered: list[tuple[int, Call[None]]] = []
    send = producer.send_confirmed if confirmed else producer.send
    with one_task:
        for index, raw in enumerate(messages):
            if index % MESSAGES_PER_PAUSE == 0:
                edge.flush_soon()
                await edge.pause()
            call = send(_parsed(raw, index))
            if not call.done:
                if confirmed:
                    unanswered.append((index, call))
                else:
                    await _until_done(edge, call, timeout_s)
            if call.done and call.error is not None:
                refused.append((index, call.error))
        edge.flush_soon()
        await edge.pause()
        for index, call in unanswered:
            await _until_done(edge, call, timeout_s)
            if call.error is not None:
                refused.append((index, call.error))
    return refused


def _parsed(raw: bytearray, index: int) -> CoreMessage:
    try:
        return CoreMessage.parse(raw)
    except RemoteProtocolError as error:
        raise MessageFormatException(f"message {index} is not encoded properly: {error}") from error


async def _until_done(edge: Edge, call: Call[None], timeout_s: float | None) -> None:
    """Wait for the call, with any outcome."""
    if call.done:
        return
    signal = edge.signal()
    call.on_done = lambda _: signal.set()
    edge.flush_soon()
    if not await signal.wait(timeout_s) and not call.done:
        call.on_done = None
        call.cancel()
        raise ConnectionTimedOutException(f"the broker let a send wait for {timeout_s:g} seconds")
