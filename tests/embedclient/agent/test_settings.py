"""What the settings of a locator may be, and how a wrong one is refused."""

import re
from typing import Any

import pytest

from embedclient.agent import LocatorSettings


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("call_timeout_ms", "x", "call_timeout_ms must be an int, not 'x'"),
        ("call_timeout_ms", None, "call_timeout_ms must be an int, not None"),
        ("reconnect_attempts", 1.5, "reconnect_attempts must be an int, not 1.5"),
        ("reconnect_attempts", True, "reconnect_attempts must be an int, not True"),
        ("retry_interval_multiplier", "2", "retry_interval_multiplier must be a number, not '2'"),
        ("ha", "false", "ha must be a bool, not 'false'"),
        ("pre_acknowledge", 1, "pre_acknowledge must be a bool, not 1"),
        ("group_id", 7, "group_id must be a str, not 7"),
    ],
)
def test_a_setting_of_another_type_is_refused_with_its_name(name: str, value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        LocatorSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("call_timeout_ms", 0, "call_timeout_ms must be from 1 to 9223372036854775807, not 0"),
        ("consumer_window_size", -2, "consumer_window_size must be from -1 to 2147483647, not -2"),
        ("compression_level", 10, "compression_level must be from -1 to 9, not 10"),
        ("client_version", 125, "client_version must be from 126 to 136, not 125"),
        ("retry_interval_multiplier", -1.0, "retry_interval_multiplier must be 0 or more, not -1.0"),
        ("retry_interval_multiplier", float("nan"), "retry_interval_multiplier must be 0 or more, not nan"),
        ("retry_interval_multiplier", float("inf"), "retry_interval_multiplier must be 0 or more, not inf"),
    ],
)
def test_a_number_outside_of_its_limits_is_refused_with_them(name: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        LocatorSettings(**{name: value})
