"""The edges of a broker on trio, thin."""

from ._embedded import EmbeddedBroker

__all__ = ["EmbeddedBroker"]
