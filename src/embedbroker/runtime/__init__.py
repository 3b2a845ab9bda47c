"""The edges of a broker on trio, thin."""

from ._embedded import EmbeddedBroker
from ._journal_directory import journal_directory, repair_directory

__all__ = ["EmbeddedBroker", "journal_directory", "repair_directory"]
