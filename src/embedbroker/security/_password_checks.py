"""Logins that wait for the hash of a password, which takes milliseconds and must not stop the broker.

Responsible for one check for each pair of user and password, and for going on with the logins that wait for it. The
host computes the hash. Does not depend on what a login is.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from ._credentials import Credentials
from ._passwords import StoredPassword

__all__ = ["WAITING_LOGINS_MAX", "PasswordCheck", "PasswordChecks"]

WAITING_LOGINS_MAX = 1_000
"""Maximum number of logins that wait for hashes; further ones are refused."""


@frozen
class PasswordCheck:
    """Hold the work of one check, for a thread of the host."""

    number: int
    _stored: StoredPassword = field(repr=False)
    _password: str = field(repr=False)

    def run(self) -> bool:
        """Return True if the password is right. Takes milliseconds, and changes nothing."""
        return self._stored.matches(self._password)


@define(eq=False)
class _Waiting:
    key: bytes
    credentials: Credentials
    logins: list[Callable[[], None]] = field(factory=list)


class PasswordChecks:
    """Hold the checks of one broker, by their numbers."""

    __slots__ = ("_by_key", "_by_number", "_count", "_next_number", "new")

    def __init__(self) -> None:
        #: Checks that the host has not been given.
        self.new: list[PasswordCheck] = []
        self._by_number: dict[int, _Waiting] = {}
        self._by_key: dict[tuple[Credentials, bytes], _Waiting] = {}
        self._next_number = 1
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Return True if no further login may wait."""
        return self._count >= WAITING_LOGINS_MAX

    def wait(self, credentials: Credentials, user: str | None, password: str | None, go_on: Callable[[], None]) -> bool:
        """Return True if a hash must be computed first; ``go_on`` is called when it is.

        Args:
            credentials: Users and passwords in force.
            user: Name that the client gave.
            password: Password that the client gave.
            go_on: Begins the login again.
        """
        needed = credentials.hash_needed(user, password)
        if needed is None:
            return False
        key, stored = needed
        waiting = self._by_key.get((credentials, key))
        if waiting is None:
            number = self._next_number
            self._next_number += 1
            waiting = _Waiting(key, credentials)
            self._by_key[credentials, key] = self._by_number[number] = waiting
            self.new.append(PasswordCheck(number, stored, password or ""))
        waiting.logins.append(go_on)
        self._count += 1
        return True

    def take_new(self) -> list[PasswordCheck]:
        """Return the checks that the host must carry out, each once."""
        taken = self.new[:]
        self.new.clear()
        return taken

    def on_result(self, number: int, *, matches: bool) -> None:
        """Go on with the logins that wait for a check."""
        waiting = self._by_number.pop(number)
        del self._by_key[waiting.credentials, waiting.key]
        self._count -= len(waiting.logins)
        waiting.credentials.add_result(waiting.key, matches=matches)
        for go_on in waiting.logins:
            go_on()
        waiting.credentials.forget_result(waiting.key)
