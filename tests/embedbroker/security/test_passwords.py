"""Stored passwords: hashes of Artemis and of this broker, and the two-way mask; vectors come from Artemis 2.44."""

from __future__ import annotations

import random

import pytest

from embedbroker.security import (
    SALT_BYTES,
    InvalidHash,
    InvalidMask,
    StoredPassword,
    hash_password,
    hash_password_as_artemis,
    mask,
    unmask,
)

SALT = bytes(range(SALT_BYTES))
# `artemis mask --hash secret`
ARTEMIS_HASH = (
    "ENC(1024:DA5E668D7F879B00B1342E7A40328BB020D147022A01CD1D3EFDD9D3947EDAFF:8A8D83FD81AF9BD195270AC91E2E8AC13B48B4"
    "7629465ABB04AFE2C16E5725CD5867BB869E42F98B308DA559BBE2BC49B2DDA1D1E2DF5C0B003A732E02E3C3D5)"
)


def test_a_hash_of_artemis_is_verified() -> None:
    stored = StoredPassword(ARTEMIS_HASH)
    assert stored.is_hashed and stored.matches("secret")
    assert not any(stored.matches(wrong) for wrong in ("", "Secret", "secret ", ARTEMIS_HASH))
    lower = StoredPassword(ARTEMIS_HASH.lower().replace("enc(", "ENC("))
    assert lower.matches("secret")


def test_the_same_salt_makes_the_same_hash_as_artemis() -> None:
    salt = bytes.fromhex(ARTEMIS_HASH[9:73])
    assert hash_password_as_artemis("secret", salt) == ARTEMIS_HASH


@pytest.mark.parametrize("password", ["", "secret", "pässwörd ☂", "x" * 5000, "half a pair \ud800"])
def test_a_hash_is_that_of_its_password_alone(password: str) -> None:
    for stored in (hash_password(password, SALT), hash_password_as_artemis(password, SALT)):
        assert stored.startswith("ENC(") and (not password or password not in stored)
        assert StoredPassword(stored).matches(password)
        assert not StoredPassword(stored).matches(password + "x")
    assert hash_password(password, SALT) != hash_password(password, bytes(SALT_BYTES))


def test_a_plain_password_is_compared_as_it_is() -> None:
    stored = StoredPassword("secret")
    assert not stored.is_hashed and stored.matches("secret") and not stored.matches("secre")
    assert "secret" not in repr(stored)


@pytest.mark.parametrize(
    "text",
    [
        "ENC()",
        "ENC(-41e444c3ed07d6dd)",
        "ENC(1024:ABC:AB)",
        "ENC(0:AB:AB)",
        "ENC(999999999:AB:AB)",
        "ENC(scrypt:8192:8:1:ab)",
        "ENC(scrypt:8191:8:1:ab:ab)",
        "ENC(scrypt:1:8:1:ab:ab)",
        "ENC(scrypt:8192:0:1:ab:ab)",
        "ENC(scrypt:536870912:8:1:ab:ab)",
        "ENC(scrypt:8192:8:99:ab:ab)",
        "ENC(bcrypt:1:ab:ab)",
    ],
)
def test_what_is_no_hash_or_costs_too_much_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidHash) as raised:
        StoredPassword(text)
    assert text[4:-1] == "" or text[4:-1] not in str(raised.value)


# `artemis mask TEXT`, and `artemis mask --key abcdef TEXT`.
@pytest.mark.parametrize(
    ("text", "masked", "key"),
    [
        ("secret", "-41e444c3ed07d6dd", None),
        ("your plaintext password", "-37dc2ced9d1e65072e9dce471172aa14cf65ed2dd690cff5", None),
        ("bonjour", "-f3e6f6deb083770", None),
        ("secret", "58b4c221d115846f", "abcdef"),
    ],
)
def test_a_mask_is_that_of_artemis(text: str, masked: str, key: str | None) -> None:
    assert (mask(text) if key is None else mask(text, key)) == masked
    assert (unmask(masked) if key is None else unmask(masked, key)) == text


def test_every_password_can_be_masked_and_unmasked() -> None:
    # Fixed: among these are numbers that drop leading bytes, of either sign.
    chance = random.Random(1)
    for _ in range(2000):
        text = "".join(chr(chance.randint(32, 0x2FF)) for _ in range(chance.randint(0, 20)))
        assert unmask(mask(text)) == text


@pytest.mark.parametrize("text", ["", "xyz", "0", "-", "1234", "- 12", "41e444c3ed07d6dd" * 300])
def test_what_is_no_mask_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(InvalidMask) as raised:
        unmask(text)
    assert len(text) < 5 or text not in str(raised.value)


@pytest.mark.parametrize("key", ["abc", "x" * 57])
def test_a_key_of_a_wrong_length_is_refused(key: str) -> None:
    with pytest.raises(InvalidMask, match="4 to 56 bytes"):
        mask("secret", key)
