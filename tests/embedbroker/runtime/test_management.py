"""`broker.management`: reading and changing a running broker from its own program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve

from embedbroker import (
    AddressFullPolicy,
    AddressInfo,
    AddressSettings,
    DivertConfiguration,
    EmbeddedBroker,
    QueueInfo,
    SecuritySetting,
    User,
    load_config,
)
from embedclient import ConnectionFactory, Queue, TextMessage
from embedclient.errors import IllegalStateException, JMSException, JMSSecurityException


async def test_queues_and_addresses_are_created_shown_and_deleted() -> None:
    async with EmbeddedBroker() as broker:
        management = broker.management
        await management.create_queue("orders", max_consumers=3)
        await management.create_queue(
            "audit", address="prices", routing_type="MULTICAST", filter="a = 1", durable=False
        )
        assert {"orders", "audit"} <= set(await management.queue_names())
        shown = {queue.name: queue for queue in await management.queues()}
        assert shown["orders"] == QueueInfo("orders", "orders", "ANYCAST", True, 0, 0, 0, 0, 0)
        assert await management.get("queue.audit", "Filter") == "a = 1"
        assert await management.get("queue.orders", "MaxConsumers") == 3
        await management.create_address("both", "ANYCAST", "MULTICAST")
        addresses = {address.name: address for address in await management.addresses()}
        assert addresses["both"] == AddressInfo("both", ("MULTICAST", "ANYCAST"), 0, 0, 0, 0)
        await management.delete_address("both")
        await management.delete_queue("audit")
        await management.delete_address("orders", deletes_queues=True)
        assert not {"orders", "audit"} & set(await management.queue_names())


async def test_a_purge_counts_what_it_removes() -> None:
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.vm_url).connect() as connection:
        async with connection.session() as session:
            producer = session.create_producer("queue://orders")
            for number in range(200):
                await producer.send(f"order {number}")
        assert await broker.management.message_count("orders") == 200
        assert await broker.management.purge_queue("orders") == 200
        assert await broker.management.message_count("orders") == 0
        assert await broker.management.get("broker", "ConnectionCount") == 1


async def test_what_was_created_survives_a_crash(tmp_path: Path) -> None:
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        await broker.management.create_queue("orders")
        await broker.crash()
        await broker.start()
        assert "orders" in await broker.management.queue_names()


async def test_diverts_pauses_and_wildcards_survive_a_crash(tmp_path: Path) -> None:
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        management = broker.management
        await management.create_queue("audit")
        await management.create_queue("all", address="shop.#", routing_type="ANYCAST")
        await management.create_divert("copy", "shop.#", "audit", filter="region = 'EU'", routing_type="ANYCAST")
        await management.create_divert("gone", "shop.#", "nowhere")
        await management.delete_divert("gone")
        await management.pause_queue("audit", persist=True)
        await management.update_queue("all", max_consumers=7)
        for expected in (1, 2):
            async with ConnectionFactory(broker.vm_url).connect() as connection, connection.session() as session:
                producer = session.create_producer("queue://shop.tea")
                await producer.send(TextMessage("tea", properties={"region": "EU"}))
                await producer.send(TextMessage("tea", properties={"region": "ASIA"}))
                async with session.create_consumer("queue://audit") as consumer:
                    assert await consumer.receive_nowait() is None
            for queue, count in (("audit", expected), ("all", 2 * expected)):
                assert await management.message_count(queue) == count, queue
            await broker.crash()
            await broker.start()
            assert await management.divert_names() == ["copy"]
            assert await management.get("queue.audit", "Paused") is True
            assert await management.get("queue.all", "MaxConsumers") == 7
        await management.resume_queue("audit")
        async with (
            ConnectionFactory(broker.vm_url).connect() as connection,
            connection.session() as session,
            session.create_consumer("queue://audit") as consumer,
        ):
            assert await consumer.receive(timeout=60) is not None


async def test_a_disabled_queue_takes_nothing_and_stays_disabled_after_a_crash(tmp_path: Path) -> None:
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        management = broker.management
        await management.create_queue("orders")
        await management.send_message("orders", "kept")
        await management.disable_queue("orders")
        await broker.crash()
        await broker.start()
        assert await management.get("queue.orders", "Enabled") is False
        async with ConnectionFactory(broker.vm_url).connect() as connection, connection.session() as session:
            producer = session.create_producer("queue://orders")
            await producer.send("lost")
            async with session.create_consumer("queue://orders") as consumer:
                kept = await consumer.receive(timeout=60)
                assert isinstance(kept, TextMessage) and kept.text == "kept"
                assert await consumer.receive_nowait() is None
        await management.enable_queue("orders")
        await management.send_message("orders", "again")
        assert await management.message_count("orders") == 1


async def test_a_move_drops_duplicates() -> None:
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.vm_url).connect() as connection:
        async with connection.session() as session:
            for queue in ("orders", "archive"):
                await session.create_producer(f"queue://{queue}").send(
                    TextMessage("once", properties={"_AMQ_DUPL_ID": "one"})
                )
        assert await broker.management.move_messages("orders", "archive", reject_duplicates=True) == 1
        assert [await broker.management.message_count(queue) for queue in ("orders", "archive")] == [0, 1]


def test_a_queue_is_disabled_and_enabled_from_another_thread() -> None:
    with EmbeddedBroker.in_thread() as broker:
        broker.management.create_queue("orders")
        broker.management.disable_queue("orders")
        assert broker.management.get("queue.orders", "Enabled") is False
        broker.management.enable_queue("orders")
        assert broker.management.get("queue.orders", "Enabled") is True


XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><diverts>
<divert name="copy"><address>orders</address><forwarding-address>{target}</forwarding-address></divert>{more}
</diverts></core></configuration>"""
MORE = """<divert name="more"><address>orders</address><forwarding-address>all</forwarding-address></divert>"""


async def test_the_diverts_of_a_changed_broker_xml_are_adopted_and_survive_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(XML.format(target="audit", more=MORE))
    folder = str(tmp_path / "data")
    async with EmbeddedBroker(evolve(load_config(file), data_directory=folder)) as broker:
        file.write_text(XML.format(target="archive", more=""))
        await broker.management.reload_diverts(load_config(file).diverts)
        # One that the file no longer contains stays, unless the address settings remove it.
        assert sorted(await broker.management.divert_names()) == ["copy", "more"]
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "archive"
        await broker.crash()
    async with EmbeddedBroker(data_directory=folder) as broker:
        assert sorted(await broker.management.divert_names()) == ["copy", "more"]
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "archive"


async def test_diverts_that_cannot_be_adopted_are_named_and_the_others_hold() -> None:
    async with EmbeddedBroker(diverts={"copy": DivertConfiguration("orders", "audit")}) as broker:
        await broker.management.create_queue("taken")
        wanted = {"copy": DivertConfiguration("orders", "other"), "taken": DivertConfiguration("orders", "audit")}
        with pytest.raises(JMSException, match="divert 'taken': a queue has this name; choose another one"):
            await broker.management.reload_diverts(wanted)
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "other"
        with pytest.raises(TypeError, match="diverts must map names to DivertConfigurations, not 'copy' to 'audit'"):
            await broker.management.reload_diverts({"copy": "audit"})  # type: ignore[dict-item]  # the mistake


def test_diverts_are_adopted_from_another_thread() -> None:
    with EmbeddedBroker.in_thread() as broker:
        broker.management.reload_diverts({"copy": DivertConfiguration("orders", "audit")})
        assert broker.management.divert_names() == ["copy"]


# A value of each type, and each value that JSON shows in another form.
EVERY_KIND = AddressSettings(
    dead_letter_address="dead",
    max_delivery_attempts=2,
    redelivery_delay_ms=100,
    redelivery_delay_multiplier=1.5,
    address_full_policy=AddressFullPolicy.FAIL,
    send_to_dla_on_no_route=False,
    default_queue_routing_type=1,
    config_delete_queues=True,
    config_delete_addresses=False,
    config_delete_diverts=True,
    auto_create_queues=True,
    default_group_first_key="first",
)


async def test_address_settings_are_read_changed_and_survive_a_crash(tmp_path: Path) -> None:
    wide = {"#": AddressSettings(expiry_address="late", max_delivery_attempts=9)}
    async with EmbeddedBroker(data_directory=str(tmp_path), address_settings=wide) as broker:
        management = broker.management
        assert await management.address_settings("orders.tea") == wide["#"]
        await management.add_address_settings("orders.#", EVERY_KIND)
        for _ in range(2):
            assert await management.address_settings("orders.tea") == evolve(EVERY_KIND, expiry_address="late")
            assert await management.address_settings("other") == wide["#"]
            assert "dead" in await management.queue_names()
            await broker.crash()
            await broker.start()
        await management.remove_address_settings("orders.#")
        assert await management.address_settings("orders.tea") == wide["#"]
        with pytest.raises(JMSException, match=r"address-setting match 'a\.#\.b'"):
            await management.add_address_settings("a.#.b", AddressSettings())
        with pytest.raises(TypeError, match=r"settings must be AddressSettings, not \{'max_delivery_attempts': 3\}"):
            await management.add_address_settings("a", {"max_delivery_attempts": 3})  # type: ignore[arg-type]


async def test_permissions_are_read_and_changed_in_open_sessions_and_survive_a_crash(tmp_path: Path) -> None:
    users = [User("app", "secret", roles=["apps"])]
    everything = SecuritySetting.all("apps", "admins")
    settings = {"#": everything}
    async with EmbeddedBroker(data_directory=str(tmp_path), users=users, security_settings=settings) as broker:
        management = broker.management
        assert await management.security_settings("orders") == everything
        mine = SecuritySetting(consume=["apps"], browse=["apps", "admins"], view=["admins"])
        factory = ConnectionFactory(broker.vm_url, user="app", password="secret")
        async with factory.connect() as connection, connection.session() as session:
            producer = session.create_producer("queue://orders")
            await producer.send("one")
            await management.add_security_settings("orders.#", mine)
            with pytest.raises(JMSSecurityException, match="SEND"):
                await producer.send("two")
        await broker.crash()
        await broker.start()
        assert await management.security_settings("orders") == mine
        await management.remove_security_settings("orders.#")
        assert await management.security_settings("orders") == everything
        for role in ("two words", "a,b"):
            with pytest.raises(ValueError, match=f"role '{role}' contains a blank or a comma"):
                await management.add_security_settings("orders", SecuritySetting(send=[role]))
        with pytest.raises(TypeError, match=r"setting must be a SecuritySetting, not \['apps'\]"):
            await management.add_security_settings("orders", ["apps"])  # type: ignore[arg-type]
        assert await management.security_settings("orders") == everything


async def test_an_address_without_permissions_has_an_empty_setting() -> None:
    async with EmbeddedBroker(security_enabled=False, security_settings={}) as broker:
        assert await broker.management.security_settings("orders") == SecuritySetting()


def test_settings_are_changed_from_another_thread() -> None:
    with EmbeddedBroker.in_thread() as broker:
        settings = AddressSettings(max_delivery_attempts=3)
        broker.management.add_address_settings("orders", settings)
        assert broker.management.address_settings("orders").max_delivery_attempts == 3
        broker.management.remove_address_settings("orders")
        assert broker.management.address_settings("orders").max_delivery_attempts is None
        broker.management.add_security_settings("orders", SecuritySetting(send=["apps"]))
        assert broker.management.security_settings("orders") == SecuritySetting(send=["apps"])
        broker.management.remove_security_settings("orders")
        assert broker.management.security_settings("orders") == SecuritySetting.all("*")


async def test_failures_have_the_text_of_the_broker() -> None:
    async with EmbeddedBroker() as broker:
        with pytest.raises(JMSException, match="AMQ229017: Queue nope does not exist"):
            await broker.management.delete_queue("nope")
        with pytest.raises(JMSException, match=r"AMQ229067: Cannot find resource with name queue\.nope"):
            await broker.management.purge_queue("nope")
        with pytest.raises(JMSException, match="Problem while retrieving attribute Nope"):
            await broker.management.get("broker", "Nope")
        with pytest.raises(JMSException, match="AMQ229069: no operation createQueue/1"):
            await broker.management.invoke("broker", "createQueue", 5)


async def test_a_broker_that_does_not_run_has_no_management() -> None:
    async with EmbeddedBroker() as broker:
        management = broker.management
        await broker.stop()
        with pytest.raises(IllegalStateException):
            await management.queue_names()


async def test_message_counters_are_enabled_shown_and_disabled() -> None:
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.vm_url).connect() as connection:
        management = broker.management
        async with connection.session() as session:
            await session.create_producer("queue://orders").send("x")
        names = ("MessageCounterEnabled", "MessageCounterSamplePeriod")
        await management.enable_message_counters(period_ms=3_600_000)
        assert [await management.get("broker", name) for name in names] == [True, 3_600_000]
        counter = await management.message_counter("orders")
        # Samples have the time of the broker: tests of the node let it pass.
        assert [counter[name] for name in ("destinationName", "messageCount", "count")] == ["orders", 1, 0]
        (day,) = await management.message_counter_history("orders")
        assert len(day["counters"]) == 24 and max(day["counters"]) == 0
        await management.disable_message_counters()
        assert [await management.get("broker", name) for name in names] == [False, 3_600_000]


async def test_the_use_of_the_disk_is_that_of_the_directory(tmp_path: Path) -> None:
    async with EmbeddedBroker() as broker:
        assert await broker.management.get("broker", "DiskStoreUsage") == 0.0
    async with EmbeddedBroker(data_directory=str(tmp_path)) as broker:
        usage, limit = [await broker.management.get("broker", name) for name in ("DiskStoreUsage", "MaxDiskUsage")]
        free = shutil.disk_usage(tmp_path)
        assert abs(usage - (1 - free.free / free.total)) < 0.1 and 0 < usage < 1 and limit == 100


def test_the_blocking_form() -> None:
    with EmbeddedBroker.in_thread() as broker:
        management = broker.management
        management.create_queue("orders")
        management.create_address("prices", "MULTICAST")
        assert "orders" in management.queue_names()
        assert {"orders"} <= {queue.name for queue in management.queues()}
        assert "prices" in {address.name for address in management.addresses()}
        assert management.message_count("orders") == management.purge_queue("orders") == 0
        assert management.get("broker", "Started") is True
        assert management.invoke("broker", "getNodeID") == broker.node_id
        management.delete_queue("orders", closes_consumers=True)
        management.delete_address("prices", deletes_queues=True)
        with pytest.raises(JMSException, match="AMQ229203"):
            management.delete_address("prices")


async def test_messages_are_sent_browsed_moved_copied_and_removed() -> None:
    async with EmbeddedBroker() as broker:
        management = broker.management
        for name in ("orders", "other"):
            await management.create_queue(name)
        first = await management.send_message("orders", "one", properties={"color": "red"})
        for text in ("two", "three", "four"):
            await management.send_message("orders", text, durable=False)
        (shown,) = await management.browse("orders", filter="color = 'red'")
        assert (shown["messageID"], shown["color"], shown["durable"]) == (first, "red", True)
        assert [row["durable"] for row in await management.browse("orders", page=2, page_size=3)] == [False]
        assert await management.copy_message("orders", first, "other") is True
        assert await management.copy_message("orders", 1, "other") is False
        assert await management.move_messages("orders", "other", limit=2) == 2
        assert await management.change_priority("other", 9, filter="color = 'red'") == 2
        assert {row["priority"] for row in await management.browse("other", filter="color = 'red'")} == {9}
        assert await management.reject_messages("other", filter="color = 'red'") == 2
        assert await management.retry_messages("DLQ") == 2
        assert await management.expire_messages("orders") == 2
        assert await management.remove_messages("other", filter="color IS NULL") == 1
        assert await management.message_count("ExpiryQueue") == 2


async def test_scheduled_messages_are_listed_and_delivered_early() -> None:
    async with EmbeddedBroker() as broker:
        management = broker.management
        await management.create_queue("orders")
        async with ConnectionFactory(broker.url).create_context() as context:
            producer = context.create_producer()
            for text in ("one", "two"):
                await producer.set_delivery_delay(3600).send(Queue("orders"), TextMessage(text))
        rows = await management.browse("orders", scheduled=True)
        assert [row["type"] for row in rows] == [3, 3] and await management.browse("orders") == []
        await management.deliver_scheduled_messages("orders", filter="color = 'red'")
        assert await management.browse("orders", scheduled=True) == rows
        await management.deliver_scheduled_messages("orders")
        assert await management.browse("orders", scheduled=True) == []
        assert await management.browse("orders") == rows
        with pytest.raises(ValueError, match="without a filter"):
            await management.browse("orders", scheduled=True, filter="a = 1")


async def test_connections_are_closed_by_address_or_user() -> None:
    async with EmbeddedBroker() as broker:
        async with ConnectionFactory(f"{broker.url}?reconnectAttempts=0").connect():
            assert await broker.management.close_connections(address="10.") is False
            assert await broker.management.close_connections(address="127.0.0.1") is True
        assert await broker.management.close_connections(user="app") is False
        with pytest.raises(ValueError, match="an address or a user"):
            await broker.management.close_connections()


async def test_all_queues_of_many_pages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedbroker.runtime._management.PAGE_SIZE", 3)
    async with EmbeddedBroker() as broker:
        for number in range(7):
            await broker.management.create_queue(f"page-{number}")
        names = [queue.name for queue in await broker.management.queues()]
        assert [name for name in names if name.startswith("page-")] == [f"page-{number}" for number in range(7)]
