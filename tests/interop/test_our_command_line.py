"""`embedbroker send`, `browse` and `receive` against a real Artemis: they are of the client, not of our broker."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest

from tests.interop.artemis import ArtemisBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


def run(artemis: ArtemisBroker, command: str, *arguments: str, input: bytes = b"", code: int = 0) -> list[str]:
    """The lines that a command prints."""
    words = [sys.executable, "-m", "embedbroker.cli", command, "--url", artemis.url, *arguments]
    done = subprocess.run(words, input=input, capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode().splitlines()


def of_json(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_what_is_sent_is_browsed_and_received(artemis: ArtemisBroker) -> None:
    queue = f"queue://cli-{uuid4().hex[:8]}"
    options = ("-p", "color=red", "-p", "size=3", "--priority", "7", "--correlation-id", "c-1")
    assert run(artemis, "send", queue, "one", "grüße", *options) == []
    run(artemis, "send", queue, '{"x": 1, "y": "z"}', "--type", "map", "--non-persistent")
    run(artemis, "send", queue, "--lines", "--transacted", "-p", "color=blue", input=b"three\nfour\n")

    assert run(artemis, "browse", queue, "--selector", "color = 'blue'") == ["three", "four"]
    browsed = of_json(run(artemis, "browse", queue, "--json"))
    taken = of_json(run(artemis, "receive", queue, "--json", "--count", "5", "--timeout", "10"))
    assert [message["body"] for message in taken] == ["one", "grüße", {"x": 1, "y": "z"}, "three", "four"]
    assert [message["body"] for message in browsed] == [message["body"] for message in taken]
    first, _, entries, *_ = taken
    assert (first["type"], first["priority"], first["correlation_id"], first["durable"]) == ("text", 7, "c-1", True)
    assert (first["properties"]["color"], first["properties"]["size"]) == ("red", 3)
    assert (entries["type"], entries["durable"]) == ("map", False)
    # Nothing is left, and a request for one more message fails with an error.
    assert run(artemis, "browse", queue) == []
    assert run(artemis, "receive", queue, "--timeout", "0.2", code=1) == []


def test_queues_and_addresses_of_an_artemis_are_managed(artemis: ArtemisBroker) -> None:
    name = f"managed-{uuid4().hex[:8]}"
    manage(artemis, "queue", "create", name)
    run(artemis, "send", name, "one", "two")
    (shown,) = of_json(manage(artemis, "queue", "stat", "--json", "--field", "name", "--value", name))
    assert (shown["messageCount"], shown["routingType"], shown["durable"]) == ("2", "ANYCAST", "true")
    assert manage(artemis, "queue", "stat", "--field", "name", "--value", name)[1].split()[0] == name
    assert manage(artemis, "queue", "purge", name) == ["2"]
    manage(artemis, "queue", "delete", name)
    manage(artemis, "queue", "delete", name, code=6)
    manage(artemis, "address", "create", f"{name}-a", "--multicast")
    (address,) = of_json(manage(artemis, "address", "show", "--json", "--field", "name", "--value", f"{name}-a"))
    assert json.loads(address["routingTypes"]) == ["MULTICAST"]
    manage(artemis, "address", "delete", f"{name}-a")


def test_clients_of_an_artemis_are_shown(artemis: ArtemisBroker) -> None:
    # Each command shows itself; clients of other tests may be there, too.
    for kind in ("connection", "consumer"):
        shown = of_json(manage(artemis, kind, "list", "--json"))
        assert shown and {client["protocol"] for client in shown} == {"CORE"}
    assert of_json(manage(artemis, "session", "list", "--json"))
    assert len(manage(artemis, "consumer", "list")) >= 2
    manage(artemis, "connection", "close", "nope", code=6)


def test_settings_of_an_artemis_are_shown_set_and_removed(artemis: ArtemisBroker) -> None:
    match = f"settings.{uuid4().hex}"
    values = ("max-delivery-attempts=3", "redelivery-delay-multiplier=1.5", "slow-consumer-threshold=7")
    (done,) = of_json(manage(artemis, "address", "settings", "set", match, *values, "--json"))
    assert done["values"] == {"maxDeliveryAttempts": 3, "redeliveryMultiplier": 1.5, "slowConsumerThreshold": 7}
    (shown,) = of_json(manage(artemis, "address", "settings", "show", match, "--json"))
    assert done["values"].items() <= shown.items()
    assert manage(artemis, "address", "settings", "show", match)[0].split() == ["SETTING", "VALUE"]
    manage(artemis, "address", "settings", "set", match, "no-such-setting=1", code=6)
    manage(artemis, "address", "settings", "remove", match)
    (shown,) = of_json(manage(artemis, "address", "settings", "show", match, "--json"))
    assert shown.get("maxDeliveryAttempts") != 3
    manage(artemis, "security", "set", match, "--send", "x,y", "--consume", "y")
    rows = of_json(manage(artemis, "security", "show", match, "--json"))
    assert {row["name"]: (row["send"], row["consume"]) for row in rows} == {"x": (True, False), "y": (True, True)}
    assert ["y", "send", "consume"] in [line.split() for line in manage(artemis, "security", "show", match)]
    manage(artemis, "security", "remove", match)
    assert "x" not in {row["name"] for row in of_json(manage(artemis, "security", "show", match, "--json"))}


def manage(artemis: ArtemisBroker, *words: str, code: int = 0) -> list[str]:
    """The lines that a command of a group prints."""
    command = [sys.executable, "-m", "embedbroker.cli", *words, "--url", artemis.url]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode().splitlines()
