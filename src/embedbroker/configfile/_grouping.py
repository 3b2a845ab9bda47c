"""``grouping-handler``: how the brokers of a cluster agree on the queue of each message group.

Responsible for its elements. Does not depend on the exchange between brokers.
"""

from __future__ import annotations

from typing import Any

from embedbroker.config import GroupingHandlerConfig, GroupingHandlerType

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, built, required_attribute, store, values_of
from ._values import one_of, text_or_nothing, whole

__all__ = ["grouping_handler"]

_FIELDS: Fields = {
    "type": ("type", one_of(GroupingHandlerType.__members__)),
    "address": ("address", text_or_nothing),
    "timeout": ("timeout_ms", whole),
    "group-timeout": ("group_timeout_ms", whole),
    "reaper-period": ("reaper_period_ms", whole),
}


def grouping_handler(core: Element, findings: Findings) -> GroupingHandlerConfig | None:
    """Return the grouping handler; None without one, or when something is wrong."""
    element = core.take("grouping-handler")
    if element is None:
        return None
    errors_before = len(findings.errors)
    values: dict[str, Any] = values_of(element, _FIELDS, GroupingHandlerConfig, findings)
    name = required_attribute(element, "name", findings)
    store(values, "name", name, GroupingHandlerConfig, element.place, findings)
    if len(findings.errors) == errors_before and "type" not in values:
        findings.refuse(element.place, "has no type: write <type>LOCAL</type> or <type>REMOTE</type>")
    if len(findings.errors) > errors_before:
        return None
    return built(GroupingHandlerConfig, values, element.place, findings)
