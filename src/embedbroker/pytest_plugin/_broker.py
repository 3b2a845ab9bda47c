"""One broker of a test: the production broker, with switches around it.

Responsible for its life in its own task, for following it, and for waits and assertions about its queues. Does not
depend on how it was configured, and on what its network and its disk are made of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

import trio

from embedbroker import EmbeddedBroker, QueueInfo, Role
from embedbroker.config import PrimaryOnly
from embedbroker.kernel import Kernel
from embedbroker.runtime import observe
from embedclient import Message
from embedclient.errors import IllegalStateException
from embedclient.model import summary

from ._arguments import check_count, check_queue, check_roles, check_seconds
from ._carrier import carried, carried_now
from ._disk import DiskSwitch
from ._following import Following
from ._link import Link
from ._operation_faults import Operation
from ._queues import browse, destination_of, dump, matches
from ._surroundings import Around, Surroundings
from ._waiting import WAIT_S, WaitTimeout

__all__ = ["ManagedBroker", "has", "prepare", "sums_of", "wanted_of"]

_BROWSED_MAX = 10_000


class ManagedBroker:
    """A broker that a test can start, crash, stop and inspect.

    ``broker`` is the production object. ``link`` carries its clients' connections, ``disk`` holds its journal.

    Made by the fixtures `embedded_broker` and `broker_factory`.
    """

    def __init__(self, name: str, around: Around, place: Callable[[], Awaitable[Surroundings]]) -> None:
        self.name = name
        self._around = around
        self._carrier = around.carrier
        self._place = place
        self._following = Following(name, around)
        self._broker: EmbeddedBroker | None = None
        #: The broker of the test whose backup this is, at a host that starts and ends it; None for any other broker.
        self.owner: ManagedBroker | None = None
        #: True if it hosts backups of other brokers.
        self.is_colocated = False
        #: The backup of this broker that another one hosts, or hosted last.
        self.hosted_backup: ManagedBroker | None = None
        #: All brokers whose URLs it is configured with. They get their places with the first start of any of them.
        self._company: tuple[ManagedBroker, ...] = (self,)
        self._leave = trio.Event()
        self._left = trio.Event()

    def __repr__(self) -> str:
        return summary(self, self.name, self.role.value)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL at which clients connect over its link. It stays the same when the broker starts again."""
        return self._following.placed().port.url

    @property
    def link(self) -> Link:
        """The link between its clients and the broker."""
        return self._following.placed().link

    @property
    def disk(self) -> DiskSwitch:
        """The disk of its journal. The brokers of a pair with a shared store have the same disk."""
        return self._following.placed().disk

    @property
    def broker(self) -> EmbeddedBroker:
        """The production broker."""
        self._following.placed()
        assert self._broker is not None
        return self._broker

    @property
    def role(self) -> Role:
        """Its role in its pair at this moment; a broker without a pair is live while it runs."""
        return self._following.role

    @property
    def is_running(self) -> bool:
        """True if it was started, and neither stopped nor crashed nor failed."""
        return self._following.is_running

    @property
    def is_live(self) -> bool:
        """True if it serves clients."""
        return self._following.role is Role.LIVE

    @carried_now
    def queues(self) -> list[QueueInfo]:
        """Return the figures of its queues at this moment, in order of their names.

        Raises:
            IllegalStateException: it is not live.
        """
        self._following.require_live()
        return self.broker.queues()

    @carried_now
    def queue(self, name: str) -> QueueInfo:
        """Return the figures of a queue at this moment, as `EmbeddedBroker.queue` does.

        Args:
            name: name of the queue.
        """
        return self.broker.queue(name)

    @carried
    async def create_queue(self, name: str, **settings: Any) -> None:
        """Create a queue, as `EmbeddedBroker.create_queue` does.

        Args:
            name: name of the queue.
            settings: the arguments of that method.
        """
        await self.broker.create_queue(name, **settings)

    @carried
    async def delete_queue(self, name: str, *, closes_consumers: bool = False) -> None:
        """Delete a queue with its messages, as `EmbeddedBroker.delete_queue` does.

        Args:
            name: name of the queue.
            closes_consumers: whether its consumers are closed; otherwise a queue with consumers is refused.
        """
        await self.broker.delete_queue(name, closes_consumers=closes_consumers)

    @carried
    async def purge(self, name: str) -> int:
        """Remove the messages that wait in a queue, and return how many there were. Those in delivery stay.

        Args:
            name: name of the queue.
        """
        return await self.broker.purge(name)

    # -- life ----------------------------------------------------------------------------------------------------

    @carried
    async def start(self) -> Self:
        """Start it, the first time or again, and return it when it serves or, as a backup, waits.

        Raises:
            IllegalStateException: it runs already.
            WaitTimeout: it does neither within 10 seconds; a primary waits for a backup that does not give way.
        """
        await prepare(*self._company)
        if self.is_running:
            raise IllegalStateException(f"broker {self.name!r} is running already")
        with trio.move_on_after(WAIT_S) as scope:
            if self._broker is None:
                await self._enter()
            else:
                await self._broker.stop()  # after a stop by itself the broker object must still be stopped
                await self._broker.start()
        if scope.cancelled_caught:
            self._following.ended = f"did not start within {WAIT_S:g} s: it waits for its disk, or to be live"
            raise WaitTimeout(f"broker {self.name!r} {self._following.ended}")
        return self

    @carried
    async def stop(self, *, failover: bool = False) -> None:
        """Stop it in an orderly way: clients are notified.

        Args:
            failover: True if a backup takes over.

        Raises:
            IllegalStateException: it does not run.
            WaitTimeout: it did not within 10 seconds, and was ended as by `crash`; its disk is slow, or its link held.
        """
        self._following.require_running("stop")
        self._following.ended = "was stopped"
        with trio.move_on_after(WAIT_S) as scope:
            await self.broker.stop(failover=failover)
        if scope.cancelled_caught:
            self._following.ended = (
                f"did not stop within {WAIT_S:g} s, and was ended: it waited for its disk, or its pair"
            )
            raise WaitTimeout(f"broker {self.name!r} {self._following.ended}")
        await self._following.placed().port.clients_noticed()

    @carried
    async def scale_down(self, to: ManagedBroker | str | None = None) -> int:
        """Let it move everything to another broker, and stop; return the number of messages that moved.

        Args:
            to: the other broker, or its URL; None: the choice of its policy, else another member of its cluster.

        Raises:
            IllegalStateException: it does not run, no other broker takes the messages, or some of them stay.
        """
        self._following.require_running("scale down")
        moved = await self.broker.scale_down(to.url if isinstance(to, ManagedBroker) else to)
        self._following.ended = "was stopped"
        await self._following.placed().port.clients_noticed()
        return moved

    @carried
    async def crash(self, *, torn: bool = False) -> None:
        """End it at once: no client is notified, and what its disk had not synced is lost.

        Args:
            torn: True if any part of the unsynced data survives, sector by sector, drawn from the seed.

        Raises:
            IllegalStateException: it does not run.
        """
        self._following.require_running("crash")
        self._following.ended = "crashed"
        self._around.note(f"{self.name}: crash")
        self._following.torn = self._around.random if torn else None
        await self.broker.crash()
        await self._following.placed().port.clients_noticed()

    @carried
    async def restart(self, *, in_sync: bool = False) -> Self:
        """Start it again. If it runs, it is stopped in an orderly way before.

        Args:
            in_sync: True to return after `wait_in_sync`: when the pair could lose either of the two.

        Raises:
            WaitTimeout: it neither serves nor waits within 10 seconds, or has no whole copy 10 seconds later.
        """
        if self.is_running:
            await self.stop()
        await self.start()
        if in_sync:
            await self.wait_in_sync()
        return self

    # -- faults of operations ------------------------------------------------------------------------------------

    @carried_now
    def fail_next(
        self, operation: Operation, destination: str | None = None, *, n: int = 1, code: int | None = None
    ) -> None:
        """Let the next requests of clients fail. They are not carried out; a transaction is rolled back.

        A request without an answer fails unseen, or ends its connection, as it does in production. A large message
        fails at its end.

        Args:
            operation: ``"send"``, ``"acknowledge"``, ``"commit"``, ``"rollback"``, ``"create_session"``,
                ``"create_consumer"``, ``"create_queue"``, ``"create_address"``, ``"query"``, or ``"xa_start"``,
                ``"xa_end"``, ``"xa_prepare"``, ``"xa_commit"``, ``"xa_rollback"``, ``"xa_forget"``.
            destination: queue or address of the request; None for any.
            n: number of requests.
            code: the `ErrorCode` that clients receive; None: ``TRANSACTION_ROLLED_BACK`` for a commit, otherwise
                ``GENERIC_EXCEPTION``. For an XA request the `XaCode`; None: ``XAER_RMFAIL``.

        Raises:
            TypeError: an argument has the wrong type, or the operation has no destination.
            ValueError: there is no such operation, or a number is negative.
        """
        self._following.faults.add("fail", operation, destination, n, code=code)

    @carried_now
    def refuse(self, operation: Operation, destination: str | None = None, *, code: int | None = None) -> None:
        """Let all requests of clients fail, as `fail_next` does, until `heal`.

        Args:
            operation: as for `fail_next`.
            destination: queue or address of the request; None for any.
            code: as for `fail_next`.

        Raises: as `fail_next`.
        """
        self._following.faults.add("fail", operation, destination, None, code=code)

    @carried_now
    def delay(self, operation: Operation, destination: str | None = None, *, seconds: float, n: int = 1) -> None:
        """Delay the answers to the next requests. They are carried out at once.

        What the broker sends later on the same connection arrives behind the answer.

        Args:
            operation: as for `fail_next`.
            destination: queue or address of the request; None for any.
            seconds: time until the answer arrives, 0 or more.
            n: number of requests.

        Raises: as `fail_next`.
        """
        self._following.faults.add("delay", operation, destination, n, seconds=seconds)

    @carried_now
    def drop_reply(self, operation: Operation, destination: str | None = None, *, n: int = 1) -> None:
        """Break the connection before the answer to the next requests. They are carried out.

        Args:
            operation: as for `fail_next`.
            destination: queue or address of the request; None for any.
            n: number of requests.

        Raises: as `fail_next`.
        """
        self._following.faults.add("drop_reply", operation, destination, n)

    @carried_now
    def heal(self) -> None:
        """End all faults of operations. Links and disks have a `heal` for their faults."""
        self._following.faults.heal()

    def _follow(self, broker: EmbeddedBroker, place: Surroundings, owner: ManagedBroker) -> None:
        """Follow a backup that a host is about to start."""
        self._following.surroundings = place
        self.owner, self._broker = owner, broker
        owner.hosted_backup = self
        self._left.set()
        observe(broker, self._following)

    @property
    def _is_alone(self) -> bool:
        """Return True if no other broker depends on when this one ends."""
        policy = self._broker.config.ha_policy if self._broker is not None else None
        return isinstance(policy, PrimaryOnly) and not (policy.scale_down is not None and policy.scale_down.enabled)

    def _begin_end(self) -> None:
        """Let it stop: the test is over."""
        if self._broker is not None:
            self._following.ended = "ended with its test"
            self._leave.set()

    async def _end(self) -> None:
        """End it: the test is over."""
        self._begin_end()
        if self._broker is not None:
            await self._left.wait()

    async def _enter(self) -> None:
        entered, scope = trio.Event(), trio.CancelScope()
        failures: list[BaseException] = []
        left = self._left = trio.Event()
        broker = self._following.placed().make()
        observe(broker, self._following)
        self._broker = broker

        async def live() -> None:
            try:
                with scope:
                    async with broker:
                        entered.set()
                        await self._leave.wait()
            except BaseException as error:
                if entered.is_set():
                    raise
                failures.append(error)
                self._broker = None
                entered.set()
                if isinstance(error, trio.Cancelled):
                    raise
            finally:
                left.set()

        self._around.start_soon(live)
        try:
            await entered.wait()
        except trio.Cancelled:  # no caller waits for its start any more, and the start must not delay the end
            scope.cancel()
            self._broker = None
            with trio.CancelScope(shield=True):
                await left.wait()
            raise
        if failures:
            raise failures[0]

    # -- waits and assertions ------------------------------------------------------------------------------------

    @carried
    async def wait_for_role(self, *roles: Role, timeout: float | None = None) -> None:
        """Wait until it has one of ``roles``.

        Args:
            roles: one role or more.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: it had none of them within ``timeout`` seconds.
            IllegalStateException: it does not run.
            TypeError: no role is given, or an argument is not a role.
        """
        __tracebackhide__ = True
        check_roles(roles)
        wanted = " or ".join(role.value for role in roles)

        def holds() -> bool:
            if self._following.role not in roles:
                self._following.require_running(f"wait for it to be {wanted}")
            return self._following.role in roles

        await self._around.waiting.until(holds, timeout, f"broker {self.name!r} {wanted}", self._describe)

    @carried
    async def wait_in_sync(self, timeout: float | None = None) -> None:
        """Wait until it has a replicating backup that has all it confirmed, or is such a backup.

        Return at once for a broker that does not replicate: it has the disk of its pair, or has no pair.

        Args:
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: it was not in sync within ``timeout`` seconds; the other may be down, or held apart.
            IllegalStateException: it does not run.
        """
        __tracebackhide__ = True

        def holds() -> bool:
            self._following.require_running("wait for a whole copy")
            return self._is_in_sync

        await self._around.waiting.until(holds, timeout, f"broker {self.name!r} in sync", self._describe)

    @property
    def _is_in_sync(self) -> bool:
        return not self._following.placed().replicates or self.broker.is_in_sync

    @carried
    async def wait_for(
        self, *, queue: str, count: int | None = None, consumers: int | None = None, timeout: float | None = None
    ) -> None:
        """Wait until a queue has exactly ``count`` messages and ``consumers`` consumers.

        A queue that does not exist has none of either.

        Args:
            queue: the queue's name.
            count: messages, those in delivery included, 0 or more; None for any number. Either this or ``consumers`` is
                needed.
            consumers: 0 or more; None for any number.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises:
            WaitTimeout: it had not within ``timeout`` seconds; the text has all queues and messages.
            IllegalStateException: it is not live.
        """
        __tracebackhide__ = True
        wanted = wanted_of(queue, count, consumers)

        def holds() -> bool:
            return has(self._following.require_live(), queue, count, consumers)

        await self._around.waiting.until(holds, timeout, f"broker {self.name!r}: {wanted}", self.dump)

    @carried
    async def assert_message(
        self, queue: str, body: object = ..., *, timeout: float | None = None, **properties: object
    ) -> Message:
        """Wait until a message with this body, and at least these properties, waits in a queue; it stays there.

        Args:
            queue: the queue's name.
            body: the body; ``...`` for any.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.
            properties: names and values of properties that the message must have.

        Raises:
            WaitTimeout: none did within ``timeout`` seconds; the text has all queues and messages.
            IllegalStateException: it is not live.
        """
        __tracebackhide__ = True
        wanted = f"broker {self.name!r}: a message in queue {queue}" + ("" if body is ... else f" with body {body!r}")
        wanted += f" and properties {properties!r}" if properties else ""
        seconds = WAIT_S if timeout is None else timeout
        check_seconds("a time-out", seconds)
        check_queue(queue)
        deadline = trio.current_time() + seconds
        seen = 0
        while True:
            left_s = max(0.0, deadline - trio.current_time())
            await self._around.waiting.until(self._is_news(queue, seen), left_s, wanted, self.dump)
            seen = self._version(queue)
            for message in await self.messages(queue):
                if matches(message, body, properties):
                    return message

    @carried
    async def assert_empty(self, queue: str, *, timeout: float | None = None) -> None:
        """Wait until a queue has no message, in delivery or waiting.

        Args:
            queue: the queue's name; a queue that does not exist is empty.
            timeout: seconds of the test's clock, 0 or more; 10 unless given.

        Raises: as `wait_for`.
        """
        __tracebackhide__ = True
        await self.wait_for(queue=queue, count=0, timeout=timeout)

    @carried
    async def messages(self, queue: str) -> list[Message]:
        """Return the messages that wait in a queue, without taking them.

        Args:
            queue: the queue's name.

        Raises:
            IllegalStateException: it is not live.
        """
        check_queue(queue)
        found = next((each for each in self.queues() if each.name == queue), None)
        if found is None:
            await trio.lowlevel.checkpoint()
            return []
        return await browse(self._following.placed().port.console_url, destination_of(found), _BROWSED_MAX)

    @carried_now
    def assert_nothing_lost(self) -> None:
        """Check that every message that was safe was settled, or is in its queue.

        Raises:
            AssertionError: some are not; the text names their queues and numbers.
            IllegalStateException: it is not live.
        """
        __tracebackhide__ = True
        self._following.require_live()
        lost = self._following.placed().ledger.lost()
        if lost:
            raise AssertionError(f"lost: {', '.join(lost)}\n{self._following.placed().ledger.summary()}")

    @carried
    async def dump(self) -> str:
        """Return all queues with their messages, in words."""
        if not self.is_live:
            return await self._describe()
        return await dump(self._following.placed().port.console_url, self.queues())

    async def _describe(self) -> str:
        await trio.lowlevel.checkpoint()
        return self._following.describe()

    def _version(self, queue: str) -> int:
        """Return a number that changes with what waits in a queue; 0 while nothing does."""
        found = self._following.require_live().address_manager.queues.get(queue)
        return 0 if found is None or not found.message_count else hash((found.added_count, found.message_count)) or 1

    def _is_news(self, queue: str, seen: int) -> Callable[[], bool]:
        return lambda: self._version(queue) not in (0, seen)


def wanted_of(queue: str, count: int | None, consumers: int | None, what: str = "messages") -> str:
    """Return a wait in words.

    Raises:
        TypeError: it waits for nothing, or a number is no int, or the queue's name is no str.
        ValueError: a number is below zero.
    """
    check_queue(queue)
    if count is None and consumers is None:
        raise TypeError(f"wait_for() needs a count of {what}, or of consumers")
    for numbered, number in ((f"a count of {what}", count), ("a number of consumers", consumers)):
        if number is not None:
            check_count(numbered, number)
    wishes = [f"{count} {what}"] * (count is not None) + [f"{consumers} consumers"] * (consumers is not None)
    return f"queue {queue} with {' and '.join(wishes)}"


def has(kernel: Kernel, queue: str, count: int | None, consumers: int | None) -> bool:
    """Return True if a queue has these numbers of messages and consumers; None matches any number."""
    messages, listeners = sums_of([kernel], queue)
    return count in (None, messages) and consumers in (None, listeners)


def sums_of(kernels: Iterable[Kernel], queue: str) -> tuple[int, int]:
    """Return the numbers of messages and consumers of a queue, summed over brokers."""
    found = [one for kernel in kernels if (one := kernel.address_manager.queues.get(queue)) is not None]
    return sum(one.message_count for one in found), sum(one.consumer_count for one in found)


async def prepare(*brokers: ManagedBroker) -> None:
    """Give each broker its place: from now on it has a URL."""
    for broker in brokers:
        if broker._following.surroundings is None:
            broker._following.surroundings = await broker._place()
