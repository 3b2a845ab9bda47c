"""A cluster of our broker and a real Artemis: each has the other as a member, and their clients receive both."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from embedbroker import AddressConfiguration, EmbeddedBroker, QueueConfiguration, ThreadedBroker
from embedbroker.cluster import MemberUp
from embedbroker.config import ClusterConnection, MessageLoadBalancing, ReplicationBackup, Role
from embedbroker.runtime._embedded import life_of
from embedclient import ConnectionFactory, Queue, TextMessage, Topic, blocking
from tests.embedbroker.runtime.test_replication import becomes
from tests.embedbroker.runtime.test_voting_pairs import lost_power, started
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.programs import Program
from tests.interop.test_java_client_of_a_pair import client_of

SECONDS_MAX = 30
pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
USER, PASSWORD = "cluster-user", "cluster-password"


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[ArtemisBroker]:
    """An Artemis that looks for one other broker."""
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{free_port()}"]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options) as running:
        yield running


def ours(theirs: ArtemisBroker, password: str = PASSWORD) -> ThreadedBroker:
    return EmbeddedBroker.in_thread(
        name="ours",
        connectors={"theirs": theirs.url},
        cluster_connections=ClusterConnection(static_connectors=("theirs",)),
        cluster_user=USER,
        cluster_password=password,
    )


def until_it_knows(client: Program, *ports: int) -> None:
    """Read until the client received a live broker on each of these ports."""
    missing = {str(port) for port in ports}
    while missing:
        found = client.wait_for(r"^up \S+ (\d+) -$", seconds_max=SECONDS_MAX)
        missing.discard(found.group(1))


def ha_url(url: str) -> str:
    return f"{url}?ha=true"


def test_clients_of_either_broker_are_told_of_both_and_of_the_end_of_one(theirs: ArtemisBroker) -> None:
    with ours(theirs) as broker:
        with client_of(ha_url(broker.url)) as of_ours, client_of(ha_url(theirs.url)) as of_theirs:
            until_it_knows(of_ours, broker.port, theirs.port)
            until_it_knows(of_theirs, broker.port, theirs.port)
            broker.crash()
            of_theirs.wait_for("^down ", seconds_max=SECONDS_MAX)
            broker.start()
            until_it_knows(of_theirs, broker.port)
        with client_of(ha_url(broker.url)) as of_ours:
            until_it_knows(of_ours, broker.port, theirs.port)
            theirs.kill()
            of_ours.wait_for("^down ", seconds_max=SECONDS_MAX)


# -- queues ------------------------------------------------------------------------------------------------------------


def test_artemis_learns_of_our_queues_and_sends_their_consumers_messages(tmp_path: Path) -> None:
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{free_port()}", "--max-hops", "1"]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options) as theirs, ours(theirs) as broker:
        trio.run(send_over, theirs.url, broker.url)
    log = (tmp_path / "artemis" / "log" / "artemis.log").read_text()
    # The text of a notification that Artemis cannot apply.
    assert "AMQ221007" in log and "AMQ224037" not in log and "Exception" not in log


async def send_over(theirs: str, ours: str) -> None:
    there = ConnectionFactory(theirs, user="admin", password="admin")
    learned = "_AMQ_NotifType = 'CONSUMER_CREATED' AND _AMQ_Distance = 1 AND _AMQ_RoutingName = 'orders'"
    async with (
        there.create_context() as context,
        ConnectionFactory(ours).create_context() as here,
        context.create_consumer(Topic("activemq.notifications"), learned) as notes,
        here.create_consumer(Queue("orders")) as consumer,
    ):
        note = await notes.receive(timeout=SECONDS_MAX)
        assert note is not None and note.properties["_AMQ_Address"] == "orders"
        await context.create_producer().send(Queue("orders"), TextMessage("over"))
        received = await consumer.receive(timeout=SECONDS_MAX)
        assert isinstance(received, TextMessage) and received.text == "over"


@pytest.mark.parametrize("how", ["ON_DEMAND", "STRICT"])
def test_messages_go_both_ways(tmp_path: Path, how: str) -> None:
    """Over bridges of both kinds, before and after the end of either broker."""
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{free_port()}", "--max-hops", "1"]
    names += ["--queues", "orders", "--message-load-balancing", how]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    theirs = ArtemisBroker(tmp_path / "artemis", memory="512M", options=options)
    with theirs:
        broker = EmbeddedBroker.in_thread(
            name="ours",
            data_directory=tmp_path / "ours",
            addresses={"orders": AddressConfiguration(anycast={"orders": QueueConfiguration()})},
            connectors={"theirs": theirs.url},
            cluster_connections=ClusterConnection(
                static_connectors=("theirs",), message_load_balancing=MessageLoadBalancing(how)
            ),
            cluster_user=USER,
            cluster_password=PASSWORD,
        )
        with broker:
            exchange(broker.url, theirs.url, how)
            broker.crash()
            broker.start()
            exchange(broker.url, theirs.url, how)
            theirs.kill()
            theirs.start()
            exchange(theirs.url, broker.url, how)
    log = (tmp_path / "artemis" / "log" / "artemis.log").read_text()
    assert "AMQ224037" not in log and "Exception" not in log


def exchange(one: str, other: str, how: str) -> None:
    """Send to each broker; STRICT brings half of that to a consumer of the other one, and ON_DEMAND everything."""
    for source, target in ((one, other), (other, one)):
        with (
            connected(source) as here,
            connected(target) as there,
            there.create_consumer(Queue("orders")) as consumer,
        ):
            producer, received = here.create_producer(Queue("orders")), list[object]()
            # The other broker may have to find out about the consumer first: what it sends before stays there.
            for number in range(200):
                producer.send(str(number))
                message = consumer.receive(timeout=0.1 if number < 150 else 2)
                if message is not None:
                    received.append(message.body)
                if len(received) >= 20:
                    break
            assert len(received) >= 20, (how, source, received)
        with connected(source) as here, here.create_consumer(Queue("orders")) as rest:
            while rest.receive(timeout=0.5) is not None:
                pass


@contextmanager
def connected(url: str) -> Iterator[blocking.Session]:
    with (
        blocking.ConnectionFactory(url, user="admin", password="admin").connect() as connection,
        connection.session() as session,
    ):
        yield session


class Ear(logging.Handler):
    """Waits for a line of the log, on whatever thread it is written."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._word = word

    def emit(self, record: logging.LogRecord) -> None:
        if self._word in record.getMessage():
            self.heard.put(record.getMessage())


def test_artemis_refuses_a_wrong_cluster_password_and_we_say_what_to_do(theirs: ArtemisBroker) -> None:
    log, ear = logging.getLogger("embedbroker.broker"), Ear("refuses")
    log.addHandler(ear)
    try:
        with ours(theirs, "wrong") as broker:
            said = ear.heard.get(timeout=SECONDS_MAX)
            with client_of(ha_url(broker.url)) as client:
                until_it_knows(client, broker.port)
                client.wait_for("^connected", seconds_max=SECONDS_MAX)
    finally:
        log.removeHandler(ear)
    assert said.startswith(f"theirs (127.0.0.1:{theirs.port}) refuses the cluster user and password: ")


# -- replication, which is between brokers of one kind ---------------------------------------------------------------


def test_our_backup_of_an_artemis_is_told_what_is_wrong_and_leaves_it_in_peace(tmp_path: Path) -> None:
    """A packet that Artemis does not know made it end the connection with two stack traces, twice a second."""
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{free_port()}", "--replicated"]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    log, ear = logging.getLogger("embedbroker.broker"), Ear("theirs")
    log.addHandler(ear)
    try:
        with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options) as theirs:
            backup = EmbeddedBroker.in_thread(
                data_directory=tmp_path / "backup",
                ha_policy=ReplicationBackup(),
                connectors={"theirs": theirs.url},
                cluster_connections=ClusterConnection(static_connectors=("theirs",), call_timeout_ms=2000),
                cluster_user=USER,
                cluster_password=PASSWORD,
            )
            with backup:
                said = ear.heard.get(timeout=SECONDS_MAX)
                # It can still be talked to.
                with client_of(ha_url(theirs.url)) as client:
                    until_it_knows(client, theirs.port)
    finally:
        log.removeHandler(ear)
    assert said == (
        f"replication is over, not in sync: theirs (127.0.0.1:{theirs.port}) did not answer for 2 s: is it"
        " an embedbroker? Replication is between embedbrokers only"
    )
    assert ear.heard.empty()
    written = (tmp_path / "artemis" / "log" / "artemis.log").read_text()
    assert "AMQ221007" in written and "Failed to decode" not in written


# -- a broker that waits -------------------------------------------------------------------------------------------


def test_artemis_that_comes_to_a_broker_that_waits_reads_what_it_is_told(tmp_path: Path) -> None:
    """It gets that in a packet of a type that it has; another type made it close, and write a stack trace."""
    trio.run(come_to_a_broker_that_waits, tmp_path)
    log = (tmp_path / "artemis" / "log" / "artemis.log").read_text()
    assert "AMQ221007" in log and "Failed to decode" not in log


async def come_to_a_broker_that_waits(path: Path) -> None:
    stopped = await lost_power(path)
    config = stopped["p"]
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{config.port}"]
    known = ["--cluster-user", config.cluster_user, "--cluster-password", config.cluster_password]
    theirs = ArtemisBroker(path / "artemis", memory="512M", options=["--clustered", *known, *names])
    with trio.fail_after(2 * SECONDS_MAX):
        async with started(config) as (p,):
            assert p.role is Role.BACKUP
            cluster, there = life_of(p).host.node.cluster, trio.Event()
            assert cluster is not None
            cluster.topology.listen(lambda change: there.set() if isinstance(change, MemberUp) else None)
            await trio.to_thread.run_sync(theirs.__enter__)
            try:
                await there.wait()
                async with started(stopped["q"]):
                    await becomes(p, Role.LIVE)
            finally:
                await trio.to_thread.run_sync(theirs.__exit__, None, None, None)
