"""Operations and notifications of management, the same against Artemis and against our broker."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker, ThreadedBroker, load_config
from embedbroker.cli._commands import commands
from embedbroker.cluster import RemoteBindings, notification_filter
from embedbroker.config import MessageLoadBalancing
from embedclient import (
    BytesMessage,
    ConnectionFactory,
    DeliveryMode,
    JMSContext,
    MapMessage,
    PropertyValue,
    Queue,
    SessionMode,
    TextMessage,
    Topic,
    XaCode,
    XAConnectionFactory,
    XAException,
    Xid,
)
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage
from tests.embedbroker.kernel.stage import Stage
from tests.interop.artemis import ArtemisBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

ADDED = """<connectors><connector name="other">tcp://localhost:61999?tcpNoDelay=true</connector></connectors>
<broker-plugins><broker-plugin
  class-name="org.apache.activemq.artemis.core.server.plugin.impl.NotificationActiveMQServerPlugin">
  <property key="SEND_CONNECTION_NOTIFICATIONS" value="true"/><property key="SEND_ADDRESS_NOTIFICATIONS" value="true"/>
</broker-plugin></broker-plugins></core>"""


class NotifyingArtemis(ArtemisBroker):
    """An Artemis that makes notifications of addresses and connections, too, and has a connector."""

    def _create(self) -> None:
        super()._create()
        file = self.directory / "etc" / "broker.xml"
        file.write_text(file.read_text().replace("</core>", ADDED))


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


async def snapshot_of(url: str) -> list[dict[str, object]]:
    """What a queue of notifications gets behind a consumer, and for a request of the queues: what does not vary."""
    found: list[dict[str, object]] = []
    sf = Stage().queue("store-and-forward")
    balancing = MessageLoadBalancing.ON_DEMAND
    table = RemoteBindings("theirs", "none", 1, sf, balancing, found.append)  # type: ignore[arg-type]  # a line makes the lists differ
    wanted = notification_filter("shop", 1, ["activemq.management"], "activemq.notifications")
    async with ConnectionFactory(url, user="admin", password="admin").create_context() as context:
        for name, address, kind, filter in (
            ("notif.x", "activemq.notifications", "MULTICAST", wanted),
            ("shop.orders", "shop", "ANYCAST", None),
            ("audit", "shop.audit", "MULTICAST", "size > 5"),
        ):
            settings = {"name": name, "address": address, "routing-type": kind, "durable": False}
            text = json.dumps({**settings, "filter-string": filter} if filter else settings)
            await invoke(context, "broker", "createQueue", text)
        async with (
            context.create_consumer(Queue("activemq.notifications::notif.x")) as collector,
            context.create_consumer(Queue("shop::shop.orders"), "a = 1"),
        ):
            await invoke(context, "broker", "sendQueueInfoToQueue", "notif.x", "shop")
            while not found or "_AMQ_RESET_QUEUE_DATA_COMPLETE" not in found[-1]:
                message = await collector.receive(timeout=30)
                assert message is not None, found
                found.append({name: message.properties[name] for name in message.properties if name.startswith("_AMQ")})
                table.on_message(CoreMessage.build(address="notif.x", properties=Properties(found[-1]), body=bytes(4)))  # type: ignore[arg-type]  # values of a message
    found.extend(
        {"queue": each.address, "consumers": each.consumer_count, "filters": each.consumer_filters}
        for each in table.by_cluster_name.values()
    )
    for each in found:
        for name in ("_AMQ_NotifTimestamp", "_AMQ_RemoteAddress", "_AMQ_SessionName", "_AMQ_Binding_ID"):
            if name in each:
                each[name] = type(each[name]).__name__
        if "_AMQ_ClusterName" in each:
            each["_AMQ_ClusterName"] = str(each["_AMQ_ClusterName"])[:-36]
        each.pop("_AMQ_ValidatedUser", None)
    return sorted(found, key=lambda each: sorted((name, str(value)) for name, value in each.items()))


async def test_the_snapshot_for_another_broker_is_that_of_artemis(
    theirs: NotifyingArtemis, ours: ThreadedBroker
) -> None:
    expected = await snapshot_of(theirs.url)
    assert {"queue": "shop", "consumers": 1, "filters": {"a = 1": 1}} in expected
    assert await snapshot_of(ours.url) == expected


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


# -- lists -----------------------------------------------------------------------------------------------------------

# Values that each broker has for itself: only their types are compared.
VARYING = {
    "id", "__AMQ_CID", "messageID", "userID", "timestamp", "_AMQ_SCHED_DELIVERY", "_AMQ_ORIG_MESSAGE_ID",
    "creationTime", "creation_time", "connectionID", "sessionID", "session", "sequentialId", "remoteAddress",
    "localAddress", "clientAddress", "implementation", "name", "messagesInTransitSize", "consumerName", "addressSize",
}  # fmt: skip
# What Artemis lists and this broker does not: figures that would cost time with each message, and settings of pages.
UNCOUNTED = {
    "messagesDelivered", "messagesDeliveredSize", "messagesAcknowledged", "lastDeliveredTime", "lastAcknowledgedTime",
}  # fmt: skip
OF_PAGES = {
    "maxPageReadBytes", "maxPageReadMessages", "prefetchPageBytes", "prefetchPageMessages", "numberOfBytesPerPage",
}  # fmt: skip
ABSENT = {
    "consumers": UNCOUNTED, "consumers of a connection": UNCOUNTED, "consumers of a queue": UNCOUNTED,
    "page of consumers": UNCOUNTED, "producers": NOT_COUNTED, "page of producers": NOT_COUNTED,
    "page of addresses": OF_PAGES,
}  # fmt: skip
Rows = list[dict[str, Any]]


def shape(value: Any, name: str = "") -> Any:
    """A value of JSON with the types of those that vary in their place."""
    if isinstance(value, dict):
        return {key: shape(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    if name == "creationTime" and isinstance(value, str) and not value.isdigit():
        assert re.fullmatch(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d UTC \d{4}", value), value
    return type(value).__name__ if name in VARYING else value


async def listing(context: JMSContext, operation: str, *arguments: object, resource: str = "broker") -> Rows:
    found = await invoke(context, resource, operation, *arguments)
    if isinstance(found, str):
        found = json.loads(found)
    rows = found["data"] if isinstance(found, dict) and "data" in found else found
    assert isinstance(rows, list)
    return rows


async def page(context: JMSContext, operation: str, field: str, value: str) -> Rows:
    options = {"field": field, "operation": "EQUALS", "value": value, "sortField": field, "sortOrder": "asc"}
    return await listing(context, operation, json.dumps(options), 1, 100)


async def fill(context: JMSContext) -> None:
    """Messages of each kind in ``listed.q``, the last one for later."""
    properties: dict[str, PropertyValue] = {
        "n": 1,
        "large": 2**40,
        "real": 1.5,
        "flag": True,
        "long": "x" * 300,
        "empty": "",
    }
    rich = TextMessage("text", properties=properties, correlation_id="c-1", reply_to=Queue("answers"), type="kind")
    producer = context.create_producer()
    for message in (rich, BytesMessage(b"abc"), MapMessage({"k": 1})):
        await producer.send(Queue("listed.q"), message)
    later = TextMessage("later", properties={"n": 2})
    await producer.set_delivery_delay(600_000).send(Queue("listed.q"), later)


async def lists_of(url: str) -> dict[str, Any]:
    """All lists of messages and clients, for a client of one name whose consumer holds a message."""
    found: dict[str, Any] = {}
    factory = ConnectionFactory(url, user="admin", password="admin")
    listed = ConnectionFactory(url, user="admin", password="admin", client_id="listed")
    async with factory.create_context() as context, listed.create_context(SessionMode.CLIENT) as client:
        wanted = {"name": "listed.q", "routing-type": "ANYCAST", "filter-string": "n IS NULL OR n < 5"}
        await invoke(context, "broker", "createQueue", json.dumps(wanted))
        await fill(client)
        of_queue = "queue.listed.q"
        found["messages"] = await listing(context, "listMessagesAsJSON", "", resource=of_queue)
        found["messages as maps"] = await listing(context, "listMessages", "n = 1", resource=of_queue)
        found["scheduled"] = await listing(context, "listScheduledMessagesAsJSON", resource=of_queue)
        found["scheduled as maps"] = await listing(context, "listScheduledMessages", resource=of_queue)
        found["first"] = await listing(context, "getFirstMessageAsJSON", resource=of_queue)
        found["next"] = json.loads(await invoke(context, of_queue, "peekFirstMessageAsJSON"))
        found["next scheduled"] = json.loads(await invoke(context, of_queue, "peekFirstScheduledMessageAsJSON"))
        async with (
            client.create_consumer(Queue("listed.q"), "n = 1") as consumer,
            client.create_browser(Queue("listed.q")),
        ):
            assert await consumer.receive(timeout=10) is not None
            found["delivering"] = await listing(context, "listDeliveringMessagesAsJSON", resource=of_queue)
            maps = await invoke(context, of_queue, "listDeliveringMessages")
            found["delivering as maps"] = [each for rows in maps.values() for each in rows]
            found["page of connections"] = await page(context, "listConnections", "clientID", "listed")
            (identifier,) = [row["connectionID"] for row in found["page of connections"]]
            found["connections"] = [
                row for row in await listing(context, "listConnectionsAsJSON") if row["connectionID"] == identifier
            ]
            found["sessions of a connection"] = await listing(context, "listSessionsAsJSON", identifier)
            names = {row["sessionID"] for row in found["sessions of a connection"]}
            found["sessions"] = [
                row for row in await listing(context, "listAllSessionsAsJSON") if row["sessionID"] in names
            ]
            found["page of sessions"] = await page(context, "listSessions", "clientID", "listed")
            found["consumers of a connection"] = await listing(context, "listConsumersAsJSON", identifier)
            found["consumers"] = [
                row for row in await listing(context, "listAllConsumersAsJSON") if row["connectionID"] == identifier
            ]
            found["consumers of a queue"] = await listing(context, "listConsumersAsJSON", resource=of_queue)
            found["page of consumers"] = await page(context, "listConsumers", "clientID", "listed")
            found["producers"] = [
                row for row in await listing(context, "listProducersInfoAsJSON") if row["connectionID"] == identifier
            ]
            found["page of producers"] = await page(context, "listProducers", "clientID", "listed")
            found["page of queues"] = await page(context, "listQueues", "name", "listed.q")
            found["page of addresses"] = await page(context, "listAddresses", "name", "listed.q")
            closed = found["page of consumers"][0]
            found["closed"] = await invoke(context, "broker", "closeConsumerWithID", closed["session"], closed["id"])
        for operation in ("listConsumersAsJSON", "listSessionsAsJSON"):
            found[f"{operation} of nothing"] = await listing(context, operation, "nope")
    return found


def differences(label: str, theirs: Any, ours: Any) -> list[object]:
    """Fields of rows that only one of the brokers has, or with other values, but for those that are absent here."""
    if not (isinstance(theirs, list) and isinstance(ours, list)):
        theirs, ours = [theirs], [ours]
    absent = ABSENT.get(label, set())
    found: list[object] = [f"{label}: {len(theirs)} rows there, {len(ours)} here"] * (len(theirs) != len(ours))
    shapes = [sorted(map(shape, rows), key=lambda row: json.dumps(row, sort_keys=True)) for rows in (theirs, ours)]
    for there, here in zip(*shapes, strict=False):
        if not isinstance(there, dict):
            found += [(label, there, here)] * (there != here)
            continue
        assert absent <= set(there), label
        for name in sorted(set(there) - absent | set(here)):
            values = there.get(name, "absent"), here.get(name, "absent")
            found += [(label, name, *values)] * (values[0] != values[1])
    return found


async def test_lists_have_the_fields_types_and_values_of_artemis(
    theirs: NotifyingArtemis, ours: ThreadedBroker
) -> None:
    expected, found = await lists_of(theirs.url), await lists_of(ours.url)
    assert expected["closed"] is True and len(expected["messages"]) == 3
    assert [each for label, rows in expected.items() for each in differences(label, rows, found[label])] == []


# -- figures and tables ----------------------------------------------------------------------------------------------


async def figures_of(url: str) -> dict[str, Any]:
    """Connectors, caches, and the figures and tables of a queue with three messages, of which two are durable."""
    found: dict[str, Any] = {}
    async with ConnectionFactory(url, user="admin", password="admin").create_context() as context:

        async def call(operation: str, resource: str = "broker") -> Any:
            found[operation] = await invoke(context, resource, operation)
            return found[operation]

        wanted = json.dumps({"name": "figures.q", "routing-type": "ANYCAST"})
        await invoke(context, "broker", "createQueue", wanted)
        producer = context.create_producer()
        for mode in (DeliveryMode.PERSISTENT, DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT):
            await producer.set_delivery_mode(mode).send(Queue("figures.q"), "text")
        for operation in (
            "getConnectors", "getConnectorsAsJSON", "getConnectorServices", "isReplicaSync",
            "isFailoverOnServerShutdown", "clearAuthenticationCache", "clearAuthorizationCache",
            "listPreparedTransactionDetailsAsHTML",
        ):  # fmt: skip
            await call(operation)
        # Artemis keeps parameters in no order.
        found["getConnectorsAsJSON"] = json.loads(found["getConnectorsAsJSON"])
        of_queue = "queue.figures.q"
        assert await call("getDurableMessageCount", of_queue) == 2
        sizes = [await invoke(context, of_queue, f"get{name}") for name in ("PersistentSize", "DurablePersistentSize")]
        assert sizes[0] > sizes[1] > 0
        await call("flushExecutor", of_queue)
        await call("listMessageCounterAsHTML", of_queue)
        history = await invoke(context, of_queue, "listMessageCounterHistoryAsHTML")
        found["history"] = "".join(re.sub(r"<td>[^<]*</td>", "<td></td>", history).split())
    return found


async def test_figures_and_tables_are_those_of_artemis(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected = await figures_of(theirs.url)
    assert [row[0] for row in expected["getConnectors"]] == ["other"]
    assert await figures_of(ours.url) == expected


# -- disabled queues -------------------------------------------------------------------------------------------------


async def disabled_results(url: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    async with ConnectionFactory(url, user="admin", password="admin").create_context() as context:

        async def call(label: str, operation: str, *arguments: object, resource: str = "queue.off.q") -> None:
            results[label] = await invoke(context, resource, operation, *arguments)

        await invoke(context, "broker", "createQueue", json.dumps({"name": "off.q", "routing-type": "ANYCAST"}))
        producer = context.create_producer()
        await producer.send(Queue("off.q"), "kept")
        await call("disabled", "disable")
        await call("is not enabled", "isEnabled")
        await producer.send(Queue("off.q"), "lost")
        await call("messages of a disabled queue", "getMessageCount")
        await call("consumed", "countMessages", "")
        await call("enabled", "enable")
        await call("is enabled", "isEnabled")
        await producer.send(Queue("off.q"), "later")
        await call("messages", "getMessageCount")
        wanted = json.dumps({"name": "off.made", "routing-type": "MULTICAST", "enabled": False})
        await invoke(context, "broker", "createQueue", wanted)
        await call("made disabled", "isEnabled", resource="queue.off.made")
        rows = await page(context, "listQueues", "name", "off.made")
        results["listed"] = rows[0]["enabled"]
        updated = await invoke(context, "broker", "updateQueue", json.dumps({"name": "off.made", "enabled": True}))
        assert json.loads(updated)["name"] == "off.made"
        await call("updated", "isEnabled", resource="queue.off.made")
    return results


async def test_disabled_queues_are_those_of_artemis(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected = await disabled_results(theirs.url)
    assert expected["messages of a disabled queue"] == 1
    assert await disabled_results(ours.url) == expected


# -- moves without duplicates ----------------------------------------------------------------------------------------


async def moves_of(url: str) -> dict[str, Any]:
    """Results of moves to a queue whose address has one of the duplicate ids already."""
    results: dict[str, Any] = {}
    async with ConnectionFactory(url, user="admin", password="admin").create_context() as context:
        for name in ("from.q", "to.q"):
            await invoke(context, "broker", "createQueue", json.dumps({"name": name, "routing-type": "ANYCAST"}))
        producer = context.create_producer()
        for name, identifiers in (("to.q", ("one",)), ("from.q", ("one", "two", "three"))):
            for each in identifiers:
                message = TextMessage(each, properties={"_AMQ_DUPL_ID": each})
                await producer.send(Queue(name), message)

        async def call(label: str, operation: str, *arguments: object, resource: str = "queue.from.q") -> None:
            results[label] = await invoke(context, resource, operation, *arguments)

        rows = json.loads(await invoke(context, "queue.from.q", "listMessagesAsJSON", ""))
        await call("moved one", "moveMessage", rows[1]["messageID"], "to.q", True)
        await call("moved", "moveMessages", "", "to.q", True)
        await call("left", "getMessageCount")
        await call("there", "getMessageCount", resource="queue.to.q")
        await call("ids", "getCurrentDuplicateIdCacheSize", resource="address.to.q")
        await call("cleared", "clearDuplicateIdCache", resource="address.to.q")
        await call("no ids", "getCurrentDuplicateIdCacheSize", resource="address.to.q")
        for name in ("getDeadLetterAddress", "getExpiryAddress", "getDeliveringSize", "getDurableDeliveringCount"):
            await call(name, name)
        await call("roles", "getRolesAsJSON", resource="address.to.q")
        await call("clusters", "getClusterConnectionNames", resource="broker")
        await call("time-out", "getTransactionTimeout", resource="broker")
        # Last, as Artemis counts the messages of the queue wrong after a refused move.
        for name in ("to.q", "from.q"):
            await producer.send(Queue(name), TextMessage("again", properties={"_AMQ_DUPL_ID": "again"}))
        rows = json.loads(await invoke(context, "queue.from.q", "listMessagesAsJSON", ""))
        text = await invoke(context, "queue.from.q", "moveMessage", rows[0]["messageID"], "to.q", True)
        results["refused"] = text.startswith("Duplicate message detected - message will not be routed.")
        await call("there at last", "getMessageCount", resource="queue.to.q")
    return results


async def test_moves_treat_duplicates_as_those_of_artemis(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected = await moves_of(theirs.url)
    assert expected["refused"] is True
    assert await moves_of(ours.url) == expected


# -- branches in doubt -----------------------------------------------------------------------------------------------

BRANCHES = [Xid(7, b"branch", b"doubt\xff\x80"), Xid(-5, b"b2", b"doubt 2"), Xid(300, b"", b"doubt 3")]


async def branches_of(url: str) -> dict[str, Any]:
    """Results of operations on three branches in doubt: one sent and received, and each other one sent."""
    results: dict[str, Any] = {}
    async with (
        ConnectionFactory(url, user="admin", password="admin").create_context() as context,
        XAConnectionFactory(url, user="admin", password="admin").create_xa_connection() as connection,
        connection.xa_session() as session,
    ):

        async def call(label: str, operation: str, *arguments: object) -> Any:
            results[label] = result = await invoke(context, "broker", operation, *arguments)
            return result

        await call("none", "listPreparedTransactions")
        await call("no details", "listPreparedTransactionDetailsAsJSON")
        await context.create_producer().send(Queue("doubt"), TextMessage("first", properties={"n": 1}))
        for number, xid in enumerate(BRANCHES):
            await session.xa_resource.start(xid)
            sent = TextMessage("sent", properties={"n": 2}) if number else BytesMessage(b"sent")
            await session.create_producer(Queue("doubt")).send(sent)
            if number == 0:
                async with session.create_consumer(Queue("doubt")) as consumer:
                    assert await consumer.receive(timeout=10) is not None
                    await session.xa_resource.end(xid)
            else:
                await session.xa_resource.end(xid)
            await session.xa_resource.prepare(xid)
        texts = await call("", "listPreparedTransactions")
        results["texts"] = [re.sub(r"^.* base64: |XidImpl \(\d+", "", text) for text in texts]
        rows = json.loads(await call("", "listPreparedTransactionDetailsAsJSON"))
        results["details"] = shape(rows)
        for label, operation, number in (
            ("committed", "commitPreparedTransaction", 1),
            ("rolled back", "rollbackPreparedTransaction", 2),
            ("decided already", "commitPreparedTransaction", 2),
        ):
            await call(label, operation, rows[number]["xid_as_base64"])
        await call("unknown", "commitPreparedTransaction", "nope")
        await call("committed ones", "listHeuristicCommittedTransactions")
        await call("rolled back ones", "listHeuristicRolledBackTransactions")
        results["count"] = await invoke(context, "queue.doubt", "getMessageCount")
        await session.xa_resource.rollback(BRANCHES[0])
        for xid, code in zip(BRANCHES[1:], (XaCode.XA_HEURCOM, XaCode.XA_HEURRB), strict=True):
            with pytest.raises(XAException) as caught:
                await session.xa_resource.commit(xid)
            assert caught.value.error_code == code
            await session.xa_resource.forget(xid)
        await call("forgotten", "listHeuristicCommittedTransactions")
    del results[""]
    return results


async def test_branches_in_doubt_are_listed_and_decided_as_by_artemis(
    theirs: NotifyingArtemis, ours: ThreadedBroker
) -> None:
    expected = await branches_of(theirs.url)
    assert len(expected["details"]) == 3 and expected["committed"] is True
    found = await branches_of(ours.url)
    assert differences("details", expected.pop("details"), found.pop("details")) == []
    assert found == expected


def transaction_commands(url: str) -> list[object]:
    """Exit codes and outputs of `embedbroker transaction`."""

    async def prepare() -> None:
        factory = XAConnectionFactory(url, user="admin", password="admin")
        async with factory.create_xa_connection() as connection, connection.xa_session() as session:
            for name in (b"one", b"two"):
                xid = Xid(7, b"shell", name)
                await session.xa_resource.start(xid)
                await session.create_producer(Queue("doubt.shell")).send("text")
                await session.xa_resource.end(xid)
                await session.xa_resource.prepare(xid)

    trio.run(prepare)
    rows = [json.loads(line) for line in run_command(url, "transaction", "list", "--json").stdout.splitlines()]
    ids = [row["xid_as_base64"] for row in rows]
    calls = [
        run_command(url, "transaction", "commit", ids[0]),
        run_command(url, "transaction", "rollback", ids[1], "--json"),
        run_command(url, "transaction", "commit", ids[0]),
        run_command(url, "transaction", "list"),
        run_command(url, "transaction", "decided"),
    ]
    return [[(row["sent"], row["received"]) for row in rows], *[(each.exit_code, each.output) for each in calls]]


def test_the_command_for_branches_in_doubt_does_the_same_with_both(
    theirs: NotifyingArtemis, ours: ThreadedBroker
) -> None:
    expected = transaction_commands(theirs.url)
    assert transaction_commands(ours.url) == expected
    assert [each[0] for each in expected[1:] if isinstance(each, tuple)] == [0, 0, 6, 0, 0]


# -- messages on the command line ------------------------------------------------------------------------------------


def run_command(url: str, *words: str) -> Result:
    return CliRunner().invoke(commands, [*words, "--url", url, "--user", "admin", "--password", "admin"])


def message_commands(url: str) -> list[object]:
    """Exit codes and outputs of `embedbroker message`, with positions in place of message ids."""
    results: list[object] = []
    ids: list[str] = []

    def run(*words: str, code: int = 0) -> list[str]:
        done = run_command(url, "message", *[ids[int(word[1:])] if word[:1] == "#" else word for word in words])
        assert done.exit_code == code, (words, done.output)
        results.append((words, done.exit_code))
        return done.stdout.splitlines()

    def shown(*words: str, code: int = 0) -> list[str]:
        lines = run(*words, code=code)
        results.append(lines)
        return lines

    async def schedule() -> None:
        async with ConnectionFactory(url, user="admin", password="admin").create_context() as context:
            await context.create_producer().set_delivery_delay(600_000).send(Queue("mail"), "later")

    for name in ("mail", "mail.other"):
        assert run_command(url, "queue", "create", name).exit_code == 0
    ids += run("send", "mail", "one", "two", "three", "-p", "color=red")
    ids += run("send", "mail", "four", "-p", "color=blue", "--non-persistent")
    shown("count", "mail")
    shown("count", "mail", "--filter", "color = 'red'")
    rows = [json.loads(line) for line in run("browse", "mail", "--json")]
    results.append(shape(rows))
    assert [str(row["messageID"]) for row in rows] == ids
    results.append([line.split()[1:3] for line in run("browse", "mail", "--filter", "color = 'blue'")])
    shown("copy", "mail", "mail.other", "--id", "#0")
    shown("copy", "mail", "mail.other", "--id", "1", code=1)
    shown("move", "mail", "mail.other", "--id", "#1", "--id", "#3")
    shown("move", "mail", "mail.other", "--id", "#1", code=1)
    shown("move", "mail", "mail.other", "--filter", "color = 'red'")
    shown("move", "mail", "nowhere", "--all", code=6)
    shown("count", "mail.other")
    trio.run(schedule)
    scheduled = [json.loads(line) for line in run("scheduled", "mail", "--json")]
    results.append(shape(scheduled))
    ids.append(str(scheduled[0]["messageID"]))
    shown("deliver", "mail", "--id", "#4")
    shown("count", "mail")
    shown("reject", "mail.other", "--filter", "color = 'blue'")
    shown("count", "mail.other")
    shown("retry", "DLQ")
    shown("count", "mail.other", "--filter", "color = 'blue'")
    shown("expire", "mail.other", "--filter", "color = 'blue'")
    shown("delete", "mail.other", "--filter", "color = 'green'")
    shown("delete", "mail.other", "--all")
    shown("delete", "mail", "--all", "--json")
    shown("count", "mail")
    run("browse", "nope", code=6)
    return results


def test_the_command_for_messages_does_the_same_with_both(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    expected = message_commands(theirs.url)
    assert message_commands(ours.url) == expected


BRIDGE_FORMS: list[list[object]] = [
    [json.dumps({
        "name": "mover", "queue-name": "bridged.from", "forwarding-address": "bridged.to", "filter-string": "a = 1",
        "static-connectors": ["itself"], "retry-interval": 100, "retry-interval-multiplier": 1.5, "ha": False,
        "initial-connect-attempts": -1, "reconnect-attempts": 7, "use-duplicate-detection": True, "user": "admin",
        "password": "admin", "confirmation-window-size": 4000, "producer-window-size": 500, "concurrency": 1,
        "client-failure-check-period": 30000, "connection-ttl": 60000, "max-retry-interval": 2000,
        "min-large-message-size": 102400, "call-timeout": 30000, "reconnect-attempts-on-same-node": 10,
    })],
    ["mover", "bridged.from", "bridged.to", "a = 1", None, 100, 1.5, -1, 7, True, 4000, 30000, "itself", False, False,
     "admin", "admin"],
    ["mover", "bridged.from", "bridged.to", "a = 1", None, 100, 1.5, -1, 7, True, 4000, 500, 30000, "itself", False,
     False, "admin", "admin"],
    ["mover", "bridged.from", "bridged.to", "a = 1", None, {}, 100, 1.5, -1, 7, True, 4000, 500, 30000, "itself", False,
     False, "admin", "admin"],
]  # fmt: skip


async def moved_of(url: str, form: list[object]) -> dict[str, object]:
    """What a bridge shows that management creates and destroys, and what it moves."""
    async with ConnectionFactory(url, user="admin", password="admin").create_context() as context:
        for name in ("bridged.from", "bridged.to"):
            await invoke(context, "broker", "createQueue", json.dumps({"name": name, "routing-type": "ANYCAST"}))
        await invoke(context, "broker", "addConnector", "itself", url)
        await invoke(context, "broker", "createBridge", *form)
        found: dict[str, object] = {"names": await invoke(context, "broker", "getBridgeNames")}
        for name in (
            "QueueName", "ForwardingAddress", "FilterString", "StaticConnectors", "RetryInterval",
            "RetryIntervalMultiplier", "MaxRetryInterval", "ReconnectAttempts", "HA", "TransformerClassName",
        ):  # fmt: skip
            getter = f"is{name}" if name == "HA" else f"get{name}"
            found[name] = await invoke(context, "bridge.mover", getter)
        async with context.create_consumer(Queue("bridged.to")) as consumer:
            await context.create_producer().send(Queue("bridged.from"), TextMessage("one", properties={"a": 1}))
            message = await consumer.receive(timeout=30)
            assert message is not None
            found["moved"] = (message.body, message.properties["a"])
        await invoke(context, "broker", "destroyBridge", "mover")
        await invoke(context, "broker", "removeConnector", "itself")
        found["left"] = await invoke(context, "broker", "getBridgeNames")
        for name in ("bridged.from", "bridged.to"):
            await invoke(context, "broker", "destroyQueue", name)
    return found


@pytest.mark.parametrize("form", BRIDGE_FORMS, ids=["json", "17", "18", "map"])
async def test_bridges_of_management_are_those_of_artemis(
    theirs: NotifyingArtemis, ours: ThreadedBroker, form: list[object]
) -> None:
    expected = await moved_of(theirs.url, form)
    assert expected["moved"] == ("one", 1) and expected["names"] == ["mover"] and expected["left"] == []
    assert await moved_of(ours.url, form) == expected


def test_the_command_for_bridges_serves_both(theirs: NotifyingArtemis, ours: ThreadedBroker) -> None:
    def run(url: str, *words: str) -> Result:
        login = ("--url", url, "--user", "admin", "--password", "admin")
        return CliRunner().invoke(commands, [*words, *login], catch_exceptions=False)

    def shown(url: str) -> list[dict[str, object]]:
        outputs = [
            run(url, "queue", "create", "moved"),
            run(url, "bridge", "add-connector", "itself", url),
            run(url, "bridge", "create", "mover", "moved", "itself", "--forwarding-address", "elsewhere", "--ha"),
            run(url, "bridge", "stop", "mover"),
            run(url, "bridge", "list", "--json"),
            run(url, "bridge", "destroy", "mover"),
            run(url, "bridge", "remove-connector", "itself"),
            run(url, "queue", "delete", "moved"),
        ]
        assert [each.exit_code for each in outputs] == [0] * len(outputs), [each.output for each in outputs]
        return [json.loads(line) for line in outputs[4].stdout.splitlines()]

    expected = shown(theirs.url)
    assert [(row["Name"], row["Started"]) for row in expected] == [("mover", False)]
    assert shown(ours.url) == expected
