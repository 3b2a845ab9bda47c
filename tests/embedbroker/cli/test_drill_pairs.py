"""The drill of a pair: each fault is survived, the user's own files do, wrong ones are refused, and nothing stays."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from embedbroker.cli._broker_process import free_ports
from embedbroker.cli._commands import commands
from embedbroker.cli.drill._pair_files import write_files
from embedbroker.cli.drill._plan import Ha
from tests.embedbroker.cli.command_processes import started

SHORT = ["--seconds", "2", "--size", "100", "--seed", "3", "--fault-seconds", "0.5", "--json"]


def drilled(*options: str | Path, ha: str = "shared-store") -> dict[str, Any]:
    result = CliRunner().invoke(commands, ["drill", "--ha", ha, *SHORT, *map(str, options)])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert isinstance(figures, dict)
    return figures


@pytest.mark.search
def test_a_pair_fails_over_and_back_and_survives_a_freeze(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    figures = drilled("--rounds", "2", "--fault", "kill", "--fault", "freeze", "--report", report)
    assert figures["confirmed"] > 100
    assert [[outage["after"] for outage in turn["outages"]] for turn in figures["rounds"]] == [
        ["kill", "failback"],
        ["freeze"],
    ]
    for turn in figures["rounds"]:
        assert turn["outages"][0]["sends_waiting_outside_transactions"] > 0
        assert turn["outages"][0]["transactions_before_their_commit"] > 0
    standings = [(broker, standing) for _, broker, standing in figures["roles"]]
    backup = [standing for broker, standing in standings if broker == "backup"]
    assert backup == ["starting", "backup", "live", "backup"]
    primary = [standing for broker, standing in standings if broker == "primary"]
    assert primary == ["starting", "live", "down", "starting", "live", "frozen", "live"]
    page = report.read_text()
    assert 'class="frozen"' in page
    assert page.count('class="outage"') == 3


@pytest.mark.search
def test_a_pair_survives_a_stop_a_full_disk_and_a_partition() -> None:
    figures = drilled("--rounds", "3", "--fault", "stop", "--fault", "disk-full", "--fault", "partition")
    assert [turn["fault"] for turn in figures["rounds"]] == ["stop", "disk-full", "partition"]
    assert figures["rounds"][2]["outages"][0]["first_confirmed_s"] >= 0.5


@pytest.mark.search
def test_a_pair_goes_on_while_the_disk_is_slow() -> None:
    figures = drilled("--rounds", "1", "--fault", "slow-disk")
    (outage,) = figures["rounds"][0]["outages"]
    assert outage["producers_s"][-1] >= 0.1
    assert [standing for _, broker, standing in figures["roles"] if broker == "primary"] == ["starting", "live"]


@pytest.mark.search
def test_a_replicating_pair_fails_over_and_back_in_sync_and_survives_a_freeze() -> None:
    figures = drilled("--rounds", "3", "--fault", "kill", "--fault", "freeze", "--fault", "stop", ha="replication")
    assert figures["confirmed"] > 100
    assert [[outage["after"] for outage in turn["outages"]] for turn in figures["rounds"]] == [
        ["kill", "failback"],
        ["freeze"],
        ["stop", "failback"],
    ]
    standings = [(broker, standing) for _, broker, standing in figures["roles"]]
    # Each loss meets a backup that is a whole copy, and each primary that returns is one before it is live.
    assert [standing for broker, standing in standings if broker == "backup" and standing != "starting"] == [
        "backup",
        *("live", "backup") * 2,
    ]
    primary = [standing for broker, standing in standings if broker == "primary" and standing != "starting"]
    returns = ["down", "backup", "live"]
    assert primary == ["live", *returns, "frozen", "live", *returns]


@pytest.mark.search
def test_a_replicating_pair_survives_a_full_disk_and_a_partition_and_goes_on_while_the_disk_is_slow() -> None:
    faults = ("partition", "slow-disk", "disk-full")
    options = [option for fault in faults for option in ("--fault", fault)]
    figures = drilled("--rounds", "3", *options, ha="replication")
    assert [[outage["after"] for outage in turn["outages"]] for turn in figures["rounds"]] == [
        ["partition"],  # shorter than what a lost backup is waited for: the same broker goes on
        ["slow-disk"],
        ["disk-full", "failback"],
    ]
    assert figures["rounds"][0]["outages"][0]["first_confirmed_s"] >= 0.5
    assert figures["rounds"][1]["outages"][0]["producers_s"][-1] >= 0.1
    primary = [standing for _, broker, standing in figures["roles"] if broker == "primary" and standing != "starting"]
    assert primary == ["live", "down", "backup", "live"]


def own_files(directory: Path, ha: Ha = Ha.SHARED_STORE) -> tuple[Path, Path]:
    primary, backup = write_files(directory, ha, free_ports(), relayed=False)
    return primary.path, backup.path


@pytest.mark.search
def test_a_drill_of_the_users_own_files_takes_its_messages_with_it(tmp_path: Path) -> None:
    primary, backup = own_files(tmp_path)
    for path in (primary, backup):
        path.write_text(path.read_text().replace(str(tmp_path), "${where}"))
    files: list[str | Path] = ["--config", primary, "--backup-config", backup, "-D", f"where={tmp_path}"]
    figures = drilled("--rounds", "1", *files)
    assert [outage["after"] for outage in figures["rounds"][0]["outages"]] == ["kill", "failback"]
    assert list((tmp_path / "store" / "journal").iterdir()) == []


def refusal(*options: str | Path) -> str:
    result = CliRunner().invoke(commands, ["drill", "--seconds", "600", *map(str, options)])
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--ha shared-store --config p.xml", "--backup-config is missing"),
        ("--backup-config b.xml", "--backup-config: there is no backup with --ha none"),
        ("--config nowhere.xml", "cannot read nowhere.xml: No such file"),
        ("--peer artemis", "--peer artemis needs --artemis-home"),
        ("--peer artemis --artemis-home nowhere", "there is no program nowhere/bin/artemis"),
        ("--config p.xml --ha shared-store --backup-config b.xml --peer artemis", "needs --artemis-home"),
        ("--artemis-home nowhere", "only with --peer artemis"),
        ("-D where=here", "-D is of use only with --config"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: str, said: str) -> None:
    assert said in refusal(*options.split())


@pytest.mark.parametrize(
    ("changes", "of_backup", "fault", "said"),
    [
        ({"<name>": "<naem>", "</name>": "</naem>"}, True, "kill", r"backup.xml: .*naem.*did you mean.*name"),
        ({"<backup>": "<primary>", "</backup>": "</primary>"}, True, "kill", r"needs a SharedStoreBackup there"),
        ({"/store/journal": "/other/journal"}, True, "kill", r"data directory is \S+/other/journal"),
        ({">true</failover-on-shutdown": ">false</failover-on-shutdown"}, False, "stop", "failover-on-shutdown true"),
        ({"<backup>": "<backup><allow-failback>false</allow-failback>"}, True, "kill", "allow-failback is false"),
        ({"<persistence-enabled>true": "<persistence-enabled>false"}, False, "kill", "persistence-enabled is false"),
        ({"</acceptor>": ";autoStart=false</acceptor>"}, True, "kill", "its first acceptor has autoStart=false"),
        (
            {"</acceptor>": "</acceptor><acceptor name='b'>tcp://127.0.0.1:7</acceptor>"},
            False,
            "partition",
            "--fault partition needs a broker with one acceptor",
        ),
        ({"<redelivery-delay>": "<expiry-delay>0</expiry-delay><redelivery-delay>"}, True, "kill", "messages expire"),
        (
            {"<redelivery-delay>": "<auto-create-queues>false</auto-create-queues><redelivery-delay>"},
            False,
            "kill",
            "there is no anycast queue 'drill'",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, changes: dict[str, str], of_backup: bool, fault: str, said: str
) -> None:
    primary, backup = own_files(tmp_path)
    changed = backup if of_backup else primary
    text = changed.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    changed.write_text(text)
    line = refusal("--ha", "shared-store", "--config", primary, "--backup-config", backup, "--fault", fault)
    assert str(changed) in line
    assert re.search(said, line), line


@pytest.mark.search
def test_files_with_a_directory_of_locks_can_be_drilled_again_and_again(tmp_path: Path) -> None:
    primary, backup = own_files(tmp_path)
    locks = tmp_path / "locks"
    for path in (primary, backup):
        text = path.read_text()
        place = f"<node-manager-lock-directory>{locks}</node-manager-lock-directory>"
        path.write_text(text.replace("<journal-directory>", f"{place}<journal-directory>"))
    files: list[str | Path] = ["--config", primary, "--backup-config", backup]
    for _ in range(2):
        drilled("--rounds", "0", *files)
        assert list(locks.iterdir()) == []


@pytest.mark.search
def test_a_folder_of_lock_managers_keeps_what_others_have_there(tmp_path: Path) -> None:
    primary, backup = own_files(tmp_path, Ha.REPLICATION)
    kept = tmp_path / "locks" / "of-another-pair"
    kept.touch()
    drilled("--rounds", "0", "--config", primary, "--backup-config", backup, ha="replication")
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.search
def test_messages_that_were_delivered_too_often_are_looked_for_where_the_users_file_puts_them(tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, Ha.NONE, free_ports(), relayed=False)
    text = file.path.read_text()
    for old, new in {">DLQ<": ">dead.ones<", '"DLQ"': '"dead.ones"', ">-1</max-delivery": ">1</max-delivery"}.items():
        assert old in text
        text = text.replace(old, new)
    file.path.write_text(text)
    # A connection that is reset gives back what was delivered, and once is too often here.
    figures = drilled("--rounds", "2", "--fault", "partition", "--config", file.path, ha="none")
    assert figures["dead_lettered"] > 0


@pytest.mark.search
def test_brokers_that_do_not_start_leave_nothing_in_the_way_of_the_next_drill(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], next(free_ports())])
        files = write_files(tmp_path, Ha.SHARED_STORE, ports, relayed=False)
        primary, backup = (str(file.path) for file in files)
        options = ["drill", "--ha", "shared-store", "--config", primary, "--backup-config", backup]
        result = CliRunner().invoke(commands, options)
    assert result.exit_code == 3, result.output
    assert "Address already in use" in result.stderr
    kept = re.search(r"what the brokers wrote is in (\S+)\n", result.stderr)
    assert kept is not None
    shutil.rmtree(kept[1])
    assert list((tmp_path / "store" / "journal").iterdir()) == []


def test_a_journal_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    primary, backup = own_files(tmp_path)
    kept = tmp_path / "store" / "journal" / "orders"
    kept.parent.mkdir(parents=True)
    kept.touch()
    line = refusal("--ha", "shared-store", "--config", primary, "--backup-config", backup)
    assert f"{kept.parent} is not empty, it has 'orders'" in line
    assert kept.exists()


@contextmanager
def followed(pids: list[int]) -> Iterator[list[int]]:
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.mark.search
@pytest.mark.parametrize("ha", ["shared-store", "replication"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_drill_that_is_stopped_leaves_neither_broker_behind(number: signal.Signals, ha: str) -> None:
    """One of them is stopped by a signal, and obeys no other than the last."""
    with started("drill", "--ha", ha, "--seconds", "60", "--rounds", "1") as process:
        found = re.search(r", in (\S+)", process.error_line())
        assert found is not None
        lists = Path(f"/proc/{process.process.pid}/task").glob("*/children")
        pids = [int(pid) for each in lists for pid in each.read_text().split()]
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGSTOP)
        with followed(pids) as brokers:
            process.send(number)
            for broker in brokers:
                select.select([broker], [], [])  # it has ended
        assert process.exit_code() == (128 + number if number is signal.SIGINT else -number)
        assert "Traceback" not in process.rest_of_errors()
    assert Path(found[1]).exists() == (number is signal.SIGKILL)
    shutil.rmtree(found[1], ignore_errors=True)
