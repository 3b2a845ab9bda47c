"""The example of the guide does what the guide states."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.pipeline.conftest import ROOT, spark_environment


def test_the_example_lands_each_order_once() -> None:
    program = ROOT / "examples" / "spark" / "orders_to_parquet.py"
    environment = {**os.environ, **spark_environment()}
    run = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("1000 rows, 1000 of them different, in ")
