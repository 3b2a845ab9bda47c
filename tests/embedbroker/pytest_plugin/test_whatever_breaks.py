"""Pairs under faults in random order keep what they confirmed. The program is in `whatever_breaks`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.whatever_breaks import TURNS


@pytest.mark.search
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", PAIR_MODES)
def test_a_pair_keeps_its_word_whatever_breaks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    program = shutil.copy(Path(__file__).with_name("whatever_breaks.py"), pytester.path)
    result = pytester.runpytest_inprocess("-p", "embedbroker.pytest_plugin", program, "-k", kind)
    result.assert_outcomes(passed=TURNS, deselected=TURNS * (len(PAIR_MODES) - 1))
