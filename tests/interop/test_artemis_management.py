"""`artemis queue`, `address` and `check` against our broker: the outputs are those of a real one."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.interop.artemis import command_line
from tests.interop.brokers import BrokerUnderTest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


def run(broker: BrokerUnderTest, *words: str | int) -> list[str]:
    return command_line(*words, "--url", broker.url, "--user", "admin", "--password", "admin")


def rows(lines: list[str]) -> dict[str, list[str]]:
    """The rows of a table by their first column."""
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: row[1:] for row in table}


def test_a_queue_is_created_shown_purged_and_deleted(broker: BrokerUnderTest) -> None:
    name = f"managed-{uuid4().hex[:8]}"
    options = ["--anycast", "--durable", "--auto-create-address", "--preserve-on-no-consumers", "--silent"]
    created = run(broker, "queue", "create", "--name", name, "--address", name, *options)
    assert created[-1].startswith(f"Queue [name={name}, address={name}, routingType=ANYCAST, durable=true")
    again = run(broker, "queue", "create", "--name", name, "--address", name, *options)
    assert again[-1].endswith(f"AMQ229019: Queue {name} already exists on address {name}")
    target = ("--url", broker.url, "--destination", f"queue://{name}", "--silent")
    command_line("producer", *target, "--message-count", 5, "--user", "admin", "--password", "admin")
    shown = rows(run(broker, "queue", "stat", "--queueName", name))
    # Address, consumers, messages, added, delivering, acknowledged, scheduled, routing type, internal.
    assert shown[name] == [name, "0", "5", "5", "0", "0", "0", "ANYCAST", "false"]
    assert f"Queue {name} purged successfully." in run(broker, "queue", "purge", "--name", name)
    assert rows(run(broker, "queue", "stat", "--queueName", name))[name][2] == "0"
    assert run(broker, "queue", "delete", "--name", name)[-1] == f"Queue {name} deleted successfully."
    missing = run(broker, "queue", "delete", "--name", name)[-1]
    assert missing == f"Failed to delete queue {name}. Reason: AMQ229017: Queue {name} does not exist"


def test_an_address_is_created_shown_and_deleted(broker: BrokerUnderTest) -> None:
    name = f"managed-{uuid4().hex[:8]}"
    created = run(broker, "address", "create", "--name", name, "--anycast", "--no-multicast", "--silent")
    expected = f"Address [name={name}, routingTypes={{ANYCAST}}, autoCreated=false] created successfully."
    assert created[-1] == expected
    assert name in run(broker, "address", "show")
    assert run(broker, "address", "delete", "--name", name)[-1] == f"Address {name} deleted successfully."
    assert name not in run(broker, "address", "show")


def test_checks_of_node_and_queue(broker: BrokerUnderTest) -> None:
    name = f"managed-{uuid4().hex[:8]}"
    options = ["--anycast", "--durable", "--auto-create-address", "--preserve-on-no-consumers", "--silent"]
    run(broker, "queue", "create", "--name", name, "--address", name, *options)
    assert "Checks run: 1, Failures: 0, Errors: 0" in run(broker, "check", "node", "--up")[-1]
    limits = ("--diskUsage=99", "--memoryUsage=99", "--up")
    assert "Checks run: 3, Failures: 0, Errors: 0" in run(broker, "check", "node", *limits)[-1]
    checks = ("check", "queue", "--name", name, "--up", "--produce", 2, "--browse", 2, "--consume", 2)
    assert "Checks run: 4, Failures: 0, Errors: 0" in run(broker, *checks)[-1]
