"""``diverts`` and ``wildcard-addresses``: where messages go beside the queues of their own address.

Responsible for transformers: of Java classes only the one that adds headers exists here. Does not depend on the grammar
of filters.
"""

from __future__ import annotations

from embedbroker.config import DivertConfiguration, DivertRoutingType, WildcardConfiguration

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, built, named_once, required_attribute, values_of
from ._values import boolean, one_of, text, text_or_nothing

__all__ = ["diverts", "transformer_properties", "wildcards"]

_FIELDS: Fields = {
    "address": ("address", text),
    "forwarding-address": ("forwarding_address", text_or_nothing),
    "routing-name": ("routing_name", text),
    "exclusive": ("exclusive", boolean),
    "routing-type": ("routing_type", one_of(DivertRoutingType.__members__)),
}
_ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"


def _character(value: str | None) -> str:
    """Return the first character of a text, as Artemis does."""
    return text(value)[0]


_WILDCARDS: Fields = {
    "enabled": ("routing_enabled", boolean),
    "routing-enabled": ("routing_enabled", boolean),
    "delimiter": ("delimiter", _character),
    "any-words": ("any_words", _character),
    "single-word": ("single_word", _character),
}


def wildcards(core: Element, findings: Findings) -> WildcardConfiguration:
    """Return the characters of wildcards."""
    element = core.take("wildcard-addresses")
    if element is None:
        return WildcardConfiguration()
    values = values_of(element, _WILDCARDS, WildcardConfiguration, findings)
    return built(WildcardConfiguration, values, element.place, findings) or WildcardConfiguration()


def diverts(core: Element, findings: Findings) -> dict[str, DivertConfiguration]:
    """Return all diverts by name."""
    found: dict[str, DivertConfiguration] = {}
    holder = core.take("diverts")
    for element in [] if holder is None else holder.take_all("divert"):
        name = required_attribute(element, "name", findings)
        values = values_of(element, _FIELDS, DivertConfiguration, findings)
        selector = element.take("filter")
        if selector is not None:
            # Without a selector, as examples of Artemis have it, the divert takes everything.
            is_empty = selector.attribute("string") == ""
            values["filter"] = None if is_empty else required_attribute(selector, "string", findings)
        values["properties"] = transformer_properties(element, "DivertConfiguration", findings)
        missing = [each for each in ("address", "forwarding-address") if each.replace("-", "_") not in values]
        if missing:
            findings.refuse(element.place, f"has no {' and no '.join(missing)}")
            continue
        divert = built(DivertConfiguration, values, element.place, findings)
        if name is not None and divert is not None:
            named_once(found, name, divert, element.place, findings)
    return found


def transformer_properties(owner: Element, kind: str, findings: Findings) -> dict[str, str]:
    """Return the properties that a transformer adds.

    Args:
        owner: Divert or bridge.
        kind: Class of its configuration, for the text of an error.
        findings: Receives errors.
    """
    old, transformer = owner.take("transformer-class-name"), owner.take("transformer")
    element = old if transformer is None else transformer.take("class-name")
    if transformer is not None and element is None:
        findings.refuse(transformer.place, "has no class-name")
    if element is None:
        return {}
    if (element.text or "").strip() != _ADD_HEADERS:
        findings.refuse(
            element.place,
            f"names a class of Java, {(element.text or '').strip()!r}; only {_ADD_HEADERS} exists here: use the "
            f"transformer of {kind} in Python",
        )
        return {}
    properties: dict[str, str] = {}
    for each in [] if transformer is None else transformer.take_all("property"):
        key, value = required_attribute(each, "key", findings), each.attribute("value")
        if key is not None:
            named_once(properties, key, value or "", each.place, findings)
    return properties
