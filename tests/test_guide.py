"""The guide is true: its examples print what its pages show, and its tables agree with the code.

Examples are the files of examples/guide; each page takes them in by name, with what they print from `output`, where
`...` stands for anything.
"""

from __future__ import annotations

import asyncio
import doctest
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide"
EXAMPLES = ROOT / "examples" / "guide"
OUTPUT = EXAMPLES / "output"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
SCRIPTS = sorted(EXAMPLES.glob("*.sh"))
TEST_MODULES = sorted(EXAMPLES.glob("test_*.py"))
PAGES = sorted(GUIDE.glob("*.md"))
# The import of this library replaces the event loops of asyncio in the whole process, for good.
REPLACES_EVENT_LOOPS = re.compile(r"^import trio_asyncio$", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.stem


def assert_printed(example: Path, printed: str) -> None:
    expected = (OUTPUT / f"{example.stem}.txt").read_text()
    same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)
    assert same, f"{example.name} printed\n{printed}\nand its page says\n{expected}"


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_a_program_prints_what_its_page_shows(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if REPLACES_EVENT_LOOPS.search(program.read_text()):
        assert_printed(program, run([sys.executable, str(program)], tmp_path))
        return
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    assert_printed(program, capsys.readouterr().out)
    assert asyncio.new_event_loop.__module__ == "asyncio.events", "it changes asyncio for the tests that follow"


def test_the_program_of_the_readme_prints_its_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, _test = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "readme.py"
    file.write_text(program)
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out == "hello\n"


def run(command: list[str], directory: Path) -> str:
    """What a command prints; it must end well."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "TMPDIR": str(directory)}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_script_prints_what_its_page_shows(script: Path, tmp_path: Path) -> None:
    assert_printed(script, run(["bash", str(script)], tmp_path))


@pytest.mark.parametrize("module", TEST_MODULES, ids=name_of)
def test_a_test_module_passes_for_a_user(module: Path, tmp_path: Path) -> None:
    # What a page shows needs no plugin of others.
    options = ["-q", "-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-p", "no:asyncio"]
    assert_printed(module, run([sys.executable, "-m", "pytest", *options, str(module)], tmp_path))


def test_every_example_stands_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    shown = set(re.findall(r"examples/guide/([\w.]+)", text))
    assert {path.name for path in (*PROGRAMS, *SCRIPTS, *TEST_MODULES)} - shown == set()


def test_every_page_has_an_example() -> None:
    without = {page.stem for page in PAGES if "literalinclude} ../../examples/" not in page.read_text()}
    assert without == {"index", "drill"}  # a drill takes too long: tests/embedbroker/cli runs them


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_says_what_it_is_for_before_anything_else(page: Path) -> None:
    title, gap, beginning = page.read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert gap == ""
    assert re.match(r"[A-Z`]", beginning), f"{page.name} begins with {beginning!r}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_on_a_page_comes_from_a_file_that_runs(page: Path) -> None:
    assert re.findall(r"^```python", page.read_text(), re.MULTILINE) == []
