"""The README keeps its promises: one snippet that runs, two commands for a bare machine, and CI calls the second."""

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
    (snippet,) = blocks("python")
    run = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "hello\n", "")


def test_two_commands_make_their_own_environment() -> None:
    drill, tests = (block.strip() for block in blocks("bash"))
    assert [command.count("\n") for command in (drill, tests)] == [0, 0]
    assert drill.startswith("python3 -m venv ") and drill.endswith("embedbroker drill")
    assert tests.startswith("python3 -m venv ") and tests.endswith("-m pytest")
    assert "grep -m 1 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text()
