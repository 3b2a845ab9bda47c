"""A primary and its backup on one shared store, from start over failover to failback: what clients receive."""

from __future__ import annotations

from embedbroker.config import Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.ha.shared_store._activation import ANNOUNCED_WITHIN_S
from embedbroker.testing._node_host import NodeHost
from embedclient.wire.core import ClusterTopologyV4, DisconnectV3

from .town import Town, Visitor, connector

SETTLED_S = 10.0


def role(host: NodeHost) -> Role:
    return host.node.role if host.node is not None else Role.STOPPED


def begin(town: Town, name: str, other: str, policy: object) -> NodeHost:
    """Start a broker that has the other one's address, in any later role."""
    host = town.build(name, other, ha_policy=policy)
    host.start()
    town.run(SETTLED_S)
    return host


def pair() -> tuple[Town, NodeHost, NodeHost]:
    town = Town()
    primary = begin(town, "A", "B", SharedStorePrimary())
    backup = begin(town, "B", "A", SharedStoreBackup())
    assert (role(primary), role(backup)) == (Role.LIVE, Role.BACKUP)
    return town, primary, backup


def told(visitor: Visitor) -> list[tuple[object, object]]:
    """Live broker and backup as the client received them, without repetitions."""
    seen: list[tuple[object, object]] = []
    for packet in visitor.news():
        assert isinstance(packet, ClusterTopologyV4)
        entry = (packet.primary and packet.primary.name, packet.backup and packet.backup.name)
        if not seen or seen[-1] != entry:
            seen.append(entry)
    return seen


def test_a_pair_is_told_of_through_failover_and_failback() -> None:
    town, primary, backup = pair()
    node_id = town.node_id("A")
    client = town.visit("A")
    assert told(client) == [("A", "B")]
    # The primary dies, and the backup takes over under the same node id.
    primary.crash()
    town.run(SETTLED_S)
    assert (role(primary), role(backup), town.node_id("B")) == (Role.STOPPED, Role.LIVE, node_id)
    client = town.visit("B")
    assert told(client) == [("B", None)]
    # The primary returns, announces itself as the backup, and is given the store back.
    primary.start()
    town.run(SETTLED_S)
    assert told(client) == [("B", "A")]
    assert client.packets(DisconnectV3) == [DisconnectV3(node_id, 2, None, None)]
    # The backup gave way, and stands by again.
    assert (role(primary), role(backup)) == (Role.LIVE, Role.BACKUP)
    client = town.visit("A")
    assert told(client) == [("A", "B")]
    assert town.node_id("B") == town.node_id("A") == node_id


def test_a_live_backup_gives_way_when_its_clients_know_where_the_primary_is() -> None:
    """1. A returns and waits. 2. Its announcement is delayed. 3. B stays live until it has received it."""
    town, primary, backup = pair()
    primary.crash()
    town.run(SETTLED_S)
    client = town.visit("B")
    assert told(client) == [("B", None)]
    town.network.hold("A", "B")
    primary.start()
    town.run(20.0)
    assert (role(primary), role(backup)) == (Role.BACKUP, Role.LIVE)
    town.network.release("A", "B")
    town.run(SETTLED_S)
    assert told(client) == [("B", "A")]
    assert (role(primary), role(backup)) == (Role.LIVE, Role.BACKUP)


def test_a_primary_that_nobody_hears_of_is_given_way_to_in_the_end() -> None:
    town, primary, backup = pair()
    primary.crash()
    town.run(SETTLED_S)
    town.network.hold("A", "B")
    primary.start()
    town.run(ANNOUNCED_WITHIN_S - 1.0)
    assert role(backup) is Role.LIVE
    town.run(3.0)
    assert (role(primary), role(backup)) == (Role.LIVE, Role.BACKUP)


def test_event_ids_grow_with_every_change_although_the_clock_of_the_backup_is_behind() -> None:
    town, primary, backup = pair()
    before = town.member("A", "A").event_id
    # As if the primary's clock were a day ahead.
    town.membership("A").topology.repeat(town.node_id("A"), before + 86_400_000)
    town.run(SETTLED_S)
    primary.crash()
    town.run(SETTLED_S)
    assert role(backup) is Role.LIVE
    assert town.member("B", "B").event_id > before + 86_400_000


def test_a_third_broker_that_missed_the_end_of_the_backup_finds_the_primary_although_its_clock_is_behind() -> None:
    """The news of the backup has the higher event id. Its connection is only given up after a minute."""
    town, primary, backup = pair()
    backup.clock_offset_ms = 70_000
    town.start("C", "AB")
    town.run(SETTLED_S)
    primary.crash()
    town.run(SETTLED_S)
    assert town.known("C") == {"C": None, "B": None}
    for link in town.network.between("B", "C"):
        link.fall_silent(backup, "the power is off")
    backup.crash()
    primary.start()
    town.run(SETTLED_S)
    assert role(primary) is Role.LIVE
    assert town.known("A").keys() == town.known("C").keys() == {"A", "C"}
    town.run(120.0)
    assert town.known("A").keys() == town.known("C").keys() == {"A", "C"}
    ahead = town.world.wall_ms_at(0.0) + backup.clock_offset_ms
    assert town.member("C", "A").event_id == town.member("A", "A").event_id > ahead


def test_a_third_broker_of_the_cluster_is_told_as_clients_are() -> None:
    town, primary, _backup = pair()
    town.start("C", "AB")
    town.run(SETTLED_S)
    client = town.visit("C")
    assert set(told(client)) == {("C", None), ("A", "B")}
    primary.crash()
    town.run(SETTLED_S)
    down, *ups = client.news()
    assert (type(down).__name__, len(ups) > 0) == ("ClusterTopologyV2", True)
    assert town.known("C") == {"C": None, "B": None}
    assert town.membership("C").topology.members[town.node_id("B")].live == connector("B")


def test_a_backup_that_waits_tells_its_live_broker_and_dials_it_once() -> None:
    town, _primary, _backup = pair()
    assert town.dials("B") == 1
    town.run(100.0)
    assert town.dials("B") == 1
    assert town.known("A") == town.known("B") == {"A": "B"}
