"""Many messages in one go: what a receive costs beside its bytes is paid once for all of them.

Responsible for how many that are. Refuses to know what is in the messages.
"""

from __future__ import annotations

from embedclient.agent import Delivery

from ._inbox import Inbox


async def take_many(inbox: Inbox, messages_max: int, bytes_max: int, timeout_s: float | None) -> list[Delivery]:
    """Deliveries in order, until so many are taken or nothing more is there; one at least counts whatever its size.

    Without a time-out the broker is asked for what it has, through every failover. Nothing waits behind the first one,
    so a cancellation finds each delivery either still buffered or with the caller.
    """
    first = await (inbox.take_now(patient=True) if timeout_s is None else inbox.take(timeout_s))
    if first is None:
        return []
    found = [first]
    size = first.message.size
    now, take = inbox.edge.now(), inbox.agent_consumer.next
    while len(found) < messages_max and size < bytes_max:
        delivery = take(now)
        if delivery is None:
            break
        found.append(delivery)
        size += delivery.message.size
    inbox.edge.flush_soon()
    return found
