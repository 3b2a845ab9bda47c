"""A replicating backup that takes over moves everything to another broker: nothing is lost, and a restart goes on."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from embedbroker import PrimaryOnly, ReplicationBackup, ReplicationPrimary, Role, ScaleDown
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from embedclient.errors import JMSException
from tests.scenarios.clients import numbered, put, queued, session_at
from tests.scenarios.conftest import MakeBrokers, make_brokers
from tests.scenarios.groups import start_all

__all__ = ["make_brokers"]  # a fixture of the scenarios

COUNT = 1_500
MANAGER = pytest.mark.parametrize("lock_manager", [False, True], ids=["alone", "with a lock manager"])


async def pair_and_other(
    make_brokers: MakeBrokers, *, lock_manager: bool
) -> tuple[ManagedBroker, ManagedBroker, ManagedBroker]:
    """A primary, its backup, which scales down and is in sync, and the other broker of their cluster."""
    pair = {
        "one": ReplicationPrimary(check_for_active_server=True),
        "backup": ReplicationBackup(scale_down=ScaleDown(), allow_failback=True),
    }
    brokers = make_brokers(pair, {"other": PrimaryOnly()}, lock_manager=lock_manager)
    await start_all(brokers.values())
    await brokers["backup"].wait_in_sync()
    return brokers["one"], brokers["backup"], brokers["other"]


@MANAGER
async def test_messages_of_a_primary_that_is_killed_under_load_are_at_the_other_broker(
    make_brokers: MakeBrokers, broker_clock: BrokerClock, lock_manager: bool
) -> None:
    """With a lock manager the primary that returns has none of them: the backup has the newest data, and serves it."""
    one, backup, other = await pair_and_other(make_brokers, lock_manager=lock_manager)
    confirmed: list[str] = []
    is_loaded = trio.Event()
    async with session_at(one.url) as session:

        async def load() -> None:
            with suppress(JMSException):
                for body in numbered(0, COUNT):
                    await put(session, [body])
                    confirmed.append(body)
                    if len(confirmed) == 60:
                        is_loaded.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await is_loaded.wait()
            await one.crash()
    assert 60 <= len(confirmed) < COUNT
    await broker_clock.advance(12)
    assert backup.role is (Role.LIVE if lock_manager else Role.BACKUP)
    found = await queued(other)
    # The last one may be there without its confirmation.
    assert found in (confirmed, numbered(0, len(confirmed) + 1))
    if lock_manager:
        await one.start()
        await one.wait_for_role(Role.LIVE, timeout=60)
        assert await queued(one) == []
        await backup.wait_in_sync(timeout=60)


@MANAGER
async def test_a_crash_in_the_middle_loses_and_doubles_nothing(
    make_brokers: MakeBrokers, broker_clock: BrokerClock, lock_manager: bool
) -> None:
    one, backup, other = await pair_and_other(make_brokers, lock_manager=lock_manager)
    async with session_at(one.url, transacted=True) as session:
        await put(session, numbered(0, COUNT))
        await session.commit()
    await one.crash()
    other.disk.slow_down(0.05)
    moved = 0
    with trio.fail_after(60):
        for _ in iter(int, 1):
            moved = sum(each.message_count for each in other.queues() if each.name == "orders")
            if moved:
                break
            await broker_clock.advance(0.001)
    assert moved < COUNT
    await backup.crash()
    await backup.start()
    await other.wait_for(queue="orders", count=COUNT, timeout=60)
    assert await queued(other) == numbered(0, COUNT)
