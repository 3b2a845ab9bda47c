"""Activation of a broker that replicates: its record, its role, elections and cold starts."""

from ._activation import Mandate
from ._replica_disk import Copies

__all__ = ["Copies", "Mandate"]
