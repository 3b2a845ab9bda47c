"""`--broker-url`: a project's tests on a real Artemis, in the place of one of our brokers."""

from __future__ import annotations

import pytest

from tests.embedbroker.pytest_plugin.conftest import Inner
from tests.embedbroker.pytest_plugin.conftest import inner as inner
from tests.embedbroker.pytest_plugin.test_foreign import run_on
from tests.interop.artemis import ArtemisBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(90)]


def test_tests_that_make_sense_run_on_a_real_artemis_and_the_others_are_skipped(
    inner: Inner, artemis: ArtemisBroker
) -> None:
    run_on(inner, f"tcp://127.0.0.1:{artemis.port}")
