"""The cast of a scenario, made from its plan: addresses, clients and users. It decides nothing."""

from __future__ import annotations

from attrs import define, field

from embedbroker.config import AddressSettings, BrokerConfig
from embedbroker.testing._administration import AcceptorChecker, GrantChecker
from embedbroker.testing._broker_view import BrokerView
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._permission_checker import PermissionChecker
from embedbroker.testing._routing_model import ModelDivert, RoutingModel
from embedbroker.testing._scene import Scene, Topic

from .administrator import ADMINISTRATOR, Administrator, Subject
from .branches import TransactionManager
from .browsers import SimulatedBrowser
from .clerk import Clerk
from .consumers import SimulatedConsumer
from .cursor_readers import CursorReader, ReadingPlace
from .listeners import Lapses, SharedSubscription, TopicListener
from .once_only import OnceOnlyProducer
from .pipelining_producer import PipeliningProducer
from .plan import BrokerPlan, ScenarioPlan
from .producers import ProducerPlan, SimulatedProducer
from .set_users import SetProducer
from .switches import ConnectionSwitch
from .visitors import Visitor, secured
from .xa_users import XaConsumer, XaProducer

__all__ = ["DEAD_LETTERS", "EXPIRED", "ONLOOKER", "Cast", "Role", "broker_config", "make_cast"]

DEAD_LETTERS, EXPIRED = "DLQ", "expired"
FIRST_IN_GROUP = "begins"
#: The host of the browsers. They may see expired messages: they take nothing, so nothing is checked for them.
ONLOOKER = "onlooker"


_Other = TopicListener | SimulatedBrowser | ConnectionSwitch | CursorReader | Visitor | Administrator | Clerk
Role = SimulatedProducer | SimulatedConsumer | _Other


@define(eq=False)
class Cast:
    """All users and hosts of a scenario."""

    topics: list[Topic] = field(factory=list)
    producers: list[SimulatedProducer] = field(factory=list)
    consumers: list[SimulatedConsumer] = field(factory=list)
    others: list[_Other] = field(factory=list)
    #: For users with few rights; None without them.
    permissions: PermissionChecker | None = None
    administrator: Administrator | None = None
    hosts: list[ClientHost] = field(factory=list)

    @property
    def managers(self) -> dict[str, TransactionManager]:
        """The managers of the users that work in branches, by the names of the users."""
        users = (*self.producers, *self.consumers)
        return {user.name: user.manager for user in users if isinstance(user, XaProducer | XaConsumer)}

    @property
    def roles(self) -> list[Role]:
        """All users that run on a host."""
        return [*self.producers, *self.consumers, *self.others]


def broker_config(plan: BrokerPlan, name: str) -> BrokerConfig:
    """The configuration of a planned broker."""
    settings = AddressSettings(
        dead_letter_address=DEAD_LETTERS,
        expiry_address=EXPIRED,
        max_delivery_attempts=plan.max_delivery_attempts,
        redelivery_delay_ms=plan.redelivery_delay_ms,
        default_group_rebalance=plan.rebalances,
        default_group_rebalance_pause_dispatch=plan.rebalances,
        default_group_first_key=FIRST_IN_GROUP if plan.rebalances else None,
        auto_delete_queues=False,
        auto_delete_addresses=False,
    )
    config = BrokerConfig(
        name=name,
        address_settings={
            "#": settings,
            "automatic": AddressSettings(auto_delete_queues=True, auto_delete_addresses=True),
        },
        global_max_size_bytes=plan.memory_limit_bytes,
        connection_check_interval_ms=500,
        message_expiry_scan_period_ms=plan.message_expiry_scan_period_ms,
        address_queue_scan_period_ms=200,
        transaction_timeout_ms=3_000,
        transaction_timeout_scan_period_ms=100,
        output_high_water_bytes=plan.output_high_water_bytes,
        work_per_step_max=plan.work_per_step_max,
        persist_delivery_count_before_delivery=plan.counts_first,
    )
    if not plan.secured:
        return config
    return secured(config, are_managed=plan.permissions_are_managed, has_clerk=plan.has_clerk)


def make_cast(plan: ScenarioPlan, scene: Scene, network: Network, broker: BrokerView) -> Cast:
    """Create all users that a plan names."""
    cast = Cast()
    for topic in plan.topics:
        colors = {queue.name: queue.color for queue in topic.queues}
        cast.topics.append(Topic(topic.address, topic.is_topic, colors, automatic=topic.automatic))
    _add_routes(plan, cast)
    for host in plan.hosts:
        cast.hosts.append(ClientHost(network, host.name, broker.names, host.settings))
    for producer in plan.producers:
        topics = [cast.topics[number] for number in producer.topics]
        host_of = cast.hosts[producer.host]
        kind = _kind_of(producer.plan)
        cast.producers.append(kind(scene, host_of, producer.name, topics, producer.plan))
    homes = {name: topic for topic in cast.topics for name in topic.subscriptions}
    for consumer in plan.consumers:
        target = cast.topics[0] if consumer.plan.forwards else None
        home, host_of = homes[consumer.queue], cast.hosts[consumer.host]
        taker = XaConsumer if consumer.plan.branches else SimulatedConsumer
        cast.consumers.append(taker(scene, host_of, broker, consumer.name, consumer.queue, consumer.plan, home, target))
    _add_others(plan, cast, scene, network, broker)
    for number, each in enumerate(plan.hosts):
        if each.stop_pause_s:
            host_of = cast.hosts[number]
            there = [consumer for consumer in cast.consumers if consumer.host is host_of]
            cast.others.append(ConnectionSwitch(scene, host_of, f"switch of {each.name}", there, each.stop_pause_s))
    return cast


def _add_routes(plan: ScenarioPlan, cast: Cast) -> None:
    """Give each address the model that decides which queues its messages reach."""
    if not plan.diverts:
        return
    diverts = [
        ModelDivert(each.name, each.address, each.forwarding, each.exclusive, each.color, each.tag)
        for each in plan.diverts
    ]
    routes = RoutingModel(diverts, cast.topics)
    for topic in cast.topics:
        topic.routes = routes


def _kind_of(plan: ProducerPlan) -> type[SimulatedProducer]:
    if plan.branches:
        return XaProducer
    if plan.sets:
        return SetProducer
    if plan.identifies:
        return OnceOnlyProducer
    return PipeliningProducer if plan.impatient_chance else SimulatedProducer


def _add_others(plan: ScenarioPlan, cast: Cast, scene: Scene, network: Network, broker: BrokerView) -> None:
    lapses = Lapses(scene, broker)
    shared: dict[str, SharedSubscription] = {}
    for role in plan.listeners:
        topic = cast.topics[role.topic]
        group = None
        if role.shared is not None:
            group = shared.get(role.shared)
            if group is None:
                group = shared[role.shared] = SharedSubscription(scene, lapses, topic, role.shared, role.color)
        cast.others.append(
            TopicListener(
                scene,
                cast.hosts[role.host],
                broker,
                lapses,
                role.name,
                topic,
                role.color,
                role.think_s,
                role.leave_chance,
                group,
            )
        )
    places: dict[str, ReadingPlace] = {}
    for reader in plan.readers:
        place = places.setdefault(reader.queue, ReadingPlace(scene, reader.queue))
        host = ClientHost(network, reader.name, broker.names, reader.settings)
        cast.hosts.append(host)
        cast.others.append(CursorReader(scene, host, reader.name, place, reader.lease_ms, reader.think_s))
    _add_visitors(plan, cast, scene, network, broker)
    if plan.browser is not None:
        queues = [name for topic in cast.topics for name in topic.subscriptions]
        host = ClientHost(network, ONLOOKER, broker.names, plan.browser.settings)
        cast.hosts.append(host)
        cast.others.append(SimulatedBrowser(scene, host, "browser", queues, plan.browser.pause_s))
    _add_administrator(plan, cast, scene, network, broker)


def _add_administrator(plan: ScenarioPlan, cast: Cast, scene: Scene, network: Network, broker: BrokerView) -> None:
    role = plan.administrator
    if role is None:
        return
    host = ClientHost(network, ADMINISTRATOR, broker.names, role.settings)
    cast.hosts.append(host)
    read = {reader.queue for reader in plan.readers}
    topics = [
        topic
        for topic in cast.topics
        if topic.subscriptions and not topic.automatic and not read.intersection(topic.subscriptions)
    ]
    # A consumer of one color would leave what a changed filter, or limit, keeps from others.
    colored = {consumer.subscription for consumer in cast.consumers if consumer.plan.color is not None}
    limited = {queue.name for topic in plan.topics for queue in topic.queues if queue.max_consumers >= 0}
    subjects = [
        Subject(topic, name, is_limited=name in limited)
        for topic in topics
        for name in topic.subscriptions
        if name not in colored and topic.routes is None
    ]
    acceptor: AcceptorChecker | None = None
    if isinstance(broker, NodeHost):
        broker.local_clients = frozenset((ADMINISTRATOR,))
        acceptor = AcceptorChecker(scene, broker)
    administrator = Administrator(scene, host, broker, topics, subjects, role.pause_s, acceptor)
    cast.administrator = administrator
    cast.others.append(administrator)
    if plan.broker.has_clerk:
        administrator.grants = GrantChecker(scene, broker)
        host = ClientHost(network, f"{ONLOOKER}-clerk", broker.names, role.settings)
        cast.hosts.append(host)
        cast.others.append(Clerk(scene, host, administrator.grants, role.pause_s / 4))


def _add_visitors(plan: ScenarioPlan, cast: Cast, scene: Scene, network: Network, broker: BrokerView) -> None:
    if not plan.visitors:
        return
    cast.permissions = PermissionChecker(scene, broker)
    places = [(topic.address, name) for topic in cast.topics for name in topic.subscriptions]
    for role in plan.visitors:
        host = ClientHost(network, f"{ONLOOKER}-{role.name}", broker.names, role.settings)
        cast.hosts.append(host)
        cast.others.append(Visitor(scene, host, cast.permissions, role.name, places, role.pause_s))
