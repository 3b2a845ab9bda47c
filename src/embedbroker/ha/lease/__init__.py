"""Leases of a lock manager."""

from ._lease_holder import LeaseHolder

__all__ = ["LeaseHolder"]
