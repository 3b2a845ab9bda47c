"""High availability: the choice of the active broker of a group.

Responsible for what the policies have in common: the contract of an activation, answers of a lock store, and changes of
role. The policies are packages below this one.
"""

from ._activation import Activation
from ._inputs import BackupChanged, LockDone, LockFailed
from ._outputs import RoleChanged, StartBackup

__all__ = ["Activation", "BackupChanged", "LockDone", "LockFailed", "RoleChanged", "StartBackup"]
