"""Activation of a broker that replicates: its record, its role, elections and cold starts."""

from ._activation import ReplicationActivation
from ._replica_disk import ReplicaDisk

__all__ = ["ReplicaDisk", "ReplicationActivation"]
