"""The README keeps its promises: a program that runs, a test that runs, two commands, and CI calls the second."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    return found


def test_the_snippet_runs_as_it_stands() -> None:
    snippet, _test = blocks("python")
    run = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "hello\n", "")


def test_the_failover_test_is_the_one_that_a_strangers_project_runs() -> None:
    _snippet, test = blocks("python")
    assert (ROOT / "examples" / "test_my_failover.py").read_text().endswith(f"\n\n{test}")


def test_it_stands_on_the_first_screen() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert "def test_orders_survive_a_failover(broker_pair: BrokerPair)" in first_screen


def test_it_reads_on_an_index_of_packages() -> None:
    """There are no files beside it, so that a relative link would lead nowhere."""
    text = (ROOT / "README.md").read_text()
    assert [target for target in re.findall(r"\]\(([^)]*)\)", text) if "://" not in target] == []
    for name in re.findall(r"`((?:docs|examples)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def test_two_commands_make_their_own_environment() -> None:
    drill, tests = (block.strip() for block in blocks("bash"))
    assert [command.count("\n") for command in (drill, tests)] == [0, 0]
    assert drill.startswith("python3 -m venv ") and drill.endswith("embedbroker drill")
    assert tests.startswith("python3 -m venv ") and tests.endswith("-m pytest -n auto --dist worksteal")
    assert "grep -m 1 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text()
