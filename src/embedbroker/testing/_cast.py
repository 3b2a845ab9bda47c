"""The cast of a scenario, drawn from its seed: addresses, subscriptions, clients, producers, consumers, and settings.

It chooses; it runs nothing.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.config import AddressSettings, BrokerConfig
from embedbroker.storage import JournalSettings
from embedbroker.testing._browsers import SimulatedBrowser
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._consumers import ConsumerKind, ConsumerPlan, SimulatedConsumer
from embedbroker.testing._listeners import TopicListener
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._producers import ProducerKind, ProducerPlan, SimulatedProducer
from embedbroker.testing._scene import Scene, Topic
from embedclient.agent import LocatorSettings

__all__ = ["DEAD_LETTERS", "EXPIRED", "ONLOOKER", "Cast", "Role", "broker_config", "choose_cast", "journal_settings"]

DEAD_LETTERS, EXPIRED = "DLQ", "expired"
#: The host of the browsers, who may be shown what has expired: they take nothing, so nothing is checked for them.
ONLOOKER = "onlooker"

#: Together with what consumers do, this gives well over 200 operations.
_MESSAGES_MIN, _MESSAGES_MAX = 120, 180


Role = SimulatedProducer | SimulatedConsumer | TopicListener | SimulatedBrowser


@define(eq=False)
class Cast:
    """Everybody who appears."""

    topics: list[Topic] = field(factory=list)
    producers: list[SimulatedProducer] = field(factory=list)
    consumers: list[SimulatedConsumer] = field(factory=list)
    others: list[TopicListener | SimulatedBrowser] = field(factory=list)
    hosts: list[ClientHost] = field(factory=list)

    @property
    def roles(self) -> list[Role]:
        """Everybody who lives on a host."""
        return [*self.producers, *self.consumers, *self.others]


def broker_config(scene: Scene, name: str) -> BrokerConfig:
    """A broker whose periodic work is frequent enough for short scenarios."""
    random = scene.world.random
    settings = AddressSettings(
        dead_letter_address=DEAD_LETTERS,
        expiry_address=EXPIRED,
        max_delivery_attempts=random.choice((4, 10, -1)),
        auto_delete_queues=False,
        auto_delete_addresses=False,
    )
    return BrokerConfig(
        name=name,
        address_settings={"#": settings},
        connection_check_interval_ms=500,
        message_expiry_scan_period_ms=random.choice((200, 1_000, -1)),
        address_queue_scan_period_ms=1_000,
        output_high_water_bytes=random.choice((4_096, 65_536, 1_048_576)),
        work_per_step_max=random.choice((5, 50, 2_000)),
    )


def journal_settings(scene: Scene) -> JournalSettings:
    """A journal small enough to change segments and to compact many times in a scenario."""
    random = scene.world.random
    return JournalSettings(
        identity=random.getrandbits(62),
        segment_size_bytes=16 * 1024,
        batch_bytes_max=random.choice((1_024, 4_096, 16_384)),
        seal_after_s=random.choice((0.05, 0.3, 1.0)),
        recovery_slice_bytes=random.choice((2_048, 16_384, 65_536)),
        compaction_slice_bytes=random.choice((2_048, 16_384)),
        compaction_live_ratio_max=random.choice((0.5, 0.8)),
        compaction_segments_min=random.choice((1, 2, 4)),
        spare_segments_max=random.choice((0, 1, 2)),
    )


def choose_cast(scene: Scene, network: Network, broker: NodeHost) -> Cast:
    """Draws everybody."""
    random = scene.world.random
    cast = Cast()
    for number in range(random.randint(1, 2)):
        cast.topics.append(Topic(f"queue{number}", False, {f"queue{number}": None}))
    if random.random() < 0.6:
        colors = [None, None, "red", "blue"]
        cast.topics.append(
            Topic("topic", True, {f"topic.{n}": random.choice(colors) for n in range(random.randint(1, 3))})
        )
    for number in range(random.randint(2, 4)):
        cast.hosts.append(ClientHost(network, f"client{number}", broker.name, _locator_settings(scene)))
    _choose_producers(scene, cast)
    for topic in cast.topics:
        for subscription in topic.subscriptions:
            for number in range(random.randint(1, 2)):
                name = f"consumer-{subscription}-{number}"
                plan = _consumer_plan(scene, cast, topic)
                cast.consumers.append(
                    SimulatedConsumer(scene, random.choice(cast.hosts), broker, name, subscription, plan)
                )
    _choose_others(scene, cast, network, broker)
    return cast


def _choose_others(scene: Scene, cast: Cast, network: Network, broker: NodeHost) -> None:
    random = scene.world.random
    for topic in cast.topics:
        if topic.is_topic and random.random() < 0.6:
            color = random.choice((None, scene.color()))
            think_s = random.choice((0.0, 0.01))
            leave_chance = random.choice((0.0, 0.02))
            host = random.choice(cast.hosts)
            cast.others.append(TopicListener(scene, host, broker, "listener", topic, color, think_s, leave_chance))
    if random.random() < 0.5:
        queues = [name for topic in cast.topics for name in topic.subscriptions]
        pause_s = random.choice((0.02, 0.2))
        host = ClientHost(network, ONLOOKER, broker.name, _locator_settings(scene))
        cast.hosts.append(host)
        cast.others.append(SimulatedBrowser(scene, host, "browser", queues, pause_s))


def _choose_producers(scene: Scene, cast: Cast) -> None:
    random = scene.world.random
    left = random.randint(_MESSAGES_MIN, _MESSAGES_MAX)
    number = 0
    while left > 0:
        count = min(left, random.randint(30, 70))
        left -= count
        topics = [random.choice(cast.topics)] if random.random() < 0.7 else cast.topics
        host = random.choice(cast.hosts)
        kind = random.choices(list(ProducerKind), weights=(4, 3, 1, 4))[0]
        if kind is ProducerKind.ASYNCHRONOUS and host.settings.confirmation_window_size < 0:
            kind = ProducerKind.BLOCKING  # without a window nobody would tell the sender that a message is stored
        plan = ProducerPlan(
            kind=kind,
            count=count,
            think_s=random.choice((0.002, 0.01, 0.03)),
            size_max=random.choice((100, 1_000, 4_000)),
            mixed_priorities=random.random() < 0.4,
            expire_chance=random.choice((0.0, 0.2)),
            resend_chance=random.choice((0.0, 0.5, 1.0)),
        )
        cast.producers.append(SimulatedProducer(scene, host, f"p{number}", topics, plan))
        number += 1


def _consumer_plan(scene: Scene, cast: Cast, topic: Topic) -> ConsumerPlan:
    random = scene.world.random
    kind = random.choice(list(ConsumerKind))
    forwards = kind is ConsumerKind.TRANSACTED and topic.is_topic and random.random() < 0.5
    return ConsumerPlan(
        kind=kind,
        think_s=random.choice((0.0, 0.002, 0.02)),
        color=random.choice((None, None, None, scene.color())),
        window_bytes=random.choice((None, None, 0, 1, 1_000, -1)),
        batch_max=random.randint(1, 8),
        leave_chance=random.choice((0.0, 0.01, 0.05)),
        forward_to=cast.topics[0] if forwards else None,
    )


def _locator_settings(scene: Scene) -> LocatorSettings:
    random = scene.world.random
    return LocatorSettings(
        call_timeout_ms=random.choice((1_000, 5_000)),
        call_failover_timeout_ms=random.choice((1_000, 10_000)),
        client_failure_check_period_ms=random.choice((300, 1_000)),
        connection_ttl_ms=random.choice((1_000, 4_000)),
        connect_timeout_ms=1_000,
        initial_connect_attempts=random.choice((1, 5)),
        reconnect_attempts=random.choice((0, 3, -1, -1)),
        retry_interval_ms=random.choice((10, 100)),
        consumer_window_size=random.choice((1_048_576, 2_000)),
        producer_window_size=random.choice((65_536, 3_000, -1)),
        confirmation_window_size=random.choice((-1, -1, 0, 500, 2_000, 10_000, 100_000)),
        block_on_acknowledge=random.random() < 0.5,
        block_on_non_durable_send=random.random() < 0.3,
        ack_batch_size=random.choice((0, 500, 1_048_576)),
        dups_ok_batch_size=random.choice((500, 5_000)),
        client_version=random.choice((136, 136, 136, 134, 130, 129)),
    )
