"""Addresses and queues that a broker has from its start, as frozen values.

Responsible for the attributes that exist before the first use. Does not depend on the grammar of filters and the
delivery of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import field, frozen

from ._checks import instance, optional, text, whole
from ._nested import named_values

__all__ = ["AddressConfiguration", "QueueConfiguration", "as_addresses"]


@frozen
class QueueConfiguration:
    """Define a queue that exists from the start and is never auto-deleted.

    None takes the default of the address settings.

    Attributes:
        filter: A selector: the queue takes the messages that it matches.
        durable: Whether the queue and its durable messages survive a restart.
        max_consumers: Maximum number of consumers; -1: no limit.
        exclusive: Whether one consumer gets all messages.
        purge_on_no_consumers: Whether messages are removed when the last consumer leaves.
        user: Recorded with the queue.
        group_buckets: Number of buckets for message groups; -1: one for each group; 0: groups have no effect.
        group_rebalance: Whether a new consumer ends all assignments of groups.
        group_rebalance_pause_dispatch: Whether nothing is delivered then until what consumers hold is settled.
        group_first_key: Property that is true in the first message of a group for a consumer.
        enabled: Whether it takes messages; None: it does.
    """

    filter: str | None = field(default=None, validator=optional(text))
    durable: bool = field(default=True, validator=instance(bool))
    max_consumers: int | None = field(default=None, validator=optional(whole(-1)))
    exclusive: bool | None = field(default=None, validator=optional(instance(bool)))
    purge_on_no_consumers: bool | None = field(default=None, validator=optional(instance(bool)))
    user: str | None = field(default=None, validator=optional(text))
    group_buckets: int | None = field(default=None, validator=optional(whole(-1)))
    group_rebalance: bool | None = field(default=None, validator=optional(instance(bool)))
    group_rebalance_pause_dispatch: bool | None = field(default=None, validator=optional(instance(bool)))
    group_first_key: str | None = field(default=None, validator=optional(text))
    enabled: bool | None = field(default=None, validator=optional(instance(bool)))


Queues: TypeAlias = dict[str, QueueConfiguration]


def _anycast(value: object) -> Queues | None:
    return _queues(value, "anycast")


def _multicast(value: object) -> Queues | None:
    return _queues(value, "multicast")


def _queues(value: object, place: str) -> Queues | None:
    if value is None:
        return None
    value = named_values(QueueConfiguration, value, place)
    if not isinstance(value, Mapping):
        raise TypeError(f"queues must map names to QueueConfigurations, not be {value!r}")
    for name, queue in value.items():
        if not isinstance(name, str) or not isinstance(queue, QueueConfiguration):
            raise TypeError(f"queues must map names to QueueConfigurations, not {name!r} to {queue!r}")
        _check_name("queue", name)
    return dict(value)


@frozen
class AddressConfiguration:
    """Define an address that exists from the start.

    An empty mapping serves the routing type without a queue, None does not serve it. At least one of the two must be
    set.

    Attributes:
        anycast: Anycast queues by name.
        multicast: Multicast queues by name.
    """

    anycast: Queues | None = field(default=None, converter=_anycast)
    multicast: Queues | None = field(default=None, converter=_multicast)

    def __attrs_post_init__(self) -> None:
        if self.anycast is None and self.multicast is None:
            raise ValueError("an address serves anycast or multicast, or both")


def _check_name(kind: str, name: str) -> None:
    if not name:
        raise ValueError(f"the name of a configured {kind} must not be empty")
    if "::" in name:
        raise ValueError(f"{kind} {name!r}: '::' separates an address from its queue and cannot stand in a name")


def as_addresses(value: object) -> dict[str, AddressConfiguration]:
    """Return addresses by name. The name of a queue must be unique in the whole broker."""
    value = named_values(AddressConfiguration, value, "addresses")
    if not isinstance(value, Mapping):
        raise TypeError(f"addresses must map names to AddressConfigurations, not be {value!r}")
    homes: dict[str, str] = {}
    for name, address in value.items():
        if not isinstance(name, str) or not isinstance(address, AddressConfiguration):
            raise TypeError(f"addresses must map names to AddressConfigurations, not {name!r} to {address!r}")
        _check_name("address", name)
        for queue in (*(address.anycast or {}), *(address.multicast or {})):
            if queue in homes:
                raise ValueError(f"addresses: there are two queues {queue!r}, of {homes[queue]!r} and of {name!r}")
            homes[queue] = name
    return dict(value)
