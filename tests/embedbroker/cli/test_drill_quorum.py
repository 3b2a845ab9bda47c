"""A user's replicating pair of which both may be live is refused, with what to do; one that cannot be is drilled."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedbroker import BrokerConfig, ClusterConnection, HAPolicy, LockManager, ReplicationBackup, ReplicationPrimary
from embedbroker.cli._commands import commands
from embedbroker.cli.drill._plan import Ha
from embedbroker.cli.drill._quorum import why_two_lives
from tests.embedbroker.cli.test_drill_pairs import SHORT, own_files

PAIR = {"primary": "tcp://host-a:61616", "backup": "tcp://host-b:61616"}
OTHERS = {"c": "tcp://host-c:61616", "d": "tcp://host-d:61616"}
FILES = LockManager("FileBasedLockManager", {"locks-folder": "/srv/locks"})


def config(policy: HAPolicy, connectors: dict[str, str] | None = None) -> BrokerConfig:
    own = "primary" if isinstance(policy, ReplicationPrimary) else "backup"
    known = PAIR if connectors is None else connectors
    cluster = ClusterConnection(connector=own, static_connectors=tuple(known))
    return BrokerConfig(ha_policy=policy, host="0.0.0.0", connectors={**PAIR, **known}, cluster_connections=cluster)


def reason(
    primary: ReplicationPrimary, backup: ReplicationBackup, connectors: dict[str, str] | None = None
) -> str | None:
    return why_two_lives(config(primary, connectors), config(backup, connectors))


@pytest.mark.parametrize(
    "same",
    [
        FILES,
        LockManager("org.example.FileBasedLockManager", {"locks-folder": "/srv/../srv/locks/"}),
        LockManager("FileBasedLockManager", {"locks-folder": "/srv/locks", "retries": "3"}),
    ],
)
def test_a_lock_manager_of_both_decides(same: LockManager) -> None:
    assert reason(ReplicationPrimary(lock_manager=FILES), ReplicationBackup(lock_manager=same)) is None


def test_an_ensemble_may_be_written_in_any_order() -> None:
    first, second = (
        LockManager("CuratorDistributedLockManager", {"connect-string": text, "namespace": "n"})
        for text in ("a:1,b:1,c:1", "c:1,a:1,b:1")
    )
    assert reason(ReplicationPrimary(lock_manager=first), ReplicationBackup(lock_manager=second)) is None


@pytest.mark.parametrize(
    ("primary", "backup", "said"),
    [
        (None, None, "no lock manager, and no votes"),
        (FILES, None, "only one of them has a lock manager"),
        (None, FILES, "only one of them has a lock manager"),
        (
            FILES,
            LockManager("FileBasedLockManager", {"locks-folder": "/other"}),
            "not the same one.*/srv/locks.*/other",
        ),
        (FILES, LockManager("CuratorDistributedLockManager", {"locks-folder": "/srv/locks"}), "not the same one"),
    ],
)
def test_without_a_common_lock_manager_both_may_be_live(
    primary: LockManager | None, backup: LockManager | None, said: str
) -> None:
    found = reason(ReplicationPrimary(lock_manager=primary), ReplicationBackup(lock_manager=backup))
    assert found is not None
    assert re.search(said, found)
    assert "give both the same lock manager" in found


@pytest.mark.parametrize(
    ("size", "connectors", "said"),
    [
        (3, PAIR, None),
        (-1, {**PAIR, **OTHERS}, None),
        (2, PAIR, "a quorum-size of 2"),
        (0, {**PAIR, **OTHERS}, "a quorum-size of 0"),
        (-1, {**PAIR, "c": OTHERS["c"]}, "name 1 others"),
        (-1, PAIR, "name 0 others"),
    ],
)
def test_votes_count_among_three_pairs(size: int, connectors: dict[str, str], said: str | None) -> None:
    primary = ReplicationPrimary(quorum_size=size, vote_on_replication_failure=True, check_for_active_server=True)
    backup = ReplicationBackup(quorum_size=size, vote_on_replication_failure=True)
    found = reason(primary, backup, connectors)
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")


def test_votes_of_one_side_are_no_votes() -> None:
    primary = ReplicationPrimary(quorum_size=3, vote_on_replication_failure=True, check_for_active_server=True)
    assert "no votes" in (reason(primary, ReplicationBackup(quorum_size=3)) or "")


def test_a_primary_that_does_not_look_may_be_a_second_live_broker() -> None:
    primary = ReplicationPrimary(quorum_size=3, vote_on_replication_failure=True)
    backup = ReplicationBackup(quorum_size=3, vote_on_replication_failure=True)
    assert "check-for-active-server" in (reason(primary, backup) or "")


def without_manager(path: Path) -> Path:
    text, count = re.subn(r"<manager>.*</manager>", "", path.read_text(encoding="utf-8"))
    assert count == 1
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.search
def test_own_files_without_a_lock_manager_are_drilled_on_demand_only(tmp_path: Path) -> None:
    primary, backup = map(without_manager, own_files(tmp_path, Ha.REPLICATION))
    primary.write_text(
        primary.read_text().replace("<primary>", "<primary><check-for-active-server>true</check-for-active-server>")
    )
    options = ["drill", "--ha", "replication", "--config", str(primary), "--backup-config", str(backup)]
    refused = CliRunner().invoke(commands, [*options, *SHORT, "--rounds", "1"])
    assert refused.exit_code == 2, refused.output
    assert refused.stderr.startswith(f"embedbroker: {primary}, {backup}: in a partition both may be live")
    assert "--two-lives" in refused.stderr
    assert refused.stderr.count("\n") == 1
    drilled = CliRunner().invoke(commands, [*options, *SHORT, "--rounds", "1", "--two-lives"])
    assert drilled.exit_code == 0, drilled.output
    assert json.loads(drilled.stdout)["passed"] is True


@pytest.mark.parametrize("options", [["--ha", "replication"], ["--ha", "shared-store"], []])
def test_two_lives_are_of_use_only_with_own_files_that_replicate(options: list[str]) -> None:
    result = CliRunner().invoke(commands, ["drill", *options, "--two-lives"])
    assert result.exit_code == 2
    assert "--two-lives is of use only with" in result.stderr
