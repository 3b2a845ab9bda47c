"""How texts are read: sizes, numbers, booleans and words, and the errors for wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import AddressFullPolicy
from embedbroker.configfile._values import NUMBER_MAX
from tests.embedbroker.configfile.config_files import load, refused

KIB = 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10485760", 10 * KIB**2),
        ("10M", 10 * KIB**2),
        ("100Mb", 100 * KIB**2),
        ("100 MB", 100 * KIB**2),
        ("1GiB", KIB**3),
        ("1gib", KIB**3),
        ("2g", 2 * KIB**3),
        ("64K", 64 * KIB),
        ("64ki", 64 * KIB),
        ("64kB", 64 * KIB),
        ("512b", 512),
        (" 7 ", 7),
    ],
)
def test_sizes_are_powers_of_1024_in_every_notation(text: str, size: int, tmp_path: Path) -> None:
    core = f"<address-settings><address-setting match='a'><max-size-bytes>{text}</max-size-bytes></address-setting>"
    config = load(tmp_path, core + f"</address-settings><global-max-size>{text}</global-max-size>").config
    assert config.address_settings["a"].max_size_bytes == size
    assert config.global_max_size_bytes == size


@pytest.mark.parametrize("text", ["10X", "M", "10 M B", "1.5G", "0x10", "10MiBit", "١٠", "1_000"])
def test_other_sizes_are_refused(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, f"<journal-file-size>{text}</journal-file-size>") == [
        f"core/journal-file-size: expected a size such as 10485760, 10M, 100Mb or 1GiB, not {text!r}"
    ]


@pytest.mark.parametrize("text", ["5 seconds", "5s", "1.0", "1e3", "five", "0x10", "1_000", "--1", "٥"])
def test_times_and_counts_are_whole_numbers_without_units(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, f"<transaction-timeout>{text}</transaction-timeout>") == [
        f"core/transaction-timeout: expected a whole number without a unit, not {text!r}"
    ]


@pytest.mark.parametrize("text", [str(NUMBER_MAX + 1), "9" * 30, "9999999999G"])
def test_numbers_beyond_64_bits_are_refused(text: str, tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, f"<global-max-size>{text}</global-max-size>")
    assert problem.endswith(f"is larger than {NUMBER_MAX}")


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), (" false ", False), ("False", False)])
def test_booleans_in_any_case(text: str, value: bool, tmp_path: Path) -> None:
    assert load(tmp_path, f"<persist-id-cache>{text}</persist-id-cache>").config.persist_id_cache is value


@pytest.mark.parametrize(
    ("text", "said"),
    [("yes", "'yes'"), ("1", "'1', which Artemis reads as false"), ("0", "'0'"), ("truefalse", "'truefalse'")],
)
def test_other_booleans_are_refused(text: str, said: str, tmp_path: Path) -> None:
    assert refused(tmp_path, f"<persist-id-cache>{text}</persist-id-cache>") == [
        f"core/persist-id-cache: expected true or false, not {said}"
    ]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("name", "a text"),
        ("cluster-password", "a password"),
        ("journal-directory", "a text"),
        ("transaction-timeout", "a whole number"),
        ("global-max-size", "a size"),
        ("persist-id-cache", "true or false"),
        ("persistence-enabled", "true or false"),
        ("security-enabled", "true or false"),
    ],
)
@pytest.mark.parametrize("content", ["", "  \n ", "<!-- nothing -->"])
def test_empty_elements_are_refused(element: str, expected: str, content: str, tmp_path: Path) -> None:
    assert refused(tmp_path, f"<{element}>{content}</{element}>") == [f"core/{element}: is empty; expected {expected}"]


@pytest.mark.parametrize(
    ("element", "text", "said"),
    [
        ("transaction-timeout", "0", "must be 1 or more, not 0"),
        ("message-expiry-scan-period", "-2", "must be -1 or more, not -2"),
        ("id-cache-size", "-1", "must be 0 or more, not -1"),
        ("journal-file-size", "1000", "must be a multiple of 512, 16384 or more, not 1000"),
        ("global-max-size", "0", "must be 1 or more, not 0"),
        ("global-max-size", "-2", "must be 1 or more, not -2"),
        ("connection-ttl-check-interval", "0", "must be 1 or more, not 0"),
    ],
)
def test_what_is_out_of_range_is_refused_by_the_name_in_the_file(
    element: str, text: str, said: str, tmp_path: Path
) -> None:
    assert refused(tmp_path, f"<{element}>{text}</{element}>") == [f"core/{element}: {said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("-1", "must be 0 or more, not -1"), (str(NUMBER_MAX), f"{NUMBER_MAX * 1000} is larger than {NUMBER_MAX}")],
)
def test_seconds_that_cannot_be_are_told_as_they_stand_there(text: str, said: str, tmp_path: Path) -> None:
    core = f"<ha-policy><replication><primary><quorum-vote-wait>{text}</quorum-vote-wait></primary></replication>"
    (problem,) = refused(tmp_path, core + "</ha-policy>")
    assert problem == f"core/ha-policy/replication/primary/quorum-vote-wait: {said}"


def in_setting(name: str, text: str) -> str:
    return f"<address-settings><address-setting match='a'><{name}>{text}</{name}></address-setting></address-settings>"


@pytest.mark.parametrize(("text", "value"), [("block", "BLOCK"), ("Fail", "FAIL")])
def test_words_in_any_case(text: str, value: str, tmp_path: Path) -> None:
    config = load(tmp_path, in_setting("address-full-policy", text)).config
    assert config.address_settings["a"].address_full_policy is AddressFullPolicy(value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("address-full-policy", "BLOCK, FAIL, PAGE, DROP"), ("default-queue-routing-type", "MULTICAST, ANYCAST")],
)
def test_other_words_are_refused(name: str, expected: str, tmp_path: Path) -> None:
    assert refused(tmp_path, in_setting(name, "SPLIT")) == [
        f"core/address-settings/address-setting[a]/{name}: expected one of {expected}, not 'SPLIT'"
    ]


@pytest.mark.parametrize("text", ["fast", "1,5", "", "1_0", "٣"])
def test_wrong_numbers_with_fractions_are_refused(text: str, tmp_path: Path) -> None:
    connection = f"<retry-interval-multiplier>{text}</retry-interval-multiplier>"
    core = (
        "<connectors><connector name='a'>tcp://a:1</connector></connectors><cluster-connections>"
        f"<cluster-connection name='c'><connector-ref>a</connector-ref>{connection}</cluster-connection>"
        "</cluster-connections>"
    )
    (problem,) = refused(tmp_path, core)
    assert "/retry-interval-multiplier: " in problem and "a number" in problem
    assert "must be 1 or more" in refused(tmp_path, core.replace(f">{text}</retry", ">nan</retry"))[0]


def test_passwords_appear_in_no_message(tmp_path: Path) -> None:
    core = "<cluster-password>ENC(5f4dcc3b)</cluster-password><name/>"
    problems = refused(tmp_path, core)
    assert any("core/cluster-password: a masked password cannot be decoded" in problem for problem in problems)
    assert "5f4dcc3b" not in "".join(problems)
    masked = "<mask-password>true</mask-password><cluster-password>5f4dcc3b</cluster-password>"
    (problem,) = refused(tmp_path, masked)
    assert problem.startswith("core/cluster-password: a masked password") and "5f4dcc3b" not in problem
    assert load(tmp_path, masked.replace("true", "false")).config.cluster_password == "5f4dcc3b"
    url = "<connectors><connector name='a'>tcp://a:1?keyStorePassword=hidden;unknown=1</connector></connectors>"
    loaded = load(tmp_path, url)
    assert loaded.warnings and "hidden" not in "".join(loaded.warnings) + repr(loaded.config)
    assert "hidden" not in "".join(refused(tmp_path, url.replace("unknown", "needClientAuht")))
