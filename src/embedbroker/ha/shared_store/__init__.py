"""Activation of a broker that has a lock store: alone, or in a group with one directory."""

from ._activation import SharedStoreActivation

__all__ = ["SharedStoreActivation"]
