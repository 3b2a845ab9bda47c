"""The reports of an activation, as outputs of a node."""

from __future__ import annotations

from attrs import frozen

from embedbroker.config import Role

__all__ = ["RoleChanged"]


@frozen
class RoleChanged:
    """The role of the broker in its group from now on. Ready comes with LIVE, Stopped reports the rest.

    ``in_sync``: it has a backup that is a whole copy, or is one. A change of that alone is reported with the same role.
    """

    role: Role
    in_sync: bool = False
