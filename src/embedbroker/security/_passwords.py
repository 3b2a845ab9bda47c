"""Stored passwords: plain texts and hashes, in Artemis' format and with scrypt.

Responsible for the two one-way forms of ``ENC(...)`` and for their comparison. Salts are arguments. Does not depend on
users and files.
"""

from __future__ import annotations

import hashlib
import hmac
import re

from attrs import field, frozen

__all__ = ["SALT_BYTES", "InvalidHash", "NewHash", "StoredPassword", "hash_password", "hash_password_as_artemis"]

SALT_BYTES = 32
"""Random bytes for a new hash."""

_HASH_BYTES = 64
_ARTEMIS_ITERATIONS = 1024
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 13, 8, 1
# A hash that costs more would stop the broker for a long time at each login.
_ITERATIONS_MAX = 1_000_000
_SCRYPT_BYTES_MAX = 64 * 1024 * 1024
_SCRYPT_P_MAX = 16

_ENCLOSED = re.compile(r"ENC\((.*)\)", re.DOTALL)
_PBKDF2 = re.compile(r"([0-9]{1,9}):([0-9A-Fa-f]+):([0-9A-Fa-f]+)", re.ASCII)
_SCRYPT = re.compile(r"scrypt:([0-9]{1,9}):([0-9]{1,4}):([0-9]{1,4}):([0-9A-Fa-f]+):([0-9A-Fa-f]+)", re.ASCII)


class InvalidHash(ValueError):
    """Report that the text in ``ENC(...)`` is not a hash. The text of the error does not contain it."""


def _encoded(password: str) -> bytes:
    # Clients send UTF-16, in which half a surrogate pair may occur.
    return password.encode("utf-8", "replace")


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int, size: int) -> bytes:
    room = 128 * n * r + 128 * r * p + 1024 * 1024
    return hashlib.scrypt(_encoded(password), salt=salt, n=n, r=r, p=p, maxmem=room, dklen=size)


def _pbkdf2(password: str, salt: bytes, iterations: int, size: int) -> bytes:
    # Artemis fixes the digest.
    return hashlib.pbkdf2_hmac("sha1", _encoded(password), salt, iterations, size)


def hash_password(password: str, salt: bytes) -> str:
    """Return the hash of a password for the configuration of this broker, ``ENC(scrypt:...)``.

    Args:
        password: Password of a user.
        salt: Random bytes, `SALT_BYTES` of them.
    """
    found = _scrypt(password, salt, _SCRYPT_N, _SCRYPT_R, _SCRYPT_P, _HASH_BYTES)
    return f"ENC(scrypt:{_SCRYPT_N}:{_SCRYPT_R}:{_SCRYPT_P}:{salt.hex()}:{found.hex()})"


def hash_password_as_artemis(password: str, salt: bytes) -> str:
    """Return the hash of a password for ``artemis-users.properties``, ``ENC(1024:...)``, which Artemis reads, too.

    Its 1,024 iterations of PBKDF2 with SHA-1 resist guessing much less than `hash_password`.
    """
    found = _pbkdf2(password, salt, _ARTEMIS_ITERATIONS, _HASH_BYTES)
    return f"ENC({_ARTEMIS_ITERATIONS}:{salt.hex().upper()}:{found.hex().upper()})"


@frozen
class NewHash:
    """Hold the work of hashing a new password, for a thread of the host."""

    _password: str = field(repr=False)
    _salt: bytes = field(repr=False)

    def __call__(self) -> str:
        """Return the hash, as `hash_password` does."""
        return hash_password(self._password, self._salt)


@frozen
class StoredPassword:
    """Hold a password as a configuration has it: plain, or one of the two kinds of hashes.

    Raises:
        InvalidHash: The text is ``ENC(...)`` around something else.
    """

    _text: str = field(repr=False)
    _parameters: tuple[int, ...] = field(init=False)
    _salt: bytes = field(init=False, repr=False)
    _hash: bytes = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        parameters, salt, found = _parsed(self._text)
        object.__setattr__(self, "_parameters", parameters)
        object.__setattr__(self, "_salt", salt)
        object.__setattr__(self, "_hash", found)

    @property
    def is_hashed(self) -> bool:
        """Return True if the password itself is not stored."""
        return bool(self._parameters)

    def matches(self, password: str) -> bool:
        """Return True if this is the password. Takes milliseconds for a hash."""
        parameters, size = self._parameters, len(self._hash)
        if not parameters:
            found = _encoded(password)
        elif len(parameters) == 1:
            found = _pbkdf2(password, self._salt, parameters[0], size)
        else:
            n, r, p = parameters
            found = _scrypt(password, self._salt, n, r, p, size)
        return hmac.compare_digest(found, self._hash)


def _parsed(text: str) -> tuple[tuple[int, ...], bytes, bytes]:
    """Return parameters, salt and hash; no parameters for a plain password."""
    enclosed = _ENCLOSED.fullmatch(text)
    if enclosed is None:
        return (), b"", _encoded(text)
    found = _PBKDF2.fullmatch(enclosed[1]) or _SCRYPT.fullmatch(enclosed[1])
    if found is None:
        raise InvalidHash(
            "ENC(...) does not contain a hash (1024:SALT:HASH or scrypt:N:R:P:SALT:HASH); print one with"
            " 'embedbroker mask --hash'"
        )
    *numbers, salt, digest = found.groups()
    parameters = tuple(int(number) for number in numbers)
    if len(salt) % 2 or len(digest) % 2 or not _is_bearable(parameters):
        raise InvalidHash("ENC(...) contains a hash with an odd number of digits, or with parameters out of range")
    return parameters, bytes.fromhex(salt), bytes.fromhex(digest)


def _is_bearable(parameters: tuple[int, ...]) -> bool:
    if len(parameters) == 1:
        return 1 <= parameters[0] <= _ITERATIONS_MAX
    n, r, p = parameters
    is_power = n > 1 and n & (n - 1) == 0
    return is_power and r > 0 and 0 < p <= _SCRYPT_P_MAX and 128 * n * r * p <= _SCRYPT_BYTES_MAX
