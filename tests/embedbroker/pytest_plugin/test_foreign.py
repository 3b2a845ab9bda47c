"""A broker that runs outside the plugin, in the place of one of ours."""

from __future__ import annotations

from embedbroker import EmbeddedBroker
from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.conftest import Inner

#: Two tests that make sense on any broker; the first finds its queue empty.
SENSIBLE = """
async def test_it(embedded_broker, broker_clock):
    await embedded_broker.assert_empty("orders")
    await put(embedded_broker.url, "one", "two")
    await embedded_broker.wait_for(queue="orders", count=2, consumers=0)
    assert (await embedded_broker.assert_message("orders", "two")).body == "two"
    with pytest.raises(WaitTimeout, match="(?s)with 3 messages: not within 0.1 s.*TextMessage 'one'"):
        await embedded_broker.wait_for(queue="orders", count=3, timeout=0.1)
    with pytest.raises(WaitTimeout, match="no such message in queue orders within 0.1 s"):
        await embedded_broker.assert_message("orders", "three", timeout=0.1)
    assert not broker_clock.is_virtual

def test_plain(embedded_broker_blocking):
    embedded_broker_blocking.wait_for(queue="orders", count=2)
"""
NEEDS_ITS_OWN = """
async def test_crash(embedded_broker):
    await embedded_broker.crash()

def test_plain_crash(embedded_broker_blocking):
    embedded_broker_blocking.crash()

async def test_pair(broker_pair):
    pass

async def test_plan(fault_plan):
    pass

def test_factory(broker_factory_blocking):
    pass
"""


def run_on(inner: Inner, url: str) -> None:
    """The tests that make sense pass, the others are skipped and say why."""
    result = inner(SENSIBLE + NEEDS_ITS_OWN, f"--broker-url={url}", "-rs")
    result.assert_outcomes(passed=2, skipped=4 + len(PAIR_MODES))
    result.stdout.fnmatch_lines(["*crash needs a broker of the test's own, not the one of --broker-url*"])
    result.stdout.fnmatch_lines(["*broker_pair needs a broker of the test's own, not the one of --broker-url*"])


def test_tests_that_make_sense_run_on_a_foreign_broker_and_the_others_are_skipped(inner: Inner) -> None:
    with EmbeddedBroker.in_thread() as foreign:
        run_on(inner, foreign.url)
