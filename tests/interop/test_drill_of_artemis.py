"""The drill on real Artemis brokers, for comparison: its report on them is like its report on ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedbroker.cli._broker_process import free_ports
from embedbroker.cli.drill._pair_files import write_files
from embedbroker.cli.drill._plan import Ha
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


def test_two_artemis_brokers_are_one_cluster_of_which_one_is_killed_and_comes_back() -> None:
    figures = drilled("--cluster", "2")
    assert isinstance(figures["roles"], list) and isinstance(figures["rounds"], list)
    assert [turn["fault"] for turn in figures["rounds"]] == ["kill"]
    by_broker: dict[str, list[str]] = {}
    for _, broker, standing in figures["roles"]:
        by_broker.setdefault(broker, []).append(standing)
    # One of them was struck, and both serve at the end.
    assert sorted(each.count("live") for each in by_broker.values()) == [1, 2], by_broker


def test_artemis_brokers_take_the_users_files_with_their_properties_and_leave_nothing(tmp_path: Path) -> None:
    files = write_files(tmp_path, Ha.SHARED_STORE, free_ports(), relayed=False)
    for file in files:
        text = file.path.read_text()
        file.path.write_text(text.replace(str(tmp_path), "${where:/nowhere}"))
    names = ("--config", "--backup-config")
    options = [word for name, file in zip(names, files, strict=True) for word in (name, str(file.path))]
    # Without a fault: the tests above cover whether they survive one.
    figures = drilled("--ha", "shared-store", "--rounds", "0", *options, "-D", f"where={tmp_path}")
    assert figures["passed"] is True
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == [
        *("bindings", "journal", "large-messages", "paging")
    ]
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_directories_that_depend_on_the_instance_are_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path, Ha.SHARED_STORE, free_ports(), relayed=False)
    backup = files[1].path
    backup.write_text(backup.read_text().replace(f"{tmp_path}/store/bindings", "data/bindings"))
    done = finished(
        *("drill", "--ha", "shared-store", "--peer", "artemis", "--artemis-home", artemis_home()),
        *("--config", files[0].path, "--backup-config", backup),
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"embedbroker: {backup}: its bindings-directory has to be an absolute path")
