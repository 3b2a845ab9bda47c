"""Activation of a broker that has a lock store: alone, or in a group with one directory."""

from ._activation import Tenure

__all__ = ["Tenure"]
