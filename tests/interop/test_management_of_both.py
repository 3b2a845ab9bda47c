"""Operations and notifications of management, the same against Artemis and against our broker."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker, ThreadedBroker, load_config
from embedbroker.cli._commands import commands
from embedclient import ConnectionFactory, JMSContext, Queue, TextMessage, Topic
from tests.interop.artemis import ArtemisBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

PLUGIN = """<broker-plugins><broker-plugin
  class-name="org.apache.activemq.artemis.core.server.plugin.impl.NotificationActiveMQServerPlugin">
  <property key="SEND_CONNECTION_NOTIFICATIONS" value="true"/><property key="SEND_ADDRESS_NOTIFICATIONS" value="true"/>
</broker-plugin></broker-plugins></core>"""


class NotifyingArtemis(ArtemisBroker):
    """An Artemis that makes notifications of addresses and connections, too."""

    def _create(self) -> None:
        super()._create()
        file = self.directory / "etc" / "broker.xml"
        file.write_text(file.read_text().replace("</core>", PLUGIN))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotifyingArtemis]:
    broker = NotifyingArtemis(tmp_path_factory.mktemp("notifying") / "instance")
    with broker:
        yield broker


@pytest.fixture(scope="module")
def ours(theirs: NotifyingArtemis) -> Iterator[ThreadedBroker]:
    file: Path = theirs.directory / "etc" / "broker.xml"
    config = load_config(file, on_warning=lambda _text: None)
    with EmbeddedBroker.in_thread(config, port=0, data_directory=None, large_messages_directory=None) as broker:
        yield broker


async def invoke(context: JMSContext, resource: str, operation: str, *arguments: object) -> Any:
    replies = await context.create_temporary_queue()
    async with context.create_consumer(replies) as consumer:
        request = TextMessage(json.dumps(arguments), reply_to=replies)
        request.properties["_AMQ_ResourceName"] = resource
        request.properties["_AMQ_OperationName"] = operation
        await context.create_producer().send(Queue("activemq.management"), request)
        reply = await consumer.receive(timeout=30)
    assert isinstance(reply, TextMessage)
    return (json.loads(reply.text) if reply.text else [None])[0]


# -- notifications ---------------------------------------------------------------------------------------------------


async def events_of(url: str) -> list[dict[str, object]]:
    """What a subscriber gets while an address comes and goes, and a connection: the values that do not vary."""
    factory = ConnectionFactory(url, user="admin", password="admin")
    kinds = "'ADDRESS_ADDED', 'ADDRESS_REMOVED', 'CONNECTION_CREATED', 'CONNECTION_DESTROYED'"
    async with factory.create_context() as context:
        notes = Topic("activemq.notifications")
        async with context.create_consumer(notes, f"_AMQ_NotifType IN ({kinds})") as consumer:
            await invoke(context, "broker", "createAddress", "both", "ANYCAST,MULTICAST")
            await invoke(context, "broker", "createAddress", "one", "ANYCAST")
            await invoke(context, "broker", "deleteAddress", "both")
            await invoke(context, "broker", "deleteAddress", "one")
            async with factory.connect():
                pass
            found: list[dict[str, object]] = []
            while len([each for each in found if str(each["_AMQ_NotifType"]).startswith("CONNECTION")]) < 2:
                message = await consumer.receive(timeout=30)
                assert message is not None, found
                event: dict[str, object] = {
                    name: message.properties[name] for name in message.properties if name.startswith("_AMQ")
                }
                # Temporary queues of the requests have addresses, too.
                if event.get("_AMQ_Address") in (None, "both", "one"):
                    found.append(event)
    for event in found:
        for name in ("_AMQ_NotifTimestamp", "_AMQ_ConnectionName", "_AMQ_RemoteAddress"):
            if name in event:
                event[name] = type(event[name]).__name__
    return found


async def test_notifications_of_addresses_and_connections_are_those_of_artemis(
    theirs: NotifyingArtemis, ours: ThreadedBroker
) -> None:
    expected = await events_of(theirs.url)
    assert [event["_AMQ_NotifType"] for event in expected] == [
        "ADDRESS_ADDED", "ADDRESS_ADDED", "ADDRESS_REMOVED", "ADDRESS_REMOVED",
        "CONNECTION_CREATED", "CONNECTION_DESTROYED",
    ]  # fmt: skip
    assert await events_of(ours.url) == expected


async def bindings_of(url: str) -> list[dict[str, object]]:
    """What a subscriber gets while diverts are created, changed and destroyed: the values that do not vary."""
    found: list[dict[str, object]] = []
    selector = "_AMQ_Address IN ('from', 'last')"
    async with (
        ConnectionFactory(url, user="admin", password="admin").create_context() as context,
        context.create_consumer(Topic("activemq.notifications"), selector) as consumer,
    ):
        wanted = {"name": "taker", "address": "from", "forwarding-address": "to", "routing-name": "turns"}
        await invoke(context, "broker", "createDivert", json.dumps({**wanted, "filter-string": "a = 1"}))
        await invoke(context, "broker", "createDivert", json.dumps({**wanted, "name": "plain"}))
        await invoke(context, "broker", "updateDivert", json.dumps({"name": "plain", "forwarding-address": "x"}))
        await invoke(context, "broker", "destroyDivert", "taker")
        await invoke(context, "broker", "destroyDivert", "plain")
        last = {"name": "last.queue", "address": "last", "routing-type": "ANYCAST"}
        await invoke(context, "broker", "createQueue", json.dumps(last))
        while not found or found[-1]["_AMQ_Address"] != "last":
            message = await consumer.receive(timeout=30)
            assert message is not None, found
            found.append({name: message.properties[name] for name in message.properties if name.startswith("_AMQ")})
        await invoke(context, "broker", "destroyQueue", "last.queue")
    return [
        {name: value for name, value in event.items() if name not in ("_AMQ_NotifTimestamp", "_AMQ_Binding_ID")}
        for event in found
        if event["_AMQ_Address"] == "from"
    ]


async def test_notifications_of_diverts_are_those_of_artemis(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected = await bindings_of(theirs.url)
    assert [event["_AMQ_ClusterName"] for event in expected] == ["taker", "plain"]
    assert await bindings_of(ours.url) == expected


# -- scheduled messages ----------------------------------------------------------------------------------------------


async def with_a_schedule(context: JMSContext, call: Callable[..., Awaitable[Any]]) -> None:
    """Operations on scheduled messages of the queue ``managed.one``."""
    await call("nothing is scheduled", "listScheduledMessagesAsJSON")
    await call("no first one", "peekFirstScheduledMessageAsJSON")
    producer = context.create_producer()
    for text, delay in (("late", 9000), ("early", 5000), ("middle", 7000)):
        message = TextMessage(text, properties={"text": text})
        await producer.set_delivery_delay(delay).send(Queue("managed.one"), message)
    listed = "listScheduledMessagesAsJSON"
    rows = json.loads(await call("", listed))
    await call("", "deliverScheduledMessage", rows[1]["messageID"])
    await call("delivered", "countMessages", "text = 'middle'")
    await call("delivered nothing", "deliverScheduledMessage", 1)
    await call("scheduled", "getScheduledCount")
    await call("durable", "getDurableScheduledCount")
    await call("delivered what matches", "deliverScheduledMessages", "text = 'early'")
    rest = json.loads(await call("", listed))
    groups = json.loads(await call("", "countMessages", None, "text"))
    assert groups == {"early": 1, "middle": 1}
    first = json.loads(await call("", "peekFirstScheduledMessageAsJSON"))
    found = [[row["text"] for row in rows], [row["text"] for row in rest], first["text"]]
    assert (await call("", "deliverScheduledMessages", "a =")).startswith("AMQ229020: Invalid filter: ")
    await call("", "deliverScheduledMessages", "")
    await call("removed all", "removeAllMessages")
    assert found == [["early", "middle", "late"], ["late"], "late"]


# -- settings --------------------------------------------------------------------------------------------------------


async def settings_of(url: str) -> dict[str, Any]:
    """The results of operations on address settings and security settings, in order."""
    results: dict[str, Any] = {}
    factory = ConnectionFactory(url, user="admin", password="admin")
    async with factory.create_context() as context:

        async def call(label: str, operation: str, *arguments: object) -> None:
            results[label] = await invoke(context, "broker", operation, *arguments)

        await call("given", "getAddressSettingsAsJSON", "some.address")
        values = {
            "addressFullMessagePolicy": "FAIL", "maxDeliveryAttempts": 3, "redeliveryMultiplier": 1.5,
            "deadLetterAddress": "DLQ", "noExpiry": False, "defaultQueueRoutingType": "ANYCAST",
            "configDeleteDiverts": "FORCE", "sendToDLAOnNoRoute": True, "maxSizeBytes": 1 << 40,
        }  # fmt: skip
        await call("added", "addAddressSettings", "settings.#", json.dumps(values))
        await call("empty", "addAddressSettings", "settings.none", "{}")
        await call("merged", "getAddressSettingsAsJSON", "settings.none")
        await call("removed", "removeAddressSettings", "settings.#")
        await call("after the removal", "getAddressSettingsAsJSON", "settings.none")
        await call("not there", "removeAddressSettings", "settings.#")
        await call("roles", "getRolesAsJSON", "some.address")
        await call("permissions", "addSecuritySettings", "settings.#", "x, y", "y", *[""] * 4, "x")
        await call("new roles", "getRolesAsJSON", "settings.a")
        await call("roles as arrays", "getRoles", "settings.a")
        await call("ten lists", "addSecuritySettings", "settings.#", "x", *[""] * 8, "z")
        await call("roles of ten lists", "getRolesAsJSON", "settings.a")
        await call("removed permissions", "removeSecuritySettings", "settings.#")
        await call("old roles", "getRolesAsJSON", "settings.a")
        await call("wrong arguments", "addSecuritySettings", "settings.#", "x")
    for name in ("given", "added", "empty", "merged", "after the removal"):
        results[name] = json.loads(results[name])
    for name in ("roles", "new roles", "roles of ten lists", "old roles"):
        results[name] = sorted(json.loads(results[name]), key=lambda row: str(row["name"]))
    results["roles as arrays"] = sorted(results["roles as arrays"])
    return results


# Settings that Artemis has in every match, and that do not exist here.
NOT_HERE = {"slowConsumerThresholdMeasurementUnit", "managementBrowsePageSize"}


async def test_settings_have_the_results_of_artemis(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected, found = await settings_of(theirs.url), await settings_of(ours.url)
    for name in ("given", "merged", "after the removal"):
        values, own = expected.pop(name), found.pop(name)
        # PAGE of the file is BLOCK here, and its other settings of paging do not exist.
        assert (values.pop("addressFullMessagePolicy"), own.pop("addressFullMessagePolicy")) in (
            ("PAGE", "BLOCK"), ("FAIL", "FAIL"),
        )  # fmt: skip
        assert {key: values[key] for key in own} == own and len(own) > 5
    for name in ("added", "empty"):
        expected[name] = {key: value for key, value in expected[name].items() if key not in NOT_HERE}
    assert found == expected


# -- operations on messages ------------------------------------------------------------------------------------------


async def results_of(url: str) -> dict[str, object]:
    """The results of operations on messages, in order, with positions in place of message ids."""
    results: dict[str, object] = {}
    factory = ConnectionFactory(url, user="admin", password="admin")
    async with factory.create_context() as context:
        for name in ("managed.one", "managed.two"):
            await invoke(context, "broker", "createQueue", json.dumps({"name": name, "routing-type": "ANYCAST"}))

        async def call(label: str, operation: str, *arguments: object, queue: str = "managed.one") -> Any:
            results[label] = result = await invoke(context, f"queue.{queue}", operation, *arguments)
            return result

        for color in ("red", "blue", "red"):
            sent = await invoke(
                context, "queue.managed.one", "sendMessage", {"color": color}, 3, "text", True, "admin", "admin"
            )
            assert int(sent) > 0
        rows = json.loads(await invoke(context, "queue.managed.one", "listMessagesAsJSON", ""))
        ids = [row["messageID"] for row in rows]
        results["rows"] = [
            {key: value for key, value in row.items() if key not in ("messageID", "timestamp", "userID")}
            for row in rows
        ]
        results["groups"] = json.loads(await invoke(context, "queue.managed.one", "countMessages", None, "color"))
        await call("count of red", "countMessages", "color = 'red'")
        await call("no next one", "peekFirstMessageAsJSON", queue="managed.two")
        await call("copied", "copyMessage", ids[0], "managed.two")
        await call("not copied", "copyMessage", 1, "managed.two")
        await call("copied to nothing", "copyMessage", ids[0], "managed.nope")
        await call("priorities", "changeMessagesPriority", "color = 'red'", 9)
        await call("wrong priority", "changeMessagesPriority", "", 10)
        await call("moved", "moveMessages", 500, "color = 'red'", "managed.two", False, 1)
        await call("moved without a limit", "moveMessages", 500, None, "managed.two", False, -1)
        await call("count of two", "countMessages", queue="managed.two")
        await call("delivering", "listDeliveringMessagesAsJSON", queue="managed.two")
        await call("count in delivery", "countDeliveringMessages", None, queue="managed.two")
        await call("removed", "removeMessages", "color = 'red'", queue="managed.two")
        await call("wrong arguments", "copyMessage", "x", "managed.two")
        await with_a_schedule(context, call)
        results["closed session"] = await invoke(context, "broker", "closeSessionWithID", "nope", "nope")
        results["closed consumers"] = await invoke(context, "broker", "closeConsumerConnectionsForAddress", "nope.#")
        producers = json.loads(await invoke(context, "broker", "listProducers", "", 1, 100))
        results["fields of a producer"] = sorted(producers["data"][0])
    return results


# Counters that would cost time with each message.
NOT_COUNTED = {"lastProducedMessageID", "msgSent", "msgSizeSent"}


async def test_operations_on_messages_have_the_results_of_artemis(
    theirs: NotifyingArtemis, ours: ThreadedBroker
) -> None:
    expected, found = await results_of(theirs.url), await results_of(ours.url)
    fields, own = expected.pop("fields of a producer"), found.pop("fields of a producer")
    assert isinstance(fields, list) and isinstance(own, list)
    assert (set(fields) - set(own), expected) == (NOT_COUNTED, found)


# -- diverts on the command line -------------------------------------------------------------------------------------


def command_results(url: str) -> list[object]:
    """Exit codes and outputs of `embedbroker divert`, without texts of refusals, which are each broker's own."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(commands, [*words, "--url", url, "--user", "admin", "--password", "admin"])

    options = ("--exclusive", "--filter", "color = 'red'", "--routing-name", "turns", "--routing-type", "PASS")
    calls = [
        run("queue", "create", "diverted"),
        run("divert", "create", "taker", "diverted", "large", *options, "-p", "region=EU"),
        run("divert", "create", "copies", "diverted", "one,two", "--routing-name", "copies"),
        run("divert", "list"),
        run("divert", "list", "--json"),
        run("divert", "destroy", "taker"),
        run("divert", "destroy", "copies"),
        run("divert", "list"),
    ]
    refused = [
        run("divert", "create", "diverted", "a", "b"),
        run("divert", "create", "wrong", "a", "b", "--filter", "= 1"),
        run("divert", "destroy", "nope"),
        run("divert", "destroy", "diverted"),
    ]
    assert all(each.stderr.strip() for each in refused)
    return [(each.exit_code, each.stdout) for each in calls] + [each.exit_code for each in refused]


def test_the_command_for_diverts_does_the_same_with_both(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected = command_results(theirs.url)
    assert command_results(ours.url) == expected
    assert [each[0] if isinstance(each, tuple) else each for each in expected] == [0] * 8 + [6] * 4
