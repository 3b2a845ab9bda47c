"""`embedbroker mask`: masked and hashed passwords, from an argument and from stdin."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from embedbroker.cli._commands import commands
from embedbroker.security import StoredPassword, unmask


def mask(*arguments: str, stdin: str = "", key: str | None = None) -> Result:
    environment = {"ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY": key}
    return CliRunner(env=environment).invoke(commands, ["mask", *arguments], input=stdin)


def test_a_mask_is_that_of_artemis() -> None:
    assert mask("secret").output == "ENC(-41e444c3ed07d6dd)\n"
    assert mask(stdin="secret\n").output == "ENC(-41e444c3ed07d6dd)\n"


def test_a_key_comes_from_the_option_or_from_the_environment_variable_of_artemis() -> None:
    assert mask("--key", "abcdef", "secret").output == mask("secret", key="abcdef").output == "ENC(58b4c221d115846f)\n"
    assert unmask("58b4c221d115846f", "abcdef") == "secret"


@pytest.mark.parametrize(("options", "begin"), [(["--hash"], "ENC(scrypt:"), (["--hash", "--artemis"], "ENC(1024:")])
def test_a_hash_has_a_new_salt_each_time(options: list[str], begin: str) -> None:
    printed = {mask(*options, stdin="secret").output for _ in range(3)}
    assert len(printed) == 3
    for text in printed:
        assert text.startswith(begin) and StoredPassword(text.strip()).matches("secret")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--artemis", "x"], "--artemis is a format of --hash"),
        ([], "the password is empty"),
        (["--key", "abc", "x"], "4"),
    ],
)
def test_what_cannot_be_masked_is_a_line_and_code_2(arguments: list[str], text: str) -> None:
    result = mask(*arguments)
    assert result.exit_code == 2 and text in result.output
