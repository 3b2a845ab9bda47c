"""The example on the page of the jobs, in the Spark of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.spark.jobs import main


def test_the_example_of_the_jobs_prints_what_its_page_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(spark, tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "guide" / "spark-jobs.md").read_text()
    shown = page.split("It prints\n\n```text\n")[1].split("```")[0].splitlines()
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if not line.startswith("No audit log")] == shown
    assert (tmp_path / "report" / "report.html").exists()
