"""An administrator that changes queues, addresses, settings and permissions by management messages while users work.

Responsible for the orders, for their answers, and for what is known about an order without one. The checkers of
`_administration` judge what the broker makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from attrs import define, evolve, field

from embedbroker.testing._administration import (
    DESK,
    AcceptorChecker,
    BlockChecker,
    GrantChecker,
    KeyFilter,
    PauseChecker,
    Purge,
    PurgeChecker,
    UpdateChecker,
)
from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._checkers import BrokerChecker
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._messages import COLORS, selector_of
from embedbroker.testing._scene import Moment, Phase, Scene, Topic
from embedbroker.testing._scripts import Steps
from embedclient.agent import LocatorSettings, Session, SessionMode
from embedclient.errors import JMSException
from embedclient.model import RoutingType

from .orders import Desk, OrderRefused, OrderUnanswered, open_desk
from .plan import AdministratorRole, ScenarioPlan
from .visitors import roles_of_the_desk

__all__ = ["ADMINISTRATOR", "Administrator", "Subject", "with_administrator"]

ADMINISTRATOR = "administrator"
"""Name of the administrator, and of its host."""

#: For queues that are created while settings change.
_MADE = "made"
_TOO_MANY_CONSUMERS = "AMQ229210"
_NO_SUCH_ROUTING_TYPE = "AMQ229211"
_ROUTING_TYPES = ("MULTICAST", "ANYCAST")


def with_administrator(plan: ScenarioPlan) -> ScenarioPlan:
    """Return the plan with an administrator. It changes values; what a seed stands for without it stays what it is."""
    random = Random(f"administrator {plan.seed}")
    # It gives up a connection that fails, and looks what came of its order.
    settings = LocatorSettings(
        call_timeout_ms=1_000,
        client_failure_check_period_ms=300,
        connection_ttl_ms=1_000,
        connect_timeout_ms=1_000,
        reconnect_attempts=0,
        ha=plan.group is not None,
        use_topology_for_load_balancing=plan.hosts[0].settings.use_topology_for_load_balancing,
    )
    pause_s = random.choice((0.02, 0.1, 0.4))
    has_clerk = plan.broker.memory_limit_bytes is None and (bool(plan.visitors) or random.random() < 0.5)
    broker = evolve(plan.broker, has_clerk=has_clerk, secured=plan.broker.secured or has_clerk)
    if random.random() < 0.5:
        broker = evolve(broker, redelivery_delay_ms=random.choice((20, 300, 1_500)))
    return evolve(plan, administrator=AdministratorRole(settings, pause_s), broker=broker)


@define(eq=False)
class Subject:
    """A queue that may be updated. ``is_limited``: its number of consumers has a limit, which stays."""

    topic: Topic
    name: str
    is_limited: bool


@define(eq=False)
class Administrator:
    """One administrator, through all its sessions.

    In the end it resumes what it has paused or blocked, and takes back what would leave users without messages.
    """

    scene: Scene
    host: ClientHost
    broker: BrokerView
    #: Without those that come and go, and those with a cursor.
    topics: list[Topic]
    subjects: list[Subject]
    pause_s: float
    #: None in a group: its members reach each other over the acceptors of their clients.
    acceptor: AcceptorChecker | None = None
    #: None without a user whose permissions change.
    grants: GrantChecker | None = field(default=None, init=False)
    pauses: PauseChecker = field(init=False)
    purges: PurgeChecker = field(init=False)
    updates: UpdateChecker = field(init=False)
    blocks: BlockChecker = field(init=False)
    name: str = field(default=ADMINISTRATOR, init=False)
    finished: bool = field(default=False, init=False)
    #: Nothing else is drawn from it.
    _random: Random = field(init=False)
    #: Resources that are paused, or may be, with their queues.
    _held: dict[str, list[str]] = field(factory=dict, init=False)
    _session_name: str | None = field(default=None, init=False)
    _purge: Purge | None = field(default=None, init=False)
    #: Names of queues whose limit is not the first one, and of those whose filter is not known.
    _limited: dict[str, None] = field(factory=dict, init=False)
    _unfiltered: dict[str, Subject] = field(factory=dict, init=False)
    _blocked: dict[str, None] = field(factory=dict, init=False)
    #: Whether the acceptor is stopped, or may be.
    _is_cut_off: bool = field(default=False, init=False)
    #: Queues whose way to share messages among consumers changes. `BrokerChecker` provides the set.
    _shared_anew: set[str] = field(factory=set, init=False)
    #: Addresses that have both routing types, or may have them, and the queue of each that has the other type, or may.
    _widened: dict[str, bool] = field(factory=dict, init=False)
    _rerouted: dict[str, str] = field(factory=dict, init=False)
    #: Whether a new queue is exclusive; None: not known.
    _default: bool | None = field(default=False, init=False)
    _made: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.pauses = PauseChecker(self.scene, self.broker)
        self.purges = PurgeChecker(self.scene, self.broker)
        self.updates = UpdateChecker(self.scene, self.broker)
        self.blocks = BlockChecker(self.scene, self.broker)
        self._random = Random(f"orders {self.scene.world.seed}")

    def watch(self, checker: BrokerChecker) -> None:
        """Let the checkers look at the broker from now on."""
        self.pauses.watch()
        self.purges.watch()
        checker.on_delivery.append(self.purges.on_delivery)
        self.updates.watch()
        self.blocks.watch()
        self._shared_anew = checker.shared_anew
        if self.acceptor is not None:
            self.acceptor.watch()

    def check_at_the_end(self) -> None:
        """Check what users must have left."""
        if self.grants is not None:
            self.grants.check_at_the_end()

    def steps(self) -> Steps:
        """The script of the administrator."""
        while not self.finished:
            yield from self._await_end_of_session()
            session: Session | None = None
            try:
                session = yield self.host.agent().create_session_for(SessionMode.AUTO)
                self._session_name = session.name
                yield from self._work(session)
            except JMSException as error:
                self.scene.world.note(self.name, "loses its session", f"{error.error_code} {error}")
            except OrderUnanswered:
                self.scene.world.note(self.name, "gets no answer")
            if session is not None:
                yield session.close()
            yield self._random.random() * 0.2

    def give_up(self) -> None:
        """Its client is gone. What is in doubt is decided when the broker has forgotten its session."""

    def _await_end_of_session(self) -> Steps:
        """Wait until nothing that was ordered can happen any more."""
        if self._session_name is not None:
            while not self._has_ended(self._session_name):
                yield 0.02
            self._session_name = None
        if self._purge is not None:
            self.purges.end(self._purge, None)
            self._purge = None

    def _has_ended(self, session: str) -> bool:
        node = self.broker.node
        if node is None or not self.broker.ready:
            return False
        return not self.broker.has_session(session) and not node.kernel.deferred.waiting

    def _work(self, session: Session) -> Steps:
        desk = yield from open_desk(self.scene, self.name, session)
        if self._is_cut_off:
            yield from self._start_acceptor(desk)
        while not session.closed:
            if self.scene.phase is not Phase.WORK:
                yield from self._restore(desk)
                self.finished = True
                return
            yield from self._act(desk)
            yield self._random.random() * 2 * self.pause_s

    def _act(self, desk: Desk) -> Steps:
        # A broker without room cannot answer, and a pause would leave it without room for ever.
        has_topics, has_subjects = bool(self.topics), bool(self.subjects)
        has_room = has_topics and self.broker.config.global_max_size_bytes is None
        verbs: list[tuple[int, Callable[[Desk], Steps]]] = [
            (3 * has_room, self._pause_queue),
            (has_room, self._pause_address),
            (1 + len(self._held), self._resume_any),
            (2 * has_topics, self._purge_queue),
            (2 * has_subjects, self._limit_queue),
            (3 * has_subjects, self._filter_queue),
            (has_room, self._block_address),
            (2 * len(self._blocked), self._unblock_any),
            (1, self._set_default),
            (1, self._make_queue),
            (2 * (has_topics and self.scene.redeliveries.delay_s > 0), self._set_delay),
            (4 * (self.grants is not None), self._change_grant),
            (2 * has_topics, self._remove_matching),
            (2 * has_subjects, self._share_queue),
            (2 * has_subjects, self._route_queue),
            (self.acceptor is not None and not self._is_cut_off, self._stop_acceptor),
            (10 * self._is_cut_off, self._start_acceptor),
        ]
        weights = [weight for weight, _ in verbs]
        _, verb = self._random.choices(verbs, weights)[0]
        yield from verb(desk)

    # Pauses

    def _pause_queue(self, desk: Desk) -> Steps:
        topic = self._random.choice(self.topics)
        name = self._random.choice(list(topic.subscriptions))
        yield from self._pause(desk, f"queue.{name}", [name])

    def _pause_address(self, desk: Desk) -> Steps:
        topic = self._random.choice(self.topics)
        yield from self._pause(desk, f"address.{topic.address}", list(topic.subscriptions))

    def _pause(self, desk: Desk, resource: str, queues: list[str]) -> Steps:
        is_persisted = self._random.random() < 0.7
        self._held[resource] = queues
        for queue in queues:
            self.pauses.pausing(queue)
        yield from desk.order(resource, "pause", is_persisted)
        self.scene.hit(Moment.QUEUE_PAUSED)
        for queue in queues:
            self.pauses.paused(queue, resource, is_persisted=is_persisted)

    def _resume_any(self, desk: Desk) -> Steps:
        if self._held:
            yield from self._resume(desk, self._random.choice(list(self._held)))

    def _resume(self, desk: Desk, resource: str) -> Steps:
        queues = self._held[resource]
        # An address is resumed with all its queues, also those that were paused by themselves.
        resources = [resource]
        if resource.startswith("address."):
            resources += [f"queue.{queue}" for queue in queues]
        for each in resources:
            for queue in queues:
                self.pauses.resuming(queue, each)
        yield from desk.order(resource, "resume")
        for each in resources:
            self._held.pop(each, None)
        for queue in queues:
            if not any(queue in held for held in self._held.values()):
                self.pauses.resumed(queue)

    # Purges

    def _purge_queue(self, desk: Desk) -> Steps:
        topic = self._random.choice(self.topics)
        name = self._random.choice(list(topic.subscriptions))
        self._purge = self.purges.begin(name)
        removed = yield from desk.order(f"queue.{name}", "removeAllMessages")
        self._end_purge(removed)

    def _remove_matching(self, desk: Desk) -> Steps:
        topic = self._random.choice(self.topics)
        name = self._random.choice(list(topic.subscriptions))
        wanted = KeyFilter(self._random.sample(range(10), self._random.randint(1, 6)))
        flush_limit = [self._random.randint(1, 1_000)] if self._random.random() < 0.5 else []
        self._purge = self.purges.begin(name, wanted)
        removed = yield from desk.order(f"queue.{name}", "removeMessages", *flush_limit, wanted.text)
        self._end_purge(removed)

    def _end_purge(self, removed: object) -> None:
        assert self._purge is not None and isinstance(removed, int), "a purge answers with a number"
        self.purges.end(self._purge, removed)
        self._purge = None

    # Updates

    def _limit_queue(self, desk: Desk) -> Steps:
        subject = self._random.choice(self.subjects)
        yield from self._limit(desk, subject.name, None if subject.is_limited else self._random.choice((-1, 1, 2)))

    def _limit(self, desk: Desk, name: str, limit: int | None) -> Steps:
        """Update a queue, except for its filter. ``limit`` None: its number of consumers stays what it is."""
        fields: dict[str, object] = {"purge_on_no_consumers": False}
        request: dict[str, object] = {"name": name, "purge-on-no-consumers": False}
        if limit is not None:
            self._limited[name] = None
            fields["max_consumers"] = request["max-consumers"] = limit
        self.updates.updating(name, fields)
        try:
            yield from desk.order("broker", "updateQueue", json.dumps(request), refusal=_TOO_MANY_CONSUMERS)
        except OrderRefused:
            self.scene.world.note(self.name, "may not limit", name)
            return
        self.updates.updated(name, fields)
        if limit == -1:
            self._limited.pop(name, None)

    def _filter_queue(self, desk: Desk) -> Steps:
        subject = self._random.choice(self.subjects)
        if subject.topic.is_topic:
            yield from self._filter(desk, subject)

    def _filter(self, desk: Desk, subject: Subject) -> Steps:
        name, color = subject.name, self._random.choice((None, *COLORS))
        text = None if color is None else selector_of(color)
        self.updates.updating(name, {"filter": text})
        if name not in self._unfiltered:
            self._unfiltered[name] = subject
        self.scene.ledger.suspend(name, keeps_messages=True)
        yield from desk.order("broker", "updateQueue", json.dumps({"name": name, "filter-string": text}))
        subject.topic.subscriptions[name] = color
        self.scene.ledger.resume(name, keeps_messages=True)
        del self._unfiltered[name]
        self.updates.updated(name, {"filter": text})

    def _share_queue(self, desk: Desk) -> Steps:
        """Make a queue exclusive, or let its consumers share it again."""
        name, exclusive = self._random.choice(self.subjects).name, self._random.random() < 0.5
        self.updates.updating(name, {"exclusive": exclusive})
        self._shared_anew.add(name)
        yield from desk.order("broker", "updateQueue", json.dumps({"name": name, "exclusive": exclusive}))
        self.updates.updated(name, {"exclusive": exclusive})
        self.scene.hit(Moment.SHARING_CHANGED)

    def _route_queue(self, desk: Desk) -> Steps:
        """Update the routing type of a queue. Each message still reaches it: no two queues of an address take turns."""
        subject = self._random.choice(self.subjects)
        address, first, other = subject.topic.address, RoutingType.ANYCAST, RoutingType.MULTICAST
        if subject.topic.is_topic:
            first, other = other, first
        rerouted = self._rerouted.get(address)
        if rerouted is not None:
            yield from self._route(desk, rerouted, first)
            del self._rerouted[address]
        elif self._widened.get(address):
            self._rerouted[address] = subject.name
            yield from self._route(desk, subject.name, other)
        elif address not in self._widened and self._random.random() < 0.5:
            yield from self._route_in_vain(desk, subject.name, first, other)
        else:
            self._widened[address] = False
            yield from desk.order("broker", "updateAddress", address, ",".join(_ROUTING_TYPES))
            self._widened[address] = True

    def _route(self, desk: Desk, name: str, routing_type: RoutingType) -> Steps:
        fields: dict[str, object] = {"routing_type": int(routing_type)}
        request = {"name": name, "routing-type": _ROUTING_TYPES[routing_type]}
        self.updates.updating(name, fields)
        yield from desk.order("broker", "updateQueue", json.dumps(request))
        self.updates.updated(name, fields)
        self.scene.hit(Moment.ROUTING_CHANGED)

    def _route_in_vain(self, desk: Desk, name: str, first: RoutingType, other: RoutingType) -> Steps:
        """Request a routing type that the address does not have. Nothing changes."""
        self.updates.updating(name, {"routing_type": int(other)})
        request = {"name": name, "routing-type": _ROUTING_TYPES[other]}
        try:
            yield from desk.order("broker", "updateQueue", json.dumps(request), refusal=_NO_SUCH_ROUTING_TYPE)
        except OrderRefused:
            self.updates.refused(name, {"routing_type": int(first)})
        else:
            self.scene.fail(f"{name} was given the routing type {other.name}, which its address does not have")

    # The acceptor

    def _stop_acceptor(self, desk: Desk) -> Steps:
        """Cut off all clients but this one, which is in the process of the broker."""
        assert self.acceptor is not None, "there is one broker"
        self._is_cut_off = True
        self.acceptor.switching()
        yield from desk.order(self._acceptor_name, "stop")
        self.acceptor.stopped()
        yield from self._look_at_acceptor(desk)

    def _start_acceptor(self, desk: Desk) -> Steps:
        assert self.acceptor is not None, "there is one broker"
        self.acceptor.switching()
        yield from desk.order(self._acceptor_name, "start")
        self.acceptor.started()
        self._is_cut_off = False
        yield from self._look_at_acceptor(desk)

    def _look_at_acceptor(self, desk: Desk) -> Steps:
        assert self.acceptor is not None, "there is one broker"
        is_started = yield from desk.order(self._acceptor_name, "isStarted")
        self.acceptor.reported(is_started=bool(is_started))

    @property
    def _acceptor_name(self) -> str:
        return f"acceptor.{self.broker.config.acceptor_name}"

    # Blocks

    def _block_address(self, desk: Desk) -> Steps:
        address = self._random.choice(self.topics).address
        self._blocked[address] = None
        yield from desk.order(f"address.{address}", "block")
        self.blocks.blocked(address)

    def _unblock_any(self, desk: Desk) -> Steps:
        yield from self._unblock(desk, self._random.choice(list(self._blocked)))

    def _unblock(self, desk: Desk, address: str) -> Steps:
        self.blocks.unblocking(address)
        yield from desk.order(f"address.{address}", "unblock")
        del self._blocked[address]

    # Settings and permissions

    def _set_default(self, desk: Desk) -> Steps:
        default = self._random.choice((None, False, True))
        self._default = None
        if default is None:
            yield from desk.order("broker", "removeAddressSettings", f"{_MADE}.#")
        else:
            settings = json.dumps({"defaultExclusiveQueue": default})
            yield from desk.order("broker", "addAddressSettings", f"{_MADE}.#", settings)
        self._default = bool(default)
        self.scene.hit(Moment.SETTINGS_CHANGED)

    def _make_queue(self, desk: Desk) -> Steps:
        """Create a queue. The settings in force are those that count for it."""
        self._made += 1
        name = f"{_MADE}.{self._made}"
        yield desk.session.addressing.create_queue(name, name, RoutingType.ANYCAST, durable=False, temporary=True)
        found = yield from desk.order(f"queue.{name}", "isExclusive")
        if self._default is not None and found != self._default:
            self.scene.fail(f"a new queue is exclusive: {found}, and its settings have {self._default}")
        yield desk.session.addressing.delete_queue(name)

    def _set_delay(self, desk: Desk) -> Steps:
        topic = self._random.choice(self.topics)
        if topic.address.endswith(("*", "#")):
            return  # it would be a match of other addresses, too
        delay_ms = self._random.choice((None, 50, 500, 2_000))
        redeliveries, names = self.scene.redeliveries, list(topic.subscriptions)
        delay_s = redeliveries.delay_s if delay_ms is None else delay_ms / 1000
        for name in names:
            redeliveries.changing(name, delay_s)
        if delay_ms is None:
            yield from desk.order("broker", "removeAddressSettings", topic.address)
        else:
            settings = json.dumps({"redeliveryDelay": delay_ms})
            yield from desk.order("broker", "addAddressSettings", topic.address, settings)
        for name in names:
            redeliveries.changed(name, delay_s)
        self.scene.hit(Moment.SETTINGS_CHANGED)

    def _change_grant(self, desk: Desk) -> Steps:
        grants = self.grants
        assert grants is not None, "there is a user whose permissions change"
        is_granted = self._random.random() < 0.5
        grants.changing()
        if is_granted or self._random.random() < 0.5:
            roles = roles_of_the_desk(are_granted=is_granted)
            yield from desk.order("broker", "addSecuritySettings", DESK, *roles)
        else:
            yield from desk.order("broker", "removeSecuritySettings", DESK)
        grants.changed(is_granted=is_granted)

    # The end

    def _restore(self, desk: Desk) -> Steps:
        """Take back what would leave users without messages, and decide what is in doubt."""
        if self._is_cut_off:
            yield from self._start_acceptor(desk)
        while self._held:
            yield from self._resume(desk, next(iter(self._held)))
        while self._blocked:
            yield from self._unblock(desk, next(iter(self._blocked)))
        while self._limited:
            yield from self._limit(desk, next(iter(self._limited)), -1)
        while self._unfiltered:
            yield from self._filter(desk, next(iter(self._unfiltered.values())))
