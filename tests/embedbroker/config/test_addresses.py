"""The configuration of addresses and queues before there is a broker."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker.config import AddressConfiguration, BrokerConfig, QueueConfiguration

QUEUE = QueueConfiguration()


def test_a_queue_takes_the_defaults_of_its_address_settings() -> None:
    assert QueueConfiguration(None, True, None, None, None, None) == QUEUE


def test_an_address_without_queues_serves_its_routing_type() -> None:
    assert AddressConfiguration(multicast={}).anycast is None


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"max_consumers": -2}, "max_consumers must be -1 or more, not -2"),
        ({"durable": 1}, "durable must be a bool, not 1"),
        ({"filter": 5}, "filter must be a str, not 5"),
        ({"exclusive": "yes"}, "exclusive must be a bool, not 'yes'"),
        ({"purge_on_no_consumers": 0}, "purge_on_no_consumers must be a bool, not 0"),
        ({"user": b"me"}, "user must be a str, not b'me'"),
    ],
)
def test_wrong_queues_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        QueueConfiguration(**values)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        ([], "addresses must map names to AddressConfigurations, not be []"),
        ({"a": QUEUE}, "addresses must map names to AddressConfigurations, not 'a' to "),
        ({5: AddressConfiguration({})}, "addresses must map names to AddressConfigurations, not 5 to "),
        ({"": AddressConfiguration({})}, "the name of a configured address must not be empty"),
        ({"a::b": AddressConfiguration({})}, "address 'a::b': '::' separates an address from its queue"),
        (
            {"a": AddressConfiguration({"q": QUEUE}), "b": AddressConfiguration({}, {"q": QUEUE})},
            "addresses: there are two queues 'q', of 'a' and of 'b'",
        ),
        (
            {"a": AddressConfiguration({"q": QUEUE}, {"q": QUEUE})},
            "addresses: there are two queues 'q', of 'a' and of 'a'",
        ),
    ],
)
def test_wrong_addresses_are_refused(addresses: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        BrokerConfig(addresses=addresses)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("queues", "problem"),
    [
        (["q"], "queues must map names to QueueConfigurations, not be ['q']"),
        ({"q": None}, "queues must map names to QueueConfigurations, not 'q' to None"),
        ({"": QUEUE}, "the name of a configured queue must not be empty"),
        ({"a::q": QUEUE}, "queue 'a::q': '::' separates an address from its queue and cannot stand in a name"),
    ],
)
def test_wrong_queues_of_an_address_are_refused(queues: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        AddressConfiguration(anycast=queues)
    assert str(caught.value) == problem


def test_an_address_serves_something() -> None:
    with pytest.raises(ValueError, match="an address serves anycast or multicast, or both"):
        AddressConfiguration()
