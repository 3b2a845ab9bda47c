"""Our client, and a cluster's bridge of ours, at two real Artemis that stand in for each other, and come back."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
import trio
from attrs import frozen

from embedbroker import AddressConfiguration, ClusterConnection, EmbeddedBroker, QueueConfiguration
from embedbroker.config import MessageLoadBalancing
from embedclient import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    FailoverEventType,
    Message,
    MessageConsumer,
    MessageProducer,
    Queue,
    Session,
    TemporaryQueue,
    TextMessage,
    Topic,
    XaCode,
    XAConnection,
    XAConnectionFactory,
    XAException,
    XASession,
    Xid,
)
from embedclient.errors import (
    ConnectionFailedException,
    DuplicateIDException,
    JMSException,
    TransactionOutcomeUnknownException,
    TransactionRolledBackException,
    UnblockedException,
)
from tests.interop.artemis_pair import ArtemisPair
from tests.interop.three_nodes import PASSWORD, USER, formed, received, sessions

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

WAIT = 30.0
FAILING_OVER = "ha=true&reconnectAttempts=-1&retryInterval=100"


@pytest.fixture(scope="module", params=["shared-store", "replication"])
def running_pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArtemisPair]:
    directory = tmp_path_factory.mktemp("artemis") / request.param
    directory.mkdir()
    with ArtemisPair(directory, replicated=request.param == "replication") as pair:
        yield pair


@pytest.fixture
def pair(running_pair: ArtemisPair) -> Iterator[ArtemisPair]:
    """The primary is active when a test begins."""
    yield running_pair
    if not running_pair.primary.running:
        running_pair.fail_back()


@pytest.fixture
def url(pair: ArtemisPair) -> str:
    """Names the primary only: where the backup is the client has to learn."""
    return f"{pair.primary.url}?{FAILING_OVER}"


@pytest.fixture
def name() -> str:
    return f"failover-{uuid4().hex[:8]}"


async def following(consumer: MessageConsumer) -> str:
    message = await consumer.receive(timeout=WAIT)
    assert message is not None, "no message came"
    return str(message.body)


class Watch:
    """What the listeners of a connection hear."""

    def __init__(self, connection: Connection) -> None:
        self.events: list[FailoverEventType] = []
        self.failures: list[ConnectionFailedException] = []
        self.over = trio.Event()
        connection.add_failover_listener(self.events.append)
        connection.exception_listener = self._on_exception

    def _on_exception(self, error: JMSException) -> None:
        assert isinstance(error, ConnectionFailedException)
        self.failures.append(error)
        self.over.set()

    def begin_again(self) -> None:
        """Forget what was received."""
        self.events.clear()
        self.failures.clear()
        self.over = trio.Event()

    async def wait_until_it_followed(self) -> None:
        """Return when the connection is at the other broker, and that is the only event received."""
        with trio.fail_after(WAIT):
            await self.over.wait()
        assert self.events == [FailoverEventType.FAILURE_DETECTED, FailoverEventType.FAILOVER_COMPLETED]
        assert [(each.failed_over, each.jms_error_code) for each in self.failures] == [(True, "FAILOVER")]


@frozen
class SessionWork:
    """Sessions of every kind but XA, with what they have open when the broker is gone."""

    name: str
    session: Session
    by_hand: Session
    transacted: Session
    idle: Session
    producer: MessageProducer
    consumer: MessageConsumer
    temporary: TemporaryQueue
    replies: MessageConsumer
    subscriber: MessageConsumer
    held: MessageConsumer
    work: MessageProducer
    unacknowledged: list[Message]

    @classmethod
    async def on(cls, connection: Connection, name: str) -> SessionWork:
        session = await connection.session()
        by_hand = await connection.session(acknowledge_mode=AcknowledgeMode.CLIENT)
        transacted, idle = [await connection.session(transacted=True) for _ in range(2)]
        temporary = await session.create_temporary_queue()
        return cls(
            name,
            session,
            by_hand,
            transacted,
            idle,
            session.create_producer(Queue(name)),
            await session.create_consumer(Queue(name)),
            temporary,
            await session.create_consumer(temporary),
            await session.create_consumer(Topic(f"{name}-topic")),
            await by_hand.create_consumer(Queue(f"{name}-held")),
            transacted.create_producer(Queue(f"{name}-work")),
            [],
        )

    async def begin(self) -> None:
        """The broker has something of everything."""
        await self.by_hand.create_producer(Queue(f"{self.name}-held")).send("held")
        unacknowledged = await self.held.receive(timeout=WAIT)
        assert unacknowledged is not None
        self.unacknowledged.append(unacknowledged)
        await self.producer.send("before")
        assert await following(self.consumer) == "before"
        await self.work.send("lost")

    async def finish(self) -> None:
        """At the other broker."""
        await self.producer.send("after")
        received = await following(self.consumer)
        if received == "before":  # its acknowledgement went down with the broker
            received = await following(self.consumer)
        assert received == "after"
        await self.session.create_producer(self.temporary).send("a reply")
        assert await following(self.replies) == "a reply"
        await self.session.create_producer(Topic(f"{self.name}-topic")).send("news")
        assert await following(self.subscriber) == "news"
        with pytest.raises(TransactionRolledBackException):
            await self.unacknowledged.pop().acknowledge()
        again = await self.held.receive(timeout=WAIT)
        assert again is not None and again.body == "held"
        await again.acknowledge()
        with pytest.raises(TransactionRolledBackException) as caught:
            await self.transacted.commit()
        assert type(caught.value) is TransactionRolledBackException
        await self.work.send("kept")
        await self.transacted.commit()
        await self.idle.commit()
        async with self.session.create_consumer(Queue(f"{self.name}-work")) as worked:
            assert await following(worked) == "kept"
            assert await worked.receive_nowait() is None


@frozen
class BranchWork:
    """Two XA sessions: one has prepared its branch when the broker is gone, the other one works in its own."""

    queue: Queue
    first: XASession
    second: XASession
    branches: list[Xid]

    @classmethod
    async def on(cls, connection: XAConnection, name: str) -> BranchWork:
        first, second = [await connection.xa_session() for _ in range(2)]
        return cls(Queue(f"{name}-branches"), first, second, [])

    async def begin(self) -> None:
        """One branch is prepared, one is not."""
        self.branches[:] = [Xid(7, b"branch", uuid4().bytes) for _ in range(2)]
        for session, xid, text in zip((self.first, self.second), self.branches, ("prepared", "active"), strict=True):
            await session.xa_resource.start(xid)
            await session.create_producer(self.queue).send(text)
        await self.first.xa_resource.end(self.branches[0])
        assert await self.first.xa_resource.prepare(self.branches[0]) is XaCode.XA_OK

    async def finish(self) -> None:
        """At the other broker: the one is there, the other one is lost and cannot be prepared."""
        prepared, active = self.branches
        assert await self.first.xa_resource.recover() == [prepared]
        await self.first.xa_resource.commit(prepared, one_phase=False)
        for request in (self.second.xa_resource.end, self.second.xa_resource.prepare):
            with pytest.raises(XAException) as caught:
                await request(active)
            assert caught.value.error_code == XaCode.XAER_RMFAIL
        await self.second.xa_resource.rollback(active)


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_sessions_of_every_kind_move_to_the_backup_and_back_to_the_primary(
    pair: ArtemisPair, url: str, name: str, how: str
) -> None:
    async with (
        ConnectionFactory(url).connect() as connection,
        XAConnectionFactory(url).create_xa_connection() as xa_connection,
    ):
        watches = [Watch(connection), Watch(xa_connection)]
        works: list[SessionWork | BranchWork] = []
        works += [await SessionWork.on(connection, name), await BranchWork.on(xa_connection, name)]
        branches = Queue(f"{name}-branches")
        async with connection.session() as reader, reader.create_consumer(branches) as decided:
            for move in (getattr(pair, how), pair.fail_back):
                for work in works:
                    await work.begin()
                for watch in watches:
                    watch.begin_again()
                await trio.to_thread.run_sync(move)
                for watch in watches:
                    await watch.wait_until_it_followed()
                for work in works:
                    await work.finish()
                assert await following(decided) == "prepared"
                assert await decided.receive_nowait() is None


async def send_until_it_holds(session: Session, queue: str, text: str, identity: str) -> None:
    """A send with an id, repeated until the broker confirms that it has it."""
    producer = session.create_producer(Queue(queue))
    while True:
        try:
            await producer.send(TextMessage(text, properties={"_AMQ_DUPL_ID": identity}))
        except UnblockedException:
            continue
        return


async def commit_until_it_holds(session: Session, queue: str, texts: list[str]) -> None:
    """A transaction with ids, repeated until it is committed, or was before."""
    producer = session.create_producer(Queue(queue))
    in_doubt = False
    while True:
        try:
            for text in texts:
                await producer.send(TextMessage(text, properties={"_AMQ_DUPL_ID": f"{queue} {text}"}))
            await session.commit()
        except TransactionOutcomeUnknownException:
            in_doubt = True
            continue
        except TransactionRolledBackException:
            continue
        except UnblockedException:
            # The first message to a destination queries the broker for it, and that query was under way.
            await session.rollback()
            continue
        except DuplicateIDException:
            assert in_doubt, "nobody else sends these"
            await session.rollback()
        return


async def test_ids_and_repetition_give_once_and_only_once(pair: ArtemisPair, url: str, name: str) -> None:
    """Senders work through a kill and the way back, and repeat whatever is in doubt."""
    ended = trio.Event()
    counts = {"single": 0, "batches": 0}
    async with ConnectionFactory(url).connect() as connection, trio.open_nursery() as nursery:

        async def send() -> None:
            async with connection.session() as session:
                while not ended.is_set():
                    number = counts["single"]
                    await send_until_it_holds(session, f"{name}-single", str(number), f"{name} {number}")
                    counts["single"] += 1

        async def commit() -> None:
            async with connection.session(transacted=True) as session:
                while not ended.is_set():
                    texts = [f"{counts['batches']}.{part}" for part in range(3)]
                    await commit_until_it_holds(session, f"{name}-batches", texts)
                    counts["batches"] += 1

        nursery.start_soon(send)
        nursery.start_soon(commit)
        await trio.to_thread.run_sync(pair.kill)
        await trio.to_thread.run_sync(pair.fail_back)
        ended.set()
    assert counts["single"] > 10 and counts["batches"] > 10
    async with ConnectionFactory(url).connect() as connection, connection.session() as session:
        async with session.create_consumer(Queue(f"{name}-single")) as consumer:
            texts = [await following(consumer) for _ in range(counts["single"])]
            assert texts == [str(number) for number in range(counts["single"])]
            assert await consumer.receive_nowait() is None
        async with session.create_consumer(Queue(f"{name}-batches")) as consumer:
            texts = [await following(consumer) for _ in range(3 * counts["batches"])]
            assert texts == [f"{number}.{part}" for number in range(counts["batches"]) for part in range(3)]
            assert await consumer.receive_nowait() is None


# A backup of Artemis that replicates requests its copy from every member, ours too, and stops itself if one refuses.
@pytest.mark.parametrize("running_pair", ["shared-store"], indirect=True)
async def test_a_broker_of_ours_follows_a_member_to_its_backup_and_back(pair: ArtemisPair, url: str, name: str) -> None:
    """What is for that member, some of it on its way when the member is gone, is there once."""
    queue, ended, sent = Queue(name), trio.Event(), 0
    ours = EmbeddedBroker(
        addresses={name: AddressConfiguration(anycast={name: QueueConfiguration()})},
        cluster_user=USER,
        cluster_password=PASSWORD,
        connectors={"pair": pair.primary.url},
        cluster_connections=ClusterConnection(
            static_connectors=("pair",), message_load_balancing=MessageLoadBalancing.STRICT, retry_interval_ms=100
        ),
    )
    async with (
        ConnectionFactory(url).connect() as to_pair,
        to_pair.session() as at_pair,
        # The queue is there as long as it has a consumer, and this one takes nothing.
        at_pair.create_consumer(queue, "color = 'none'"),
        ours,
        ConnectionFactory(ours.url).connect() as to_ours,
        to_ours.session() as at_ours,
        at_ours.create_consumer(queue) as others,
    ):
        await formed({"pair": at_pair, "ours": at_ours}, [name])

        async def send() -> None:
            nonlocal sent
            producer = at_ours.create_producer(queue)
            while not ended.is_set():
                await producer.send(str(sent))
                sent += 1
                with trio.move_on_after(0.004):
                    await ended.wait()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.to_thread.run_sync(pair.kill)
            await trio.to_thread.run_sync(pair.fail_back)
            ended.set()
        async with sessions({"pair": pair.primary.url}) as later, later["pair"].create_consumer(queue) as arrivals:
            got = await received({"pair": arrivals, "ours": others}, sent)
    texts = [str(number) for number in range(sent)]
    assert sorted((text for at in got.values() for text in at), key=int) == texts
    # In order, over both moves.
    assert got["pair"] == sorted(got["pair"], key=int) and len(got["pair"]) > 10


async def test_a_program_that_fails_over_by_itself_finds_the_backup(pair: ArtemisPair, name: str) -> None:
    """Without reconnect attempts; its factory has learnt where the backup is."""
    factory = ConnectionFactory(f"{pair.primary.url}?ha=true&initialConnectAttempts=300&retryInterval=100")
    async with factory.connect() as connection, connection.session() as session:
        watch = Watch(connection)
        await session.create_producer(Queue(name)).send("kept")
        await trio.to_thread.run_sync(pair.kill)
        with trio.fail_after(WAIT):
            await watch.over.wait()
        assert [(each.failed_over, each.jms_error_code) for each in watch.failures] == [(False, "DISCONNECT")]
    async with factory.connect() as connection, connection.session() as session:
        assert await following(await session.create_consumer(Queue(name))) == "kept"
