"""`queue`, `address`, `divert`, `security`, `session` and others against a broker: tables, JSON lines and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
import trio
from attrs import fields
from click.testing import CliRunner, Result

from embedbroker import AddressFullPolicy, AddressSettings, EmbeddedBroker, SecuritySetting, ThreadedBroker
from embedbroker.cli._commands import commands
from embedclient import Queue, TextMessage, XAConnectionFactory, Xid
from embedclient.blocking import ConnectionFactory

Command = Callable[..., Result]


@pytest.fixture
def broker() -> Iterator[ThreadedBroker]:
    with EmbeddedBroker.in_thread() as broker:
        yield broker


@pytest.fixture
def run(broker: ThreadedBroker) -> Command:
    def run(*words: str) -> Result:
        return CliRunner().invoke(commands, [*words, "--url", broker.url])

    return run


def table(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


def of_json(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_queue_is_created_shown_purged_and_deleted(run: Command) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    assert run("send", "orders", "one", "two", "three").exit_code == 0
    head, *rows = table(run("queue", "stat", "--field", "name", "--value", "orders"))
    assert head[:3] == ["NAME", "ADDRESS", "ROUTING"]
    assert rows == [["orders", "orders", "ANYCAST", "0", "3", "0", "3", "0", "true"]]
    assert run("queue", "purge", "orders", "--filter", "AMQPriority > 4").stdout == "0\n"
    assert run("queue", "purge", "orders").stdout == "3\n"
    assert run("queue", "delete", "orders").exit_code == 0
    assert of_json(run("queue", "stat", "--json", "--field", "name", "--value", "orders")) == []


def test_a_queue_with_every_option(run: Command, broker: ThreadedBroker) -> None:
    options = "--address prices --multicast --filter size>3 --non-durable --max-consumers 2 --purge-on-no-consumers"
    assert run("queue", "create", "mine", *options.split()).exit_code == 0
    (shown,) = of_json(run("queue", "stat", "--json", "--field", "name", "--value", "mine", "--operation", "EQUALS"))
    assert (shown["address"], shown["routingType"], shown["filter"]) == ("prices", "MULTICAST", "size>3")
    assert (shown["durable"], shown["maxConsumers"], shown["purgeOnNoConsumers"]) == ("false", "2", "true")


def test_diverts_are_created_shown_and_destroyed(run: Command) -> None:
    assert table(run("divert", "list")) == [["NAME", "ADDRESS", "FORWARDING", "EXCLUSIVE", "ROUTING", "FILTER"]]
    created = run("divert", "create", "copies", "orders", "audit,archive")
    assert (created.exit_code, created.stdout, created.stderr) == (0, "", "created divert copies\n")
    options = "--exclusive --filter size>3 --routing-name turns --routing-type PASS -p region=EU -p note=a=b"
    assert run("divert", "create", "a taker", "orders", "large", *options.split()).exit_code == 0
    _, *rows = run("divert", "list").stdout.splitlines()
    assert [[cell.strip() for cell in row.split("  ") if cell] for row in rows] == [
        ["a taker", "orders", "large", "true", "PASS", "size>3"],
        ["copies", "orders", "audit,archive", "false", "STRIP"],
    ]
    taker, copies = of_json(run("divert", "list", "--json"))
    assert taker == {
        "UniqueName": "a taker", "Address": "orders", "ForwardingAddress": "large", "Exclusive": True,
        "RoutingType": "PASS", "Filter": "size>3", "RoutingName": "turns",
        "TransformerClassName": "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer",
        "TransformerProperties": {"region": "EU", "note": "a=b"},
    }  # fmt: skip
    assert (copies["Filter"], copies["RoutingName"], copies["TransformerProperties"]) == (None, "copies", {})
    for name in ("a taker", "copies"):
        destroyed = run("divert", "destroy", name)
        assert (destroyed.exit_code, destroyed.stderr) == (0, f"destroyed divert {name}\n")
    assert of_json(run("divert", "list", "--json")) == []


def test_a_divert_that_was_created_diverts(run: Command) -> None:
    assert run("queue", "create", "audit").exit_code == 0
    assert run("divert", "create", "taker", "orders", "audit", "--exclusive", "-p", "via=taker").exit_code == 0
    assert run("send", "orders", "one").exit_code == 0
    (message,) = of_json(run("receive", "audit", "--json", "--count", "1"))
    assert (message["body"], message["properties"]["via"]) == ("one", "taker")


def test_diverts_that_cannot_be_created_or_destroyed(run: Command) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    assert run("divert", "create", "copies", "orders", "audit").exit_code == 0
    for words, text in (
        (("create", "copies", "a", "b"), "divert 'copies' exists already: destroy it first, or choose another name"),
        (("create", "orders", "a", "b"), "divert 'orders': a queue has this name; choose another one"),
        (("create", "wrong", "a", "b", "--filter", "= 1"), "invalid selector: unexpected = at position 0"),
        (("create", "self", "a", "a"), "the address of the divert: each message would be diverted for ever"),
        (("destroy", "nope"), "AMQ229012: No binding for divert nope"),
        (("destroy", "orders"), "AMQ229013: Binding orders is not a divert"),
    ):
        refused = run("divert", *words)
        assert (refused.exit_code, refused.stdout) == (6, ""), refused.output
        assert text in refused.stderr
    assert run("divert", "create", "x", "a", "b", "-p", "nothing").exit_code == 2
    assert [row["UniqueName"] for row in of_json(run("divert", "list", "--json"))] == ["copies"]


def test_a_queue_and_its_address_are_paused_and_resumed(run: Command, broker: ThreadedBroker) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    assert run("queue", "pause", "--persist", "orders").exit_code == 0
    assert broker.management.get("queue.orders", "PersistedPause") is True
    assert run("queue", "resume", "orders").exit_code == 0
    assert broker.management.get("queue.orders", "Paused") is False
    assert run("address", "pause", "orders").exit_code == 0
    assert broker.management.get("address.orders", "Paused") is True
    assert run("address", "resume", "orders").exit_code == 0
    assert broker.management.get("queue.orders", "Paused") is False


def test_a_queue_is_disabled_and_enabled(run: Command, broker: ThreadedBroker) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    assert run("queue", "disable", "orders").exit_code == 0
    (row,) = of_json(run("queue", "stat", "--json", "--field", "name", "--value", "orders"))
    assert row["enabled"] == "false"
    assert run("send", "orders", "one").exit_code == 0
    assert run("queue", "enable", "orders").exit_code == 0
    assert run("send", "orders", "two").exit_code == 0
    (message,) = of_json(run("receive", "orders", "--json", "--count", "1"))
    assert message["body"] == "two"


def test_a_move_drops_duplicates(run: Command, broker: ThreadedBroker) -> None:
    for queue in ("orders", "archive"):
        assert run("queue", "create", queue).exit_code == 0
        assert run("send", queue, "once", "-p", "_AMQ_DUPL_ID=one").exit_code == 0
    (row,) = of_json(run("message", "browse", "orders", "--json"))
    chosen = ("--id", str(row["messageID"]), "--reject-duplicates")
    assert run("message", "move", "orders", "archive", *chosen).exit_code == 6
    assert run("message", "move", "orders", "archive", "--all", "--reject-duplicates").stdout == "1\n"
    assert broker.management.message_count("archive") == 1


async def prepare(url: str, name: bytes) -> None:
    """Leave a branch in doubt that sent two messages."""
    async with XAConnectionFactory(url).create_xa_connection() as connection, connection.xa_session() as session:
        xid = Xid(7, b"branch", name)
        await session.xa_resource.start(xid)
        producer = session.create_producer(Queue("orders"))
        for text in ("one", "two"):
            await producer.send(text)
        await session.xa_resource.end(xid)
        await session.xa_resource.prepare(xid)


def test_branches_in_doubt_are_shown_and_decided(run: Command, broker: ThreadedBroker) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    assert table(run("transaction", "list"))[1:] == []
    trio.run(prepare, broker.url, b"first")
    trio.run(prepare, broker.url, b"second")
    rows = of_json(run("transaction", "list", "--json"))
    assert [(row["xid_global_txid"], row["xid_branch_qual"], row["sent"], row["received"]) for row in rows] == [
        ("first", "branch", 2, 0), ("second", "branch", 2, 0),
    ]  # fmt: skip
    head, first, _second = table(run("transaction", "list"))
    assert head[:2] == ["ID", "CREATED"] and first[0] == rows[0]["xid_as_base64"] and first[-2:] == ["2", "0"]
    assert run("transaction", "commit", rows[0]["xid_as_base64"]).exit_code == 0
    assert run("transaction", "rollback", rows[1]["xid_as_base64"]).exit_code == 0
    assert broker.management.message_count("orders") == 2
    decided = [[rows[0]["xid_as_base64"], "committed"], [rows[1]["xid_as_base64"], "rolled-back"]]
    assert table(run("transaction", "decided"))[1:] == decided


def test_groups_are_shown_and_reset(run: Command, broker: ThreadedBroker) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    with ConnectionFactory(broker.url, client_id="me").connect() as connection, connection.session() as session:
        consumer = session.create_consumer("queue://orders")
        with session.create_producer("queue://orders") as producer:
            producer.send(TextMessage("one", properties={"JMSXGroupID": "a"}))
        assert consumer.receive(5) is not None
        (row,) = of_json(run("queue", "groups", "orders", "--json"))
        assert [line[0] for line in table(run("queue", "groups", "orders"))] == ["GROUP", "a"]
        (group,) = broker.management.groups("orders")
        assert (group.group_id, group.connection_id) == ("a", row["connectionID"])
        assert run("queue", "reset-groups", "orders", "--group", "b").exit_code == 0
        assert broker.management.get("queue.orders", "GroupCount") == 1
        assert run("queue", "reset-groups", "orders", "--group", "a").exit_code == 0
        assert broker.management.groups("orders") == []
        assert run("queue", "reset-groups", "orders").stderr == "reset the groups of queue orders\n"
    missing = run("queue", "groups", "nope")
    assert missing.exit_code == 6 and "nope" in missing.stderr


def test_a_queue_is_updated(run: Command, broker: ThreadedBroker) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    options = "--filter a=1 --max-consumers 2 --exclusive true --purge-on-no-consumers false"
    assert run("queue", "update", "orders", *options.split()).exit_code == 0
    found = [broker.management.get("queue.orders", name) for name in ("Filter", "MaxConsumers", "Exclusive")]
    assert found == ["a=1", 2, True]
    assert run("queue", "update", "orders", "--filter", "").exit_code == 0
    assert broker.management.get("queue.orders", "Filter") is None
    nothing = run("queue", "update", "orders")
    assert nothing.exit_code == 2 and "nothing to change: name at least one option" in nothing.output


def test_pages_and_order(run: Command) -> None:
    for name in ("page-1", "page-2", "page-3"):
        run("queue", "create", name)
    options = ("--field", "name", "--value", "page-", "--sort", "name", "--descending", "--count", "2")
    first = run("queue", "stat", "--json", *options)
    assert [row["name"] for row in of_json(first)] == ["page-3", "page-2"]
    assert [row["name"] for row in of_json(run("queue", "stat", "--json", *options, "--page", "2"))] == ["page-1"]
    assert "2 of 3 queues: see --page and --count" in run("queue", "stat", *options).stderr


def test_an_address_is_created_shown_and_deleted(run: Command) -> None:
    assert run("address", "create", "both", "--anycast", "--multicast").exit_code == 0
    rows = {row[0]: row[1:] for row in table(run("address", "show"))}
    assert rows["both"] == ["MULTICAST,", "ANYCAST", "0", "0", "0"]
    run("queue", "create", "q", "--address", "both")
    refused = run("address", "delete", "both")
    assert (refused.exit_code, refused.stderr) == (6, "embedbroker: AMQ229205: Address both has bindings\n")
    assert run("address", "delete", "both", "--with-queues").exit_code == 0


def test_clients_are_shown_and_closed(run: Command, broker: ThreadedBroker) -> None:
    with ConnectionFactory(broker.url, client_id="me").connect() as connection, connection.session() as session:
        session.create_consumer("queue://orders", "a = 1")
        (shown,) = [row for row in of_json(run("connection", "list", "--json")) if row["clientID"] == "me"]
        sessions = of_json(run("session", "list", "--json", "--field", "clientID", "--value", "me"))
        assert {row["connectionID"] for row in sessions} == {shown["connectionID"]}
        (consumer,) = of_json(run("consumer", "list", "--json", "--field", "queue", "--value", "orders"))
        assert (consumer["clientID"], consumer["filter"]) == ("me", "a = 1")
        assert run("consumer", "close", consumer["session"], consumer["id"]).exit_code == 0
        assert of_json(run("consumer", "list", "--json", "--field", "queue", "--value", "orders")) == []
        assert run("consumer", "close", "nope", "0").stderr == (
            "embedbroker: there is no consumer 0 of session nope: `consumer list` shows the ids\n"
        )
    gone = run("connection", "close", "nope")
    assert (gone.exit_code, gone.stderr) == (
        6, "embedbroker: there is no connection nope: `connection list` shows the ids\n",
    )  # fmt: skip


def test_a_connection_is_closed(run: Command, broker: ThreadedBroker) -> None:
    with ConnectionFactory(f"{broker.url}?reconnectAttempts=0", client_id="me").connect():
        (shown,) = [row for row in of_json(run("connection", "list", "--json")) if row["clientID"] == "me"]
        assert run("connection", "close", shown["connectionID"]).exit_code == 0
        assert not [row for row in of_json(run("connection", "list", "--json")) if row["clientID"] == "me"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["queue", "delete", "nope"], "AMQ229017: Queue nope does not exist"),
        (["queue", "purge", "nope"], "AMQ229067: Cannot find resource with name queue.nope"),
        (["queue", "stat", "--field", "nope", "--value", "x"], "the list has no field 'nope'"),
        (
            ["address", "settings", "set", "a", "max-delivery=3"],
            "the address settings have an unknown or unavailable field 'maxDelivery'",
        ),
        (["address", "settings", "set", "a", "max-size-bytes=10M"], "the address settings: max_size_bytes must be"),
        (["address", "settings", "set", "a.#.b", "no-expiry=true"], "address-setting match 'a.#.b'"),
        (["security", "set", "a.#.b", "--send", "x"], "address-setting match 'a.#.b'"),
    ],
)
def test_refusals(run: Command, words: list[str], text: str) -> None:
    refused = run(*words)
    assert refused.exit_code == 6 and refused.stderr.startswith(f"embedbroker: {text}")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["address", "create", "a"], "an address needs --anycast, --multicast or both"),
        (["queue", "stat", "--field", "name"], "--field and --value belong together"),
        (["queue", "stat", "--operation", "LIKE"], "Invalid value for '--operation'"),
        (["address", "settings", "set", "a", "x"], "'x' is not a setting: write NAME=VALUE, such as"),
        (["address", "settings", "set", "a", "max-size-bytes=1", "maxSizeBytes=2"], "maxSizeBytes is given twice"),
        (["security", "set", "a"], "nothing would be granted: name at least one role, such as --send apps"),
        (["security", "set", "a", "--send", "x y"], "--send: 'x y' contains a blank; separate roles with commas"),
    ],
)
def test_wrong_options(run: Command, words: list[str], text: str) -> None:
    wrong = run(*words)
    assert wrong.exit_code == 2 and text in wrong.stderr


# -- settings --------------------------------------------------------------------------------------------------------


def test_address_settings_are_shown_set_and_removed(run: Command, broker: ThreadedBroker) -> None:
    words = "max-delivery-attempts=3 redelivery-delay-multiplier=1.5 address-full-policy=FAIL autoCreateQueues=false"
    done = run("address", "settings", "set", "orders.#", *words.split(), 'dead-letter-address="7"')
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "set settings of orders.#\n")
    assert broker.management.address_settings("orders.tea") == AddressSettings(
        max_delivery_attempts=3, redelivery_delay_multiplier=1.5, address_full_policy=AddressFullPolicy.FAIL,
        auto_create_queues=False, dead_letter_address="7", expiry_address="ExpiryQueue",
    )  # fmt: skip
    assert table(run("address", "settings", "show", "orders.tea")) == [
        ["SETTING", "VALUE"], ["addressFullMessagePolicy", "FAIL"], ["autoCreateQueues", "false"],
        ["deadLetterAddress", "7"], ["expiryAddress", "ExpiryQueue"], ["maxDeliveryAttempts", "3"],
        ["redeliveryMultiplier", "1.5"],
    ]  # fmt: skip
    (shown,) = of_json(run("address", "settings", "show", "orders.tea", "--json"))
    assert (shown["maxDeliveryAttempts"], shown["autoCreateQueues"]) == (3, False)
    removed = run("address", "settings", "remove", "orders.#")
    assert (removed.exit_code, removed.stderr) == (0, "removed settings of orders.#\n")
    assert broker.management.address_settings("orders.tea").max_delivery_attempts is None


def test_permissions_are_shown_set_and_removed(run: Command, broker: ThreadedBroker) -> None:
    done = run("security", "set", "orders.#", "--all", "admins", "--send", "apps,shops", "--create-address", "apps")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "set permissions of orders.#\n")
    setting = broker.management.security_settings("orders.tea")
    granted = [sorted(roles) for roles in (setting.send, setting.create_address, setting.edit)]
    assert granted == [["admins", "apps", "shops"], ["admins", "apps"], ["admins"]]
    assert table(run("security", "show", "orders.tea")) == [
        ["ROLE", "PERMISSIONS"],
        ["admins", "send", "consume", "create-durable-queue", "delete-durable-queue", "create-non-durable-queue",
         "delete-non-durable-queue", "manage", "browse", "create-address", "delete-address", "view", "edit"],
        ["apps", "send", "create-address"], ["shops", "send"],
    ]  # fmt: skip
    admins, *_ = of_json(run("security", "show", "orders.tea", "--json"))
    assert (admins["name"], admins["createDurableQueue"], admins["edit"]) == ("admins", True, True)
    removed = run("security", "remove", "orders.#")
    assert (removed.exit_code, removed.stderr) == (0, "removed permissions of orders.#\n")
    assert [row["name"] for row in of_json(run("security", "show", "orders.tea", "--json"))] == ["*"]


def test_permissions_of_each_option_are_those_of_its_name(run: Command, broker: ThreadedBroker) -> None:
    for attribute in fields(SecuritySetting):
        option = f"--{attribute.name.replace('_', '-')}"
        assert run("security", "set", "orders", option, "apps").exit_code == 0, option
        assert broker.management.security_settings("orders") == SecuritySetting(**{attribute.name: ["apps"]})


# -- reports as JSON -------------------------------------------------------------------------------------------------


def changing_commands(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    """Every command below a group that changes a broker."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from changing_commands(command, *words, name)
        elif name not in ("stat", "show", "list", "browse", "scheduled", "count", "groups", "decided"):
            yield (*words, name)


# Commands in their order; "FIRST" is the id of a message in `orders`.
REPORTS: list[tuple[str, dict[str, Any]]] = [
    ("queue create orders", {"event": "created", "queue": "orders"}),
    ("queue create other", {"event": "created", "queue": "other"}),
    ("queue pause orders", {"event": "paused", "queue": "orders", "persist": False}),
    ("queue resume orders", {"event": "resumed", "queue": "orders"}),
    ("queue disable orders", {"event": "disabled", "queue": "orders"}),
    ("queue enable orders", {"event": "enabled", "queue": "orders"}),
    ("queue update orders --max-consumers 9", {"event": "updated", "queue": "orders"}),
    ("queue reset-groups orders", {"event": "reset", "queue": "orders", "group": None}),
    ("message copy orders other --id FIRST",
     {"event": "copied", "queue": "orders", "target": "other", "messages": 1, "missing": []}),
    ("message move orders other --all", {"event": "moved", "queue": "orders", "target": "other", "messages": 3}),
    ("message expire other --filter AMQPriority=9", {"event": "expired", "queue": "other", "messages": 0}),
    ("message reject other --all", {"event": "rejected", "queue": "other", "messages": 4}),
    ("message retry DLQ", {"event": "retried", "queue": "DLQ", "messages": 4}),
    ("message deliver other --all", {"event": "delivery-requested", "queue": "other"}),
    ("message delete orders --id 1", {"event": "deleted", "queue": "orders", "messages": 0, "missing": [1]}),
    ("queue purge other", {"event": "purged", "queue": "other", "messages": 4}),
    ("queue delete other", {"event": "deleted", "queue": "other"}),
    ("address create both --anycast", {"event": "created", "address": "both"}),
    ("address pause both --persist", {"event": "paused", "address": "both", "persist": True}),
    ("address resume both", {"event": "resumed", "address": "both"}),
    ("address delete both", {"event": "deleted", "address": "both"}),
    ("address settings set a.# max-delivery-attempts=3",
     {"event": "set", "settings": "a.#", "values": {"maxDeliveryAttempts": 3}}),
    ("address settings remove a.#", {"event": "removed", "settings": "a.#"}),
    ("divert create copies orders audit", {"event": "created", "divert": "copies"}),
    ("divert destroy copies", {"event": "destroyed", "divert": "copies"}),
    ("security set a.# --send x,y", {"event": "set", "security": "a.#", "permissions": {"send": ["x", "y"]}}),
    ("security remove a.#", {"event": "removed", "security": "a.#"}),
]  # fmt: skip


def test_every_command_that_changes_a_broker_reports_it_as_one_json_line(run: Command, broker: ThreadedBroker) -> None:
    seen: list[str] = []
    first = ""
    for words, expected in REPORTS:
        done = run(*words.replace("FIRST", first).split(), "--json")
        assert done.exit_code == int(bool(expected.get("missing"))), (words, done.output)
        assert [json.loads(line) for line in done.stdout.splitlines()] == [expected], words
        assert (done.stderr == "") is not bool(expected.get("missing")), words
        seen.append(words)
        if words == "queue create other":
            seen.append("message send")
            (sent,) = of_json(run("message", "send", "orders", "one", "two", "three", "--json"))
            assert [sent["event"], sent["queue"], len(sent["ids"])] == ["sent", "orders", 3]
            first = str(sent["ids"][0])
    with ConnectionFactory(f"{broker.url}?reconnectAttempts=0", client_id="me").connect() as connection:
        session = connection.session()
        session.create_consumer("queue://orders")
        (consumer,) = of_json(run("consumer", "list", "--json", "--field", "queue", "--value", "orders"))
        ids = [consumer["session"], consumer["id"]]
        closed = {"event": "closed", "consumer": ids[1], "session": ids[0]}
        assert of_json(run("consumer", "close", *ids, "--json")) == [closed]
        (own,) = of_json(run("session", "list", "--json", "--field", "id", "--value", ids[0]))
        closed = {"event": "closed", "session": ids[0], "connection": own["connectionID"]}
        assert of_json(run("session", "close", own["connectionID"], ids[0], "--json")) == [closed]
        closed = {"event": "closed", "connection": own["connectionID"]}
        assert of_json(run("connection", "close", own["connectionID"], "--json")) == [closed]
    seen += ["consumer close", "session close", "connection close"]
    for event, command in (("committed", "commit"), ("rolled-back", "rollback")):
        trio.run(prepare, broker.url, command.encode())
        (branch,) = of_json(run("transaction", "list", "--json"))
        report = of_json(run("transaction", command, branch["xid_as_base64"], "--json"))
        assert report == [{"event": event, "transaction": branch["xid_as_base64"]}]
        seen.append(f"transaction {command}")
    known = {
        each
        for name in (
            "queue",
            "address",
            "divert",
            "security",
            "message",
            "connection",
            "session",
            "consumer",
            "transaction",
        )
        if isinstance(group := commands.get_command(click.Context(commands), name), click.Group)
        for each in changing_commands(group, name)
    }
    assert len(known) == 32
    assert {each for each in known if not any(words.startswith(" ".join(each)) for words in seen)} == set()


@pytest.mark.parametrize(
    "words",
    [
        "queue delete nope", "queue purge nope", "queue pause nope", "queue update nope --max-consumers 1",
        "message move nope x --all", "message send nope x", "address delete nope", "divert destroy nope",
        "connection close nope", "session close nope x", "consumer close nope 0",
        "transaction commit nope", "transaction rollback nope",
    ],
)  # fmt: skip
def test_a_refused_change_has_its_reason_on_stderr_and_nothing_on_stdout(run: Command, words: str) -> None:
    refused = run(*words.split(), "--json")
    assert (refused.exit_code, refused.stdout) == (6, ""), refused.output
    assert refused.stderr.startswith("embedbroker: ") and "nope" in refused.stderr


# -- messages --------------------------------------------------------------------------------------------------------


def test_messages_are_sent_shown_moved_copied_and_deleted(run: Command) -> None:
    for name in ("orders", "other"):
        run("queue", "create", name)
    sent = run("message", "send", "orders", "one", "two", "three", "-p", "color=red", "-p", "size=a=b")
    assert sent.exit_code == 0 and len(sent.stdout.split()) == 3
    rows = of_json(run("message", "browse", "orders", "--json"))
    assert [str(row["messageID"]) for row in rows] == sent.stdout.split()
    assert {(row["color"], row["size"], row["durable"], row["type"]) for row in rows} == {("red", "a=b", True, 3)}
    head, *lines = table(run("message", "browse", "orders", "--filter", "color = 'red'"))
    assert head[:2] == ["ID", "PRIORITY"] and [line[0] for line in lines] == sent.stdout.split()
    first, second, _third = sent.stdout.split()
    copied = run("message", "copy", "orders", "other", "--id", first, "--id", "1")
    assert (copied.exit_code, copied.stdout) == (1, "1\n")
    assert copied.stderr == (
        "embedbroker: queue 'orders' has no waiting message 1: `message browse` and `message scheduled` show the ids\n"
    )
    assert run("message", "move", "orders", "other", "--id", first, "--id", second).stdout == "2\n"
    assert run("message", "count", "orders").stdout == "1\n"
    assert run("message", "count", "other", "--filter", "color = 'blue'").stdout == "0\n"
    assert run("message", "move", "other", "orders", "--all").stdout == "3\n"
    assert run("message", "delete", "orders", "--filter", "color = 'red'").stdout == "4\n"
    assert run("browse", "orders").stdout == ""


def test_messages_are_rejected_retried_and_expired(run: Command) -> None:
    run("queue", "create", "orders")
    run("message", "send", "orders", "one", "two", "--non-persistent")
    assert run("message", "reject", "orders", "--all").stdout == "2\n"
    assert run("message", "retry", "DLQ").stdout == "2\n"
    assert run("message", "expire", "orders", "--filter", "AMQPriority = 0").stdout == "2\n"
    assert run("browse", "ExpiryQueue").stdout == "one\ntwo\n"


def test_scheduled_messages_are_shown_and_delivered(run: Command) -> None:
    run("queue", "create", "orders")
    assert run("send", "orders", "one", "two", "--delay", "3600").exit_code == 0
    head, *rows = table(run("message", "scheduled", "orders"))
    assert head[:4] == ["ID", "DELIVER", "AT", "PRIORITY"] and len(rows) == 2
    first, second = of_json(run("message", "scheduled", "orders", "--json"))
    assert [str(first["messageID"]), str(first["_AMQ_SCHED_DELIVERY"])] == rows[0][:2]
    delivered = run("message", "deliver", "orders", "--id", str(second["messageID"]))
    assert (delivered.exit_code, delivered.stderr) == (
        0,
        "requested the delivery of scheduled messages of queue orders\n",
    )
    assert run("browse", "orders").stdout == "two\n"
    assert run("message", "deliver", "orders", "--all").exit_code == 0
    assert run("browse", "orders").stdout == "one\ntwo\n"
    assert run("message", "deliver", "orders").exit_code == 2


@pytest.mark.parametrize("options", [[], ["--all", "--id", "1"], ["--id", "1", "--filter", "a = 1"]])
def test_messages_must_be_chosen_in_one_way(run: Command, options: list[str]) -> None:
    refused = run("message", "delete", "orders", *options)
    assert refused.exit_code == 2 and "one of --id, --filter and --all" in refused.stderr


def test_producers_are_shown_and_a_session_is_closed(run: Command, broker: ThreadedBroker) -> None:
    with ConnectionFactory(broker.url, client_id="me").connect() as connection, connection.session() as session:
        session.create_producer("queue://orders")
        (shown,) = of_json(run("producer", "list", "--json", "--field", "address", "--value", "orders"))
        assert shown["clientID"] == "me"
        (own,) = of_json(run("session", "list", "--json", "--field", "id", "--value", shown["session"]))
        assert run("session", "close", own["connectionID"], own["id"]).exit_code == 0
        assert of_json(run("session", "list", "--json", "--field", "id", "--value", shown["session"])) == []
    assert run("session", "close", "nope", "x").stderr == (
        "embedbroker: there is no session x of connection nope: `session list` shows the ids\n"
    )


# -- bridges ---------------------------------------------------------------------------------------------------------


def test_a_bridge_is_created_shown_stopped_and_destroyed(run: Command, broker: ThreadedBroker) -> None:
    """It leads to another address of the same broker."""
    head = ["NAME", "QUEUE", "FORWARDING", "STARTED", "CONNECTED", "PENDING", "ACKNOWLEDGED"]
    assert table(run("bridge", "list")) == [head]
    for name in ("orders", "arrivals"):
        assert run("queue", "create", name).exit_code == 0
    added = run("bridge", "add-connector", "itself", broker.url)
    assert (added.exit_code, added.stderr) == (0, "added connector itself\n")
    options = "--forwarding-address arrivals --filter AMQPriority>3 -p via=bridge"
    created = run("bridge", "create", "mover", "orders", "itself", *options.split())
    assert (created.exit_code, created.stdout, created.stderr) == (0, "", "created bridge mover\n")
    assert run("send", "orders", "tea").exit_code == 0
    with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        message = session.create_consumer(Queue("arrivals")).receive(timeout=60)
        assert message is not None and message.properties["via"] == "bridge"
    (row,) = of_json(run("bridge", "list", "--json"))
    assert (row["Name"], row["FilterString"], row["StaticConnectors"]) == ("mover", "AMQPriority>3", ["itself"])
    assert (row["Connected"], row["TransformerProperties"]) == (True, {"via": "bridge"})
    assert run("bridge", "stop", "mover").stderr == "stopped bridge mover\n"
    assert table(run("bridge", "list"))[1][3] == "false"
    assert of_json(run("bridge", "start", "mover", "--json")) == [{"event": "started", "bridge": "mover"}]
    assert run("bridge", "destroy", "mover").stderr == "destroyed bridge mover\n"
    assert run("bridge", "remove-connector", "itself").stderr == "removed connector itself\n"
    assert table(run("bridge", "list")) == [head]


def test_bridges_that_cannot_be_created_or_switched(run: Command) -> None:
    assert run("queue", "create", "orders").exit_code == 0
    for words, text in (
        (("create", "b", "nope", "c"), "queue 'nope' does not exist"),
        (("create", "b", "orders", "c"), "there is no connector 'c'"),
        (("start", "b"), "AMQ229067: Cannot find resource with name bridge.b"),
        (("destroy", "b"), "bridge 'b' does not exist"),
        (("add-connector", "c", "smtp://x"), "must be a URL such as"),
        (("remove-connector", "c"), "connector 'c' does not exist"),
    ):
        refused = run("bridge", *words)
        assert refused.exit_code != 0 and text in refused.stderr, (words, refused.stderr)
    assert run("bridge", "create", "b", "orders").exit_code == 2
