"""A large body is never in memory as a whole.

`EMBEDBROKER_LARGE_BODY_MIB=1024` in the environment tests a body of 1 GiB, which takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.embedbroker.runtime import large_body

GROWTH_MIB_MAX = 32.0
SIZE_MIB = int(os.environ.get("EMBEDBROKER_LARGE_BODY_MIB", "160"))
SECONDS_MAX = max(110, SIZE_MIB)


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_brokers_grow_by_little_under_a_large_body_that_a_bridge_carries() -> None:
    program = [sys.executable, str(large_body.__file__), str(SIZE_MIB)]
    result = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert result.returncode == 0, result.stderr
    source, target = map(float, result.stdout.split())
    assert 0 < source <= GROWTH_MIB_MAX and 0 < target <= GROWTH_MIB_MAX
