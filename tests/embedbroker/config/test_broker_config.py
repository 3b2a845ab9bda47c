"""The configuration of a broker: defaults and refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields
from attrs.exceptions import FrozenInstanceError

from embedbroker import BrokerSettings
from embedbroker.config import AddressSettings, BrokerConfig, MemoryShares, SecuritySetting, User
from embedclient import QueueAttributes


def test_by_default_it_listens_on_a_free_local_port_and_keeps_dead_letters() -> None:
    config = BrokerConfig()
    assert (config.host, config.port, config.data_directory) == ("127.0.0.1", 0, None)
    assert config.address_settings == {"#": AddressSettings(dead_letter_address="DLQ", expiry_address="ExpiryQueue")}


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        BrokerConfig().port = 1  # type: ignore[misc]  # wrong on purpose


def test_the_mapping_of_settings_is_its_own() -> None:
    settings = {"a": AddressSettings()}
    config = BrokerConfig(address_settings=settings)
    settings["b"] = AddressSettings()
    assert set(config.address_settings) == {"a"}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"port": -1}, ValueError),
        ({"port": 65_536}, ValueError),
        ({"port": "61616"}, TypeError),
        ({"host": None}, TypeError),
        ({"data_directory": 5}, TypeError),
        ({"work_per_step_max": 0}, ValueError),
        ({"frame_size_bytes_max": 0}, ValueError),
        ({"output_bytes_max": -5}, ValueError),
        ({"global_max_size_bytes": -1}, ValueError),
        ({"global_max_size_margin_bytes": -1}, ValueError),
        ({"partial_frames_bytes_max": 0}, ValueError),
        ({"resend_bytes_max": 1.5}, TypeError),
        ({"output_total_bytes_max": 0}, ValueError),
        ({"sessions_per_connection_max": 0}, ValueError),
        ({"consumers_per_session_max": 0}, ValueError),
        ({"session_metadata_bytes_max": None}, TypeError),
        ({"held_replies_max": 0}, ValueError),
        ({"addresses_max": 0}, ValueError),
        ({"queues_max": "many"}, TypeError),
        ({"name": 7}, TypeError),
        ({"name": ""}, ValueError),
        ({"segment_size_bytes": 20_000}, ValueError),
        ({"audit_directory": ""}, ValueError),
        ({"audit_directory": "audit"}, ValueError),
        ({"audit_directory": "data/", "data_directory": "data"}, ValueError),
        ({"large_messages_directory": ""}, ValueError),
        ({"management_address": ""}, ValueError),
        ({"management_address": "a::q"}, ValueError),
        ({"management_address": "embedbroker.services"}, ValueError),
        ({"management_address": "a", "management_notification_address": "a"}, ValueError),
        ({"uuid_namespace": None}, TypeError),
        ({"literal_match_markers": None}, TypeError),
        ({"literal_match_markers": "("}, ValueError),
        ({"security_settings": {"(a.#)": SecuritySetting()}, "literal_match_markers": "()"}, ValueError),
        ({"large_messages_directory": 7, "data_directory": "d"}, TypeError),
        ({"large_messages_directory": "bodies"}, ValueError),
        ({"large_messages_directory": "data/", "data_directory": "data"}, ValueError),
        ({"large_messages_directory": "a", "data_directory": "data", "audit_directory": "a/"}, ValueError),
        ({"audit_retention": 0}, ValueError),
        ({"audit_retention": 4 * 10 * 1024**2 - 1, "audit_directory": "a", "data_directory": "d"}, ValueError),
        ({"address_settings": 5}, TypeError),
        ({"address_settings": {"a": 5}}, TypeError),
        ({"address_settings": {"a.#.b": AddressSettings()}}, ValueError),
        ({"address_settings": {"": AddressSettings()}}, ValueError),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(values))):
        BrokerConfig(**values)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"port": "61616"}, "port must be an int, not '61616'"),
        ({"port": True}, "port must be an int, not True"),
        ({"port": 65_536}, "port must be from 0 to 65535, not 65536"),
        ({"host": None}, "host must be a str, not None"),
        ({"data_directory": 5}, "data_directory must be a str, not 5"),
        ({"data_directory": ""}, "data_directory must be a path, not ''"),
        ({"data_directory": "a\0b"}, "data_directory must be a path, not 'a\\x00b'"),
        ({"name": ""}, "name must not be empty"),
        ({"name": "\udcff"}, "name must be Unicode text, not '\\udcff'"),
        # A broker without room for messages would let every producer wait for ever.
        ({"global_max_size_bytes": 0}, "global_max_size_bytes must be 1 or more, not 0"),
        ({"message_expiry_scan_period_ms": -2}, "message_expiry_scan_period_ms must be -1 or more, not -2"),
        (
            {"address_settings": {"a.#.b": AddressSettings()}},
            "address_settings: address-setting match 'a.#.b': '#' is allowed at the end only",
        ),
        ({"address_settings": {"a": 5}}, "address_settings must map match texts to AddressSettings, not 'a' to 5"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        BrokerConfig(**values)  # type: ignore[arg-type]  # wrong on purpose
    assert str(caught.value) == sentence


def test_memory_is_shared_out_by_its_limit_unless_a_share_is_said() -> None:
    mib = 1024 * 1024
    assert BrokerConfig().memory_shares(8192 * mib) == MemoryShares(
        messages=8192 * mib,
        margin=4096 * mib,
        partial_frames=1024 * mib,
        resend=1024 * mib,
        output=1024 * mib,
        duplicate_ids=1024 * mib,
    )
    assert BrokerConfig().memory_shares(mib) == MemoryShares(
        messages=mib,
        margin=128 * mib,
        partial_frames=100 * mib,
        resend=16 * mib,
        output=164 * mib,
        duplicate_ids=16 * mib,
    )
    said = BrokerConfig(
        global_max_size_margin_bytes=0,
        partial_frames_bytes_max=1,
        resend_bytes_max=2,
        output_total_bytes_max=3,
        id_cache_bytes_max=4,
    )
    assert said.memory_shares(mib) == MemoryShares(
        messages=mib, margin=0, partial_frames=1, resend=2, output=3, duplicate_ids=4
    )


def test_directories_may_be_path_like() -> None:
    config = BrokerConfig(
        data_directory=Path("data"), audit_directory=Path("audit"), node_manager_lock_directory=Path("l")
    )
    assert (config.data_directory, config.audit_directory, config.node_manager_lock_directory) == ("data", "audit", "l")
    assert evolve(config, data_directory=Path("other") / "data").data_directory == "other/data"


def test_editors_get_every_setting_with_its_type() -> None:
    offered = {name: text.__forward_arg__ for name, text in BrokerSettings.__annotations__.items()}
    assert list(offered) == [field.name for field in fields(BrokerConfig)]
    for field in fields(BrokerConfig):
        # What is converted takes more than the configuration holds: lists for tuples, URLs for connectors, paths.
        held = re.findall(r"[A-Z]\w+|None", str(field.type)) if field.converter else [str(field.type)]
        assert all(name in offered[field.name] for name in held), field.name


def test_settings_of_addresses_and_queues_suggest_the_name_that_was_meant() -> None:
    text = "AddressSettings has no value 'redelivery_delay'; did you mean 'redelivery_delay_ms'?"
    with pytest.raises(TypeError, match=re.escape(text)):
        AddressSettings(redelivery_delay=5)  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(TypeError, match="QueueAttributes has no value 'auto_delete_delay'; did you mean"):
        QueueAttributes(auto_delete_delay=5)  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(TypeError, match="max_size_bytes must be an int"):
        AddressSettings(max_size_bytes="5")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            {"address_settings": {"#": {"max_size": -1}}},
            "address_settings['#'].max_size: AddressSettings has no such value; did you mean 'max_size_bytes'?",
        ),
        ({"address_settings": {"#": {"max_size_bytes": -5}}}, "address_settings['#'].max_size_bytes must be from -1"),
        ({"addresses": {"a": {"anycast": {"q": {"max_consumers": -7}}}}}, "addresses['a'].anycast['q'].max_consumers"),
        ({"addresses": {"a": {}}}, "addresses['a']: an address serves anycast or multicast"),
        ({"users": [User("a", "x", ["r"]), {"name": "b", "rolls": "r"}]}, "users[1].rolls: User has no such value"),
        ({"cluster_connections": {"name": "c", "hops": 1}}, "cluster_connections[0].hops: ClusterConnection has no"),
        ({"bridges": [{"name": "b"}]}, "bridges[0]: BridgeConfig needs 'queue'"),
    ],
)
def test_an_inner_value_may_be_a_mapping_and_is_named_by_its_path(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        BrokerConfig(**wrong)
    config = BrokerConfig(address_settings={"#": {"max_delivery_attempts": 3}})
    assert config.address_settings == {"#": AddressSettings(max_delivery_attempts=3)}
