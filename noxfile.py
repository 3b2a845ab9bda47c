"""Everything a contributor runs: `nox` for lint, types and tests; the other sessions by name (`nox -l`).

With `--no-venv` the sessions run in the environment of nox itself, as .ci/run does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13"]  # those of the classifiers; .ci/run tests the oldest and the newest
FRAGMENT = re.compile(r"[a-z0-9-]+\.(feature|change|bugfix|removal|performance)\.md")

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True
# A missing interpreter is reported as skipped; .ci/run prints the versions that it tested.
nox.options.error_on_missing_interpreters = False


def _offer_pyenv_versions() -> None:
    """Put pyenv's interpreters on the path where only its shims are, which fail for versions not activated."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sorted(versions.glob(f"{python}.*/bin")) for python in PYTHONS]
    newest = [str(paths[-1]) for paths in found if paths]
    # The environment that runs nox comes first: with --no-venv its `python` is the one that the sessions mean.
    own = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([own, *newest, os.environ["PATH"]])


_offer_pyenv_versions()


def _install(session: nox.Session, *requirements: str) -> None:
    if session.virtualenv.is_sandboxed:
        session.install(*requirements)


@nox.session
def lint(session: nox.Session) -> None:
    """Check with ruff's rules and formatting, and check the newsfragments."""
    _install(session, "ruff>=0.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    _check_newsfragments(session)
    _report_longest_files(session)


def _report_longest_files(session: nox.Session) -> None:
    """List the ten longest source files: for a reader to look at, not a limit."""
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / "src").rglob("*.py")}
    longest = sorted(lengths, key=lambda path: lengths[path], reverse=True)[:10]
    session.log("longest files: " + ", ".join(f"{path.relative_to(ROOT / 'src')} {lengths[path]}" for path in longest))


def _check_newsfragments(session: nox.Session) -> None:
    """Check that each fragment has a kind and a text, and that source changed since the last release has a fragment."""
    fragments = [path for path in (ROOT / "newsfragments").iterdir() if path.name not in ("README.md", ".gitignore")]
    for path in fragments:
        if not FRAGMENT.fullmatch(path.name) or not path.read_text().strip():
            session.error(f"{path.relative_to(ROOT)}: see newsfragments/README.md for names and texts")
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        session.log("no git repository here: whether a fragment is missing was not checked")
        return
    git = ("git", "-C", str(ROOT))
    release = subprocess.check_output([*git, "log", "-1", "--format=%H", "--", "CHANGELOG.md"], text=True).strip()
    if release:
        changed = subprocess.check_output([*git, "diff", "--name-only", release, "HEAD", "--", "src"], text=True)
        if changed and not fragments:
            session.error("src changed since the last entry of CHANGELOG.md, and newsfragments/ is empty")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy, strict, on source and tests."""
    _install(session, "-e", ".[dev]")
    session.run("mypy")


@nox.session
def pyright(session: nox.Session) -> None:
    """Check the examples with pyright, which editors use; it brings its Node.js."""
    _install(session, "-e", ".[dev]", "pyright[nodejs]>=1.1.400")
    session.run("pyright")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the test suite without interop and without searches; arguments go to pytest."""
    _install(session, "-e", ".[dev]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def search(session: nox.Session) -> None:
    """Run what `tests` leaves out: thousands of cases, seeds of the simulation, drills, scenarios over TCP."""
    _install(session, "-e", ".[dev]")
    chosen = session.posargs or ["-n", "auto", "--dist", "worksteal"]
    session.run("python", "-m", "pytest", "-m", "search", *chosen)


@nox.session
def simulate(session: nox.Session) -> None:
    """Run simulated crashes: the fixed seeds of one broker and of groups in all modes, on every Python found.

    For a campaign: `-- [--groups | --mode MODE | --bridges | --cluster [--pairs]] --seeds N [--first-seed N]`.
    """
    _install(session, "-e", ".[dev]")
    others = [argument for path in _other_interpreters(session) for argument in ("--interpreter", path)]
    command = ("python", "-m", "tests.simulation", "--jobs", str(os.cpu_count() or 1), *others)
    session.run(*command, *session.posargs)
    if not session.posargs:
        session.run(*command, "--groups")
        session.run(*command, "--mode", "votes")
        session.run(*command, "--administrator", "--seeds", "80", "--hash-check", "4")
        session.run(*command, "--bridges", "--seeds", "20", "--hash-check", "3")
        session.run(*command, "--cluster", "--seeds", "6", "--hash-check", "1")
        session.run(*command, "--cluster", "--pairs", "--seeds", "2", "--hash-check", "1")


def _other_interpreters(session: nox.Session) -> list[str]:
    """Return Pythons of other versions than the session's, and log which are missing."""
    question = ("-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    own = str(session.run("python", *question, silent=True) or "").strip()
    found: list[str] = []
    for python in PYTHONS:
        path = shutil.which(f"python{python}")
        if python == own:
            continue
        # What is on the path may be a shim for a version that is not there.
        answer = path and subprocess.run([path, *question], capture_output=True, text=True).stdout.strip()
        if path is not None and answer == python:
            found.append(path)
        else:
            session.log(f"Python {python} is not installed: the traces of seeds are not compared with its")
    return found


@nox.session
def fuzz(session: nox.Session) -> None:
    """Decode mutated frames: ten million per family of decoders, or `-- --mutations N`."""
    _install(session, "-e", ".[dev]")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Run programs by others, from Maven Central: needs Java 17 and Maven. `-- --against artemis` proves the tests."""
    _install(session, "-e", ".[dev]")
    session.run("python", "-m", "pytest", "tests/interop", "-n", "auto", *session.posargs)


CLUSTER = {"EMBEDBROKER_SPARK_MASTER": "local-cluster[2,1,1024]"}


@nox.session
def spark(session: nox.Session) -> None:
    """Test the Spark source, sink and jobs, on a Spark of two cores with the Java that the extra brings.

    Half of the files have a Spark of their own. Then a cluster of two executors, which die. With arguments, which go to
    pytest, only one Spark.
    """
    _install(session, "-e", ".[dev,spark]")
    chosen = session.posargs or ["-m", "not long and not search", "--durations=20", "-n", "2", "--dist", "loadfile"]
    session.run("python", "-m", "pytest", "tests/pipeline", *chosen)
    if not session.posargs:
        deaths = "tests/pipeline/test_stream_faults.py::test_tasks_that_die_and_fail_lose_and_double_nothing"
        session.run("python", "-m", "pytest", deaths, env=CLUSTER)


@nox.session
def spark_long(session: nox.Session) -> None:
    """Test what `spark` leaves out: drivers that are killed at every point, and audits of many journals.

    Also all streams on a cluster of two executors.
    """
    _install(session, "-e", ".[dev,spark]")
    session.run("python", "-m", "pytest", "tests/pipeline", "-m", "long or search", "--durations=20", *session.posargs)
    streams = [f"tests/pipeline/test_{name}.py" for name in ("source_stream", "sink_spark", "stream_faults")]
    session.run("python", "-m", "pytest", *streams, "-m", "not long", *session.posargs, env=CLUSTER)


@nox.session
@nox.parametrize("pyspark", ["4.2.*", "4.3.*"])
def spark_facts(session: nox.Session, pyspark: str) -> None:
    """Trace what the pipeline relies on in each supported Spark, and test its source and sink in short."""
    if not session.virtualenv.is_sandboxed:
        session.error("each version of Spark needs an environment of its own: leave --no-venv out")
    session.install("-e", ".[dev,spark]", f"pyspark[sql]=={pyspark}")
    session.run("python", "-c", "import pyspark; print('Spark', pyspark.__version__)")
    session.run("python", "-m", "pytest", "tests/pipeline", "-m", "facts", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure our broker and client beside Artemis, in one run; `-- --list` names the cases."""
    _install(session, "-e", ".[dev,bench,spark]")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    _install(session, "-e", ".[docs]")
    output = ROOT / "docs" / "_build" / "html"
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", str(output))
    session.log(f"{output / 'index.html'}")


@nox.session
def changelog(session: nox.Session) -> None:
    """Move the newsfragments into CHANGELOG.md: `-- VERSION`."""
    if len(session.posargs) != 1:
        session.error("give the version: nox -s changelog -- 1.2.0")
    fragments = sorted(path for path in (ROOT / "newsfragments").glob("*.md") if FRAGMENT.fullmatch(path.name))
    kinds = {"feature": "Added", "change": "Changed", "bugfix": "Fixed", "removal": "Removed", "performance": "Faster"}
    lines = [f"## {session.posargs[0]}", ""]
    for kind, title in kinds.items():
        texts = [path.read_text().strip() for path in fragments if path.name.split(".")[1] == kind]
        if texts:
            lines += [f"### {title}", "", *(f"- {' '.join(text.split())}" for text in texts), ""]
    path = ROOT / "CHANGELOG.md"
    head, _, rest = path.read_text().partition("\n## ")
    path.write_text("\n".join([head.rstrip(), "", *lines]) + (f"\n## {rest}" if rest else ""))
    for fragment in fragments:
        fragment.unlink()
    session.log(f"moved {len(fragments)} fragments into {path.name}")
