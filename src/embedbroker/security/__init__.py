"""Users, roles and permissions: which client may do what."""

from ._authority import SecurityManager, SecurityStatistics
from ._failed_logins import FailedLogins
from ._mask import DEFAULT_KEY, InvalidMask, mask, unmask
from ._passwords import SALT_BYTES, InvalidHash, StoredPassword, hash_password, hash_password_as_artemis
from ._permissions import Permissions

__all__ = [
    "DEFAULT_KEY",
    "SALT_BYTES",
    "FailedLogins",
    "InvalidHash",
    "InvalidMask",
    "Permissions",
    "SecurityManager",
    "SecurityStatistics",
    "StoredPassword",
    "hash_password",
    "hash_password_as_artemis",
    "mask",
    "unmask",
]
