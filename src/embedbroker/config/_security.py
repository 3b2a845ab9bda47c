"""Users, roles and permissions of a broker, as frozen values.

Responsible for the checks of single values, and for the defaults of a broker with users. Does not depend on passwords'
encodings and on the decision for one address, which are in `embedbroker.security`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import Attribute, field, fields, frozen

from ._checks import instance, named, optional, text, whole
from ._nested import listed, named_values

__all__ = [
    "ANY_ROLE",
    "GuestLogin",
    "ResourceLimits",
    "SecuritySetting",
    "User",
    "UserChange",
    "UserSource",
    "as_limits",
    "as_security_settings",
    "as_users",
    "certificate_pattern",
]

ANY_ROLE = "*"
"""Stands for every user that has a role."""

_limit = whole(-1)
_SHOWN_MAX = 200


def _roles(value: object) -> frozenset[str]:
    """Return role names. A single text is refused: it would become a role for each of its letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"roles must be a list of names, not {value!r}")
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a role must be a text, not {name!r}")
        if not name.strip():
            raise ValueError("a role must not be empty")
    return frozenset(names)


def _password(user: object, attribute: Attribute[Any], value: object) -> None:
    text(user, attribute, value)
    if not value:
        raise ValueError(
            f"the password of user {getattr(user, 'name', '')!r} must not be empty: every client could give it"
        )


def _certificate(user: object, attribute: Attribute[Any], value: object) -> None:
    named(user, attribute, value)
    pattern = certificate_pattern(str(value))
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"certificate {value!r} of user {getattr(user, 'name', '')!r} is no regular expression: {error}"
            ) from None


def certificate_pattern(certificate: str) -> str | None:
    """Return the regular expression of ``/.../``; None for the subject of one certificate."""
    is_pattern = len(certificate) > 2 and certificate[0] == certificate[-1] == "/"
    return certificate[1:-1] if is_pattern else None


@frozen
class User:
    """Define a user: its name, its password and its roles.

    Attributes:
        name: Name with which clients log in.
        password: Plain text, or the hash of a password as ``embedbroker mask`` prints it: ``ENC(scrypt:...)``, or
            ``ENC(1024:...)`` as in the users file of Artemis. None: the user logs in with a certificate only.
        roles: Names of roles, to which security settings grant permissions.
        certificate: Subject of a TLS client certificate that logs in as this user, such as ``CN=app, O=Example``; or
            a regular expression between slashes that must match the whole subject.
    """

    name: str = field(validator=named)
    password: str | None = field(default=None, validator=optional(_password), repr=False)
    roles: frozenset[str] = field(default=frozenset(), converter=_roles)
    certificate: str | None = field(default=None, validator=optional(_certificate))

    def __attrs_post_init__(self) -> None:
        if self.password is None and self.certificate is None:
            raise ValueError(f"user {self.name!r} needs a password or a certificate")


@frozen
class GuestLogin:
    """Admit clients whose user or password is wrong or missing, as Artemis' guest module.

    Attributes:
        user: Name of the user that they become.
        role: Role of that user.
        credentials_invalidate: Whether only clients that give no password are admitted.
    """

    user: str = field(default="guest", validator=named)
    role: str = field(default="guests", validator=named)
    credentials_invalidate: bool = field(default=False, validator=instance(bool))


@frozen
class UserChange:
    """Hold one change of the users of a broker.

    Attributes:
        name: Name of the user.
        adds: Whether the user must not exist yet; otherwise it must exist.
        removes: Whether the user is removed.
        password: New password, plain; None keeps the present one.
        hashes: Whether a hash of the password is stored in its place.
        roles: All roles from now on; None keeps the present ones.
    """

    name: str
    adds: bool = False
    removes: bool = False
    password: str | None = field(default=None, repr=False)
    hashes: bool = False
    roles: tuple[str, ...] | None = None

    def check(self, *, exists: bool) -> None:
        """Check that the user exists if it must, and does not if it must not.

        Raises:
            ValueError: The text of Artemis.
        """
        if self.adds and exists:
            raise ValueError(f"AMQ229223: User {self.name[:_SHOWN_MAX]} already exists")
        if not self.adds and not exists:
            raise ValueError(f"AMQ229224: User {self.name[:_SHOWN_MAX]} does not exist")


class UserSource(Protocol):
    """Read users from files that may change while the broker runs, and change them."""

    @property
    def loaded(self) -> tuple[tuple[User, ...], GuestLogin | None]:
        """Return users and guest login as they were loaded, before a program changed its configuration."""

    def refresh(self, *, always: bool = False) -> tuple[tuple[User, ...], GuestLogin | None] | None:
        """Return users and guest login if the files changed since the last call; None otherwise.

        Args:
            always: Whether the files are read although they did not change, or are not observed.

        Raises:
            ValueError: The changed files are wrong. The next call raises it only after a further change.
        """

    def list_users(self, name: str | None) -> dict[str, list[str]]:
        """Return the roles of one user, or of each of them, as the files have them now.

        Raises:
            ValueError: The files cannot be read.
        """

    def change(self, change: UserChange) -> None:
        """Change the files. They are read by the next `refresh`.

        Raises:
            ValueError: The change is not possible, or a file cannot be written; the text is for the operator.
        """


@frozen
class SecuritySetting:
    """List the roles that have each permission on the addresses of a match.

    Each value is a list of roles; ``"*"`` stands for every user with a role. Only the most specific match of an address
    counts: what it does not grant is refused, even if a wider match grants it.

    Attributes:
        send: Roles that may send.
        consume: Roles that may consume.
        browse: Roles that may browse.
        create_address: Roles that may create the address, or a routing type of it.
        delete_address: Roles that may delete the address.
        create_durable_queue: Roles that may create durable queues.
        delete_durable_queue: Roles that may delete durable queues.
        create_non_durable_queue: Roles that may create non-durable and temporary queues.
        delete_non_durable_queue: Roles that may delete non-durable and temporary queues.
        manage: Roles that may send requests to the management address.
        view: Roles that may read what is managed.
        edit: Roles that may change what is managed.
    """

    send: frozenset[str] = field(default=frozenset(), converter=_roles)
    consume: frozenset[str] = field(default=frozenset(), converter=_roles)
    browse: frozenset[str] = field(default=frozenset(), converter=_roles)
    create_address: frozenset[str] = field(default=frozenset(), converter=_roles)
    delete_address: frozenset[str] = field(default=frozenset(), converter=_roles)
    create_durable_queue: frozenset[str] = field(default=frozenset(), converter=_roles)
    delete_durable_queue: frozenset[str] = field(default=frozenset(), converter=_roles)
    create_non_durable_queue: frozenset[str] = field(default=frozenset(), converter=_roles)
    delete_non_durable_queue: frozenset[str] = field(default=frozenset(), converter=_roles)
    manage: frozenset[str] = field(default=frozenset(), converter=_roles)
    view: frozenset[str] = field(default=frozenset(), converter=_roles)
    edit: frozenset[str] = field(default=frozenset(), converter=_roles)

    @classmethod
    def all(cls, *roles: str) -> SecuritySetting:
        """Return a setting that grants every permission to these roles.

        Args:
            roles: names of roles.
        """
        return cls(**{attribute.name: roles for attribute in fields(cls)})


@frozen
class ResourceLimits:
    """Limit what one user may have at the same time; -1: no limit, 0: nothing.

    Attributes:
        max_connections: Connections.
        max_sessions: Sessions. A connection of a JMS client has one more session than the program opens.
        max_queues: Queues that the user created.
    """

    max_connections: int = field(default=-1, validator=_limit)
    max_sessions: int = field(default=-1, validator=_limit)
    max_queues: int = field(default=-1, validator=_limit)


def as_users(value: object) -> tuple[User, ...]:
    """Return users. Their names must differ."""
    value = listed(User, value, "users")
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"users must be a list of User, not {type(value).__name__}")
    users = tuple(value)
    names: set[str] = set()
    for user in users:
        if not isinstance(user, User):
            raise TypeError(f"users must be a list of User, not of {type(user).__name__}")
        if user.name in names:
            raise ValueError(f"users: there are two users {user.name!r}")
        names.add(user.name)
    return users


def as_security_settings(value: object) -> dict[str, SecuritySetting] | None:
    """Return security settings by match text; None takes the default of a broker with users."""
    if value is None:
        return None
    value = named_values(SecuritySetting, value, "security_settings")
    if not isinstance(value, Mapping):
        raise TypeError(f"security_settings must map match texts to SecuritySetting, not be {value!r}")
    for match, setting in value.items():
        if not isinstance(match, str) or not isinstance(setting, SecuritySetting):
            raise TypeError(f"security_settings must map match texts to SecuritySetting, not {match!r} to {setting!r}")
    return dict(value)


def as_limits(value: object) -> dict[str, ResourceLimits]:
    """Return limits by the name of the user."""
    value = named_values(ResourceLimits, value, "resource_limits")
    if not isinstance(value, Mapping):
        raise TypeError(f"resource_limits must map names of users to ResourceLimits, not be {value!r}")
    for user, limits in value.items():
        if not isinstance(user, str) or not isinstance(limits, ResourceLimits):
            raise TypeError(f"resource_limits must map names of users to ResourceLimits, not {user!r} to {limits!r}")
    return dict(value)
