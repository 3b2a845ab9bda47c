"""JMS selectors in the words of the broker's filters.

Responsible for renaming the header identifiers and for joining the no-local condition. Checks only that a selector is
text: the broker checks the rest, and reports errors.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from ..errors import InvalidSelectorException

__all__ = ["filter_for_selector", "selector_text"]

_IDENTIFIERS: Final = {
    "JMSDeliveryMode": "AMQDurable",
    "JMSPriority": "AMQPriority",
    "JMSTimestamp": "AMQTimestamp",
    "JMSMessageID": "AMQUserID",
    "JMSExpiration": "AMQExpiration",
    "JMSXGroupID": "AMQGroupID",
}
_DELIVERY_MODES: Final = {"'PERSISTENT'": "'DURABLE'", "'NON_PERSISTENT'": "'NON_DURABLE'"}
_PREFIXES: Final = re.compile(r"\s*(?:(?:no_)?(?:hyphenated_props|convert_string_expressions):)*", re.ASCII)
_CONNECTION_ID: Final = "__AMQ_CID"


def selector_text(selector: object) -> str | None:
    """Return a user's selector or filter. Raise InvalidSelectorException for a value that is no text."""
    if selector is None or isinstance(selector, str):
        return selector
    raise InvalidSelectorException(f"a selector is a str such as \"color = 'red'\", not {selector!r}")


def filter_for_selector(selector: str | None, *, no_local_id: str | None = None) -> str | None:
    """Return the filter text for a JMS selector, ``None`` when every message is wanted.

    ``no_local_id`` is the client id (or, without one, the id of the connection) whose messages are to be omitted.
    """
    selector = selector_text(selector)
    text = None if selector is None or selector.isspace() or not selector else _renamed(selector)
    if no_local_id is None:
        return text
    quoted = no_local_id.replace("'", "''")
    condition = f"{_CONNECTION_ID}<>'{quoted}'"
    if text is None:
        return condition
    prefix = _PREFIXES.match(text)
    start = prefix.end() if prefix else 0
    if _has_alternatives(text):
        # AND binds closer than OR. Without an OR the text stays as the Java client writes it: the filter of a durable
        # subscription is compared as text, and another one would drop its queue.
        return f"{text[:start]}({text[start:]}) AND {condition}"
    return f"{text} AND {condition}"


@cache
def _lexemes(hyphenated: bool) -> re.Pattern[str]:
    hyphen = r"\-" if hyphenated else ""
    return re.compile(rf"""'(?:''|[^'])*'|"(?:""|[^"])*"|(?:[^\W\d]|\$)[\w${hyphen}]*""")


def _pattern(text: str) -> re.Pattern[str]:
    prefix = _PREFIXES.match(text)
    return _lexemes(prefix is not None and prefix.group().strip().split(":")[-2:-1] == ["hyphenated_props"])


def _renamed(selector: str) -> str:
    pattern = _pattern(selector)
    lexemes = pattern.findall(selector)
    # The two literals mean a delivery mode only where that header is used; elsewhere they are other texts.
    modes = _DELIVERY_MODES if "JMSDeliveryMode" in lexemes else {}
    replacements = {**_IDENTIFIERS, **modes}
    if replacements.keys().isdisjoint(lexemes):
        return selector
    return pattern.sub(lambda match: replacements.get(match.group(), match.group()), selector)


def _has_alternatives(text: str) -> bool:
    return any(lexeme.upper() == "OR" for lexeme in _pattern(text).findall(text))
