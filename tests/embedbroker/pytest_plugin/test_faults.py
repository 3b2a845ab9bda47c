"""Links, disks and crashes under a test, and the plan that makes them happen beside it."""

from __future__ import annotations

import pytest

from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.conftest import Inner

SURFACES = pytest.mark.parametrize("options", [(), ("--embedbroker-real",)], ids=["virtual", "real"])


@SURFACES
def test_a_client_outlasts_what_happens_to_its_link(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(embedded_broker):
            link = embedded_broker.link
            url = f"{embedded_broker.url}?reconnectAttempts=-1&retryInterval=50"
            async with ConnectionFactory(url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                await producer.send("one")
                assert link.connection_count == 1
                link.delay(0.1)
                begun = trio.current_time()
                await producer.send("two")
                assert trio.current_time() - begun >= 0.2
                link.partition()
                with trio.move_on_after(0.2) as scope:
                    await producer.send("three")
                assert scope.cancelled_caught
                link.heal()
                await embedded_broker.assert_message("orders", "three")
                link.drop_after(20)
                with pytest.raises(JMSException):
                    await producer.send("four")
                await producer.send("five")
                await embedded_broker.assert_message("orders", "five")
                link.cut()
                await embedded_broker.crash()
                await embedded_broker.restart()
                await embedded_broker.assert_message("orders", "five")
        """,
        *options,
    )
    result.assert_outcomes(passed=1)


@SURFACES
@pytest.mark.parametrize(("fault", "reason"), [("fail", "input or output error"), ("fill", "no space left")])
def test_a_disk_that_fails_makes_the_backup_take_over(
    inner: Inner, options: tuple[str, ...], fault: str, reason: str
) -> None:
    result = inner(
        f"""
        async def test_it(broker_pair):
            pair = broker_pair
            await put(pair.url, "safe")
            pair.disk.{fault}()
            with pytest.raises(JMSException):
                await put(pair.primary.url, "not safe")
            assert not pair.primary.is_running
            with pytest.raises(IllegalStateException, match="stopped by itself.*{reason}"):
                await pair.primary.wait_for(queue="orders", count=1)
            pair.disk.heal()
            await pair.backup.wait_for_role(Role.LIVE, Role.STOPPED)
            if not pair.backup.is_running:
                await pair.backup.start()
                await pair.primary.start()
            # What one of two disks has was not confirmed, and may come back.
            kept = [message.body for message in await pair.live.messages("orders")]
            assert kept in ([["safe"]] if pair.kind == "shared-store" else [["safe"], ["safe", "not safe"]])
            pair.assert_nothing_lost()
        """,
        *options,
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_slow_disk_slows_what_waits_for_it(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker):
            embedded_broker.disk.slow_down(0.25)
            begun = trio.current_time()
            await put(embedded_broker.url, "slow")
            assert 0.25 <= trio.current_time() - begun < 2
        """
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("torn", [False, True])
def test_a_backup_recovers_from_what_was_synced_and_nothing_else(inner: Inner, torn: bool) -> None:
    result = inner(
        f"""
        async def test_it(broker_pair):
            pair = broker_pair
            await put(pair.url, "synced")
            pair.disk.slow_down(5)
            async with ConnectionFactory(pair.url).connect() as connection, connection.session() as session:
                async with trio.open_nursery() as nursery:
                    async def send():
                        with pytest.raises(JMSException):
                            await session.create_producer(ORDERS).send("written by a broker that is gone")
                    nursery.start_soon(send)
                    await trio.sleep(1)
                    await pair.live.crash(torn={torn})
                    pair.disk.heal()
                    await pair.wait_live()
                kept = [message.body for message in await pair.live.messages("orders")]
                copied = ["written by a broker that is gone"] * (pair.kind == "replication")
                assert kept == ["synced", *copied]  # the copy is on a disk that is not slow
                pair.assert_nothing_lost()
        """
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_what_was_not_synced_is_gone_before_the_backup_looks(inner: Inner) -> None:
    result = inner(
        """
        from embedbroker.storage import ListFiles, WriteAt

        async def test_it(broker_pair):
            disk = broker_pair.disk
            disk.run((WriteAt("unsynced", 0, (b"x",)),))
            assert "unsynced" in disk.run((ListFiles(),))[0]
            await broker_pair.failover()
            assert "unsynced" not in disk.run((ListFiles(),))[0]
        """
    )
    result.assert_outcomes(passed=len(PAIR_MODES))


def test_a_plan_happens_beside_the_test_at_times_from_the_seed(inner: Inner) -> None:
    source = """
        async def test_it(broker_pair, fault_plan):
            moment = fault_plan.within(5.0, broker_pair.failover)
            fault_plan.at(0.0, broker_pair.link.delay, 0.001)
            fault_plan.at(1000.0, broker_pair.disk.fail)
            print("draws", fault_plan.seed, moment, fault_plan.random.random())
            assert fault_plan.pending == 3
            async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
                await trio.sleep(6)
                await session.create_producer(ORDERS).send("after")
            assert fault_plan.pending == 1
            assert broker_pair.live is broker_pair.backup
            await broker_pair.wait_for(queue="orders", count=1)
    """

    def draws(*options: str) -> str:
        result = inner(source, "-s", *options)
        result.assert_outcomes(passed=len(PAIR_MODES))
        return next(line for line in result.outlines if "draws" in line)

    assert draws() == draws()
    assert "draws 17 " in draws("--embedbroker-seed=17")
    assert draws("--embedbroker-seed=17") == draws("--embedbroker-seed=17") != draws()
    assert draws("--embedbroker-seed=random") != draws("--embedbroker-seed=random")


def test_what_has_not_happened_when_the_test_is_over_does_not_happen(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair, fault_plan):
            for seconds in (0.001, 0.1, 0.5, 1.0, 2.0):
                fault_plan.at(seconds, fault_plan.random.shuffle, None)  # would raise

        async def test_slow_end(broker_pair, fault_plan):
            fault_plan.at(0.5, broker_pair.live.crash)
            broker_pair.disk.slow_down(2)
        """
    )
    result.assert_outcomes(passed=2 * len(PAIR_MODES))


def test_a_fault_that_cannot_happen_ends_the_test(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(embedded_broker, fault_plan):
            with pytest.raises(TypeError, match="something to call"):
                fault_plan.at(1.0, "crash")
            with pytest.raises(ValueError, match="zero seconds or more"):
                fault_plan.at(-1.0, embedded_broker.crash)
            fault_plan.at(1.0, embedded_broker.crash)
            fault_plan.at(2.0, embedded_broker.crash)
            await trio.sleep(100)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*IllegalStateException: cannot crash: broker 'broker' crashed*"])
    result.stdout.fnmatch_lines(
        ["seed *, virtual time; again with --embedbroker-seed=*", "*fault: ManagedBroker.crash*"]
    )


@SURFACES
def test_brokers_that_replicate_come_together_after_their_link_failed(inner: Inner, options: tuple[str, ...]) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            pair = broker_pair
            async with ConnectionFactory(pair.url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                pair.link.partition()
                pair.link.cut()
                await producer.send("confirmed by the live broker alone")
                assert not pair.primary.broker.is_in_sync
                pair.link.heal()
                await pair.wait_in_step()
                assert await pair.failover() is pair.backup
                await producer.send("confirmed by the other one alone")
                await pair.failback()
                await pair.failover()
                await pair.wait_for(queue="orders", count=2)
                pair.assert_nothing_lost()
        """,
        "-k",
        "replication",
        *options,
    )
    result.assert_outcomes(passed=1, deselected=len(PAIR_MODES) - 1)


def test_a_partition_ends_replication_and_not_the_live_broker(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair, fault_plan):
            pair = broker_pair
            async with ConnectionFactory(pair.url).connect() as connection, connection.session() as session:
                pair.link.partition()
                await session.create_producer(ORDERS).send("after the backup was given up")
                assert pair.live is pair.primary and not pair.primary.broker.is_in_sync
                with pytest.raises(WaitTimeout, match="a backup that is in sync"):
                    await pair.failover()
                pair.link.heal()
                await pair.failover()
                await pair.wait_for(queue="orders", count=1)
        """,
        "-k",
        "replication",
    )
    result.assert_outcomes(passed=1, deselected=len(PAIR_MODES) - 1)


def test_what_a_broker_that_stops_without_its_backup_never_confirmed_is_not_lost(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            pair = broker_pair
            async with ConnectionFactory(pair.url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                await producer.send("confirmed")
                pair.link.partition()

                async def send():
                    with pytest.raises(JMSException):
                        await producer.send("on one disk, and never confirmed")

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send)
                    await trio.sleep(0.1)
                    nursery.start_soon(pair.primary.stop)
                    await trio.sleep(0.1)
                    pair.link.cut()  # while the broker that stops waits for what its backup has to say
                    pair.link.heal()
                assert await pair.wait_live() is pair.backup
            assert [message.body for message in await pair.live.messages("orders")] == ["confirmed"]
            pair.assert_nothing_lost()
        """,
        "-k",
        "replication",
    )
    result.assert_outcomes(passed=1, deselected=len(PAIR_MODES) - 1)


def test_each_broker_that_replicates_has_its_own_disk(inner: Inner) -> None:
    result = inner(
        """
        async def test_it(broker_pair):
            pair = broker_pair
            assert pair.disk is pair.primary.disk is not pair.backup.disk
            await put(pair.url, "safe")
            pair.backup.disk.fail()
            await put(pair.url, "safe on one disk")
            await pair.backup.wait_for_role(Role.STOPPED)
            assert pair.live is pair.primary
            pair.backup.disk.heal()
            await pair.backup.start()
            await pair.failover()
            await pair.wait_for(queue="orders", count=2)
            pair.assert_nothing_lost()
        """,
        "-k",
        "replication",
    )
    result.assert_outcomes(passed=1, deselected=len(PAIR_MODES) - 1)


_OPERATIONS = """
        from embedclient.errors import (
            AddressFullException, ErrorCode, JMSSecurityException, TransactionOutcomeUnknownException,
            TransactionRolledBackException, UnblockedException,
        )

        async def test_it(embedded_broker, broker_clock):
            broker = embedded_broker
            url = f"{broker.url}?reconnectAttempts=-1"
            async with (
                ConnectionFactory(url).connect() as connection,
                connection.session() as session,
                connection.session(transacted=True) as transacted,
            ):
                producer = session.create_producer(ORDERS)
                broker.fail_next("send", "orders", n=2)
                broker.fail_next("send", "others")
                for _ in range(2):
                    with pytest.raises(JMSException, match="send fails in this test"):
                        await producer.send("never")
                await producer.send("one")
                broker.refuse("send", "orders", code=ErrorCode.ADDRESS_FULL)
                for _ in range(3):
                    with pytest.raises(AddressFullException):
                        await producer.send("never")
                broker.heal()
                broker.delay("send", seconds=5)
                await producer.send("two")
                assert broker_clock.seconds == 5
                in_transaction = transacted.create_producer(ORDERS)
                await in_transaction.send("never")
                broker.fail_next("commit")
                with pytest.raises(TransactionRolledBackException):
                    await transacted.commit()
                await in_transaction.send("three")
                await transacted.commit()
                broker.fail_next("create_consumer", "orders", code=ErrorCode.SECURITY_EXCEPTION)
                with pytest.raises(JMSSecurityException):
                    async with session.create_consumer(ORDERS):
                        pass
                await in_transaction.send("four")
                broker.drop_reply("commit")
                with pytest.raises(TransactionOutcomeUnknownException):
                    await transacted.commit()
                broker.drop_reply("send")
                with pytest.raises(UnblockedException):
                    await producer.send("five")
                assert [message.body for message in await broker.messages("orders")] == [
                    "one", "two", "three", "four", "five"
                ]
            with pytest.raises(ValueError, match="an operation is one of send, acknowledge.*, not 'sned'"):
                broker.fail_next("sned")
            with pytest.raises(TypeError, match="commit has no destination"):
                broker.fail_next("commit", "orders")

        def test_plain(embedded_broker_blocking):
            broker = embedded_broker_blocking
            broker.fail_next("send", "orders")
            with blocking.ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                with pytest.raises(JMSException, match="send fails in this test"):
                    session.create_producer(ORDERS).send("never")
                session.create_producer(ORDERS).send("one")
            broker.wait_for(queue="orders", count=1)
"""


def test_single_operations_fail_are_late_or_lose_their_answers(inner: Inner) -> None:
    result = inner(_OPERATIONS)
    result.assert_outcomes(passed=2)


def test_large_messages_branches_and_new_sessions_meet_faults_too(inner: Inner) -> None:
    result = inner(
        """
        from embedclient import BytesMessage, XAConnectionFactory, XaCode, XaFlag, Xid
        from embedclient.errors import AddressFullException, ErrorCode, UnblockedException, XAException

        BODY = bytes(range(256)) * 2000

        async def test_large(embedded_broker, broker_clock):
            broker = embedded_broker
            url = f"{broker.url}?reconnectAttempts=-1"
            async with ConnectionFactory(url).connect() as connection, connection.session() as session:
                producer = session.create_producer(ORDERS)
                broker.fail_next("send", "orders", code=ErrorCode.ADDRESS_FULL)
                with pytest.raises(AddressFullException, match="send fails in this test"):
                    await producer.send(BytesMessage(BODY))
                broker.delay("send", "orders", seconds=5)
                await producer.send(BytesMessage(BODY))
                assert broker_clock.seconds == 5
                broker.drop_reply("send", "orders")
                with pytest.raises(UnblockedException):
                    await producer.send(BytesMessage(BODY))
                await broker.wait_for(queue="orders", count=2)
                assert [len(message.body) for message in await broker.messages("orders")] == [len(BODY)] * 2

        async def test_branch(embedded_broker):
            broker, xid = embedded_broker, Xid(1, b"a", b"b")
            async with XAConnectionFactory(broker.url).create_xa_context() as context:
                xa = context.xa_resource
                broker.fail_next("xa_start", code=XaCode.XAER_RMERR)
                with pytest.raises(XAException, match="xa_start fails in this test") as failed:
                    await xa.start(xid, XaFlag.TMNOFLAGS)
                assert failed.value.error_code == XaCode.XAER_RMERR
                await xa.start(xid, XaFlag.TMNOFLAGS)
                await context.create_producer().send(ORDERS, "one")
                await xa.end(xid, XaFlag.TMSUCCESS)
                for step, run in (("xa_prepare", xa.prepare), ("xa_commit", lambda xid: xa.commit(xid, False))):
                    broker.fail_next(step)
                    with pytest.raises(XAException) as failed:
                        await run(xid)
                    assert failed.value.error_code == XaCode.XAER_RMFAIL
                    await run(xid)
                await broker.wait_for(queue="orders", count=1)

        async def test_session(embedded_broker):
            async with ConnectionFactory(embedded_broker.url).connect() as connection:
                embedded_broker.fail_next("create_session")
                with pytest.raises(JMSException, match="create_session fails in this test"):
                    async with connection.session():
                        pass
                async with connection.session() as session:
                    await session.create_producer(ORDERS).send("one")
            with pytest.raises(TypeError, match="xa_commit has no destination"):
                embedded_broker.fail_next("xa_commit", "orders")
        """
    )
    result.assert_outcomes(passed=3)


def test_a_large_message_is_healed_while_it_is_sent(inner: Inner) -> None:
    result = inner(
        """
        class Stream:
            def __init__(self, meanwhile):
                self.left, self.meanwhile = 40, meanwhile

            async def read(self, size=-1):
                self.left -= 1
                if self.left == 20:
                    self.meanwhile()
                return b"x" * 100_000 if self.left > 0 else b""

        async def test_healed_while_it_is_sent(embedded_broker):
            broker, faults = embedded_broker, embedded_broker._following.faults
            async with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
                broker.drop_reply("send")
                await session.create_producer(ORDERS).send(Stream(broker.heal))
                broker.drop_reply("send")
                with pytest.raises(ZeroDivisionError):
                    await session.create_producer(ORDERS).send(Stream(lambda: 1 / 0))
                assert len(faults._of_uploads) == 1
            await broker.wait_for(queue="orders", count=1)
            assert not faults._of_uploads
        """
    )
    result.assert_outcomes(passed=1)
