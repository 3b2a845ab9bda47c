"""A large body is never in memory as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.embedbroker.runtime import large_body

GROWTH_MIB_MAX = 32.0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_broker_grows_by_little_under_a_body_of_256_mib() -> None:
    program = [sys.executable, str(large_body.__file__), "256"]
    result = subprocess.run(program, capture_output=True, text=True, timeout=110, check=False)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) <= GROWTH_MIB_MAX
