"""Masked passwords of configuration files: the two-way form ``ENC(...)`` of Artemis' default codec.

Responsible for Blowfish with a fixed key, as Artemis writes it. The key decodes the password, and the default key is
public: masking hides a password from a glance only. Does not depend on files and on the environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import ECB

__all__ = ["DEFAULT_KEY", "InvalidMask", "mask", "unmask"]

DEFAULT_KEY = "clusterpassword"
"""Key of Artemis' default codec."""

_BLOCK_BYTES = 8
_KEY_BYTES = range(4, 57)
_HEX = re.compile(r"-?[0-9A-Fa-f]{1,4096}", re.ASCII)


class InvalidMask(ValueError):
    """Report that a masked password cannot be decoded. The text of the error does not contain it."""


def _cipher(key: str) -> Cipher[ECB]:
    # Loaded when a password is masked: Blowfish is in a part of the library that few programs need.
    from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    data = key.encode()
    if len(data) not in _KEY_BYTES:
        raise InvalidMask(f"the key of masked passwords must have 4 to 56 bytes, not {len(data)}")
    return Cipher(Blowfish(data), modes.ECB())  # Artemis' format


def mask(password: str, key: str = DEFAULT_KEY) -> str:
    """Return the masked form of a password, without ``ENC()`` around it."""
    data = password.encode()
    padding = _BLOCK_BYTES - len(data) % _BLOCK_BYTES
    encryptor = _cipher(key).encryptor()
    found = encryptor.update(data + bytes([padding]) * padding) + encryptor.finalize()
    # Java writes the bytes as a signed number.
    return f"{int.from_bytes(found, 'big', signed=True):x}"


def unmask(text: str, key: str = DEFAULT_KEY) -> str:
    """Return the password of a masked form without ``ENC()``.

    Raises:
        InvalidMask: The text is not a masked password, or was masked with another key.
    """
    if not _HEX.fullmatch(text.strip()):
        raise InvalidMask("a masked password must be hexadecimal digits")
    number = int(text.strip(), 16)
    size = max((number if number >= 0 else ~number).bit_length() // 8 + 1, 1)
    # A number drops leading bytes that only repeat its sign.
    size += -size % _BLOCK_BYTES
    decryptor = _cipher(key).decryptor()
    found = decryptor.update(number.to_bytes(size, "big", signed=True)) + decryptor.finalize()
    padding = found[-1]
    if not 1 <= padding <= _BLOCK_BYTES or found[-padding:] != bytes([padding]) * padding:
        raise InvalidMask("a masked password cannot be decoded; it was masked with another key")
    try:
        return found[:-padding].decode()
    except UnicodeDecodeError:
        raise InvalidMask("a masked password cannot be decoded; it was masked with another key") from None
