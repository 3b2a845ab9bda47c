"""Many messages in one call: the fixed cost of a receive is paid once for all of them.

Responsible for the number of messages. Does not depend on their contents.
"""

from __future__ import annotations

from embedclient.agent import Delivery, LargeDelivery
from embedclient.errors import BodyTooLargeException

from ._inbox import Inbox


async def take_many(inbox: Inbox, messages_max: int, bytes_max: int, timeout_s: float | None) -> list[Delivery]:
    """Return deliveries in order, until a limit is reached or no more are available. The first one may have any size.

    Without a time-out the client requests what the broker has, through every failover. Nothing waits after the first
    one, so a cancellation finds each delivery either still buffered or with the caller.
    """
    first = await (inbox.take_now(patient=True) if timeout_s is None else inbox.take(timeout_s))
    if first is None:
        return []
    if _is_unloaded(first):
        inbox.agent_consumer.put_back(first)
        raise BodyTooLargeException(
            f"{first} has a body above maxLargeMessageBodySize, so it cannot be received whole: raise that parameter "
            "of the URL, or receive it with receive() and read its chunks()"
        )
    found = [first]
    size = first.message.encoded_size
    now, take = inbox.edge.now(), inbox.agent_consumer.next
    while len(found) < messages_max and size < bytes_max:
        delivery = take(now)
        if delivery is None:
            break
        if _is_unloaded(delivery):
            inbox.agent_consumer.put_back(delivery)
            break
        found.append(delivery)
        size += delivery.message.encoded_size
    inbox.edge.flush_soon()
    return found


def _is_unloaded(delivery: Delivery) -> bool:
    return isinstance(delivery, LargeDelivery) and not delivery.loads
