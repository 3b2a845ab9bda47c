"""An authority and its files for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from .certificates import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Files in a directory of the test, which may change them."""
    return Files(tmp_path)
