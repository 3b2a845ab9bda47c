"""The Artemis JMS client, current and old, against our broker: one test per case of tests/interop/java."""

from __future__ import annotations

import pytest

from tests.interop.brokers import BrokerUnderTest, EmbeddedBrokerProcess
from tests.interop.frame_relay import FrameRelay
from tests.interop.jms_matrix import JmsMatrix, case_names, matrix_of
from tests.interop.registry import CLIENT_VERSIONS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

# (client version, case) -> why it cannot hold, and is seen not to; each was seen against the real broker, too.
_NO_SHARED = "the 1.5 client makes no topic for a shared consumer: it wants one that exists"
CLIENT_LIMITS = {
    ("1.5.6", "shared-subscription"): _NO_SHARED,
    ("1.5.6", "shared-durable-subscription"): _NO_SHARED,
    **{
        ("1.5.6", case): "this client takes no parameters in a queue's name"
        for case in ("exclusive-queue", "max-consumers", "consumer-priority", "refuses-last-value-queues")
    },
    ("2.6.4", "consumer-priority"): "this client does not take this parameter in a queue's name",
}
# What takes minutes, with the real broker as with ours.
TOO_SLOW = {("1.5.6", "large-stream-of-100-mib"): "this client waits 40 ms between two chunks of a stream"}
# What Artemis itself does not do for these clients; our broker does.
ARTEMIS_LIMITS = {
    **{
        (version, case): reason
        for version in CLIENT_VERSIONS
        for case, reason in (
            ("cut-xa-session", "Artemis prepares an empty branch in place of the lost one"),
            ("xa-start-of-a-prepared-branch", "Artemis forgets the branch"),
            ("cut-behind-refusal", "Artemis does not count a refused request: what is sent behind it comes again"),
        )
    },
    ("2.44.0", "cut-behind-rebuild-asynchronous"): "a listener hears of a send that Artemis never got",
    ("1.5.6", "restart-keeps-durable"): "Artemis tells the client that the queue is new, and then refuses it",
    **{
        ("1.5.6", case): "Artemis takes no requests to a management address with the prefix of a 1.x name"
        for case in ("divert", "exclusive-divert")
    },
    ("1.5.6", "queues-of-one-address"): "Artemis does not find the queue behind the prefix of a 1.x name",
}


@pytest.mark.parametrize(
    ("version", "case"),
    [(version, case) for version in CLIENT_VERSIONS for case in case_names() if (version, case) not in TOO_SLOW],
)
def test_java_client(
    version: str, case: str, broker: BrokerUnderTest, matrices: dict[str, JmsMatrix], relay: FrameRelay
) -> None:
    if not isinstance(broker, EmbeddedBrokerProcess):
        if reason := ARTEMIS_LIMITS.get((version, case)):
            pytest.skip(reason)
        if case.startswith("refuses-"):
            pytest.skip("Artemis does this")
    matrix = matrix_of(matrices, version)

    def kill() -> None:
        broker.kill()
        broker.start()

    url = f"tcp://127.0.0.1:{relay.port}" if case.startswith("cut-") else broker.url
    failure = matrix.run(case, url, {**relay.answers, "kill": kill, "restart": broker.restart})
    if reason := CLIENT_LIMITS.get((version, case)):
        assert failure, f"this holds now, so take it out of the table: {reason}"
    elif failure:
        pytest.fail(failure, pytrace=False)
    assert not relay.waits, "what was to be lost did not come"
