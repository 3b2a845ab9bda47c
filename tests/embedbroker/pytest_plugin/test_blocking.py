"""The twins for plain tests, over real sockets in real time."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.conftest import Inner

SURFACES = pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["memory", "real"])


@SURFACES
def test_a_plain_test_fails_a_pair_over_and_back(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        def test_it(broker_pair_blocking, broker_clock_blocking):
            pair = broker_pair_blocking
            with blocking.ConnectionFactory(pair.url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                producer.send("before")
                assert pair.failover() is pair.live is pair.backup
                producer.send("after")
                pair.wait_for(queue="orders", count=2)
                assert pair.failback() is pair.live is pair.primary
                assert pair.standby.role is Role.BACKUP
                assert pair.assert_message("orders", "after").body == "after"
                pair.assert_nothing_lost()
            assert broker_clock_blocking.seconds > 0
        """,
        *options,
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_plain_test_has_links_disks_and_a_plan(inner: Inner) -> None:
    result = inner(
        """
        import threading

        def test_it(embedded_broker_blocking, broker_factory_blocking, fault_plan_blocking):
            broker = embedded_broker_blocking
            url = f"{broker.url}?reconnectAttempts=-1&retryInterval=20"
            with blocking.ConnectionFactory(url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                broker.link.delay(0.05)
                producer.send("one")
                broker.link.heal()
                healed = threading.Event()
                broker.link.partition()
                fault_plan_blocking.at(0.1, broker.link.heal)
                fault_plan_blocking.within(0.1, healed.set)
                producer.send("two")
                broker.disk.slow_down(0.05)
                producer.send("three")
                broker.disk.heal()
                assert healed.wait(10)
                broker.link.cut()
                broker.crash()
                broker.restart().wait_for_role(Role.LIVE)
                broker.wait_for(queue="orders", count=3)
                assert [message.body for message in broker.messages("orders")] == ["one", "two", "three"]
            other = broker_factory_blocking("other").start()
            other.assert_empty("orders")
            other.stop()
            with pytest.raises(IllegalStateException, match="broker 'other' was stopped"):
                other.wait_for(queue="orders", count=0)
        """
    )
    result.assert_outcomes(passed=1)


def test_a_plain_test_that_fails_reports_and_one_that_leaves_a_connection_is_told(inner: Inner) -> None:
    result = inner(
        """
        def test_fails(embedded_broker_blocking):
            with blocking.ConnectionFactory(embedded_broker_blocking.url).connect() as connection:
                with connection.session() as session:
                    session.create_producer(ORDERS).send("still here")
            assert False

        @pytest.fixture
        def connection(embedded_broker_blocking):
            with blocking.ConnectionFactory(embedded_broker_blocking.url).connect() as connection:
                yield connection

        def test_closes_in_a_fixture(connection):
            pass

        def test_leaves(embedded_broker_blocking):
            kept.append(blocking.ConnectionFactory(embedded_broker_blocking.url).connect())

        def test_cleans_up():
            kept.pop().close()

        kept = []
        """
    )
    result.assert_outcomes(failed=1, passed=3, errors=1)
    result.stdout.fnmatch_lines(["*LeftBehind: left behind by this test: the connection 127.0.0.1:*"])
    result.stdout.fnmatch_lines(["seed *, sockets; again with*", "*TextMessage 'still here'*"])


def test_time_in_plain_tests_cannot_be_advanced(inner: Inner) -> None:
    result = inner("def test_it(broker_clock_blocking): broker_clock_blocking.advance(1)")
    result.assert_outcomes(skipped=1)
