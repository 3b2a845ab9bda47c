"""Source, sink and commands of the pipeline at a broker that requires certificates and logins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker, SecuritySetting, ThreadedBroker, User
from embedbroker.pipeline import remove_subscription
from embedclient.blocking import ConnectionFactory
from embedclient.errors import IllegalStateException, JMSSecurityException
from tests.pipeline.streams import Query
from tests.tls.certificates import PASSWORD, Files

USERS = [User("spark", "spark secret", roles=["pipeline"]), User("clerk", "clerk secret", roles=["clerks"])]
LOGIN = {"user": "spark", "password": "spark secret"}
BODIES = [f"row {number}" for number in range(300)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def secured(files: Files, tmp_path: Path) -> Iterator[ThreadedBroker]:
    config = BrokerConfig(
        data_directory=str(tmp_path / "secured"),
        users=USERS,
        security_settings={"#": SecuritySetting.all("pipeline")},
        failed_login_delay_ms=0,
    )
    tls = files.serving(need_client_auth=True, trust_store_path=files.trust)
    with EmbeddedBroker.in_thread(config, tls=tls) as broker:
        yield broker


@pytest.fixture
def url(secured: ThreadedBroker, files: Files) -> str:
    client = files.write("client.p12", files.sign("client").pkcs12(PASSWORD, "client"))
    key = f"keyStorePath={client}&keyStorePassword={PASSWORD}"
    return f"tcp://127.0.0.1:{secured.port}?sslEnabled=true&trustStorePath={files.trust}&{key}"


def fill(url: str, queue: str, bodies: list[str]) -> None:
    with (
        ConnectionFactory(url, user=LOGIN["user"], password=LOGIN["password"]).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer(queue)
        for body in bodies:
            producer.send(body)


def save(spark: SparkSession, url: str, **options: str) -> None:
    rows = spark.createDataFrame([(body,) for body in BODIES], "body string").repartition(2)
    rows.write.format("embedbroker").options(url=url, queue="written", **options).mode("append").save()


@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_rows_are_written_and_read_again(spark: SparkSession, url: str, guarantee: str) -> None:
    save(spark, url, guarantee=guarantee, **LOGIN)
    read = spark.read.format("embedbroker").options(url=url, queue="written", **LOGIN).load()
    assert sorted(row["bodyText"] for row in read.select("bodyText").collect()) == sorted(BODIES)


def test_a_stream_of_a_queue_reads_each_message_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    fill(url, "orders", BODIES)
    query = Query(spark, url, tmp_path / "query", {"queue": "orders", **LOGIN})
    query.run()
    assert len(query.bodies()) == len(set(query.bodies())) == len(BODIES)
    fill(url, "orders", ["one more"])
    query.run()
    assert len(set(query.bodies())) == len(BODIES) + 1


def test_a_stream_of_a_subscription_reads_each_message_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    query = Query(spark, url, tmp_path / "query", {"topic": "prices", "subscription": "nightly", **LOGIN})
    query.run()
    fill(url, "topic://prices", BODIES)
    query.run()
    assert len(query.bodies()) == len(set(query.bodies())) == len(BODIES)
    # Its lease is not over yet.
    with pytest.raises(IllegalStateException, match="is read by cursor"):
        remove_subscription(url, "nightly", **LOGIN)


def test_a_subscription_is_removed_with_a_login_only(url: str) -> None:
    assert not remove_subscription(url, "missing", **LOGIN)
    with pytest.raises(JMSSecurityException, match="AMQ229031"):
        remove_subscription(url, "missing")


@pytest.mark.parametrize(
    ("login", "text"),
    [
        ({}, "AMQ229031: Unable to validate user from"),
        ({"user": "spark", "password": "guess-7"}, "AMQ229031: Unable to validate user from"),
        ({"user": "clerk", "password": "clerk secret"}, "User: clerk does not have permission="),
    ],
    ids=["none", "wrong", "without permission"],
)
def test_a_login_that_is_refused_fails_the_job_with_the_reason(
    spark: SparkSession, url: str, login: dict[str, str], text: str
) -> None:
    fill(url, "written", ["one"])
    for work in (
        lambda: save(spark, url, **login),
        lambda: spark.read.format("embedbroker").options(url=url, queue="written", **login).load().collect(),
    ):
        with pytest.raises(Exception, match=text) as caught:
            work()
        assert "guess-7" not in str(caught.value) and PASSWORD not in str(caught.value)


def test_a_job_without_a_certificate_fails_with_the_remedy(
    spark: SparkSession, secured: ThreadedBroker, files: Files
) -> None:
    plain = f"tcp://127.0.0.1:{secured.port}?sslEnabled=true&trustStorePath={files.trust}"
    read = spark.read.format("embedbroker").options(url=plain, queue="written", **LOGIN).load()
    with pytest.raises(Exception, match="it requires a certificate of this end; set keyStorePath"):
        read.collect()
