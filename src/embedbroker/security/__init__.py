"""Users, roles and permissions: which client may do what."""

from ._authority import SecurityManager, SecurityStatistics
from ._failed_logins import FailedLogins
from ._mask import DEFAULT_KEY, InvalidMask, mask, unmask
from ._password_checks import WAITING_LOGINS_MAX, PasswordCheck
from ._passwords import SALT_BYTES, InvalidHash, StoredPassword, hash_password, hash_password_as_artemis
from ._permissions import Permissions

__all__ = [
    "DEFAULT_KEY",
    "SALT_BYTES",
    "WAITING_LOGINS_MAX",
    "FailedLogins",
    "InvalidHash",
    "InvalidMask",
    "PasswordCheck",
    "Permissions",
    "SecurityManager",
    "SecurityStatistics",
    "StoredPassword",
    "hash_password",
    "hash_password_as_artemis",
    "mask",
    "unmask",
]
