"""`embedbroker pipeline ...`: Ctrl-C while Spark's Java starts, as a terminal sends it, to the whole group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from embedbroker.pipeline import java_home
from tests.pipeline.conftest import ROOT, spark_environment
from tests.pipeline.journals import running, send

# Spark starts Java twice: for the command line of the second one, and for that one, which stays.
JAVA = """#!/bin/sh
case "$*" in *launcher.Main*) ;; *)
  echo Java >"{here}/starting"
  read word <"{here}/go" ;;
esac
exec "{java}" "$@"
"""
LIMIT_S = 120


@pytest.fixture
def slow_java(tmp_path: Path) -> Path:
    """A Java that reports its start, and waits for a signal: two FIFOs, `starting` and `go`."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    for name in ("starting", "go"):
        os.mkfifo(home / name)
    script = home / "bin" / "java"
    script.write_text(JAVA.format(here=home, java=java_home() / "bin" / "java"))
    script.chmod(0o755)
    return home


def test_ctrl_c_while_java_starts_ends_the_command_and_its_java(slow_java: Path, tmp_path: Path) -> None:
    with running(tmp_path / "journal") as (_, connection):
        send(connection, "orders", 1)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "embedbroker.cli",
            "pipeline",
            "audit",
            str(tmp_path / "journal"),
            "--master",
            "local[1]",
        ],
        cwd=ROOT,
        env={**os.environ, **spark_environment(), "JAVA_HOME": str(slow_java)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert (slow_java / "starting").read_text() == "Java\n"
        os.killpg(process.pid, signal.SIGINT)
        (slow_java / "go").write_text("\n")
        # Java has the same stdout: there is no end of it before all of them are gone.
        said, _ = process.communicate(timeout=LIMIT_S)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert process.returncode == 128 + signal.SIGINT, said
    assert "Traceback" not in said
