"""Texts of Artemis' management: errors, routing types, and descriptions of addresses and queues."""

from __future__ import annotations

from collections.abc import Iterable

from embedbroker.kernel import Address, Queue

from ._registry import ManagementRefused

__all__ = [
    "ROUTING_TYPES",
    "address_text",
    "flag",
    "no_address",
    "no_queue",
    "queue_configuration",
    "queue_text",
    "routing_type_of",
    "routing_types_of",
    "routing_types_text",
]

ROUTING_TYPES = ("MULTICAST", "ANYCAST")
_NAME_SHOWN_MAX = 200


def flag(value: bool) -> str:
    """Return a boolean as Java prints it."""
    return "true" if value else "false"


def no_queue(name: str) -> ManagementRefused:
    """Return the refusal of a call that names a queue that does not exist."""
    return ManagementRefused(f"AMQ229017: Queue {name[:_NAME_SHOWN_MAX]} does not exist")


def no_address(name: str) -> ManagementRefused:
    """Return the refusal of a call that names an address that does not exist."""
    return ManagementRefused(f"AMQ229203: Address Does Not Exist: {name[:_NAME_SHOWN_MAX]}")


def routing_type_of(text: str | None) -> int | None:
    """Return a routing type by its name; None for no name."""
    if text is None or not text.strip():
        return None
    name = text.strip().upper()
    if name not in ROUTING_TYPES:
        raise ManagementRefused(
            f"No enum constant org.apache.activemq.artemis.api.core.RoutingType.{name[:_NAME_SHOWN_MAX]}"
        )
    return ROUTING_TYPES.index(name)


def routing_types_of(text: str | None) -> set[int]:
    """Return the routing types of a list with commas."""
    return {found for part in (text or "").split(",") if (found := routing_type_of(part)) is not None}


def routing_types_text(address: Address) -> list[str]:
    """Return the names of an address' routing types."""
    return [name for number, name in enumerate(ROUTING_TYPES) if address.serves(number)]


def address_text(address: Address) -> str:
    """Describe an address in the form of Artemis' console."""
    types = ", ".join(routing_types_text(address))
    created = flag(address.definition.auto_created)
    return f"Address [name={address.name}, routingTypes={{{types}}}, autoCreated={created}]"


def queue_text(queue: Queue) -> str:
    """Describe a queue in the form of Artemis' console."""
    definition = queue.definition
    parts: Iterable[tuple[str, object]] = [
        ("name", queue.name),
        ("address", definition.address),
        ("routingType", ROUTING_TYPES[definition.routing_type]),
        *([("filter", definition.filter)] if definition.filter else []),
        ("durable", flag(definition.durable)),
        ("purgeOnNoConsumers", flag(definition.purge_on_no_consumers)),
        ("autoCreateAddress", "false"),
        ("exclusive", flag(definition.exclusive)),
        ("lastValue", "false"),
        ("lastValueKey", "null"),
        ("nonDestructive", "false"),
        ("consumersBeforeDispatch", 0),
        ("delayBeforeDispatch", -1),
        ("autoCreateAddress", "false"),
    ]
    return f"Queue [{', '.join(f'{name}={value}' for name, value in parts)}]"


def queue_configuration(queue: Queue) -> dict[str, object]:
    """Describe a queue under the names of its configuration, as the result of its creation."""
    definition = queue.definition
    return {
        "id": queue.id,
        "name": queue.name,
        "address": definition.address,
        "routing-type": ROUTING_TYPES[definition.routing_type],
        **({"filter-string": definition.filter} if definition.filter else {}),
        "durable": definition.durable,
        **({"user": definition.user} if definition.user else {}),
        "max-consumers": definition.max_consumers,
        "exclusive": definition.exclusive,
        "group-rebalance": definition.group_rebalance,
        "group-rebalance-pause-dispatch": definition.group_rebalance_pause_dispatch,
        "group-buckets": definition.group_buckets,
        **({"group-first-key": definition.group_first_key} if definition.group_first_key else {}),
        "last-value": False,
        "non-destructive": False,
        "purge-on-no-consumers": definition.purge_on_no_consumers,
        # As in Artemis, which states it for a queue that was disabled.
        **({} if definition.enabled else {"enabled": False}),
        "consumers-before-dispatch": 0,
        "delay-before-dispatch": -1,
        "auto-delete": definition.auto_delete,
        "auto-delete-delay": definition.auto_delete_delay,
        "auto-delete-message-count": definition.auto_delete_message_count,
        "ring-size": -1,
        "configuration-managed": definition.configuration_managed,
        "temporary": definition.temporary,
        "auto-create-address": True,
        "internal": definition.internal,
        "transient": definition.transient,
        "auto-created": definition.auto_created,
        "fqqn": False,
    }
