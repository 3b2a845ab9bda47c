"""Turns a plan into one with diverts and wildcard subscriptions, and creates the diverts over a client.

It changes values. What a seed stands for without diverts does not depend on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

from attrs import evolve

from embedbroker.config import DivertConfiguration
from embedbroker.testing._messages import COLORS, selector_of
from embedbroker.testing._scripts import Steps
from embedclient.agent import Session
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType, encode_text

from .consumers import ConsumerKind, ConsumerPlan
from .plan import ConsumerRole, DivertPlan, ListenerRole, ProducerRole, QueuePlan, ScenarioPlan, TopicPlan

__all__ = ["configured_diverts", "create_diverts", "with_routes"]

_ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
_SOURCES = ("incoming", "events.a", "events.b")
_KINDS = (ConsumerKind.AUTO, ConsumerKind.CLIENT, ConsumerKind.TRANSACTED, ConsumerKind.INDIVIDUAL)


def with_routes(plan: ScenarioPlan) -> ScenarioPlan:
    """Return the plan with addresses that have diverts or are matched by wildcards, and users of them.

    Chains and filters are drawn so that no message comes to one queue twice.
    """
    random = Random(f"routes of {plan.seed}")
    topics = (
        TopicPlan("incoming", False, (QueuePlan("incoming"),)),
        TopicPlan("events.a", True, (QueuePlan("events.a.own", random.choice((None, "red"))),)),
        TopicPlan("events.b", True, ()),
        TopicPlan("events.#", True, (QueuePlan("wild.all"),)),
        TopicPlan("events.*", True, (QueuePlan("wild.one", random.choice((None, "green"))),)),
        TopicPlan("audit", False, (QueuePlan("audit"),)),
        TopicPlan("archive", False, (QueuePlan("archive"),)),
        TopicPlan("trail", True, (QueuePlan("trail"),)),
    )
    numbers = {topic.address: len(plan.topics) + number for number, topic in enumerate(topics)}
    listeners = plan.listeners
    if random.random() < 0.5:
        host, leave_chance = random.randrange(len(plan.hosts)), random.choice((0.0, 0.02))
        listeners += (ListenerRole("watcher", host, numbers["events.*"], None, 0.0, leave_chance),)
    return evolve(
        plan,
        topics=plan.topics + topics,
        diverts=_diverts(random),
        producers=tuple(_producers(plan, random, numbers)),
        consumers=(*plan.consumers, *_consumers(plan, random, topics)),
        listeners=listeners,
    )


def _diverts(random: Random) -> tuple[DivertPlan, ...]:
    """Draw the diverts: an exclusive one, one that copies, and perhaps a chain and one of a wildcard address."""

    def tag(name: str) -> str | None:
        return name if random.random() < 0.5 else None

    first, second, third = random.sample(COLORS, 3)
    managed = random.random() < 0.7
    forwarding = random.choice((("audit",), ("audit", "archive")))
    diverts = [
        DivertPlan(
            "copies", "queue0", forwarding, color=random.choice((None, third)), tag=tag("copied"), managed=managed
        ),
        DivertPlan("taker", "incoming", ("events.b",), exclusive=True, color=first, tag=tag("taken"), managed=managed),
    ]
    if random.random() < 0.5:
        diverts.append(
            DivertPlan("other taker", "incoming", ("events.a",), exclusive=True, color=second, managed=managed)
        )
    if random.random() < 0.6:
        diverts.append(DivertPlan("wild", "events.*", ("trail",), tag=tag("seen"), managed=managed))
    if random.random() < 0.5:
        diverts.append(DivertPlan("chained", "audit", ("trail",), color=third, managed=managed))
    return tuple(diverts)


def _producers(plan: ScenarioPlan, random: Random, numbers: Mapping[str, int]) -> list[ProducerRole]:
    """Return the producers, of which the first and some others send to the new addresses, too."""
    producers = []
    for place, role in enumerate(plan.producers):
        if place == 0 or random.random() < 0.7:
            chosen = random.sample(_SOURCES, random.randint(1, len(_SOURCES)))
            if place == 0:
                chosen = list(dict.fromkeys(("incoming", *chosen)))
            role = evolve(role, topics=(*role.topics, *[numbers[address] for address in chosen]))
        producers.append(role)
    return producers


def _consumers(plan: ScenarioPlan, random: Random, topics: tuple[TopicPlan, ...]) -> list[ConsumerRole]:
    consumers = []
    for topic in topics:
        for queue in topic.queues:
            for number in range(random.randint(1, 2)):
                each = ConsumerPlan(
                    kind=random.choice(_KINDS),
                    think_s=random.choice((0.0, 0.002)),
                    leave_chance=random.choice((0.0, 0.02)),
                )
                host = random.randrange(len(plan.hosts))
                consumers.append(ConsumerRole(f"consumer-{queue.name}-{number}", host, queue.name, each))
    return consumers


def configured_diverts(plan: ScenarioPlan) -> dict[str, DivertConfiguration]:
    """Return the diverts that the configuration of each broker contains."""
    return {
        each.name: DivertConfiguration(
            each.address,
            ", ".join(each.forwarding),
            exclusive=each.exclusive,
            filter=None if each.color is None else selector_of(each.color),
            properties={} if each.tag is None else {"via": each.tag},
        )
        for each in plan.diverts
        if not each.managed
    }


def create_diverts(plan: ScenarioPlan, session: Session) -> Steps:
    """Create the others by management messages: only the journal has them."""
    producer = session.create_producer("activemq.management")
    for each in plan.diverts:
        if each.managed:
            yield producer.send(_request(each))


def _request(divert: DivertPlan) -> CoreMessage:
    wanted: dict[str, object] = {
        "name": divert.name,
        "address": divert.address,
        "forwarding-address": ", ".join(divert.forwarding),
        "exclusive": divert.exclusive,
    }
    if divert.color is not None:
        wanted["filter-string"] = selector_of(divert.color)
    if divert.tag is not None:
        wanted["transformer-configuration"] = {"class-name": _ADD_HEADERS, "properties": {"via": divert.tag}}
    properties = Properties()
    properties["_AMQ_ResourceName"] = "broker"
    properties["_AMQ_OperationName"] = "createDivert"
    return CoreMessage.build(
        type=MessageType.TEXT,
        address="activemq.management",
        durable=True,
        properties=properties,
        body=encode_text(json.dumps([json.dumps(wanted)])),
    )
