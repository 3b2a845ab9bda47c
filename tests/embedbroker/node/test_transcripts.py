"""Every recorded scenario, its client's half replayed against our node: the answers are those of the real broker.

Compared are the types of all packets and their decoded fields, answers and deliveries each in their exact order; not
what varies between runs. What is left out, and why, stands in the tables below.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import AddressFullPolicy, AddressSettings, User
from tests.vectors.captures import core_files

from .transcript import replay

# What `artemis create` writes for every address.
GENERATED = AddressSettings(
    dead_letter_address="DLQ", expiry_address="ExpiryQueue", auto_delete_queues=False, auto_delete_addresses=False
)
SETTINGS = {
    "credits-block": {"blk.#": AddressSettings(max_size_bytes=20_000, address_full_policy=AddressFullPolicy.BLOCK)},
    "credits-fail": {"fail.#": AddressSettings(max_size_bytes=20_000, address_full_policy=AddressFullPolicy.FAIL)},
    "send-async-error": {"fail.#": AddressSettings(max_size_bytes=20_000, address_full_policy=AddressFullPolicy.FAIL)},
    "queue-autocreate-refused": {"noauto.#": AddressSettings(auto_create_queues=False, auto_create_addresses=False)},
    "raw-autocreate-on-send": {"noauto.#": AddressSettings(auto_create_queues=False, auto_create_addresses=False)},
    "tx-max-delivery-dlq": {"redel.#": AddressSettings(max_delivery_attempts=2)},
}

KINDS = "queue kinds that are not there yet: {}"
LATER = "the answer depends on what happened outside the recording: {}"
# Where ours answers otherwise, and is seen to.
OTHERWISE = {
    "cli-address-show": LATER.format("names of addresses of earlier scenarios"),
    "cli-queue-delete": LATER.format("the queue of cli-queue-create"),
    "cli-queue-stat": LATER.format("the id of the broker, and queues of earlier scenarios"),
    "connection-killed-by-management": LATER.format("a second client that is not recorded closes the connection"),
    "consumer-killed-by-management": LATER.format("a second client that is not recorded closes the consumer"),
    "management-core": LATER.format("version of the broker, and addresses of earlier scenarios"),
    "management-jms": LATER.format("ids of queues, and queues of earlier scenarios"),
    "query-existing-missing": "default-* settings of queue kinds",
    "reattach-large": LATER.format("the recorded connection is cut in the middle of the body, before an answer"),
    "slow-consumer-kill": "slow consumers are not looked for yet",
    "last-value-queue": KINDS.format("last-value"),
    "queue-default-settings": KINDS.format("last-value, ring, group defaults"),
    "queue-parameters-in-name": KINDS.format("group-first-key, last-value"),
    "admin-create-delete": KINDS.format("a queue with every attribute"),
    "cli-consumer": LATER.format("the messages of cli-producer"),
    "reattach-consumer": LATER.format("a message sent by a connection that was not recorded"),
    "reattach-async-sends": LATER.format("the client's count, which follows the order of credits and answers"),
}

# The recording is followed for so many connections: then our broker sends on purpose what Artemis does not, and the
# client would go on differently (pitfalls 12.21 and 12.22; test_reattach.py has what ours sends).
FOLLOWED = {
    "recreate-after-restart": 2,
    "reattach-after-recreate-lost-async": 2,
    "reattach-after-recreate-lost-send": 2,
    "reattach-after-exception": 1,
}

COUNTS = {f"SessionQueueQueryResponse{form}.message_count" for form in ("", "V2", "V3")}
# Artemis doubles the prefix of temporary queues: jms.queue.jms.tempqueue.X.
DOUBLED = {"SessionReceiveMessage.address"}
# Nothing is created for a temporary destination that is gone. Ours answers so, and a Java client then sends nothing.
GONE = {
    "SessionBindingQueryResponseV5.auto_create_addresses",
    "SessionBindingQueryResponseV5.auto_create_queues",
    "SessionQueueQueryResponseV3.auto_create_queues",
}
IGNORED = {
    # Artemis routes the notification of a consumer while it answers, ours before.
    "notifications": {"SessionReceiveMessage.timestamp", *COUNTS},
    "temp-queue": GONE,
    # Artemis leaves the prefix of an address out of large messages alone.
    "old-client-1.5.6": DOUBLED | {"SessionReceiveLarge.address"},
    # Recorded on an acceptor without prefixes; ours takes them off for such clients always.
    "old-client-1.5.6-noprefix": {
        *DOUBLED,
        "SessionQueueQueryResponseV2.address",
        "SessionQueueQueryResponseV2.name",
    },
    "old-client-hornetq": DOUBLED,
    # An id used twice is the new consumer alone here; Artemis keeps both.
    "raw-session-errors": {"SessionQueueQueryResponseV3.consumer_count"},
    # The recorded client closed its socket before the last answer, released early by another one (pitfall 12.24).
    "ack-client-recover": {"the last answer"},
    # The recorded broker was killed before it answered the send.
    "recreate-tx-xa": {"the last answer"},
}


def differences(path: Path) -> list[str]:
    name = path.stem
    settings = {"#": GENERATED, **SETTINGS.get(name, {})}
    users = [User("admin", "admin", roles=["amq"])] if name.startswith("secure-") else []
    transcript = replay(path, settings, connections_max=FOLLOWED.get(name), users=users)
    return transcript.differences(IGNORED.get(name, ()))


@pytest.mark.parametrize("path", core_files(), ids=lambda path: path.stem)
def test_the_answers_are_those_of_the_recorded_broker(path: Path) -> None:
    reason = OTHERWISE.get(path.stem)
    if reason is None:
        assert differences(path) == []
    else:
        assert differences(path), f"these are the same now, so take it out of the table: {reason}"


def test_the_tables_name_scenarios_that_exist() -> None:
    names = {path.stem for path in core_files()}
    assert {*SETTINGS, *OTHERWISE, *FOLLOWED, *IGNORED} <= names
    assert len(names - set(OTHERWISE)) > 90
