"""The Artemis JMS client, current and old, against our broker: one test per case of tests/interop/java."""

from __future__ import annotations

import pytest

from tests.interop.brokers import BrokerUnderTest, EmbeddedBrokerProcess
from tests.interop.jms_matrix import JmsMatrix, case_names
from tests.interop.registry import CLIENT_VERSIONS
from tests.interop.relay import Relay

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

# (client version, case) -> why it cannot hold; each was seen against the real broker.
_NO_SHARED = "the 1.5 client makes no topic for a shared consumer: it wants one that exists"
CLIENT_LIMITS = {
    ("1.5.6", "shared-subscription"): _NO_SHARED,
    ("1.5.6", "shared-durable-subscription"): _NO_SHARED,
    **{
        (version, case): "this client takes no parameters in a queue's name"
        for version in ("2.6.4", "1.5.6")
        for case in ("exclusive-queue", "max-consumers", "consumer-priority", "refuses-last-value-queues")
    },
}
# What Artemis itself does not do for these clients; our broker does.
ARTEMIS_LIMITS = {
    **{
        (version, case): reason
        for version in CLIENT_VERSIONS
        for case, reason in (
            ("cut-xa-session", "Artemis prepares an empty branch in place of the lost one"),
            ("xa-start-of-a-prepared-branch", "Artemis forgets the branch"),
        )
    },
    ("1.5.6", "restart-keeps-durable"): "Artemis tells the client that the queue is new, and then refuses it",
    ("1.5.6", "queues-of-one-address"): "Artemis does not find the queue behind the prefix of a 1.x name",
}


@pytest.mark.parametrize("case", case_names())
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_java_client(
    version: str, case: str, broker: BrokerUnderTest, matrices: dict[str, JmsMatrix], relay: Relay
) -> None:
    limits = CLIENT_LIMITS if isinstance(broker, EmbeddedBrokerProcess) else {**CLIENT_LIMITS, **ARTEMIS_LIMITS}
    if reason := limits.get((version, case)):
        pytest.skip(reason)
    if case.startswith("refuses-") and not isinstance(broker, EmbeddedBrokerProcess):
        pytest.skip("Artemis does this")
    matrix = matrices.get(version)
    if matrix is None:
        matrix = matrices[version] = JmsMatrix(version)

    def kill() -> None:
        broker.kill()
        broker.start()

    url = f"tcp://127.0.0.1:{relay.port}" if case.startswith("cut-") else broker.url
    if failure := matrix.run(case, url, {"cut": relay.cut, "kill": kill, "restart": broker.restart}):
        pytest.fail(failure, pytrace=False)
