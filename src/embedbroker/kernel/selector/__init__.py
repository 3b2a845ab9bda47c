"""Selectors: from text to a condition on messages."""

from ._errors import InvalidSelector
from ._selector import Selector, SelectorCache, parse_condition_on, parse_selector

__all__ = ["InvalidSelector", "Selector", "SelectorCache", "parse_condition_on", "parse_selector"]
