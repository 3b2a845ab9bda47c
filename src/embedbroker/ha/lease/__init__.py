"""Leases of a lock manager."""

from ._lease_holder import Tenancy

__all__ = ["Tenancy"]
