"""Logins and permissions of one broker: the `Authority` of its kernel.

Responsible for the order of checks at a login, for limits of users, and for lines about refusals. Does not depend on
packets and clocks: time is an argument.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from attrs import define, evolve, field, frozen

from embedbroker.config import (
    DEFAULT_CLUSTER_PASSWORD,
    BrokerConfig,
    GuestLogin,
    ResourceLimits,
    SecuritySetting,
    User,
    UserChange,
)
from embedbroker.kernel import (
    Clock,
    CommitObserver,
    Kernel,
    Observers,
    Permission,
    Principal,
    Refused,
    Session,
    name_in_text,
)
from embedclient.errors import ErrorCode

from ._credentials import Credentials
from ._failed_logins import FailedLogins, address_of
from ._password_checks import PasswordChecks
from ._passwords import NewHash
from ._permissions import Permissions
from ._refusal_lines import RefusalLines

__all__ = ["SecurityManager", "SecurityStatistics"]

_NO_LIMITS = ResourceLimits()
_NO_SUBJECT = "unavailable"


@frozen
class SecurityStatistics:
    """Hold the figures of a broker's security.

    Attributes:
        logins: Accepted logins.
        refused_logins: Refused logins.
        granted: Permission checks that were passed.
        refused: Requests that were refused for want of a permission.
        cached_logins: Results of logins in the cache.
        cached_grants: Grants in the cache.
        failed_logins: Remote addresses, and users of them, whose failures are remembered.
    """

    logins: int
    refused_logins: int
    granted: int
    refused: int
    cached_logins: int
    cached_grants: int
    failed_logins: int


@define(eq=False)
class _Use:
    """What one user has: sessions, and how many of them each connection has."""

    sessions: int = 0
    connections: dict[int, int] = field(factory=dict)


class SecurityManager(CommitObserver):
    """Decide logins and permissions.

    Args:
        config: Configuration of a broker whose ``is_secured`` is True.
        log: Receives one line about a refusal, a bounded number of them in a time.

    Raises:
        ValueError: The configuration has a password that cannot be used; the text names the user.
    """

    def __init__(self, config: BrokerConfig, log: Callable[[str], None]) -> None:
        self._lines = RefusalLines(log)
        self._failed = FailedLogins(config.failed_login_delay_ms / 1000)
        #: Logins that wait for hashes.
        self.checks = PasswordChecks()
        self._uses: dict[str, _Use] = {}
        self._sessions: dict[Session, int] = {}
        self._clock = Clock()
        self._observers: Observers | None = None
        self._logins = self._refused_logins = self._granted = self._refused = 0
        # Those that management changed; None: those of the configuration.
        self._settings: Mapping[str, SecuritySetting] | None = None
        self._take(config)

    def _take(self, config: BrokerConfig) -> None:
        self._credentials = Credentials(config.users, config.guest, config.authentication_cache_size)
        self._config = config
        self._use_permissions()

    def _use_permissions(self) -> None:
        config = self._config
        settings = config.permissions if self._settings is None else self._settings
        self._permissions = Permissions(
            settings, config.authorization_cache_size, config.wildcard_addresses, config.uuid_namespace
        )

    def security_changed(self, settings: Mapping[str, SecuritySetting]) -> None:
        """Use other security settings in place of those of the configuration, from now on."""
        self._settings = settings
        self._use_permissions()
        for session in self._sessions:
            session.forget_admitted()

    def connect(self, kernel: Kernel) -> None:
        """Observe the refusals of a kernel, by its clock."""
        self._clock = kernel.clock
        self._observers = kernel.observers
        kernel.observers.subscribe(self)

    def has(self, users: tuple[User, ...], guest: GuestLogin | None) -> bool:
        """Return True if these users and this guest login are in force."""
        return (users, guest) == (self._config.users, self._config.guest)

    def replace(self, config: BrokerConfig) -> None:
        """Use other users and settings from now on. Caches are emptied; sessions keep their users and roles.

        Raises:
            ValueError: As at the creation; nothing is changed.
        """
        self._take(config)
        for session in self._sessions:
            session.forget_admitted()

    # -- changes of users ----------------------------------------------------------------------------------------

    @property
    def roles_by_user(self) -> dict[str, list[str]]:
        """Return the roles of each user in force."""
        return {user.name: sorted(user.roles) for user in self._config.users}

    def new_hash(self, password: str, salt: bytes) -> Callable[[], str]:
        """Return the work of hashing a password of a user, which takes milliseconds.

        Args:
            password: Plain password.
            salt: Random bytes, `SALT_BYTES` of them.
        """
        return NewHash(password, salt)

    def change_user(self, change: UserChange) -> None:
        """Change the users in force until the broker stops. The password of the change is stored unchanged.

        Raises:
            ValueError: The user exists already, or does not, or a value is not possible; nothing is changed.
        """
        users = {user.name: user for user in self._config.users}
        known = users.get(change.name)
        change.check(exists=known is not None)
        if change.removes:
            del users[change.name]
        else:
            password, roles, certificate = change.password, change.roles, None
            if known is not None:
                password = known.password if password is None else password
                roles = tuple(known.roles) if roles is None else roles
                certificate = known.certificate
            users[change.name] = User(change.name, password, roles or (), certificate)
        self.replace(evolve(self._config, users=tuple(users.values())))

    def clear_authentication_cache(self) -> None:
        """Compare credentials with users again at each next login. Sessions go on."""
        self._credentials.clear_cache()

    def clear_authorization_cache(self) -> None:
        """Decide each permission again, for the sessions that exist, too."""
        self._permissions.clear_cache()
        for session in self._sessions:
            session.forget_admitted()

    def statistics(self) -> SecurityStatistics:
        """Return the current figures."""
        return SecurityStatistics(
            self._logins, self._refused_logins, self._granted, self._refused, self._credentials.cached,
            self._permissions.cached, len(self._failed),
        )  # fmt: skip

    # -- permissions ---------------------------------------------------------------------------------------------

    def allows(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> bool:
        """Return True if a principal has a permission on an address, or on one queue of it."""
        if principal.is_trusted or self._permissions.allows(principal.roles, permission, address, queue):
            self._granted += 1
            return True
        return False

    def access_refused(self, principal: Principal, permission: Permission, address: str, queue: str | None) -> None:
        """Write a line about a refused request."""
        self._refused += 1
        place = f"address {_shown(address)}" + ("" if queue is None else f", queue {_shown(queue)}")
        self._write(f"user {_shown(principal.user)} was refused {permission.name} on {place}")

    def _write(self, text: str) -> None:
        self._lines.add(text, self._clock.monotonic)

    # -- logins --------------------------------------------------------------------------------------------------

    def log_in(
        self, user: str | None, password: str | None, peer: str, now: float, subject: str | None = None
    ) -> Principal | Refused:
        """Return the principal of a new session, or why it is refused.

        Args:
            user: Name that the client gave; None for none.
            password: Password that the client gave; None for none.
            peer: Name of the connection.
            now: Monotonic seconds.
            subject: Subject of the client's certificate, which TLS has verified; None for none.
        """
        found = self._log_in(user, password, peer, now, subject)
        if isinstance(found, Refused):
            self._refused_logins += 1
            reason = ""
            if found.code == ErrorCode.CLUSTER_SECURITY_EXCEPTION:
                reason = f"; from {peer}: wrong password, or the default one, which is refused"
            self._lines.add(found.text + reason, now)
            if self._observers is not None:
                self._observers.call(self._observers.commit.login_refused, user, peer, found.text, subject)
        else:
            self._logins += 1
        return found

    def log_in_later(
        self,
        user: str | None,
        password: str | None,
        peer: str,
        now: float,
        subject: str | None,
        go_on: Callable[[], None],
    ) -> Principal | Refused | None:
        """Do what `log_in` does, without computing a hash; None if one is needed.

        The host then carries out a check of `checks`, and ``go_on`` must begin the login again.
        """
        if self._hash_may_be_needed(user, password, peer, now, subject):
            if self.checks.is_full:
                refused = _invalid(user, peer, subject, "; too many logins at once: try again")
                self._refused_logins += 1
                self._lines.add(refused.text, now)
                return refused
            if self.checks.wait(self._credentials, user, password, go_on):
                return None
        return self.log_in(user, password, peer, now, subject)

    def _hash_may_be_needed(
        self, user: str | None, password: str | None, peer: str, now: float, subject: str | None
    ) -> bool:
        """Return False if a login is decided without a hash: by a certificate, or because it comes too early."""
        if user is not None and user == self._config.cluster_user:
            return False
        holder = None if subject is None else self._credentials.of_certificate(subject)
        if holder is not None and (password is None or user in (None, holder.name)):
            return False
        if self._credentials.hash_needed(user, password) is None:
            return False
        return not self._failed.remaining_s(address_of(peer), user, now)

    def _log_in(
        self, user: str | None, password: str | None, peer: str, now: float, subject: str | None
    ) -> Principal | Refused:
        if user is not None and user == self._config.cluster_user:
            return self._log_in_broker(user, password, peer, now, subject)
        if subject is not None:
            holder = self._credentials.of_certificate(subject)
            # A password is for a client that wants to be another user than its certificate names.
            if holder is not None and (password is None or user in (None, holder.name)):
                return self._principal(holder.name, holder.roles)
        address = address_of(peer)
        known = self._credentials.known(user, password)
        wait_s = 0.0 if known else self._failed.remaining_s(address, user, now)
        if wait_s:
            return _too_often(user, peer, subject, wait_s)
        if known or self._credentials.verify(user, password):
            assert user is not None, "a user without a name has no valid credentials"
            return self._principal(user, self._credentials.user(user).roles)
        guest = self._credentials.guest
        if guest is not None and not (guest.credentials_invalidate and password):
            return self._principal(guest.user, frozenset((guest.role,)))
        self._failed.add(address, user, now)
        return _invalid(user, peer, subject)

    def _log_in_broker(
        self, user: str, password: str | None, peer: str, now: float, subject: str | None
    ) -> Principal | Refused:
        """Return the principal of another broker, which may do everything."""
        address, expected = address_of(peer), self._config.cluster_password
        wait_s = self._failed.remaining_s(address, user, now)
        if wait_s:
            return _too_often(user, peer, subject, wait_s)
        same = hmac.compare_digest((password or "").encode("utf-8", "replace"), expected.encode("utf-8", "replace"))
        # The default password is public, so it proves nothing.
        if same and expected != DEFAULT_CLUSTER_PASSWORD:
            return Principal(user, is_trusted=True)
        self._failed.add(address, user, now)
        return Refused(
            ErrorCode.CLUSTER_SECURITY_EXCEPTION,
            f"AMQ229099: Unable to authenticate cluster user: {name_in_text(user)}",
        )

    def _principal(self, user: str, roles: frozenset[str]) -> Principal:
        limits = self._config.resource_limits.get(user, _NO_LIMITS)
        return Principal(user, roles, queues_max=limits.max_queues)

    # -- sessions of users ---------------------------------------------------------------------------------------

    def refuses_session(self, principal: Principal, connection: int) -> Refused | None:
        """Return why a user must not have one more session; None if it may.

        Args:
            principal: User of the session.
            connection: Number of the connection.
        """
        limits = self._config.resource_limits.get(principal.user, _NO_LIMITS)
        use = self._uses.get(principal.user) or _Use()
        what, limit = "", 0
        if 0 <= limits.max_sessions <= use.sessions:
            what, limit = "sessions", limits.max_sessions
        elif connection not in use.connections and 0 <= limits.max_connections <= len(use.connections):
            what, limit = "connections", limits.max_connections
        if not what:
            return None
        user = name_in_text(principal.user)
        text = f"AMQ229110: Too many {what} for user '{user}'. {what.capitalize()} allowed: {limit}."
        self._write(text)
        return Refused(ErrorCode.SESSION_CREATION_REJECTED, text)

    def add_session(self, session: Session, connection: int) -> None:
        """Count a session of a user."""
        use = self._uses.setdefault(session.principal.user, _Use())
        use.sessions += 1
        use.connections[connection] = use.connections.get(connection, 0) + 1
        self._sessions[session] = connection

    def move_session(self, session: Session, connection: int) -> None:
        """Count a session that continues over another connection."""
        if session in self._sessions:
            self.remove_session(session)
            self.add_session(session, connection)

    def remove_session(self, session: Session) -> None:
        """Stop counting a session. Ignored for one that is not counted."""
        connection = self._sessions.pop(session, None)
        if connection is None:
            return
        user = session.principal.user
        use = self._uses[user]
        use.sessions -= 1
        use.connections[connection] -= 1
        if not use.connections[connection]:
            del use.connections[connection]
        if not use.sessions:
            del self._uses[user]


def _shown(name: str | None) -> str:
    """Return a name from a client in the form for a line of the log: quoted."""
    return f"'{name_in_text(name)}'"


def _invalid(user: str | None, peer: str, subject: str | None, reason: str = "") -> Refused:
    # The same for an unknown user and a wrong password.
    return Refused(
        ErrorCode.SECURITY_EXCEPTION,
        f"AMQ229031: Unable to validate user from {peer}. Username: {name_in_text(user)}; "
        f"SSL certificate subject DN: {name_in_text(subject or _NO_SUBJECT)}{reason}",
    )


def _too_often(user: str | None, peer: str, subject: str | None, wait_s: float) -> Refused:
    return _invalid(user, peer, subject, f"; too many failed logins: try again in {wait_s:.1f} s")
