"""Applications of Spring Boot, Camel and pooled-jms against our broker: one test per case of their Java source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.brokers import BrokerUnderTest, EmbeddedBrokerProcess
from tests.interop.jms_matrix import Applications, application_cases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

# What the applications do not do with Artemis, whose start takes longer.
ARTEMIS_LIMITS = {"spring-goes-on-after-a-kill": "a connection made while Artemis starts waits 30 s for the topology"}


@pytest.fixture(scope="module")
def applications() -> Iterator[Applications]:
    """One JVM, in which the Spring application goes on from case to case."""
    with Applications() as running:
        yield running


@pytest.mark.parametrize("case", application_cases())
def test_application(case: str, broker: BrokerUnderTest, applications: Applications) -> None:
    if not isinstance(broker, EmbeddedBrokerProcess) and (reason := ARTEMIS_LIMITS.get(case)):
        pytest.skip(reason)

    def kill() -> None:
        broker.kill()
        broker.start()

    if failure := applications.run(case, broker.url, {"kill": kill}):
        pytest.fail(failure, pytrace=False)
