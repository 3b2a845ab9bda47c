"""The queue at another broker in which this one collects its notifications (cluster-and-ha 7.4).

Responsible for the name of the queue, for its filter, and for the request of a snapshot. Does not depend on
connections.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from embedclient.model import Properties, PropertyType
from embedclient.wire.core import CoreMessage, MessageType, encode_text

__all__ = ["notification_filter", "notification_queue_name", "session_filter", "snapshot_request"]

_SESSION = "SESSION_CREATED"
# All bridges of a cluster connection have the same one.
_FILTERS_KEPT_MAX = 64
NOTIFICATION_TYPES = (
    "BINDING_ADDED",
    "BINDING_REMOVED",
    "BINDING_UPDATED",
    "CONSUMER_CREATED",
    "CONSUMER_CLOSED",
    "PROPOSAL",
    "PROPOSAL_RESPONSE",
    "UNPROPOSAL",
)


def notification_queue_name(unique: str, broker_name: str) -> str:
    """Return the name of the queue. The name of this broker is for the operator of the other one.

    Args:
        unique: Text that no other queue of that broker has.
        broker_name: Name of this broker.
    """
    # Two colons would separate an address from a queue.
    return f"notif.{unique}.Broker_name={broker_name}".replace("::", "_")


def snapshot_request(management_address: str, queue_name: str, addresses: str) -> CoreMessage:
    """Return the request for a snapshot of queues and consumers.

    Args:
        management_address: Address of management at the other broker.
        queue_name: Queue that gets the snapshot.
        addresses: Prefixes of addresses with commas, as in the filter of the queue.
    """
    properties = Properties()
    properties.set("_AMQ_ResourceName", "broker", PropertyType.STRING)
    properties.set("_AMQ_OperationName", "sendQueueInfoToQueue", PropertyType.STRING)
    return CoreMessage.build(
        type=MessageType.DEFAULT,
        address=management_address,
        durable=False,
        properties=properties,
        body=encode_text(json.dumps([queue_name, addresses], ensure_ascii=False, separators=(",", ":"))),
    )


def notification_filter(
    addresses: str, max_hops: int, excluded: Iterable[str], notification_address: str, *, with_sessions: bool = True
) -> str:
    """Return the filter of the queue in which a broker collects the notifications of another one, as in Artemis.

    Args:
        addresses: Prefixes of addresses with commas; ``!`` excludes one. An empty text is all addresses.
        max_hops: Largest distance of a binding, as seen from the collecting broker.
        excluded: Prefixes of addresses of the broker itself.
        notification_address: Address of notifications. Its queues and consumers are left out.
        with_sessions: Collect the sessions of clients, too.
    """
    return _filter_of(addresses, max_hops, tuple(excluded), notification_address, with_sessions)


@lru_cache(_FILTERS_KEPT_MAX)
def _filter_of(
    addresses: str, max_hops: int, excluded: tuple[str, ...], notification_address: str, with_sessions: bool
) -> str:
    types = ", ".join(f"'{each}'" for each in (_SESSION,) * with_sessions + NOTIFICATION_TYPES)
    of_sessions = f"_AMQ_NotifType = '{_SESSION}' OR " if with_sessions else ""
    return (
        "(_AMQ_Binding_Type <> 2 OR _AMQ_Binding_Type IS NULL)"
        f" AND _AMQ_NotifType IN ({types}) AND _AMQ_Distance < {max_hops} AND ({_selected(addresses, excluded)})"
        f" AND ({of_sessions}(_AMQ_Address NOT LIKE '{_quoted(notification_address)}%'))"
    )


def session_filter(addresses: str, max_hops: int, excluded: Iterable[str]) -> str:
    """Return the filter of a queue in which a broker collects the sessions of clients of another one, and nothing else.

    The arguments are those of `notification_filter`.
    """
    selected = _selected(addresses, excluded)
    return f"_AMQ_NotifType = '{_SESSION}' AND _AMQ_Distance < {max_hops} AND ({selected})"


def _selected(addresses: str, excluded: Iterable[str]) -> str:
    prefixes = [each for each in addresses.split(",") if each]
    prefixes.extend(f"!{each}" for each in excluded)
    wanted = [f"(_AMQ_Address LIKE '{_quoted(each)}%')" for each in prefixes if not each.startswith("!")]
    unwanted = [f"(_AMQ_Address NOT LIKE '{_quoted(each[1:])}%')" for each in prefixes if each.startswith("!")]
    included, left = " OR ".join(wanted), " AND ".join(unwanted)
    return f"(({included}) AND ({left}))" if wanted and unwanted else f"({included or left})"


def _quoted(text: str) -> str:
    return text.replace("'", "''")
