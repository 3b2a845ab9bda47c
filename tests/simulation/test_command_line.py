"""What ``python -m tests.simulation`` prints for a seed that fails, and for one that is not the same everywhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import __main__ as command_line

from .fault_points import replace

FIRST_SEED = 10_001


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that never lets a message expire; and this process keeps the habits of its garbage collector."""
    replace(monkeypatch, "expire", lambda self, queue, reference: False)
    monkeypatch.setattr(command_line, "collect_seldom", lambda: None)


def first_failure(text: str) -> tuple[int, str, list[str], list[str]]:
    """The seed, what was wrong, the trace, and the arguments of its replay."""
    shown = r"^seed (\d+) FAILED: ([^\n]+)\n(.*?)^replay: python -m tests\.simulation ([^\n]+)$"
    found = re.search(shown, text, re.MULTILINE | re.DOTALL)
    assert found is not None, text
    return int(found[1]), found[2], found[3].splitlines(), shlex.split(found[4])


@pytest.mark.search
@pytest.mark.usefixtures("bug")
@pytest.mark.parametrize("mode", [(), ("--mode", "shared-store")], ids=["one broker", "a group"])
def test_a_failing_seed_is_shown_with_a_replay_that_fails_alike(
    mode: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*mode, "--first-seed", str(FIRST_SEED), "--seeds", "10", "--hash-check", "0", "--max-failures", "1"]
    assert command_line.main([*arguments, "--trace", "12"]) == 1
    shown = capsys.readouterr()
    seed, text, trace, replay = first_failure(shown.err)
    assert FIRST_SEED <= seed < FIRST_SEED + 10
    assert len(trace) == 12
    assert f'"failed_seeds": [\n    {seed}\n  ]' in shown.out and '"passed": false' in shown.out

    assert command_line.main(replay) == 1
    again = first_failure(capsys.readouterr().err)
    assert again[:2] == (seed, text)
    assert again[2][-12:] == trace and len(again[2]) > 12


@pytest.mark.search
@pytest.mark.usefixtures("bug")
def test_a_failure_names_the_commit_where_there_is_a_repository(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    place = package / "__main__.py"
    place.write_text("")
    monkeypatch.setattr(command_line, "__file__", str(place))
    assert command_line.commit_lines() == []

    def git(*arguments: str) -> str:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "of somebody else")
    assert command_line.commit_lines() == []
    git("add", "package")
    git("commit", "--quiet", "--message", "ours")
    commit = git("rev-parse", "HEAD")
    arguments = ["--first-seed", str(FIRST_SEED), "--seeds", "10", "--hash-check", "0", "--max-failures", "1"]
    assert command_line.main(arguments) == 1
    assert f"\ncommit: {commit}\n" in capsys.readouterr().err
    place.write_text("# changed")
    assert command_line.commit_lines() == [f"commit: {commit}-dirty"]
    monkeypatch.setenv("PATH", str(package))
    assert command_line.commit_lines() == []


@pytest.mark.search
def test_a_seed_that_differs_elsewhere_fails_the_run(tmp_path: Path) -> None:
    """One comes out otherwise, of the next there is nothing."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {FIRST_SEED} another\nexit 1\n")
    python.chmod(0o755)
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "2", "--first-seed", str(FIRST_SEED)]
    options = ["--hash-check", "2", "--interpreter", str(python)]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 1
    for seed, other in ((FIRST_SEED, "another"), (FIRST_SEED + 1, "none")):
        (line,) = [
            line for line in done.stderr.splitlines() if line.startswith(f"seed {seed} gives different traces: ")
        ]
        assert f"'{other}'" in line and line.count("'") == 4
    assert f"digests of 2 seeds compared under two other hash seeds and by {python}: DIFFERENT\n" in done.stderr
    assert '"digests_equal_under_other_hash_seeds": false' in done.stdout
    assert '"failed_seeds": []' in done.stdout
