"""Users with their passwords, and the comparison with what a client gives.

Responsible for the comparison of credentials, for the guest login, and for the cache of results. Does not depend on
connections and permissions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from attrs import define, field

from embedbroker.config import GuestLogin, User, certificate_pattern

from ._passwords import InvalidHash, StoredPassword

__all__ = ["Credentials"]


@define(eq=False)
class _Cache:
    """Keep results by the digest of user and password, the oldest first."""

    size: int
    entries: dict[bytes, None] = field(factory=dict, init=False)

    def add(self, key: bytes) -> None:
        if not self.size:
            return
        while len(self.entries) >= self.size:
            del self.entries[next(iter(self.entries))]
        self.entries[key] = None


class Credentials:
    """Verify users and passwords.

    Args:
        users: Users of the broker.
        guest: Login of clients without valid credentials; None: they are refused.
        cache_size: Results that are kept, of either kind, so that a hash is computed once; 0: none.

    Raises:
        ValueError: A password is ``ENC(...)`` without a hash in it; the text names the user.
    """

    def __init__(self, users: Iterable[User], guest: GuestLogin | None, cache_size: int) -> None:
        self.guest = guest
        self._users = {user.name: user for user in users}
        self._passwords = {
            user.name: _stored(user.name, user.password) for user in self._users.values() if user.password is not None
        }
        self._subjects: dict[str, User] = {}
        self._patterns: list[tuple[re.Pattern[str], User]] = []
        for user in self._users.values():
            pattern = None if user.certificate is None else certificate_pattern(user.certificate)
            if pattern is not None:
                self._patterns.append((re.compile(pattern), user))
            elif user.certificate is not None:
                self._subjects.setdefault(user.certificate, user)
        # An unknown user takes as long as a known one.
        self._decoy = next((stored for stored in self._passwords.values() if stored.is_hashed), None)
        # Apart: wrong passwords, of which there may be any number, must not displace the others.
        self._valid, self._wrong = _Cache(cache_size), _Cache(cache_size)
        # Results of hashes that were computed outside, while the logins that wait for them go on.
        self._results: dict[bytes, bool] = {}

    @property
    def cached(self) -> int:
        """Return the number of results that are kept."""
        return len(self._valid.entries) + len(self._wrong.entries)

    def clear_cache(self) -> None:
        """Forget the results that are kept. Those that logins wait for stay."""
        self._valid.entries.clear()
        self._wrong.entries.clear()

    def user(self, name: str) -> User:
        """Return a user whose credentials were found valid."""
        return self._users[name]

    def of_certificate(self, subject: str) -> User | None:
        """Return the user of a client certificate that TLS has verified; an exact subject counts before a pattern."""
        found = self._subjects.get(subject)
        if found is not None:
            return found
        return next((user for pattern, user in self._patterns if pattern.fullmatch(subject)), None)

    def known(self, name: str | None, password: str | None) -> bool | None:
        """Return an earlier result, without computing a hash; None if nothing is kept."""
        key = _key(name, password)
        if key in self._valid.entries:
            return True
        return False if key in self._wrong.entries else None

    def hash_needed(self, name: str | None, password: str | None) -> tuple[bytes, StoredPassword] | None:
        """Return what must be hashed before `verify` is quick: its key, and the hash to compare with; None: nothing."""
        key = _key(name, password)
        if key in self._results or self.known(name, password) is not None:
            return None
        stored = self._passwords.get(name or "", self._decoy)
        return (key, stored) if stored is not None and stored.is_hashed and password is not None else None

    def add_result(self, key: bytes, *, matches: bool) -> None:
        """Let `verify` use the result of a hash that was computed outside."""
        self._results[key] = matches

    def forget_result(self, key: bytes) -> None:
        """Forget such a result; the cache may have it by now."""
        del self._results[key]

    def verify(self, name: str | None, password: str | None) -> bool:
        """Return True if the credentials are valid. Takes milliseconds for a hash that was not computed before."""
        found = self.known(name, password)
        if found is not None:
            return found
        stored = self._passwords.get(name or "")
        key = _key(name, password)
        if key in self._results:
            # What was hashed for an unknown user is another user's password.
            valid = self._results[key] and stored is not None
        elif stored is None:
            if self._decoy is not None:
                self._decoy.matches(password or "")
            valid = False
        else:
            # A missing password is not an empty one.
            valid = password is not None and stored.matches(password)
        (self._valid if valid else self._wrong).add(key)
        return valid


def _key(name: str | None, password: str | None) -> bytes:
    digest = hashlib.sha256()
    for text in (name, password):
        data = b"\0" if text is None else b"\1" + text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _stored(name: str, password: str) -> StoredPassword:
    try:
        return StoredPassword(password)
    except InvalidHash as error:
        raise ValueError(f"users: the password of user {name!r}: {error}") from None
