"""Bridges of a broker.xml."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import BridgeConfig, BridgeRoutingType
from tests.embedbroker.configfile.config_files import load, refused

CONNECTORS = "<connectors><connector name='b'>tcp://host-b:61616</connector></connectors>"
ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
STATIC = "<static-connectors><connector-ref>b</connector-ref></static-connectors>"
NEEDED = f"<queue-name>orders</queue-name>{STATIC}"


def bridges(content: str, name: str = "to-b") -> str:
    return f"{CONNECTORS}<bridges><bridge name='{name}'>{content}</bridge></bridges>"


def test_a_whole_bridge(tmp_path: Path) -> None:
    core = bridges(
        "<queue-name>orders</queue-name><forwarding-address>arrivals</forwarding-address><ha>true</ha>"
        "<filter string='x = 1'/><min-large-message-size>64K</min-large-message-size>"
        "<check-period>1000</check-period><connection-ttl>5000</connection-ttl><retry-interval>10</retry-interval>"
        "<retry-interval-multiplier>1.5</retry-interval-multiplier><max-retry-interval>500</max-retry-interval>"
        "<initial-connect-attempts>3</initial-connect-attempts><reconnect-attempts>4</reconnect-attempts>"
        "<use-duplicate-detection>false</use-duplicate-detection>"
        "<confirmation-window-size>1M</confirmation-window-size><producer-window-size>-1</producer-window-size>"
        "<user>carrier</user><password>secret</password><routing-type>STRIP</routing-type>"
        "<concurrency>1</concurrency><pending-ack-timeout>7</pending-ack-timeout><client-id>me</client-id>"
        f"<transformer><class-name>{ADD_HEADERS}</class-name><property key='a' value='1'/></transformer>{STATIC}"
    )
    loaded = load(tmp_path, core)
    assert loaded.config.bridges == (
        BridgeConfig(
            "to-b",
            "orders",
            ("b",),
            forwarding_address="arrivals",
            ha=True,
            filter="x = 1",
            min_large_message_size=64 * 1024,
            check_period_ms=1000,
            connection_ttl_ms=5000,
            retry_interval_ms=10,
            retry_interval_multiplier=1.5,
            max_retry_interval_ms=500,
            initial_connect_attempts=3,
            reconnect_attempts=4,
            use_duplicate_detection=False,
            confirmation_window_size=1024 * 1024,
            producer_window_size=-1,
            user="carrier",
            password="secret",
            routing_type=BridgeRoutingType.STRIP,
            pending_ack_timeout_ms=7,
            client_id="me",
            properties={"a": "1"},
        ),
    )
    assert not loaded.warnings


def test_a_small_bridge_and_one_with_several_connections(tmp_path: Path) -> None:
    assert load(tmp_path, bridges(NEEDED)).config.bridges == (BridgeConfig("to-b", "orders", ("b",)),)
    (several,) = load(tmp_path, bridges(NEEDED + "<concurrency>2</concurrency>")).config.bridges
    assert [each.name for each in several.each()] == ["to-b-0", "to-b-1"]


@pytest.mark.parametrize(
    ("core", "problem"),
    [
        (bridges(""), "core/bridges/bridge[to-b]: has no queue-name and no static-connectors or discovery-group-ref"),
        (
            bridges("<queue-name>q</queue-name>"),
            "core/bridges/bridge[to-b]: has no static-connectors or discovery-group-ref",
        ),
        (
            bridges(NEEDED + "<transformer><class-name>com.acme.Upper</class-name></transformer>"),
            "core/bridges/bridge[to-b]/transformer/class-name: names a class of Java, 'com.acme.Upper'; only "
            "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer exists here: use the "
            "transformer of BridgeConfig in Python",
        ),
        (
            bridges(NEEDED.replace(">b<", ">c<")),
            "core/bridges/bridge[to-b]/static-connectors/connector-ref: there is no connector 'c'",
        ),
        (
            bridges(NEEDED + "<retry-interval>0</retry-interval>"),
            "core/bridges/bridge[to-b]/retry-interval: must be",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(core: str, problem: str, tmp_path: Path) -> None:
    assert any(each.startswith(problem) for each in refused(tmp_path, core)), refused(tmp_path, core)
