"""``${name}`` and ``${name:default}`` in the text of a file, as Artemis replaces them.

Responsible for the source of a value: the given properties, then the environment, then the default, then nothing. As in
Artemis, the replacement covers the whole text before it is parsed, also comments, and a value may contain further
references. Does not depend on XML.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CircularProperties", "substitute"]

# Values refer to values, so a circle would never end: no file has as many references as this.
REPLACEMENTS_MAX = 10_000
TEXT_CHARACTERS_MAX = 16 * 1024 * 1024


class CircularProperties(ValueError):
    """Report properties that refer to each other without an end."""


def substitute(text: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the text with its references replaced, and the names that have neither a value nor a default.

    Raises:
        CircularProperties: The references do not end.
    """
    unknown: dict[str, None] = {}
    replaced = 0
    start = text.find("${")
    while start >= 0:
        end = text.find("}", start)
        if end < 0:
            break
        reference = text[start : end + 1]
        name, colon, default = reference[2:-1].partition(":")
        name = name.strip()
        value = properties.get(name)
        if value is None:
            value = environment.get(name)
        if value is None:
            value = default.strip()
            if not colon:
                unknown[name] = None
        replaced += 1
        text = text.replace(reference, value)
        if replaced > REPLACEMENTS_MAX or len(text) > TEXT_CHARACTERS_MAX:
            raise CircularProperties(f"${{{name}}} leads back to itself")
        start = text.find("${", start)
    return text, list(unknown)
