"""The twins for plain tests, over real sockets in real time."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import PAIR_MODES, _thread
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


def test_a_plain_test_whose_fault_cannot_happen_is_told_why_its_brokers_ended(inner: Inner) -> None:
    result = inner(
        """
        def happens():
            raise ValueError("no such fault")

        def test_it(embedded_broker_blocking, fault_plan_blocking):
            fault_plan_blocking.at(0, happens)
            fault_plan_blocking._thread._thread.join()
            with pytest.raises(IllegalStateException, match="have ended: ValueError.'no such fault'."):
                embedded_broker_blocking.wait_for(queue="orders", count=1)
            raise LookupError("both were told")
        """
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["*LookupError: both were told"])
    result.stdout.fnmatch_lines(["seed *, sockets; again with --embedbroker-seed=*", "*fault: *happens*"])


def test_time_in_plain_tests_cannot_be_advanced(inner: Inner) -> None:
    result = inner("def test_it(broker_clock_blocking): broker_clock_blocking.advance(1)")
    result.assert_outcomes(skipped=1)


# -- waits that never end --------------------------------------------------------------------------------------------

SOON = ("-o", "embedbroker_timeout=1")
GIVEN_UP = "*WaitTimeout: the test did not end within 1 s, {}: something in it waits for what does not come; *"


@SURFACES
def test_a_plain_test_that_waits_for_ever_ends_in_the_middle_of_it(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        import threading

        def test_receives(embedded_broker_blocking):
            with blocking.ConnectionFactory(embedded_broker_blocking.url).connect() as connection:
                connection.start()
                with connection.session() as session:
                    session.create_consumer(ORDERS).receive()  # the line it waits in

        def test_waits_for_something_else(embedded_broker_blocking):
            threading.Event().wait()

        def test_goes_on_after_the_first_time(embedded_broker_blocking):
            for attempt in range(2):
                try:
                    threading.Event().wait()
                except WaitTimeout:
                    assert not attempt, "the second time"
        """,
        *SOON,
        *options,
    )
    result.assert_outcomes(failed=3)
    surface = "sockets and files" if options else "sockets"
    result.stdout.fnmatch_lines(["*# the line it waits in", GIVEN_UP.format(surface) + "broker 'broker' is live*"])
    result.stdout.fnmatch_lines([f"seed *, {surface}; again with*", "-- broker 'broker' is live"])
    result.stdout.fnmatch_lines(["*AssertionError: the second time*"])


@SURFACES
def test_endless_reconnects_to_a_pair_that_is_gone_end(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        def test_it(broker_pair_blocking):
            pair = broker_pair_blocking
            with blocking.ConnectionFactory(pair.url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                pair.backup.stop()
                pair.primary.crash()
                producer.send("to nobody")
        """,
        "-o",
        "embedbroker_timeout=3",
        *options,
    )
    result.assert_outcomes(failed=len(PAIR_MODES))
    text = "*WaitTimeout: the test did not end within 3 s*broker 'primary' crashed, broker 'backup' was stopped*"
    result.stdout.fnmatch_lines([text, text])


def test_fixtures_around_a_plain_test_end_too_and_leave_signals_as_they_were(inner: Inner) -> None:
    result = inner(
        """
        import signal
        import threading

        known = []

        def handler(number, frame):
            known.append(number)

        signal.signal(signal.SIGURG, handler)

        @pytest.fixture
        def never_there(embedded_broker_blocking):
            threading.Event().wait()

        @pytest.fixture
        def never_gone(embedded_broker_blocking):
            yield
            threading.Event().wait()

        def test_begins(never_there):
            pass

        def test_ends(never_gone):
            pass

        def test_afterwards():
            assert signal.getsignal(signal.SIGURG) is handler
            signal.raise_signal(signal.SIGURG)
            assert known == [signal.SIGURG]
            assert not [thread for thread in threading.enumerate() if thread.name.startswith("embedbroker")]
            signal.signal(signal.SIGURG, signal.SIG_DFL)
        """,
        *SOON,
    )
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines([GIVEN_UP.format("sockets")] * 2)


def test_where_a_test_cannot_be_interrupted_its_brokers_end(inner: Inner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "can_interrupt", lambda: False)  # as in a thread that is not the main one
    result = inner(
        """
        def test_it(embedded_broker_blocking):
            embedded_broker_blocking.wait_for(queue="orders", count=1, timeout=1000)
        """,
        *SOON,
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [GIVEN_UP.format("sockets"), "*IllegalStateException: *broker 'broker' ended with its test"]
    )
