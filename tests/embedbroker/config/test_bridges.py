"""Bridges of a configuration: what is refused, and what does not fit together."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker.config import ADD_HEADERS, BridgeConfig, BrokerConfig, bridge_as_json, misfits

PLACES = {"b": "tcp://host-b:61616"}


def bridge(**settings: Any) -> BridgeConfig:
    given: dict[str, Any] = {"name": "to-b", "queue": "orders", "static_connectors": ["b"]}
    return BridgeConfig(**given | settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"queue": ""}, "queue must not be empty"),
        ({"static_connectors": []}, "static_connectors must name one connector or more"),
        ({"static_connectors": "b"}, "static_connectors must be a list of connector names, not 'b'"),
        ({"transformer": "upper"}, "transformer must be a callable that takes a BridgedMessage, not 'upper'"),
        ({"properties": {"a": 1}}, "properties must map names to texts"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"confirmation_window_size": -1}, "confirmation_window_size must be"),
        ({"retry_interval_ms": 0}, "retry_interval_ms must be"),
        ({"retry_interval_multiplier": 0.5}, "retry_interval_multiplier must be"),
    ],
)
def test_wrong_values_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        bridge(**settings)


def test_names_and_connectors_are_checked_for_the_broker() -> None:
    with pytest.raises(ValueError, match="bridges: there are two of the name 'to-b-1'; give each its own"):
        BrokerConfig(connectors=PLACES, bridges=[bridge(concurrency=2), bridge(name="to-b-1")])
    with pytest.raises(ValueError, match="bridges: bridge 'to-b': there is no connector 'bb'; did you mean 'b'"):
        BrokerConfig(connectors=PLACES, bridges=[bridge(static_connectors=["bb"])])
    with pytest.raises(TypeError, match="bridges must be a list of BridgeConfigs, not of 'to-b'"):
        BrokerConfig(connectors=PLACES, bridges=["to-b"])
    assert not misfits(BrokerConfig(connectors=PLACES, bridges=[bridge()]))


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(bridge(user="carrier", password="secret"))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"retry_interval_ms": 3_000}, "bridge 'to-b': retry_interval_ms=3000 is above max_retry_interval_ms=2000"),
        ({"connection_ttl_ms": 4_000}, "bridge 'to-b': check_period_ms=30000 is not within half of"),
    ],
)
def test_settings_that_do_not_fit_together(settings: dict[str, Any], text: str) -> None:
    (found,) = misfits(BrokerConfig(connectors=PLACES, bridges=[bridge(**settings)]))
    assert found.startswith(text)


def test_the_json_of_a_bridge_has_the_names_of_artemis() -> None:
    found = bridge_as_json(BridgeConfig("b", "q", discovery_group="here", check_period_ms=7, properties={"k": "v"}))
    assert found == {
        "name": "b",
        "queue-name": "q",
        "discovery-group-name": "here",
        "client-failure-check-period": 7,
        "transformer-configuration": {"class-name": ADD_HEADERS, "properties": {"k": "v"}},
    }
