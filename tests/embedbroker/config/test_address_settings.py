"""Which settings an address gets: wildcards, order, merging, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from embedbroker.config import AddressFullPolicy, AddressSettings, AddressSettingsRepository, Matches


def attempts(number: int) -> AddressSettings:
    return AddressSettings(max_delivery_attempts=number)


def found(matches: dict[str, AddressSettings], address: str) -> int | None:
    return AddressSettingsRepository(matches).of(address).max_delivery_attempts


@pytest.mark.parametrize(
    ("match", "address", "applies"),
    [
        ("#", "anything.at.all", True),
        ("news.#", "news", True),
        ("news.#", "news.europe", True),
        ("news.#", "news.europe.sport", True),
        ("news.#", "newspaper", False),
        ("news#", "news.europe", True),
        ("news#", "newspaper", False),
        ("news.*", "news.europe", True),
        ("news.*", "news", False),
        ("news.*", "news.", False),
        ("news.*", "news.europe.sport", False),
        ("news.*.sport", "news.europe.sport", True),
        ("news.*.sport", "news.sport", False),
        ("a*b", "axxb", True),
        ("a*b", "ab", False),
        ("a*b", "a.b", False),
        ("plain", "plain", True),
        ("plain", "Plain", False),
        ("a.b", "axb", False),
        ("a+(b", "a+(b", True),
        ("$.internal.#", "$.internal.x", True),
        ("orders", "orders::queue", True),
        ("orders.#", "orders.a::queue", True),
    ],
)
def test_matches(match: str, address: str, applies: bool) -> None:
    """Artemis' RepositoryTest.testMatchingDocs."""
    assert found({match: attempts(77)}, address) == (77 if applies else 10)


def test_a_literal_match_counts_for_the_address_of_its_text_alone() -> None:
    """Artemis' RepositoryTest.testLiteral."""
    addresses = {"#": "0", "(a.#)": "1", "a.#": "2", "a.b": "3", "a.*": "4"}
    entries = {match: AddressSettings(dead_letter_address=name) for match, name in addresses.items()}
    matches = Matches(entries, literal_markers="()")
    assert [each.dead_letter_address for each in matches.of("a.b")] == ["3", "4", "2", "0"]
    assert [each.dead_letter_address for each in matches.of("a.#")] == ["1", "4", "2", "0"]
    repository = AddressSettingsRepository(entries, literal_markers="()")
    assert (repository.of("a.#").dead_letter_address, repository.of("(a.#)").dead_letter_address) == ("1", "0")
    # Without markers in the configuration they are plain text.
    assert found({"(a)": attempts(7)}, "(a)") == 7 and found({"(a)": attempts(7)}, "a") == 10
    repository.replace("(a.*)", attempts(5))
    assert (repository.of("a.*").max_delivery_attempts, repository.of("a.x").max_delivery_attempts) == (5, 10)


@pytest.mark.parametrize("match", ["(a.#.b)", "(#.a)", "(a.#)b"])
def test_a_hash_stands_at_the_end_of_a_literal_match_only(match: str) -> None:
    with pytest.raises(ValueError, match="'#' is allowed at the end only"):
        AddressSettingsRepository({}, literal_markers="()").replace(match, AddressSettings())


def test_more_specific_matches_come_first() -> None:
    """Artemis' RepositoryTest.testMultipleMatchesHasRightOrder."""
    matches = ["m.a.c", "m.*.c", "m.a.#", "m.#", "#"]
    for count in range(len(matches)):
        rest = {match: attempts(matches.index(match)) for match in reversed(matches[count:])}
        assert found(rest, "m.a.c") == count


@pytest.mark.parametrize(
    ("first", "second"),
    [("a.*", "a.#"), ("a.b.*", "a.*.c"), ("a.b*.c", "a.*.c"), ("a.b.#", "a.#"), ("a.x*", "a.xy*")],
)
def test_of_two_wildcards_the_more_specific_one_counts(first: str, second: str) -> None:
    address = {"a.*": "a.x", "a.b.*": "a.b.c", "a.b*.c": "a.bb.c", "a.b.#": "a.b.c", "a.x*": "a.xyz"}[first]
    for order in ((first, second), (second, first)):
        assert found({match: attempts(1 if match == first else 2) for match in order}, address) == 1


def test_unset_values_come_from_wider_matches_and_from_the_defaults() -> None:
    repository = AddressSettingsRepository(
        {
            "#": AddressSettings(dead_letter_address="DLQ", expiry_address="old", max_delivery_attempts=3),
            "a.#": AddressSettings(dead_letter_address="a.DLQ", auto_create_queues=False),
            "a.b": AddressSettings(max_delivery_attempts=7),
        }
    )
    settings = repository.of("a.b")
    assert (settings.dead_letter_address, settings.expiry_address, settings.max_delivery_attempts) == (
        "a.DLQ",
        "old",
        7,
    )
    assert (settings.auto_create_queues, settings.auto_create_addresses) == (False, True)
    assert (settings.address_full_policy, settings.max_size_bytes) == (AddressFullPolicy.BLOCK, -1)
    assert repository.of("c").max_delivery_attempts == 3


def test_looking_up_changes_no_entry_and_answers_the_same() -> None:
    """Artemis' RepositoryTest.testMatchMergeIdempotence."""
    entries = {"#": AddressSettings(dead_letter_address="DLQ"), "a": attempts(7)}
    repository = AddressSettingsRepository(entries)
    assert repository.of("a") is repository.of("a")
    assert entries == {"#": AddressSettings(dead_letter_address="DLQ"), "a": attempts(7)}


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    of, looked_up = Matches.of, list[str]()

    def noted(matches: Matches[AddressSettings], address: str) -> Iterable[AddressSettings]:
        looked_up.append(address)
        return of(matches, address)

    monkeypatch.setattr(Matches, "of", noted)
    repository = AddressSettingsRepository({"#": attempts(5)})
    for _ in range(2):
        repository.of("address-0")
    assert looked_up == ["address-0"]
    for number in range(20_001):
        repository.of(f"address-{number}")
    repository.of("address-0")
    assert looked_up.count("address-0") == 2, "what was looked up before the cache was full is still there"


@pytest.mark.parametrize("match", ["a.#.b", "#.a", "a#b"])
def test_a_hash_stands_at_the_end_only(match: str) -> None:
    """Artemis' RepositoryTest.testIllegalMatches."""
    with pytest.raises(ValueError, match="'#' is allowed at the end only"):
        AddressSettingsRepository({match: AddressSettings()})


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"max_delivery_attempts": "10"}, TypeError),
        ({"max_delivery_attempts": True}, TypeError),
        ({"max_size_bytes": -2}, ValueError),
        ({"dead_letter_address": 5}, TypeError),
        ({"auto_create_queues": 1}, TypeError),
        ({"address_full_policy": "FAIL"}, TypeError),
        ({"default_queue_routing_type": 2}, ValueError),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(values))):
        AddressSettings(**values)  # type: ignore[arg-type]  # wrong on purpose
