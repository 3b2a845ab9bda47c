"""Each name that Artemis' session factories have in URLs: its default there, and the one setting that it changes."""

from __future__ import annotations

import pytest

from embedclient._client import parse_url
from embedclient._client._url_parameters import LOCATOR_PARAMETERS
from embedclient.agent import LocatorSettings

# Name, setting, the default of Artemis 2.44, and a value that no other name has.
TABLE: list[tuple[str, str, object, object]] = [
    ("callTimeout", "call_timeout_ms", 30_000, 1_001),
    ("callFailoverTimeout", "call_failover_timeout_ms", 30_000, 1_002),
    ("clientFailureCheckPeriod", "client_failure_check_period_ms", 30_000, 1_003),
    ("connectionTTL", "connection_ttl_ms", 60_000, 1_004),
    ("connect-timeout-millis", "connect_timeout_ms", -1, 1_005),
    ("initialConnectAttempts", "initial_connect_attempts", 1, 1_006),
    ("reconnectAttempts", "reconnect_attempts", 0, 1_007),
    ("failoverAttempts", "failover_attempts", 0, 1_008),
    ("retryInterval", "retry_interval_ms", 2_000, 1_009),
    ("retryIntervalMultiplier", "retry_interval_multiplier", 1.0, 1.25),
    ("maxRetryInterval", "max_retry_interval_ms", 2_000, 1_011),
    ("ha", "ha", False, True),
    ("useTopologyForLoadBalancing", "use_topology_for_load_balancing", True, False),
    ("consumerWindowSize", "consumer_window_size", 1_048_576, 1_014),
    ("consumerMaxRate", "consumer_max_rate", -1, 1_015),
    ("producerWindowSize", "producer_window_size", 65_536, 1_016),
    ("producerMaxRate", "producer_max_rate", -1, 1_017),
    ("confirmationWindowSize", "confirmation_window_size", -1, 1_018),
    ("minLargeMessageSize", "min_large_message_size", 102_400, 1_019),
    ("maxLargeMessageBodySize", "max_large_message_body_size", 64 << 20, 1_034),
    ("compressLargeMessage", "compress_large_message", False, True),
    ("compressionLevel", "compression_level", -1, 7),
    ("cacheLargeMessagesClient", "cache_large_messages_client", False, True),
    ("blockOnAcknowledge", "block_on_acknowledge", False, True),
    ("blockOnDurableSend", "block_on_durable_send", True, False),
    ("blockOnNonDurableSend", "block_on_non_durable_send", False, True),
    ("preAcknowledge", "pre_acknowledge", False, True),
    ("ackBatchSize", "ack_batch_size", 1_048_576, 1_027),
    ("autoGroup", "auto_group", False, True),
    ("groupID", "group_id", None, "one group"),
    ("initialMessagePacketSize", "initial_message_packet_size", 1_500, 1_030),
    ("onMessageCloseTimeout", "on_message_close_timeout_ms", 10_000, 1_031),
    ("dupsOKBatchSize", "dups_ok_batch_size", 1_048_576, 1_032),
    ("transactionBatchSize", "transaction_batch_size", 1_048_576, 1_033),
]


@pytest.mark.parametrize(("name", "setting", "default", "odd"), TABLE, ids=[row[0] for row in TABLE])
def test_a_name_changes_its_setting_and_no_other(name: str, setting: str, default: object, odd: object) -> None:
    plain = parse_url("tcp://h").settings
    assert getattr(plain, setting) == default and type(getattr(plain, setting)) is type(default)
    text = str(odd).lower() if isinstance(odd, bool) else str(odd).replace(" ", "%20")
    changed = parse_url(f"tcp://h?{name}={text}").settings
    assert changed == LocatorSettings(**{setting: odd})  # type: ignore[arg-type]  # of the setting's type
    assert changed != plain


def test_no_name_is_left_out() -> None:
    assert sorted(row[0] for row in TABLE) == sorted(LOCATOR_PARAMETERS)
