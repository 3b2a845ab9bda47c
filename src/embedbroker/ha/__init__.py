"""High availability: which broker of a group is live.

Responsible for what the policies have in common: answers of a lock store, and changes of role. The policies are
packages of their own.
"""

from ._inputs import LockDone, LockFailed
from ._outputs import RoleChanged

__all__ = ["LockDone", "LockFailed", "RoleChanged"]
