"""The bench of one test: its brokers, their surroundings, and the proof that nothing is left of them.

Responsible for the order of the steps: brokers start before the test's body and end after it. An exception of the body
leaves as the same object, with a report beside it. Does not depend on pytest.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, cast

import trio
from attrs import evolve

from embedbroker import BrokerConfig, Colocated, EmbeddedBroker, HAPolicy, MemoryLockManager, MemoryLocks
from embedbroker.config import as_acceptors, is_at_host
from embedbroker.locks import Lock, LockManagers
from embedbroker.runtime import FileDisk, FileLockManager
from embedbroker.testing import SimulatedDisk
from embedclient.errors import IllegalStateException

from ._arguments import check_broker
from ._broker import ManagedBroker
from ._carrier import Carrier
from ._clock import BrokerClock
from ._disk import DiskSwitch
from ._faults import FaultPlan
from ._foreign import ForeignBroker
from ._ledger import GroupLedger
from ._left_scopes import LeftScopes
from ._link import Link
from ._network import Fabric, MemoryFabric, Port, TcpFabric
from ._pair import PAIR_KINDS, BrokerPair, cluster_settings
from ._trace import Trace
from ._waiting import Waiting, WaitTimeout

__all__ = ["OPEN_SCOPE", "Bench", "Ground", "Group", "LeftBehind", "Store", "Surface"]

# Of a journal file: what a start reserves is made in memory, and a test sends little.
_SEGMENT_BYTES = 65_536
_REPORT_WITHIN_S = 10.0
# Why a broker does not run yet, for requests that need a running broker before its test begins.
_NOT_YET = "starts when the test begins; a fixture that is no 'async def' comes before that"

OPEN_SCOPE = (
    "left behind by this test: a connection, a session, a nursery or a cancel scope that it has entered and not left; "
    "use 'async with', or close it"
)


class Surface(Enum):
    """The kinds of surroundings of a test's brokers."""

    #: Pipes, disk and locks in memory, in virtual time.
    VIRTUAL = "virtual time"
    #: Sockets in real time; disk and locks in memory.
    SOCKETS = "sockets"
    #: Sockets, files and lock files.
    REAL = "sockets and files"
    #: The broker of --broker-url.
    FOREIGN = "a foreign broker"


class LeftBehind(AssertionError):
    """A test is over, and a resource of its brokers is left: a task, a connection, a file, a lock or a lease."""


class Group:
    """Hold what belongs to one broker, or to a pair: a ledger, and the locks or leases that decide which is live.

    ``leases`` are those of a pair that replicates. ``directory`` is where its files are.
    """

    def __init__(self, name: str, ledger: GroupLedger, leases: LockManagers | None, directory: Path | None) -> None:
        self.name = name
        self.ledger = ledger
        self.leases = leases
        self.directory = directory
        self.locks = MemoryLocks()


class Store:
    """A disk, and the directory of its files if it has any."""

    def __init__(self, disk: DiskSwitch, directory: Path | None) -> None:
        self.disk = disk
        self.directory = directory


class Ground:
    """The surroundings of one broker."""

    def __init__(
        self,
        group: Group,
        store: Store,
        name: str,
        port: Port,
        link: Link,
        settings: Callable[[], dict[str, Any]],
        host_backup: Callable[[BrokerConfig, str], EmbeddedBroker] | None = None,
    ) -> None:
        self.port = port
        self.link = link
        self.disk = store.disk
        self.replicates = group.leases is not None
        self.ledger = group.ledger
        self.group = group
        self.store = store
        self._name = name
        self._settings = settings
        self._host_backup = host_backup

    def make(self) -> EmbeddedBroker:
        return self.make_with(None, {"name": self._name, "segment_size_bytes": _SEGMENT_BYTES, **self._settings()})

    def make_with(self, config: BrokerConfig | None, settings: dict[str, Any]) -> EmbeddedBroker:
        """Return a broker of this place, not started."""
        directory, leases = self.store.directory, self.group.leases
        if self.port.url.startswith("tcp:"):
            number = int(self.port.url.rpartition(":")[2])
            acceptors = as_acceptors(settings.get("acceptors", () if config is None else config.acceptors))
            if acceptors:
                settings["acceptors"] = [evolve(acceptors[0], port=number), *acceptors[1:]]
            else:
                settings["port"] = number
        if directory is not None:
            settings["data_directory"] = str(directory)
        locks = self.group.locks if directory is None and leases is None else None
        has_groups = bool(settings.get("broadcast_groups") or settings.get("discovery_groups"))
        return EmbeddedBroker(
            config,
            disk=self.disk,
            locks=locks,
            network=self.port,
            datagrams=self.port.datagrams if has_groups else None,
            lock_manager=leases,
            make_backup=self._host_backup,
            **settings,
        )


class Bench:
    """The bench of one test. ``make_directory`` returns a new directory for files."""

    def __init__(self, surface: Surface, seed: int, timeout_s: float, make_directory: Callable[[], Path]) -> None:
        self.surface = surface
        self.seed = seed
        self.timeout_s = timeout_s
        #: True if another thread ends a test that takes longer: a test in another thread cannot be cancelled from here.
        self.is_watched = False
        self.random = Random(seed)
        #: The way here for a test in asyncio; None for a test in trio, or a plain one.
        self.carrier: Carrier | None = None
        self.waiting = Waiting()
        self.trace = Trace()
        self.clock = BrokerClock(is_virtual=surface is Surface.VIRTUAL)
        self.faults = FaultPlan(seed, self)
        self.report = ""
        self.must_prove = True
        self.is_over = False
        #: The exception of the test itself.
        self.failure: BaseException | None = None
        #: True if the test ended inside of a nursery, such as that of a connection.
        self.has_open_nursery = False
        self._clients: list[str] = []
        self._make_directory = make_directory
        self._fabric: Fabric | None = None
        self._nursery: trio.Nursery | None = None
        self._to_start: list[ManagedBroker | BrokerPair] = []
        #: Work beside the test that was requested before it began.
        self._to_run: list[Callable[[], Awaitable[None]]] = []
        self._groups: list[Group] = []
        self._stores: list[Store] = []
        # By the name of a backup that a broker may host.
        self._backup_ports: dict[str, Port] = {}
        self.brokers: list[ManagedBroker] = []

    # -- what tests are given ------------------------------------------------------------------------------------

    def broker(self, name: str, settings: dict[str, Any], *, starts: bool) -> ManagedBroker:
        """Return a new broker; if it ``starts``, it runs when the test's body begins."""
        check_broker(name, settings)
        place = self.placing(name, name, name, lambda: settings, replicates=False)
        broker = self.add(ManagedBroker(name, self, place))
        if starts:
            self.start_with_test(broker, broker)
        return broker

    def foreign(self, url: str) -> ManagedBroker:
        """Return the broker at a URL, as far as it can stand in for one of ours."""
        return cast(ManagedBroker, ForeignBroker(url, self.carrier))

    def pair(self, kind: str) -> BrokerPair:
        """Return a live broker and its backup, which run when the test's body begins."""
        members: dict[str, ManagedBroker] = {}

        def settings(name: str) -> dict[str, Any]:
            urls = {member.name: member.url for member in members.values()}
            return cluster_settings(name, urls, virtual=self.surface is Surface.VIRTUAL)

        pair = self.make_pair(kind, "the pair", ("primary", "backup"), settings)
        members |= {broker.name: broker for broker in pair.brokers}
        self.start_with_test(pair, *pair.brokers)
        return pair

    def make_pair(
        self, kind: str, title: str, names: tuple[str, str], settings: Callable[[str], dict[str, Any]]
    ) -> BrokerPair:
        """Return a live broker and its backup, not started, with these names and further settings."""
        what = PAIR_KINDS[kind]

        def make(name: str, policy: HAPolicy) -> ManagedBroker:
            owner = title if what.shares_disk else name
            more = lambda: {"ha_policy": policy, **settings(name)}  # noqa: E731
            return self.add(
                ManagedBroker(name, self, self.placing(name, title, owner, more, replicates=not what.shares_disk))
            )

        return BrokerPair(kind, make(names[0], what.primary), make(names[1], what.backup), self, self.between)

    def between(self, one: str, other: str) -> Link:
        """Return the link between two brokers."""
        return self.running_fabric.links.between(one, other)

    def start_with_test(self, what: ManagedBroker | BrokerPair, *brokers: ManagedBroker) -> None:
        """Start a broker, or a pair of these brokers, when the test's body begins."""
        self._to_start.append(what)
        if self._nursery is None:
            for broker in brokers:
                broker._following.ended = _NOT_YET

    def placing(
        self, name: str, group: str, owner: str, settings: Callable[[], dict[str, Any]], *, replicates: bool
    ) -> Callable[[], Awaitable[Ground]]:
        """Return what gives a broker its place, in a group and on the disk of ``owner``.

        Group and disk are made with the first broker that has them.
        """

        async def place() -> Ground:
            fabric = self.running_fabric
            of_group = next((one for one in self._groups if one.name == group), None)
            store = next((one for one in self._stores if one.disk.name == owner), None)
            if of_group is None:
                of_group = self.make_group(group, replicates=replicates)
            if store is None:
                store = self.make_store(owner)
            port, link = await fabric.place(name), fabric.links.to(name)
            return Ground(of_group, store, name, port, link, settings, self.host_backup)

        return place

    async def place_backups(self, host: str, policy: Colocated) -> None:
        """Give each backup that a colocated broker may host its place."""
        for index in range(policy.max_backups):
            name = f"{host}-colocated_backup_{index}1"
            self._backup_ports[name] = await self.running_fabric.place(name)

    def host_backup(self, config: BrokerConfig, node_id: str) -> EmbeddedBroker:
        """Return the broker that a colocated broker hosts as backup of a node, and follow it."""
        name, fabric = config.name, self.running_fabric
        owner = next(each for each in self.brokers if each.owner is None and each._following.node_id == node_id)
        place = owner._following.placed()
        assert isinstance(place, Ground) and config.cluster_connection is not None
        store = place.store
        if place.replicates:
            # As with directories: one for each node, whatever the place of its backup at the host.
            disk = f"{name.rpartition('-')[0]}-backup of {owner.name}"
            store = next((one for one in self._stores if one.disk.name == disk), None) or self.make_store(disk)
        port = self._backup_ports[name]
        ground = Ground(place.group, store, name, port, fabric.links.to(name), dict, self.host_backup)
        own = config.cluster_connection.connector
        assert own is not None, "brokers of tests have one"
        own_place = {} if is_at_host(config.cluster_connection) else {own: port.url}
        broker = ground.make_with(config, {"connectors": {**config.connectors, **own_place}})
        hosted = next((each for each in self.brokers if each.name == name), None)
        if hosted is None:
            hosted = self.add(ManagedBroker(name, self, partial(_never, name)))
        hosted._follow(broker, ground, owner)
        return broker

    def add(self, broker: ManagedBroker) -> ManagedBroker:
        """Add a broker, whose name no other has.

        Raises:
            ValueError: another broker of this test has the name.
        """
        if any(broker.name == other.name for other in self.brokers):
            raise ValueError(f"this test has a broker {broker.name!r} already: give each a name")
        self.brokers.append(broker)
        return broker

    def make_group(self, name: str, *, replicates: bool) -> Group:
        """Return what a new group of brokers has in common."""
        leases: LockManagers | None = None
        directory: Path | None = None
        if replicates and self.surface is Surface.REAL:
            directory = self._make_directory()
            leases = FileLockManager(directory)
        elif replicates:
            leases = MemoryLockManager()
        group = Group(name, GroupLedger(self.trace.elapsed_s), leases, directory)
        self._groups.append(group)
        return group

    def make_store(self, name: str) -> Store:
        """Return a new, empty disk."""
        if self.surface is Surface.REAL:
            directory = self._make_directory()
            files = FileDisk(directory)
            store = Store(DiskSwitch(name, files, self.note, files, self.carrier), directory)
        else:
            store = Store(DiskSwitch(name, SimulatedDisk(), self.note, carrier=self.carrier), None)
        self._stores.append(store)
        return store

    @property
    def running_fabric(self) -> Fabric:
        """Return the network that brokers and clients use while the test runs."""
        assert self._fabric is not None, "brokers get their places while the test runs"
        return self._fabric

    # -- around brokers ------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.note(text)

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        if self.is_over:
            raise IllegalStateException("nothing happens beside a test that is over")
        if self._nursery is None:
            self._to_run.append(work)
        else:
            self._nursery.start_soon(work)

    # -- the test ------------------------------------------------------------------------------------------------

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run the body with its brokers around it.

        Raises:
            WaitTimeout: the body did not end within ``timeout_s`` seconds.
            LeftBehind: the body passed, and something is left of the brokers.
        """
        __tracebackhide__ = True
        tasks_before = _task_count()
        failure: BaseException | None = None
        beside: BaseException | None = None
        self.trace.attach()
        try:
            async with trio.open_nursery() as nursery:
                self._begin(nursery)
                try:
                    await self._run_body(body)
                except BaseException as error:
                    failure = error
                    await self.describe(error)
                    raise
                finally:
                    await self._end(nursery)
        except BaseExceptionGroup as group:
            known = {id(failure), *map(id, _leaves(failure) if isinstance(failure, BaseExceptionGroup) else [])}
            others = [leaf for leaf in _leaves(group) if not isinstance(leaf, trio.Cancelled)]
            beside = next((leaf for leaf in others if id(leaf) not in known), None)
            failure = failure or beside or group
        finally:
            self.trace.detach()
            self._nursery = None
        # Raised outside of the handler, or the group would become the context of the test's own exception.
        if isinstance(failure, trio.Cancelled) and beside is not None:
            failure = beside
        if failure is not None:
            self.report = self.report or self._heading()
            if beside is not None and beside is not failure:
                failure.__context__ = failure.__context__ or beside
            raise failure
        if self.must_prove:
            await self._prove(tasks_before)

    def _begin(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        if self.surface is Surface.VIRTUAL:
            self._fabric = MemoryFabric(self.note, self.seed)
        elif self.surface is not Surface.FOREIGN:
            self._fabric = TcpFabric(nursery, self.note, self.carrier)
        self.trace.begin()
        self.clock.begin(is_elsewhere=self.carrier is not None)

    async def _run_body(self, body: Callable[[], Awaitable[None]]) -> None:
        __tracebackhide__ = True
        where: TracebackType | None = None
        with trio.move_on_after(math.inf if self.is_watched else self.timeout_s) as scope:
            for each in self._to_start:
                await each.start()
            self.note("the test begins")
            for work in self._to_run:
                self.start_soon(work)
            task = trio.lowlevel.current_task()
            nurseries = len(task.child_nurseries)
            try:
                await body()
            except BaseException as error:
                self.failure = error
                if scope.cancel_called:
                    where = error.__traceback__
                raise
            finally:
                self.has_open_nursery |= len(task.child_nurseries) > nurseries
        if scope.cancelled_caught:
            raise self.overdue().with_traceback(where)

    def watched(self, test: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[None]]:
        """Return a test in trio that raises `LeftBehind` if it passes inside of a nursery, and closes what it can."""

        async def run(**values: Any) -> None:
            __tracebackhide__ = True
            scopes = LeftScopes()
            try:
                with scopes.watched():
                    await test(**values)
            except AssertionError as error:
                # From trio: the test has left a nursery before what it had entered in there.
                if str(error).startswith("Nursery misnesting"):
                    raise LeftBehind(OPEN_SCOPE) from None
                raise
            finally:
                self.has_open_nursery = scopes.has_nursery
                await scopes.close()
            if self.has_open_nursery:
                raise LeftBehind(OPEN_SCOPE)

        return run

    def overdue(self) -> WaitTimeout:
        """Return the reason why a test is ended that takes longer than ``timeout_s``."""
        states = ", ".join(broker._following.describe() for broker in self.brokers) or "it has no broker"
        return WaitTimeout(
            f"the test did not end within {self.timeout_s:g} s, {self.surface.value}: something in it waits for "
            f"what does not come; {states} (the ini option embedbroker_timeout sets the limit)"
        )

    async def _end(self, nursery: trio.Nursery) -> None:
        self.is_over = True
        with trio.CancelScope(shield=True):
            await self._look_for_clients()
            # Together: one after the other, each would handle the departures of those before it.
            for broker in reversed(self.brokers):
                if broker._is_alone:
                    broker._begin_end()
            for broker in reversed(self.brokers):
                await broker._end()
            await self._settle()
        nursery.cancel_scope.cancel()
        for store in self._stores:
            store.disk.close()
        if self._fabric is not None:
            self._fabric.close()

    async def _look_for_clients(self) -> None:
        """Record clients that are still connected: the test left them behind.

        That a socket was closed is visible only a moment later.
        """
        if self._fabric is None or not self.must_prove:
            return
        links = self._fabric.links
        doors = [links.to(broker.name) for broker in self.brokers]

        def left() -> list[str]:
            return [peer for door in doors for peer in door.open_dialled()]

        if self.surface is not Surface.VIRTUAL:
            await links.until(lambda: not left())
        self._clients = left()

    async def _settle(self) -> None:
        """Close the fabric.

        Tasks of the plugin close the sockets, and brokers their ends of pipes, when they notice.
        """
        fabric = self._fabric
        if fabric is not None:
            fabric.close()
            await fabric.links.until(lambda: not fabric.leftovers())

    # -- when it is over -----------------------------------------------------------------------------------------

    async def describe(self, error: BaseException) -> None:
        """Make the report of a test that fails, while its brokers still run."""
        if isinstance(error, trio.Cancelled | KeyboardInterrupt) or not isinstance(error, Exception):
            return
        with trio.move_on_after(_REPORT_WITHIN_S, shield=True):
            self.report = await self.describe_now()

    async def describe_now(self) -> str:
        """Return the seed, the trace, the ledger, and what is in the queues."""
        parts = [self._heading()]
        for group in self._groups:
            parts += [f"-- ledger of {group.name}", group.ledger.summary()]
        for broker in self.brokers:
            parts += [f"-- {broker._following.describe()}"]
            if broker.is_live:
                parts += [await broker.dump()]
        return "\n".join(parts)

    def _heading(self) -> str:
        again = f"seed {self.seed}, {self.surface.value}; again with --embedbroker-seed={self.seed}"
        return "\n".join([again, "-- trace", self.trace.tail()])

    async def _prove(self, tasks_before: int) -> None:
        """Raise if a task, a socket or pipe, a file or a lock is left."""
        __tracebackhide__ = True
        await trio.lowlevel.checkpoint()
        left = [f"{count} tasks" for count in [_task_count() - tasks_before] if count > 0]
        left += [f"the connection {peer}" for peer in self._clients]
        left += self._fabric.leftovers() if self._fabric is not None and not self._clients else []
        for group in self._groups:
            left += [f"the lock {lock.name} of {group.locks.holder(lock)}" for lock in Lock if group.locks.holder(lock)]
            left += [f"the lease of {holder}" for holder in self._lease_holders(group)]
            left += [f"the open file {path}" for path in _open_files(group.directory)]
        for store in self._stores:
            left += [f"the open file {path}" for path in _open_files(store.directory)]
        if left:
            raise LeftBehind(f"left behind by this test: {', '.join(left)}")

    def _lease_holders(self, group: Group) -> list[str]:
        """Return the holders of leases in memory; a lease in a file is an open file."""
        if not isinstance(group.leases, MemoryLockManager):
            return []
        found = [group.leases.holder(key) for key in {broker._following.node_id for broker in self.brokers}]
        return [holder for holder in found if holder is not None]


async def _never(name: str) -> Ground:
    raise IllegalStateException(f"broker {name!r} is a hosted backup: its host starts it")


def _task_count() -> int:
    root = trio.lowlevel.current_root_task()
    waiting, count = [root] if root is not None else [], 0
    while waiting:
        task = waiting.pop()
        count += 1
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return count


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _open_files(directory: Path | None) -> list[str]:
    """Return the paths of open descriptors of this process below a directory, where the system lists them."""
    listing = Path("/proc/self/fd")
    if directory is None or not listing.is_dir():
        return []
    found = []
    for entry in os.listdir(listing):
        try:
            target = os.readlink(listing / entry)
        except OSError:
            continue  # closed meanwhile
        if target.startswith(f"{directory}/"):
            found.append(target)
    return found
