"""The drill on real Artemis brokers, for comparison: what it says of them is what it says of ours."""

from __future__ import annotations

import json

import pytest

from tests.embedbroker.cli.command_processes import finished
from tests.interop.registry import artemis_home

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def drilled(*options: str) -> dict[str, object]:
    done = finished(
        *("drill", "--json", "--rounds", "1", "--seconds", "3", "--size", "100", "--seed", "5"),
        *("--peer", "artemis", "--artemis-home", artemis_home()),
        *options,
    )
    assert done.returncode in (0, 1), done.stderr  # a bad verdict would be theirs
    figures = json.loads(done.stdout)
    assert isinstance(figures, dict)
    return figures


@pytest.mark.parametrize("ha", ["shared-store", "replication"])
def test_a_pair_of_artemis_brokers_fails_over_and_back(ha: str) -> None:
    figures = drilled("--ha", ha)
    assert isinstance(figures["roles"], list)
    backup = [standing for _, broker, standing in figures["roles"] if broker == "backup"]
    assert backup[:3] == ["starting", "backup", "live"]
    assert backup[-1] == "backup"
    downtime = figures["downtime_s"]
    assert isinstance(downtime, dict)
    assert list(downtime) == ["kill", "failback"]
