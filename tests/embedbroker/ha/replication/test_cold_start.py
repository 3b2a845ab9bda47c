"""Brokers that wait when no live broker could vote: one of those with the same data begins, and has all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest
from attrs import evolve

from embedbroker.cluster import ControlLink, Member, Membership, Send, Topology
from embedbroker.cluster._announcement import packet_for
from embedbroker.cluster._topology import MemberUp
from embedbroker.config import ReplicationBackup, ReplicationPrimary, Role
from embedbroker.ha.quorum import Electorate
from embedbroker.ha.replication._cold_start import ColdStartAgreement
from embedbroker.replication import STREAM_FORMAT
from embedbroker.storage import Read
from embedclient.model import TransportConfiguration
from embedclient.wire.core import ClusterTopologyV4, NodeAnnounce, Packet, ReplicaWaiting
from tests.embedbroker.ha.replication.replicating import BACKUP, PRIMARY, Brokers, goes_on
from tests.embedbroker.ha.replication.test_replicating_rights import VOTING_BACKUP, VOTING_PRIMARY, three_pairs
from tests.embedbroker.ha.replication.test_replicating_votes import change_record
from tests.simulation.fault_points import fault_point, replace
from tests.simulation.store_group import Writer

PAIRS = (("p", "q"), ("r", "s"), ("t", "u"))


def whole_cluster(quorum_size: int = -1, *, backups: str = "q", policy: ReplicationBackup = VOTING_BACKUP) -> Brokers:
    """Three pairs in sync; the first one may have more backups."""
    brokers = Brokers("pqrstu" + backups.replace("q", ""))
    for primary, backup in PAIRS:
        brokers.primary(primary, evolve(VOTING_PRIMARY, group_name=primary, quorum_size=quorum_size))
        for name in backups if primary == "p" else backup:
            brokers.backup(name, evolve(policy, group_name=primary, quorum_size=quorum_size))
    for primary, _backup in PAIRS:
        brokers.until_in_sync(primary)
    brokers.run(3.0)
    return brokers


def written(brokers: Brokers, *names: str) -> Writer:
    writer = brokers.writer(*names)
    brokers.until(lambda: len(writer.confirmed) > 10)
    return writer


def record(brokers: Brokers, name: str) -> str:
    text = brokers.hosts[name].disk.run((Read("node.state", 0, 4096),))[0]
    assert isinstance(text, bytes)
    return text.decode()


# -- all of a cluster ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quorum_size", [-1, 3])
def test_a_cluster_that_lost_its_power_starts_by_itself(quorum_size: int) -> None:
    brokers = whole_cluster(quorum_size)
    writer = written(brokers, "p", "q")
    for name in "pqrstu":
        brokers.crash(name)
    for name in "pqrstu":
        brokers.hosts[name].start()
    for primary, backup in PAIRS:
        brokers.until_role(primary, Role.LIVE, 12.0)
        brokers.until_in_sync(primary)
        assert brokers.roles[backup] == "backup"
    goes_on(brokers, writer, "p")
    assert "begins with the data that is here: q (q:61616) does not" in brokers.said("p")
    assert "leaves it to p (p:61616) to begin, which has the same data" in brokers.said("q")


@pytest.mark.parametrize("order", ["prtqsu", "qsuprt", "pqrstu"])
def test_a_cluster_that_was_stopped_starts_by_itself(order: str) -> None:
    brokers = whole_cluster()
    writer = written(brokers, "p", "q")
    for name in order:
        if brokers.role(name) is not Role.STOPPED:
            brokers.hosts[name].stop()
            brokers.until_role(name, Role.STOPPED)
        brokers.run(1.0)
    for name in "pqrstu":
        brokers.hosts[name].start()
    for pair in PAIRS:
        brokers.until(partial(has_live, brokers, pair), 20.0)
    brokers.until_in_sync("p")
    goes_on(brokers, writer, "p")


def has_live(brokers: Brokers, names: Sequence[str]) -> bool:
    return any(brokers.role(name) is Role.LIVE for name in names)


def test_two_of_three_pairs_that_lost_their_power_start_beside_the_third() -> None:
    """p and q need the word of r, and r and s that of p, and neither is live."""
    brokers = whole_cluster(3)
    writer = written(brokers, "p", "q")
    for name in "pqrs":
        brokers.crash(name)
    brokers.run(3.0)
    for name in "pqrs":
        brokers.hosts[name].start()
    for name in "pr":
        brokers.until_role(name, Role.LIVE, 12.0)
    goes_on(brokers, writer, "p")


# -- the right to begin --------------------------------------------------------------------------------------------


def test_who_was_live_last_and_had_no_backup_begins_and_the_other_one_does_not() -> None:
    brokers, writer = three_pairs()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    for name in "qxy":
        brokers.crash(name)
    brokers.hosts["p"].start()
    brokers.run(20.0)
    assert brokers.roles["p"] == "backup"
    brokers.hosts["q"].start()
    brokers.until_role("q", Role.LIVE, 10.0)
    assert "begins with the data that is here, from which no other broker can have gone on" in brokers.said("q")
    brokers.until(lambda: "gives way to the primary" in brokers.said("q"))


def test_what_voters_say_counts_more_than_what_a_broker_remembers() -> None:
    """A directory restored from a copy records that no other broker went on from there; x and y have newer news."""
    brokers, writer = three_pairs()
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.crash("q")
    text = record(brokers, "p")
    change_record(brokers, "p", text[text.index("partner: ") :].encode(), b"partner: \n")
    brokers.run(3.0)
    brokers.hosts["p"].start()
    brokers.run(20.0)
    assert brokers.roles["p"] == "backup"


def test_two_copies_wait_for_the_third_that_may_have_gone_on() -> None:
    """1. p dies, q takes over, and v is its backup. 2. All die. 3. p and q are there: v may have confirmed more."""
    brokers = whole_cluster(backups="qv")
    writer = written(brokers, "p", "q", "v")
    brokers.until_in_sync("p")
    first = next(name for name in "qv" if "in sync with p" in brokers.said(name))
    second = "v" if first == "q" else "q"
    brokers.crash("p")
    brokers.until_role(first, Role.LIVE)
    brokers.until_in_sync(first)
    goes_on(brokers, writer, first)
    brokers.crash(first)
    brokers.until_role(second, Role.LIVE)
    goes_on(brokers, writer, second)
    for name in [second, *"rstu"]:
        brokers.crash(name)
    for name in ("p", first):
        brokers.hosts[name].start()
    brokers.run(30.0)
    assert brokers.roles["p"] == brokers.roles[first] == "backup"
    brokers.hosts[second].start()
    brokers.until_role(second, Role.LIVE)
    # Either of the two is its backup; if that is the primary, it is live next.
    brokers.until(lambda: brokers.in_sync(second) or brokers.in_sync("p"))
    brokers.run(5.0)
    live = next(name for name in ("p", second) if brokers.role(name) is Role.LIVE)
    goes_on(brokers, writer, live)


def test_two_backups_meet_as_a_primary_and_its_backup_do() -> None:
    """The one that took over and the one that was its backup; p is gone for good."""
    brokers = whole_cluster(backups="qv")
    writer = written(brokers, "p", "q", "v")
    brokers.crash("p")
    brokers.until(lambda: has_live(brokers, "qv"))
    live = next(name for name in "qv" if brokers.role(name) is Role.LIVE)
    brokers.until_in_sync(live)
    goes_on(brokers, writer, live)
    for name in "qvrstu":
        brokers.crash(name)
    for name in "qv":
        brokers.hosts[name].start()
    brokers.until(lambda: has_live(brokers, "qv"), 15.0)
    live = next(name for name in "qv" if brokers.role(name) is Role.LIVE)
    goes_on(brokers, writer, live)


@pytest.mark.parametrize("dies", ["p", "q", "pq"])
def test_who_has_given_way_stays_so_whoever_dies_then(dies: str) -> None:
    """The moment in which q has written that it gives way, and p has not received that."""
    brokers = whole_cluster()
    writer = written(brokers, "p", "q")
    for name in "pqrstu":
        brokers.crash(name)
    for name in "pq":
        brokers.hosts[name].start()
    brokers.until(lambda: "in sync: no" in record(brokers, "q"))
    assert brokers.roles["p"] == "backup"
    for name in dies:
        brokers.crash(name)
    if dies != "q":
        brokers.run(15.0)
        assert brokers.roles["q"] == ("stopped" if "q" in dies else "backup")
    for name in dies:
        brokers.hosts[name].start()
    brokers.until_role("p", Role.LIVE, 15.0)
    brokers.until_in_sync("p")
    goes_on(brokers, writer, "p")


def test_a_copy_that_is_not_whole_keeps_nobody_from_beginning() -> None:
    brokers, writer = three_pairs()
    brokers.crash("q")
    goes_on(brokers, writer, "p")
    for name in "pxy":
        brokers.crash(name)
    change_record(brokers, "p", b"partner: \n", record_of_partner(brokers, "q"))
    change_record(brokers, "q", b"in sync: yes", b"in sync: no")
    for name in "pq":
        brokers.hosts[name].start()
    brokers.until_role("p", Role.LIVE, 15.0)
    goes_on(brokers, writer, "p")


def record_of_partner(brokers: Brokers, name: str) -> bytes:
    """The line that names a broker as partner."""
    own = record(brokers, name)
    line = own[own.index("partner: ") :]
    return line.replace("name=p", f"name={name}").replace("host=p", f"host={name}").encode()


# -- what is remembered --------------------------------------------------------------------------------------------


def test_whoever_is_in_sync_is_on_the_disk_before_it_is() -> None:
    """The new activation of p is in the record of q only when p has written down which broker has it."""
    brokers, _writer = three_pairs()
    assert "partner: TransportConfiguration(name=q" in record(brokers, "p")
    assert "partner: TransportConfiguration(name=p" in record(brokers, "q")
    brokers.crash("q")
    brokers.until(lambda: "goes on without a backup" in brokers.said("p"))
    assert "partner: \n" in record(brokers, "p")
    brokers.hosts["q"].start()
    seen: list[str] = []
    brokers.hosts["q"].after_step.append(
        lambda: seen.append(record(brokers, "p")) if "activation: 2" in record(brokers, "q") else None
    )
    brokers.run(3.0)
    assert seen and all("partner: TransportConfiguration(name=q" in text for text in seen)


def test_a_copy_that_was_whole_and_not_noted_answers_its_partner() -> None:
    """q is in sync, and dies before that is on its disk; p dies as well, and has recorded that q may have been."""
    brokers, _writer = three_pairs()
    brokers.backup("v", evolve(VOTING_BACKUP, group_name="x"))
    brokers.until(lambda: "in sync with x" in brokers.said("v"))
    assert "in sync: no" in record(brokers, "v")
    for name in "pqxyv":
        brokers.crash(name)
    for name in "xv":
        brokers.hosts[name].start()
    brokers.until_role("x", Role.LIVE, 15.0)


def test_how_many_there_were_is_remembered_by_both() -> None:
    brokers = whole_cluster()
    for name in "pqrstu":
        assert "quorum: 3" in record(brokers, name)


def test_a_broker_with_another_node_id_in_the_same_place_is_one_and_not_two() -> None:
    class Cluster:
        topology = Topology()

    electorate = Electorate(Cluster())  # type: ignore[arg-type]  # all that it looks at
    place = TransportConfiguration("x", parameters={"host": "x", "port": "61616"})
    for event, node_id in enumerate(["first", "second", "third"]):
        Cluster.topology.update(Member(node_id, 1_000 + event, place, None, None))
    assert electorate.size_with("first") == 1


@pytest.mark.parametrize(("left", "policy"), [("p", VOTING_PRIMARY), ("q", VOTING_BACKUP)])
def test_an_operator_says_that_nobody_else_will_come(left: str, policy: ReplicationPrimary | ReplicationBackup) -> None:
    """All others are gone for good."""
    brokers, writer = three_pairs()
    for name in "pqxy":
        brokers.crash(name)
    brokers.hosts[left].start()
    brokers.run(20.0)
    assert brokers.roles[left] == "backup"
    brokers.crash(left)
    config = brokers.hosts[left].config
    brokers.hosts[left].config = evolve(config, ha_policy=evolve(policy, quorum_size=0))
    brokers.hosts[left].start()
    brokers.until_role(left, Role.LIVE)
    goes_on(brokers, writer, left)


# -- admission -----------------------------------------------------------------------------------------------------


def test_a_broker_is_found_while_it_waits_and_not_when_it_is_a_backup() -> None:
    brokers, _writer = three_pairs()
    found = {name: brokers.hosts[name].lets_brokers_in for name in "pqxy"}
    assert found == dict.fromkeys("pqxy", False)
    brokers.crash("p")
    brokers.crash("q")
    brokers.run(3.0)
    brokers.part("q", "xy")
    brokers.hosts["q"].start()
    brokers.run(5.0)
    assert brokers.hosts["q"].lets_brokers_in
    brokers.hosts["p"].start()
    brokers.until_in_sync("p")
    assert not brokers.hosts["q"].lets_brokers_in


def test_clients_are_sent_away_by_a_broker_that_waits() -> None:
    brokers, writer = three_pairs()
    for name in "pqxy":
        brokers.crash(name)
    brokers.hosts["p"].start()
    brokers.until(lambda: brokers.hosts["p"].lets_brokers_in)
    before = len(writer.confirmed)
    brokers.run(10.0)
    assert len(writer.confirmed) == before
    brokers.until(lambda: not [link for link in brokers.network.links if writer in (link.near, link.far)], 2.0)
    assert "closed" not in brokers.said("p").replace("closed by peer", "")
    brokers.hosts["q"].start()
    brokers.until_role("p", Role.LIVE, 15.0)
    goes_on(brokers, writer, "p")


def test_without_votes_nobody_is_let_in() -> None:
    """A broker that does not ask others has nothing to say to them."""
    brokers = Brokers("pq")
    brokers.primary("p", PRIMARY)
    brokers.backup("q", BACKUP)
    brokers.until_in_sync("p")
    for name in "pq":
        brokers.crash(name)
    brokers.hosts["q"].start()
    brokers.run(5.0)
    assert brokers.roles["q"] == "backup" and not brokers.hosts["q"].lets_brokers_in


# -- what makes no sense -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda waiting: waiting.replace(format=waiting.format + 1),
        lambda waiting: waiting.replace(node_id="another"),
        lambda waiting: waiting.replace(connector=TransportConfiguration("stranger")),
        lambda waiting: waiting.replace(epoch=waiting.epoch - 1),
    ],
    ids=["another format", "another node", "not its partner", "of older data"],
)
def test_only_the_partner_can_give_way(
    change: Callable[[ReplicaWaiting], ReplicaWaiting], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = whole_cluster()
    for name in "pqrstu":
        brokers.crash(name)
    take = fault_point("take the offer of a waiting broker")

    def changed(self: ColdStartAgreement, other: ReplicaWaiting, send: Send) -> None:
        take(self, change(other) if other.yields else other, send)

    replace(monkeypatch, "take the offer of a waiting broker", changed)
    for name in "pq":
        brokers.hosts[name].start()
    brokers.run(20.0)
    assert brokers.roles["p"] == brokers.roles["q"] == "backup"
    monkeypatch.undo()
    brokers.until_role("p", Role.LIVE, 10.0)


def test_a_live_broker_gives_way_to_nobody_that_waits() -> None:
    """q has newer data by its record, and is no broker of this cluster."""
    brokers, writer = three_pairs()
    cluster = cluster_of(brokers, "p")
    answers: list[tuple[Packet, int]] = []
    connector = TransportConfiguration("q", parameters={"host": "q", "port": "61616"})
    waiting = ReplicaWaiting(STREAM_FORMAT, brokers.node("p").node_id, 99, False, True, connector, None)
    link = cast(ControlLink, SimpleNamespace(send=lambda *answer: answers.append(answer)))
    cluster.handlers[ReplicaWaiting](link, waiting)
    brokers.run(1.0)
    assert not answers and "in sync: yes" in record(brokers, "p")
    goes_on(brokers, writer, "p")


def cluster_of(brokers: Brokers, name: str) -> Membership:
    cluster: Membership | None = brokers.node(name).cluster
    assert cluster is not None
    return cluster


def test_a_place_where_somebody_waits_is_no_place_where_somebody_is_live() -> None:
    """y has not noticed that p was gone, and reports that to p, which does not pass it on."""
    brokers, _writer = three_pairs()
    node_id = brokers.node("p").node_id
    brokers.crash("q")
    brokers.crash("p")
    brokers.hosts["p"].start()
    brokers.until(lambda: brokers.hosts["p"].lets_brokers_in)
    cluster = cluster_of(brokers, "p")
    link = cluster.links[0]
    news = packet_for(MemberUp(Member(node_id, 1 << 60, cluster.connector, None, "g"), False), 136, 136)
    cluster.on_packet(link, news)
    assert node_id not in cluster.topology.members


def test_who_took_over_stays_in_its_own_topology_whatever_the_one_before_says_of_itself() -> None:
    """p, which was replaced without noticing, is older news by its own number."""
    brokers, _writer = three_pairs()
    cluster = brokers.node("p").cluster
    assert cluster is not None
    before = cluster.topology.members[brokers.node("p").node_id]
    assert before.live is not None
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    cluster = brokers.node("q").cluster
    assert cluster is not None and cluster.topology.members[before.node_id].event_id > before.event_id
    answers: list[NodeAnnounce] = []
    link = SimpleNamespace(connector=before.live, waits=False, is_met=False)
    link.send = lambda packet, _channel: answers.append(packet)
    news = ClusterTopologyV4(False, before.node_id, 1, before.live, None, False, None, None, 136)
    cluster.on_packet(cast(ControlLink, link), news)
    own = cluster.topology.members[before.node_id].live
    assert own is not None and own.leads_where(cluster.connector)
    assert [answer.connector for answer in answers] == [own]
