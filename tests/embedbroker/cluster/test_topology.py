"""Which news about members counts, and which peers receive it: the rules of Artemis, and where ours are stricter."""

from __future__ import annotations

from attrs import evolve

from embedbroker.cluster import Change, Member, MemberDown, MemberUp, NewsResult, Topology
from embedbroker.cluster._topology import MEMBERS_MAX, REMOVALS_MAX

from .town import connector

A, B, C = connector("A"), connector("B"), connector("C")
OWN = Member("own", 100, A)
OTHER = Member("other", 50, B)


def told(topology: Topology) -> list[Change]:
    """What a listener receives from now on."""
    changes: list[Change] = []
    topology.listen(changes.append)
    changes.clear()
    return changes


def live() -> Topology:
    topology = Topology()
    topology.become_live(OWN)
    return topology


# -- listening ---------------------------------------------------------------------------------------------------------


def test_a_new_listener_hears_of_every_member_and_which_is_the_last() -> None:
    topology = Topology()
    topology.update(OTHER)
    topology.become_live(OWN)
    changes: list[Change] = []
    topology.listen(changes.append)
    assert changes == [MemberUp(OWN, last=False), MemberUp(OTHER, last=True)]


def test_a_listener_that_is_forgotten_hears_nothing() -> None:
    topology = live()
    changes: list[Change] = []
    topology.listen(changes.append)
    topology.forget(changes.append)
    topology.forget(changes.append)
    topology.update(OTHER)
    assert len(changes) == 1


# -- what this broker does itself --------------------------------------------------------------------------------------


def test_becoming_live_replaces_the_entry_and_is_newer_than_it() -> None:
    topology = Topology()
    topology.update(Member("own", 500, B, A))
    changes = told(topology)
    own = topology.become_live(OWN)
    assert own == evolve(OWN, event_id=501)
    assert changes == [MemberUp(own)]


def test_becoming_live_is_newer_than_a_removal() -> None:
    topology = Topology()
    topology.remove("own", 700)
    assert topology.become_live(OWN).event_id == 701
    assert topology.update(evolve(OTHER, node_id="own", live=A, event_id=650)) is NewsResult.REMOVED


def test_repeating_tells_the_same_with_a_newer_id() -> None:
    topology = live()
    changes = told(topology)
    assert topology.repeat("own", 1000) == evolve(OWN, event_id=1000)
    assert topology.repeat("own", 1000) == evolve(OWN, event_id=1001)
    assert changes == [MemberUp(evolve(OWN, event_id=1000)), MemberUp(evolve(OWN, event_id=1001))]


def test_ids_stay_within_their_eight_bytes() -> None:
    topology = live()
    highest = (1 << 63) - 1
    assert topology.repeat("own", highest + 1).event_id == topology.repeat("own", 1000).event_id == highest
    topology.remove("other", highest)
    assert topology.put_backup("other", B, "group", 200) is NewsResult.TAKEN
    assert topology.members["other"].event_id == highest


def test_a_backup_joins_its_live_broker_and_may_be_the_first_that_is_heard_of() -> None:
    topology = live()
    changes = told(topology)
    topology.put_backup("own", B, "group", 200)
    topology.put_backup("unknown", C, "group", 200)
    assert changes == [
        MemberUp(evolve(OWN, event_id=200, backup=B)),
        MemberUp(Member("unknown", 200, None, C, "group")),
    ]
    topology.put_backup("own", None, None, 150)
    assert changes[2] == MemberUp(evolve(OWN, event_id=201, backup=None))


# -- what others say ---------------------------------------------------------------------------------------------------


def test_newer_news_is_taken_and_keeps_the_half_it_does_not_carry() -> None:
    topology = live()
    topology.update(evolve(OTHER, backup=C))
    changes = told(topology)
    assert topology.update(evolve(OTHER, event_id=60)) is NewsResult.TAKEN
    assert topology.members["other"] == evolve(OTHER, event_id=60, backup=C)
    assert topology.update(Member("other", 61, None, A)) is NewsResult.TAKEN
    assert topology.members["other"] == Member("other", 61, B, A)
    assert len(changes) == 2


def test_news_that_is_not_newer_is_ignored() -> None:
    topology = live()
    topology.update(OTHER)
    changes = told(topology)
    assert topology.update(evolve(OTHER, live=C)) is NewsResult.OLD
    assert topology.update(evolve(OTHER, live=C, event_id=49)) is NewsResult.OLD
    assert topology.members["other"] == OTHER
    assert changes == []


def test_old_news_fills_in_a_missing_backup_without_a_word() -> None:
    topology = live()
    topology.update(OTHER)
    changes = told(topology)
    assert topology.update(evolve(OTHER, event_id=10, backup=C)) is NewsResult.OLD
    assert topology.members["other"].backup == C
    assert topology.update(evolve(OTHER, event_id=10, backup=A)) is NewsResult.OLD
    assert topology.members["other"].backup == C
    assert changes == []


def test_old_news_that_brings_a_missing_live_broker_is_taken() -> None:
    topology = live()
    topology.put_backup("other", C, None, 200)
    assert topology.update(OTHER) is NewsResult.TAKEN
    assert topology.members["other"] == Member("other", 200, B, C)


def test_a_backup_that_took_over_is_not_its_own_backup() -> None:
    topology = live()
    topology.update(evolve(OTHER, backup=C))
    topology.update(Member("other", 60, C))
    assert topology.members["other"] == Member("other", 60, C)
    topology.update(Member("other", 10, B, C))
    assert topology.members["other"] == Member("other", 60, C)


def test_a_member_that_was_removed_comes_back_with_newer_news_only() -> None:
    topology = live()
    topology.update(OTHER)
    changes = told(topology)
    assert topology.remove("other", 80)
    assert topology.update(evolve(OTHER, event_id=80)) is NewsResult.REMOVED
    assert topology.removal_of("other") == 80
    assert topology.update(evolve(OTHER, event_id=81)) is NewsResult.TAKEN
    assert changes == [MemberDown("other", 80), MemberUp(evolve(OTHER, event_id=81))]


def test_of_a_removal_and_an_announcement_with_one_id_the_removal_counts_in_any_order() -> None:
    first, second = live(), live()
    first.update(OTHER)
    first.remove("other", 50)
    second.remove("other", 50)
    second.update(OTHER)
    assert first.members.keys() == second.members.keys() == {"own"}


def test_what_this_broker_sees_itself_is_newer_than_what_it_knew() -> None:
    topology = live()
    topology.update(evolve(OTHER, event_id=500))
    changes = told(topology)
    topology.drop("other", 400)
    topology.put_backup("other", C, None, 400)
    topology.drop("other", 400)
    topology.revive(OTHER)
    assert changes == [
        MemberDown("other", 501),
        MemberUp(Member("other", 502, None, C)),
        MemberDown("other", 503),
        MemberUp(evolve(OTHER, event_id=504)),
    ]


def test_news_without_an_id_is_never_too_old_for_a_removal() -> None:
    """Brokers of the time before event ids."""
    topology = live()
    topology.remove("other", 80)
    assert topology.update(evolve(OTHER, event_id=0)) is NewsResult.TAKEN


def test_an_old_removal_is_ignored() -> None:
    topology = live()
    topology.update(OTHER)
    changes = told(topology)
    assert not topology.remove("other", 49)
    assert topology.members["other"] == OTHER
    assert topology.removal_of("other") is None
    assert changes == []


def test_a_place_has_one_live_broker_the_latest() -> None:
    topology = live()
    topology.update(OTHER)
    changes = told(topology)
    assert topology.update(Member("later", 60, B)) is NewsResult.TAKEN
    assert changes == [MemberUp(Member("later", 60, B)), MemberDown("other", 60)]
    assert topology.update(evolve(OTHER, node_id="earlier", event_id=59)) is NewsResult.OLD
    assert topology.members.keys() == {"own", "later"}
    assert topology.update(Member("my id before I started again", 70, A)) is NewsResult.OLD
    assert topology.members.keys() == {"own", "later"}


# -- about this broker itself ------------------------------------------------------------------------------------------


def test_nobody_removes_a_live_broker_from_its_own_topology() -> None:
    topology = live()
    assert not topology.remove("own", 1_000)
    topology.become_backup("own")
    assert topology.remove("own", 1_000)


def test_the_connector_of_another_cluster_connection_is_no_rival() -> None:
    topology = Topology([A, B])
    topology.become_live(OWN)
    assert topology.update(Member("own", 1_000, B)) is NewsResult.OLD
    assert topology.members["own"] == OWN


def test_another_broker_is_not_live_in_place_of_this_one() -> None:
    topology = live()
    changes = told(topology)
    assert topology.update(Member("own", 1_000, B)) is NewsResult.RIVAL
    assert topology.members["own"] == OWN
    assert topology.update(Member("own", 1_000, A)) is NewsResult.TAKEN
    topology.become_backup("own")
    assert topology.update(Member("own", 2_000, B)) is NewsResult.TAKEN
    assert len(changes) == 2


# -- limits ------------------------------------------------------------------------------------------------------------


def test_members_and_removals_have_a_limit() -> None:
    topology = live()
    verdicts = [topology.update(Member(f"node-{number}", 1, connector(f"B{number}"))) for number in range(MEMBERS_MAX)]
    assert verdicts == [NewsResult.TAKEN] * (MEMBERS_MAX - 1) + [NewsResult.FULL]
    assert topology.put_backup("one more", C, None, 1) is NewsResult.FULL
    assert len(topology.members) == MEMBERS_MAX
    assert topology.update(Member("node-0", 2, C)) is NewsResult.TAKEN
    for number in range(REMOVALS_MAX + 1):
        topology.remove(f"node-{number}", 3)
    assert topology.removal_of("node-0") is None
    assert topology.removal_of(f"node-{REMOVALS_MAX}") == 3


def test_a_member_is_found_by_its_live_broker_and_by_its_backup() -> None:
    topology = live()
    topology.update(evolve(OTHER, backup=C))
    found = [topology.member_at(each) for each in (A, B, C, connector("D"))]
    assert [member and member.node_id for member in found] == ["own", "other", "other", None]
