"""The brokers of a cluster agree on the queue of each message group: one decides, the others propose."""

from __future__ import annotations

import json
from collections import deque

import pytest
from attrs import evolve

from embedbroker.cluster import TRIES_MAX, LocalGrouping, RemoteBindings, RemoteGrouping, _grouping
from embedbroker.config import GroupingHandlerConfig, GroupingHandlerType, MessageLoadBalancing
from embedbroker.kernel import GroupDecision, GroupNotice, GroupNoticeKind
from embedclient.model import Properties, PropertyType
from embedclient.wire.core import CoreMessage, SessionReceiveMessage, decode_packet
from tests.embedbroker.kernel.stage import Stage
from tests.vectors.captures import FOLDER

PROPOSAL, RESPONSE, END = GroupNoticeKind.PROPOSAL, GroupNoticeKind.RESPONSE, GroupNoticeKind.END
LOCAL = GroupingHandlerConfig("groups", GroupingHandlerType.LOCAL)
REMOTE = evolve(LOCAL, type=GroupingHandlerType.REMOTE)
HOPS_MAX = 3


class Broker:
    """A broker with a handler, and its neighbours in the cluster."""

    def __init__(self, name: str, config: GroupingHandlerConfig, clock: list[float]) -> None:
        self.name = name
        self.clock = clock
        self.neighbours: list[Broker] = []
        self.published: list[GroupNotice] = []
        self.arrived: deque[GroupNotice] = deque()
        self.journal: dict[int, GroupDecision] = {}
        self.queues: set[str] = set()
        self.unpinned: list[str] = []
        self.lines: list[str] = []
        kind = LocalGrouping if config.type is GroupingHandlerType.LOCAL else RemoteGrouping
        self.handler: LocalGrouping | RemoteGrouping = kind(config, self)
        self.handler.begin((), self.now_s)

    @property
    def now_s(self) -> float:
        return self.clock[0]

    def restart(self, config: GroupingHandlerConfig) -> None:
        self.handler = LocalGrouping(config, self)
        self.handler.begin(list(self.journal.values()), self.now_s)

    # -- as its handler sees it ----------------------------------------------------------------------------------

    def publish(self, notice: GroupNotice) -> None:
        self.published.append(notice)
        if notice.distance < HOPS_MAX:
            for neighbour in self.neighbours:
                neighbour.arrived.append(notice)

    def record(self, key: str, queue: str) -> int:
        number = len(self.journal) + 1
        self.journal[number] = GroupDecision(number, key, queue)
        return number

    def forget(self, decision_id: int) -> None:
        del self.journal[decision_id]

    def unpin(self, key: str) -> None:
        self.unpinned.append(key)

    def has_queue(self, queue: str) -> bool:
        return queue in self.queues

    def log(self, text: str) -> None:
        self.lines.append(text)

    # -- messages ------------------------------------------------------------------------------------------------

    def propose(self, key: str, queue: str) -> str | None:
        return self.handler.propose(key, queue, self.now_s)

    def find(self, key: str) -> str | None:
        return self.handler.find(key, self.now_s)

    def sends(self, key: str, queue: str) -> list[str | None]:
        """Send a message whose turn is at a queue. What is returned gets where it went, once that is decided."""
        went: list[str | None] = []

        def route() -> None:
            decided = self.propose(key, queue)
            if decided is None:
                self.handler.when_changed(key, route)
            else:
                went.append(decided)

        route()
        return went


class Cluster:
    """Brokers in a line or a ring. Notifications move when `run` is called."""

    def __init__(self, *configs: GroupingHandlerConfig, ring: bool = False, one_way: bool = False) -> None:
        self.clock = [0.0]
        self.brokers = [Broker(f"b{number}", config, self.clock) for number, config in enumerate(configs)]
        pairs = list(zip(self.brokers, self.brokers[1:], strict=False))
        for one, other in [*pairs, *([(self.brokers[-1], self.brokers[0])] if ring else ())]:
            one.neighbours.append(other)
            if not one_way:
                other.neighbours.append(one)

    def run(self) -> None:
        while any(broker.arrived for broker in self.brokers):
            for broker in self.brokers:
                while broker.arrived:
                    broker.handler.on_notice(broker.arrived.popleft(), broker.now_s)

    def advance(self, seconds: float) -> None:
        """Pass time, with all that is due on the way."""
        until = self.clock[0] + seconds
        while True:
            due = [broker.handler.next_deadline_s for broker in self.brokers]
            soonest = min((each for each in due if each is not None), default=until)
            if soonest > until:
                break
            self.clock[0] = max(soonest, self.clock[0])
            for broker in self.brokers:
                broker.handler.on_time(self.clock[0])
            self.run()
            if soonest == until:
                break
        self.clock[0] = until


def test_the_first_proposal_is_the_decision_for_every_broker() -> None:
    cluster = Cluster(REMOTE, LOCAL, REMOTE)
    first, arbiter, second = cluster.brokers
    ours, theirs = first.sends("g.q", "q-first"), second.sends("g.q", "q-second")
    assert (ours, theirs) == ([], [])
    cluster.run()
    assert ours == theirs == ["q-first"]
    assert arbiter.sends("g.q", "q-arbiter") == ["q-first"]
    assert [notice for notice in arbiter.published if notice.kind is RESPONSE] == [
        GroupNotice(RESPONSE, "g.q", "q-first"),
        GroupNotice(RESPONSE, "g.q", "q-second", "q-first"),
    ]
    # Later messages need no notification.
    count = len(first.published)
    assert first.sends("g.q", "q-second") == ["q-first"]
    assert len(first.published) == count
    assert arbiter.journal == {1: GroupDecision(1, "g.q", "q-first")}


@pytest.mark.parametrize(("ring", "one_way"), [(False, False), (True, False), (True, True)])
def test_a_proposal_and_its_decision_go_over_several_hops(ring: bool, one_way: bool) -> None:
    cluster = Cluster(LOCAL, REMOTE, REMOTE, REMOTE, ring=ring, one_way=one_way)
    went = cluster.brokers[2].sends("g.q", "q2")
    near = cluster.brokers[1].sends("g.q", "q1")
    cluster.run()
    assert went == near and len(went) == 1
    # Nothing circulates, and each broker publishes a few notifications.
    assert all(len(broker.published) <= 6 for broker in cluster.brokers)
    far = cluster.brokers[3].sends("h.q", "q3")
    cluster.run()
    assert far == ["q3"]
    # A group that ends and begins again has its decision everywhere, too, and at once.
    cluster.brokers[0].handler.drop("h.q", "q3")
    cluster.run()
    again = cluster.brokers[3].sends("h.q", "q4")
    cluster.run()
    assert again == ["q4"]
    assert max(notice.distance for broker in cluster.brokers for notice in broker.published) <= HOPS_MAX


def test_without_an_answer_ten_proposals_are_sent_and_then_the_messages_go_on() -> None:
    cluster = Cluster(REMOTE)
    (broker,) = cluster.brokers
    went = [broker.sends("g.q", "one"), broker.sends("g.q", "two")]
    cluster.advance(5.0 * TRIES_MAX - 0.1)
    assert went == [[], []]
    cluster.advance(0.2)
    assert went == [["one"], ["one"]]
    assert broker.published == [GroupNotice(PROPOSAL, "g.q", "one")] * TRIES_MAX
    assert len(broker.lines) == 2
    assert "no broker decided on group 'g.q' within 5 s" in broker.lines[0]
    assert "has no decision after 10 proposals" in broker.lines[1]
    # For one time-out the proposal stands; later messages propose again.
    assert broker.sends("g.q", "other") == ["one"]
    cluster.advance(5.1)
    assert broker.sends("g.q", "three") == []
    assert broker.published[-1] == GroupNotice(PROPOSAL, "g.q", "three")


def test_a_proposal_is_repeated_when_another_broker_connects() -> None:
    cluster = Cluster(REMOTE, LOCAL)
    broker, arbiter = cluster.brokers
    broker.neighbours = []
    went = broker.sends("g.q", "one")
    broker.neighbours = [arbiter]
    broker.handler.on_link()
    cluster.run()
    assert went == ["one"]


def test_the_groups_of_a_queue_that_is_gone_end_everywhere() -> None:
    cluster = Cluster(REMOTE, LOCAL, REMOTE)
    first, arbiter, second = cluster.brokers
    for key, queue in (("g.q", "gone"), ("h.q", "stays")):
        first.sends(key, queue)
        second.sends(key, queue)
    cluster.run()
    arbiter.handler.on_queue_removed("gone")
    arbiter.handler.on_queue_removed("without groups")
    cluster.run()
    (line,) = arbiter.lines
    assert "gone is gone, deleted or with a broker that stopped; its groups (1) get other queues" in line
    assert [broker.find("g.q") for broker in cluster.brokers] == [None] * 3
    assert [broker.find("h.q") for broker in cluster.brokers] == ["stays"] * 3
    assert all("g.q" in broker.unpinned and "h.q" not in broker.unpinned for broker in cluster.brokers)
    assert [decision.key for decision in arbiter.journal.values()] == ["h.q"]
    went = second.sends("g.q", "other")
    cluster.run()
    assert went == ["other"]


def test_a_broker_that_does_not_find_the_queue_ends_the_group_but_not_a_later_decision() -> None:
    cluster = Cluster(REMOTE, LOCAL)
    broker, arbiter = cluster.brokers
    broker.sends("g.q", "gone")
    cluster.run()
    broker.handler.drop("g.q", "gone")
    cluster.run()
    assert arbiter.find("g.q") is None and not arbiter.journal
    assert arbiter.sends("g.q", "new") == ["new"]
    broker.handler.drop("g.q", "gone")
    cluster.run()
    assert arbiter.find("g.q") == "new"


def test_groups_that_never_end_are_a_line_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_grouping, "GROUPS_WARNED_AT", 3)
    for timeout_ms, lines in ((-1, 1), (1_000, 0)):
        broker = Broker("a", evolve(LOCAL, group_timeout_ms=timeout_ms), [0.0])
        for number in range(5):
            broker.handler.propose(f"group{number}", "q", 0.0)
        assert len([line for line in broker.lines if "set group_timeout_ms" in line]) == lines


def test_idle_groups_end_and_groups_in_use_stay() -> None:
    local = evolve(LOCAL, group_timeout_ms=20_000, reaper_period_ms=1_000)
    cluster = Cluster(local, evolve(local, type=GroupingHandlerType.REMOTE))
    arbiter, broker = cluster.brokers
    for key in ("idle.q", "busy.q"):
        broker.sends(key, "one")
    cluster.run()
    for _ in range(10):
        cluster.advance(3)
        assert broker.sends("busy.q", "two") == ["one"]
        cluster.run()
    assert broker.find("idle.q") is None and arbiter.find("idle.q") is None
    assert arbiter.find("busy.q") == "one"
    assert broker.unpinned == ["idle.q"]
    assert [notice.queue for notice in broker.published if notice.kind is PROPOSAL][2:] == ["one"] * 2


def test_decisions_outlive_a_restart_and_messages_wait_for_their_queues() -> None:
    cluster = Cluster(LOCAL)
    (arbiter,) = cluster.brokers
    arbiter.sends("g.q", "back")
    arbiter.sends("h.q", "away")
    arbiter.queues = {"back"}
    arbiter.restart(LOCAL)
    assert (arbiter.find("g.q"), arbiter.find("h.q")) == ("back", "away")
    assert not arbiter.handler.awaits("back", 0.0) and arbiter.handler.awaits("away", 0.0)
    tried: list[float] = []
    arbiter.handler.when_changed("h.q", lambda: tried.append(cluster.clock[0]))
    cluster.advance(4.9)
    assert tried == []
    cluster.advance(1)
    assert tried == [5.0] and not arbiter.handler.awaits("away", arbiter.now_s)
    assert arbiter.lines == [
        "grouping handler: away of earlier decisions did not come back within 5 s; their groups get other queues with"
        " their next messages"
    ]
    arbiter.restart(LOCAL)
    arbiter.handler.when_changed("h.q", lambda: tried.append(cluster.clock[0]))
    arbiter.handler.on_queue_added("away")
    assert len(tried) == 2 and len(arbiter.lines) == 1


def test_messages_wait_for_a_decided_queue_of_which_a_broker_that_proposes_has_no_news_yet() -> None:
    cluster = Cluster(REMOTE, LOCAL)
    broker, arbiter = cluster.brokers
    arbiter.sends("g.q", "away")
    tried: list[float] = []
    for moment in (0.0, 2.0):
        assert broker.handler.awaits("away", moment)
        broker.handler.when_changed("g.q", lambda: tried.append(cluster.clock[0]))
    broker.handler.on_queue_added("away")
    assert tried == [0.0] * 2
    assert broker.handler.awaits("away", 0.0)
    broker.handler.when_changed("g.q", lambda: tried.append(cluster.clock[0]))
    cluster.advance(6)
    assert tried[2:] == [5.0] and not broker.handler.awaits("away", broker.now_s)
    assert len(broker.lines) == 1


def test_a_broker_that_does_not_decide_any_more_forgets_its_decisions() -> None:
    cluster = Cluster(LOCAL)
    (broker,) = cluster.brokers
    broker.sends("g.q", "one")
    RemoteGrouping(REMOTE, broker).begin(list(broker.journal.values()), 0.0)
    assert not broker.journal


def recorded(sender: str) -> list[GroupNotice]:
    """The notifications about groups that a broker of Artemis sent to the other one, as this broker reads them."""
    found: list[GroupNotice] = []
    queue = Stage().queue("store-and-forward")
    bindings = RemoteBindings("other", "own", 1, queue, MessageLoadBalancing.ON_DEMAND, lambda line: pytest.fail(line))
    begin = Properties()
    begin.set("_AMQ_RESET_QUEUE_DATA", True, PropertyType.BOOLEAN)
    bindings.on_message(CoreMessage.build(address="notifications", properties=begin))
    for text in (FOLDER / "bridges" / "cluster-grouping.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line.get("name") == "SESS_RECEIVE_MSG" and (line["from"], line["to"]) in (("A", "B"), ("B", "A")):
            data = bytes.fromhex(line["hex"])
            packet = decode_packet(data, 0, len(data), 136, False)
            assert isinstance(packet, SessionReceiveMessage)
            if line["from"] == sender:
                found += [each for each in bindings.on_message(packet.message) if isinstance(each, GroupNotice)]
    return found


def test_the_broker_that_decides_answers_recorded_proposals_as_artemis_does() -> None:
    arbiter = Broker("A", LOCAL, [0.0])
    proposals, responses = recorded("B"), recorded("A")
    assert len(proposals) == len(responses) == 3
    # Its own message was first for the second one.
    arbiter.sends(proposals[1].key, proposals[1].queue)
    for proposal in proposals:
        arbiter.handler.on_notice(proposal, 0.0)
    assert arbiter.published == responses
    assert [notice.decided for notice in responses] == [None, proposals[1].queue, None]


def test_a_broker_that_proposes_sends_what_artemis_does_and_takes_its_answers() -> None:
    broker = Broker("B", REMOTE, [0.0])
    went = [broker.sends(notice.key, notice.queue) for notice in recorded("B")]
    assert broker.published == recorded("B")
    for response in recorded("A"):
        broker.handler.on_notice(response, 0.0)
    assert went == [[notice.queue] for notice in recorded("B")]
