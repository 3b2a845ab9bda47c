"""``addresses``, and the ``jms`` section of older files: what the broker has from its start.

Responsible for queues under their routing types, and for the destinations of 1.x files: a queue with its address, or an
address for topics. Does not depend on the grammar of filters.
"""

from __future__ import annotations

from typing import Any

from embedbroker.config import AddressConfiguration, QueueConfiguration

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, attribute_of, built, named_once, required_attribute, store, values_of
from ._values import boolean, text, whole

__all__ = ["addresses"]

_FIELDS: Fields = {"durable": ("durable", boolean), "user": ("user", text)}
_ATTRIBUTES: Fields = {
    "max-consumers": ("max_consumers", whole),
    "exclusive": ("exclusive", boolean),
    "group-buckets": ("group_buckets", whole),
    "group-rebalance": ("group_rebalance", boolean),
    "group-rebalance-pause-dispatch": ("group_rebalance_pause_dispatch", boolean),
    "group-first-key": ("group_first_key", text),
    "purge-on-no-consumers": ("purge_on_no_consumers", boolean),
    "enabled": ("enabled", boolean),
}
_ROUTING_TYPES = ("anycast", "multicast")


def addresses(root: Element, core: Element, findings: Findings) -> dict[str, AddressConfiguration]:
    """Return all addresses by name."""
    found: dict[str, AddressConfiguration] = {}
    holder = core.take("addresses")
    for element in [] if holder is None else holder.take_all("address"):
        _add(found, element, {kind: _queues(element, kind, findings) for kind in _ROUTING_TYPES}, findings)
    jms = root.take("jms")
    if jms is not None:
        for element in jms.take_all("queue"):
            queue = _queue(element, "selector", findings)
            name = required_attribute(element, "name", findings)
            if queue is not None and name is not None:
                _add(found, element, {"anycast": {name: queue}}, findings)
        for element in jms.take_all("topic"):
            _add(found, element, {"multicast": {}}, findings)
    return found


def _add(found: dict[str, AddressConfiguration], element: Element, values: dict[str, Any], findings: Findings) -> None:
    name = required_attribute(element, "name", findings)
    address = built(AddressConfiguration, values, element.place, findings)
    if name is not None and address is not None:
        named_once(found, name, address, element.place, findings)


def _queues(address: Element, kind: str, findings: Findings) -> dict[str, QueueConfiguration] | None:
    holder = address.take(kind)
    if holder is None:
        return None
    queues: dict[str, QueueConfiguration] = {}
    for element in holder.take_all("queue"):
        name = required_attribute(element, "name", findings)
        queue = _queue(element, "filter", findings)
        if name is not None and queue is not None:
            named_once(queues, name, queue, element.place, findings)
    return queues


def _queue(element: Element, filtering: str, findings: Findings) -> QueueConfiguration | None:
    values = values_of(element, _FIELDS, QueueConfiguration, findings)
    for name, (field, reader) in _ATTRIBUTES.items():
        value = attribute_of(element, name, reader, findings)
        store(values, field, value, QueueConfiguration, element.attribute_place(name), findings)
    selector = element.take(filtering)
    if selector is not None:
        values["filter"] = required_attribute(selector, "string", findings)
    return built(QueueConfiguration, values, element.place, findings)
