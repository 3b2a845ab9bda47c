"""A node with a grouping handler: where the messages of groups go, and what it sends to other brokers about that."""

from __future__ import annotations

import pytest

from embedbroker.config import GroupingHandlerConfig, GroupingHandlerType, MessageLoadBalancing
from embedbroker.kernel import GroupNotice, GroupNoticeKind, Queue, QueueRequest, RemoteBinding
from embedclient.model import PropertyType
from embedclient.wire.core import (
    CoreMessage,
    CreateQueueV2,
    NullResponse,
    SessionConsumerFlowCredit,
    SessionCreateConsumer,
    SessionReceiveMessage,
    SessionSend,
    SessionStart,
)
from tests.embedbroker.cluster.bridge_traffic import in_place_of, notifications_of

from .scripted import Peer, Stage, letter, text_of

OTHER = "bbbbbbbb-0000-0000-0000-000000000000"
PROPOSAL, RESPONSE, END = GroupNoticeKind.PROPOSAL, GroupNoticeKind.RESPONSE, GroupNoticeKind.END
LOCAL, REMOTE = GroupingHandlerType.LOCAL, GroupingHandlerType.REMOTE
ANYCAST, MULTICAST = 1, 0
FILTER = "_AMQ_NotifType LIKE '%PROPOSAL%'"


class Member:
    """A node with a queue, which another broker has, too."""

    def __init__(self, kind: GroupingHandlerType, *, durable: bool = False, queue: str = "q1") -> None:
        self.stage = Stage(durable=durable, grouping_handler=GroupingHandlerConfig("groups", kind))
        self.queue = queue
        create(self.stage, queue, queue, ANYCAST)
        self.begin()

    def begin(self) -> None:
        """Bind the other broker's queue, and subscribe as its bridge does."""
        addresses = self.stage.node.kernel.address_manager
        create(self.stage, "sf", "sf", MULTICAST)
        self.away = RemoteBinding(
            self.queue, self.queue + OTHER, self.queue, 7, 1, addresses.queues["sf"], MessageLoadBalancing.STRICT
        )
        addresses.add_remote_binding(self.away)
        self._call("remote_binding_added", self.away, self.away.id)
        self.bridge = self.stage.connect().open_session()
        self.bridge.send(
            CreateQueueV2("activemq.notifications", "notif", FILTER, False, True, True, False, 0),
            SessionCreateConsumer(0, "notif", None, False, False),
            SessionStart(),
            SessionConsumerFlowCredit(0, 1 << 20),
        )  # fmt: skip
        self.client = self.stage.connect().open_session()
        self.stage.settle_disk()
        self.bridge.clear()

    @property
    def here(self) -> str:
        """Name of the local queue in the cluster."""
        return self.queue + self.stage.node.node_id

    def _call(self, event: str, *facts: object) -> None:
        observers = self.stage.node.kernel.observers
        observers.call(getattr(observers.commit, event), *facts)
        self.stage.advance(0)
        self.stage.settle_disk()

    def hears(self, notice: GroupNotice) -> None:
        """A notification of the other broker arrives."""
        self.stage.node.kernel.cluster_groups.receive(notice)
        self.stage.advance(0)
        self.stage.settle_disk()

    def notified(self) -> list[SessionReceiveMessage]:
        """Notifications that the other broker receives."""
        self.stage.settle_disk()
        return [packet for packet in self.bridge.clear() if isinstance(packet, SessionReceiveMessage)]

    def proposes(self) -> list[GroupNotice]:
        return [notice_of(each.message) for each in self.notified()]

    def send(self, text: str, group: str, peer: Peer | None = None) -> bool:
        """Send a message, and return True if it is answered."""
        peer = peer or self.client
        message = letter(text, self.queue, durable=True)
        properties = message.properties
        properties.set("_AMQ_GROUP_ID", group, PropertyType.STRING)
        built = CoreMessage.build(address=self.queue, durable=True, properties=properties, body=text.encode())
        peer.send(SessionSend(built, True, -1))
        return self.answers(peer) == 1

    def answers(self, peer: Peer | None = None) -> int:
        self.stage.settle_disk()
        return sum(isinstance(packet, NullResponse) for packet in (peer or self.client).clear())

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        """Messages that stay here, and those on their way to the other broker."""
        queues = self.stage.node.kernel.address_manager.queues
        return held(queues[self.queue]), held(queues["sf"])


def held(queue: Queue) -> list[str]:
    found = []
    for reference in queue.backlog:
        message = reference.message.to_core()
        assert isinstance(message, CoreMessage)
        found.append(text_of(message))
    return found


def create(stage: Stage, name: str, address: str, routing_type: int) -> None:
    request = QueueRequest(address, name, routing_type=routing_type, durable=True, auto_created=False)
    stage.node.kernel.address_manager.create_queue(request)
    stage.settle_disk()


def notice_of(message: CoreMessage) -> GroupNotice:
    properties = message.properties
    alternative = properties.get("_JBM_ProposalAltValue")
    return GroupNotice(
        GroupNoticeKind(properties["_AMQ_NotifType"]),
        str(properties["_JBM_ProposalGroupId"]),
        str(properties["_JBM_ProposalValue"]),
        None if alternative is None else str(alternative),
        int(str(properties["_AMQ_Distance"])),
    )


def test_a_message_waits_for_the_decision_and_other_connections_go_on() -> None:
    member = Member(REMOTE)
    assert not member.send("one", "g")
    member.client.send(SessionSend(letter("behind", "q1"), True, -1))
    assert member.answers() == 0
    (proposed,) = member.proposes()
    assert (proposed.kind, proposed.key) == (PROPOSAL, "g.q1")
    other = member.stage.connect().open_session()
    other.send(SessionSend(letter("other", "elsewhere"), True, -1))
    assert member.answers(other) == 1
    member.hears(GroupNotice(RESPONSE, "g.q1", proposed.queue, member.away.cluster_name))
    assert member.answers() == 2
    assert "one" in member.texts[1]
    # The decision goes on to brokers that are further away. Later messages follow it, without a question.
    assert [(each.kind, each.distance) for each in member.proposes()] == [(RESPONSE, 1)]
    for number in range(4):
        assert member.send(str(number), "g")
    assert member.texts[1][-4:] == list("0123") and not member.proposes()


def test_without_an_answer_messages_go_on_after_ten_proposals() -> None:
    member = Member(REMOTE)
    assert not member.send("one", "g")
    for _ in range(9):
        member.stage.advance(5)
        member.stage.settle_disk()
    assert member.answers() == 0
    member.stage.advance(5)
    assert member.answers() == 1
    assert len(member.proposes()) == 10


def test_the_broker_that_decides_keeps_a_group_together_and_answers_others() -> None:
    member = Member(LOCAL)
    groups = [f"g{number}" for number in range(4)]
    for number in range(3):
        for group in groups:
            assert member.send(f"{group}.{number}", group)
    here, away = member.texts
    assert len(here) == len(away) == 6
    for texts in (here, away):
        assert all(f"{group}.{number}" in texts for group in {each[:2] for each in texts} for number in range(3))
    assert member.proposes() == []
    of_g0 = member.here if "g0.0" in here else member.away.cluster_name
    member.hears(GroupNotice(PROPOSAL, "g0.q1", "another"))
    member.hears(GroupNotice(PROPOSAL, "new.q1", member.away.cluster_name))
    assert member.proposes() == [
        GroupNotice(RESPONSE, "g0.q1", "another", of_g0),
        GroupNotice(RESPONSE, "new.q1", member.away.cluster_name),
    ]
    assert member.send("new", "new")
    assert "new" in member.texts[1]


def test_decisions_survive_a_restart_and_wait_for_the_other_broker() -> None:
    member = Member(LOCAL, durable=True)
    member.hears(GroupNotice(PROPOSAL, "g.q1", member.away.cluster_name))
    member.stage.boot()
    client = member.stage.connect().open_session()
    assert not member.send("waits", "g", client)
    member.begin()
    assert member.answers(client) == 1
    assert member.texts == ([], ["waits"])


def test_after_a_restart_a_group_whose_queue_does_not_come_back_gets_another_one() -> None:
    member = Member(LOCAL, durable=True)
    member.hears(GroupNotice(PROPOSAL, "g.q1", member.away.cluster_name))
    member.stage.boot()
    client = member.stage.connect().open_session()
    assert not member.send("waits", "g", client)
    member.stage.advance(5)
    assert member.answers(client) == 1
    assert held(member.stage.node.kernel.address_manager.queues["q1"]) == ["waits"]


def test_a_queue_that_is_gone_ends_its_groups_in_the_cluster() -> None:
    member = Member(LOCAL)
    member.hears(GroupNotice(PROPOSAL, "g.q1", member.away.cluster_name))
    assert member.send("away", "g") and member.texts[1] == ["away"]
    member.proposes()
    binding_id = member.away.id
    member.stage.node.kernel.address_manager.remove_remote_binding(member.away)
    member._call("remote_binding_removed", member.away, binding_id)
    assert member.proposes() == [GroupNotice(END, "g.q1", member.away.cluster_name)]
    assert member.send("here", "g") and member.texts[0] == ["here"]


@pytest.mark.parametrize(("kind", "connection", "sender"), [(REMOTE, 3, "B"), (LOCAL, 6, "A")])
def test_notifications_are_those_of_artemis_byte_for_byte(
    kind: GroupingHandlerType, connection: int, sender: str
) -> None:
    member = Member(kind)
    for data, recorded in notifications_of("cluster-grouping", connection, sender):
        wanted = notice_of(recorded.message)
        if kind is REMOTE:
            handler = member.stage.node.kernel.cluster_groups.handler
            assert handler is not None
            handler.propose(wanted.key, wanted.queue, member.stage.seconds)
        else:
            if wanted.decided is not None:
                member.hears(GroupNotice(PROPOSAL, wanted.key, wanted.decided))
                member.notified()
            member.hears(GroupNotice(PROPOSAL, wanted.key, wanted.queue))
        member.stage.advance(0)
        (ours,) = member.notified()
        assert in_place_of(recorded, ours, member.stage.node.node_id) == data
