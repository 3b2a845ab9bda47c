"""The edges of a broker on trio, thin.

What reads the journal of a stopped broker loads on first use: a broker that runs, in memory perhaps, does without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._embedded import EmbeddedBroker

if TYPE_CHECKING:
    from ._journal_directory import journal_directory, repair_directory

__all__ = ["EmbeddedBroker", "journal_directory", "repair_directory"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module("._journal_directory", __name__), name)
    globals()[name] = value
    return value
