"""Message groups, wildcards and diverts, as each facade of the client meets them."""

from __future__ import annotations

from typing import Any

import pytest

from embedbroker import DivertConfiguration, DivertedMessage, DivertRoutingType, WildcardConfiguration
from embedclient import Queue, TextMessage, Topic
from embedclient.errors import JMSException
from tests.embedclient.facades.conftest import Client, connected, texts

PAYMENTS = Queue("payments")


def grouped(group: str, text: str, **properties: Any) -> TextMessage:
    return TextMessage(f"{group} {text}", properties={"JMSXGroupID": group, **properties})


# -- message groups ----------------------------------------------------------------------------------------------


async def test_groups_are_shared_out_and_go_on_with_another_consumer(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session, connection.session() as other:
        first = await session.create_consumer(PAYMENTS)
        second = await other.create_consumer(PAYMENTS)
        producer = session.create_producer(PAYMENTS)
        for step in ("opens", "pays"):
            for account in ("anna", "ben"):
                await producer.send(grouped(account, step))
        assert await texts(first, 2) == ["anna opens", "anna pays"]
        assert await texts(second, 2) == ["ben opens", "ben pays"]
        await first.close()
        for account in ("anna", "ben"):
            await producer.send(grouped(account, "ends"))
        assert await texts(second, 2) == ["anna ends", "ben ends"]


async def test_a_group_ends_with_the_sequence_minus_one(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(PAYMENTS) as first,
        session.create_consumer(PAYMENTS) as second,
    ):
        producer = session.create_producer(PAYMENTS)
        await producer.send(grouped("anna", "pays"))
        await producer.send(grouped("anna", "ends", JMSXGroupSeq=-1))
        await producer.send(grouped("anna", "opens again"))
        assert await texts(first, 2) == ["anna pays", "anna ends"]
        assert await texts(second, 1) == ["anna opens again"]


@pytest.mark.parametrize("option", ["groupID=anna", "autoGroup=true"])
async def test_the_url_puts_all_messages_of_a_producer_into_a_group(option: str, client: Client, url: str) -> None:
    async with (
        connected(client, f"{url}?{option}") as connection,
        connection.session() as session,
        session.create_consumer(PAYMENTS) as first,
        session.create_consumer(PAYMENTS) as second,
    ):
        producer = session.create_producer(PAYMENTS)
        for text in "123":
            await producer.send(text)
        message = await first.receive(timeout=60)
        assert message is not None and message.body == "1"
        group = message.properties["JMSXGroupID"]
        assert group == "anna" if option == "groupID=anna" else group
        assert await texts(first, 2) == ["2", "3"]
        assert await second.receive_nowait() is None


async def test_the_first_message_of_a_group_is_marked_for_its_consumer(client: Client, url: str) -> None:
    queue = Queue("payments?group-first-key=opens")
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(queue) as consumer,
    ):
        producer = session.create_producer(queue)
        for group in ("anna", "ben", "anna"):
            await producer.send(grouped(group, "pays"))
        marks = []
        for _ in range(3):
            message = await consumer.receive(timeout=60)
            assert message is not None
            marks.append((message.body, message.properties.get("opens")))
        assert marks == [("anna pays", True), ("ben pays", True), ("anna pays", None)]


async def test_groups_of_one_bucket_go_to_one_consumer(client: Client, url: str) -> None:
    queue = Queue("payments?group-buckets=1")
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(queue) as first,
        session.create_consumer(queue) as second,
    ):
        producer = session.create_producer(queue)
        for group in ("anna", "ben", "cleo"):
            await producer.send(grouped(group, "pays"))
        assert await texts(first, 3) == ["anna pays", "ben pays", "cleo pays"]
        assert await second.receive_nowait() is None


async def test_a_new_consumer_gets_groups_when_they_are_balanced_again(client: Client, url: str) -> None:
    queue = Queue("payments?group-rebalance=true&group-rebalance-pause-dispatch=true")
    async with connected(client, url) as connection, connection.session() as session, connection.session() as other:
        first = await session.create_consumer(queue)
        producer = session.create_producer(queue)
        for group in ("anna", "ben"):
            await producer.send(grouped(group, "opens"))
        assert await texts(first, 2) == ["anna opens", "ben opens"]
        second = await other.create_consumer(queue)
        for group in ("anna", "ben"):
            await producer.send(grouped(group, "pays"))
        shares = [await texts(consumer, 1) for consumer in (first, second)]
        assert sorted(shares) == [["anna pays"], ["ben pays"]]


async def test_groups_are_shown_and_reset_by_management(client: Client) -> None:
    async with (
        client.broker() as broker,
        connected(client, broker.url) as connection,
        connection.session() as session,
        session.create_consumer(PAYMENTS) as first,
        session.create_consumer(PAYMENTS) as second,
    ):
        producer = session.create_producer(PAYMENTS)
        await producer.send(grouped("anna", "pays"))
        assert await texts(first, 1) == ["anna pays"]
        assert [found.group_id for found in await broker.management.groups("payments")] == ["anna"]
        await broker.management.reset_groups("payments", group="anna")
        assert await broker.management.groups("payments") == []
        await producer.send(grouped("anna", "pays again"))
        assert await texts(second, 1) == ["anna pays again"]
        await broker.management.reset_groups("payments")
        assert await broker.management.get("queue.payments", "GroupCount") == 0


# -- wildcards ---------------------------------------------------------------------------------------------------


async def send_prices(session: Any, kind: type[Queue] | type[Topic], *names: str) -> None:
    producer = session.create_producer(None)
    for name in names:
        await producer.send(name, destination=kind(name))


async def test_topic_subscriptions_with_wildcards_get_all_that_matches(client: Client, url: str) -> None:
    async with (
        connected(client, url, client_id="shop") as connection,
        connection.session() as session,
        session.create_consumer(Topic("prices.#")) as all_,
        session.create_consumer(Topic("prices.*")) as one_word,
        session.create_durable_consumer(Topic("prices.tea.#"), "teas") as durable,
        session.create_shared_consumer(Topic("*.rice"), "rice") as shared,
    ):
        await send_prices(session, Topic, "prices", "prices.rice", "prices.tea.green", "weather")
        assert await texts(all_, 3) == ["prices", "prices.rice", "prices.tea.green"]
        assert await texts(one_word, 1) == ["prices.rice"]
        assert await texts(durable, 1) == ["prices.tea.green"]
        assert await texts(shared, 1) == ["prices.rice"]
        await durable.close()
        await send_prices(session, Topic, "prices.tea.black")
        async with session.create_durable_consumer(Topic("prices.tea.#"), "teas") as durable:
            message = await durable.receive(timeout=60)
            assert message is not None
            assert (message.body, message.destination) == ("prices.tea.black", Topic("prices.tea.black"))


async def test_consumers_of_one_wildcard_queue_share_what_is_sent_to_queues(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session, connection.session() as other:
        async with session.create_consumer(Queue("shop.#")) as first, other.create_consumer(Queue("shop.#")) as second:
            await send_prices(session, Queue, "shop.tea", "shop.rice")
            shares = [await texts(consumer, 1) for consumer in (first, second)]
            assert sorted(shares) == [["shop.rice"], ["shop.tea"]]
        async with session.create_consumer(Queue("shop.tea")) as own:
            assert await texts(own, 1) == ["shop.tea"]


async def test_what_is_sent_to_a_wildcard_stays_with_queues_of_that_address(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(Topic("prices.*")) as wildcard,
        session.create_consumer(Topic("prices.tea")) as concrete,
    ):
        await send_prices(session, Topic, "prices.*")
        assert await texts(wildcard, 1) == ["prices.*"]
        assert await concrete.receive_nowait() is None


async def test_other_characters_stand_for_words(client: Client) -> None:
    characters = WildcardConfiguration(delimiter="/", single_word="+")
    async with (
        client.broker(wildcard_addresses=characters) as broker,
        connected(client, broker.url) as connection,
        connection.session() as session,
        session.create_consumer(Topic("prices/+")) as consumer,
    ):
        await send_prices(session, Topic, "prices/tea", "prices.tea", "prices/tea/green")
        assert await texts(consumer, 1) == ["prices/tea"]


# -- diverts -----------------------------------------------------------------------------------------------------


async def test_a_divert_copies_what_its_filter_takes(client: Client) -> None:
    async with client.broker() as broker, connected(client, broker.url) as connection, connection.session() as session:
        await broker.management.create_divert("eu", "orders", "audit", filter="region = 'EU'", routing_type="ANYCAST")
        async with session.create_consumer(Queue("orders")) as orders, session.create_consumer(Queue("audit")) as audit:
            producer = session.create_producer(Queue("orders"))
            await producer.send(TextMessage("tea", properties={"region": "EU"}))
            await producer.send(TextMessage("rice", properties={"region": "ASIA"}))
            assert await texts(orders, 2) == ["tea", "rice"]
            message = await audit.receive(timeout=60)
            assert message is not None
            assert (message.body, message.properties["_AMQ_ORIG_ADDRESS"]) == ("tea", "orders")
            assert await audit.receive_nowait() is None
            assert await broker.management.divert_names() == ["eu"]
            await broker.management.delete_divert("eu")
            await producer.send(TextMessage("more tea", properties={"region": "EU"}))
            assert await texts(orders, 1) == ["more tea"]
            assert await audit.receive_nowait() is None


async def test_an_exclusive_divert_of_a_wildcard_keeps_messages_from_their_queue(client: Client) -> None:
    async with client.broker() as broker, connected(client, broker.url) as connection, connection.session() as session:
        await broker.management.create_divert("all", "shop.#", "audit", exclusive=True, routing_type="ANYCAST")
        async with session.create_consumer(Queue("shop.tea")) as tea, session.create_consumer(Queue("audit")) as audit:
            async with connection.session(transacted=True) as transacted:
                producer = transacted.create_producer(Queue("shop.tea"))
                await producer.send("rolled back")
                await transacted.rollback()
                await producer.send("tea")
                assert await audit.receive_nowait() is None
                await transacted.commit()
            assert await texts(audit, 1) == ["tea"]
            assert await tea.receive_nowait() is None


def mark(message: DivertedMessage) -> None:
    message.set_property("audited_as", f"{message.original_address}/{message.property('region')!s}")


async def test_a_transformer_of_the_program_changes_the_copy_alone(client: Client) -> None:
    diverts = {"all": DivertConfiguration("orders", "audit", routing_type=DivertRoutingType.ANYCAST, transformer=mark)}
    async with (
        client.broker(diverts=diverts) as broker,
        connected(client, broker.url) as connection,
        connection.session() as session,
        session.create_consumer(Queue("orders")) as orders,
        session.create_consumer(Queue("audit")) as audit,
    ):
        await session.create_producer(Queue("orders")).send(TextMessage("tea", properties={"region": "EU"}))
        marks = []
        for consumer in (orders, audit):
            message = await consumer.receive(timeout=60)
            assert message is not None
            marks.append((message.body, message.properties.get("audited_as")))
        assert marks == [("tea", None), ("tea", "orders/EU")]


async def test_a_divert_that_cannot_be_is_refused_with_the_reason(client: Client) -> None:
    async with client.broker() as broker:
        await broker.management.create_queue("taken")
        with pytest.raises(JMSException, match="divert 'taken': a queue has this name"):
            await broker.management.create_divert("taken", "orders", "audit")
        with pytest.raises(JMSException, match="divert 'odd': invalid selector"):
            await broker.management.create_divert("odd", "orders", "audit", filter="region =")
        assert await broker.management.divert_names() == []
