"""After any crashes, restarts, cuts and partitions, all members agree again on which broker is live where."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.config import SharedStoreBackup, SharedStorePrimary
from embedclient.agent._topology import Topology as ClientTopology
from embedclient.wire.core import ClusterTopologyV2, ClusterTopologyV4

from .town import Town, Visitor, connector

NAMES = "ABCD"
# Each broker is found by at least one other broker, and none of them by all.
STATIC = {"A": "B", "B": "C", "C": "A", "D": "AC"}
HEALED_S = 90.0


def disturb(town: Town, chance: Random) -> None:
    """One thing goes wrong, or comes back."""
    name, other = chance.sample(NAMES, 2)
    match chance.choice(["crash", "stop", "start", "start", "cut", "hold", "release"]):
        case "crash" if town.hosts[name].ready:
            town.hosts[name].crash()
        case "stop" if town.hosts[name].ready:
            town.hosts[name].stop()
        case "start" if town.hosts[name].node is None:
            town.hosts[name].start()
        case "cut":
            for link in town.network.between(name, other):
                link.cut("connection reset")
        case "hold":
            town.network.hold(name, other)
        case "release":
            town.network.release(name, other)


def heal(town: Town) -> None:
    town.network.heal()
    for host in town.hosts.values():
        if host.node is None:
            host.start()
    town.run(HEALED_S)


def truth(town: Town) -> dict[str, str]:
    return {town.node_id(name): name for name in NAMES}


def known(town: Town, name: str) -> dict[str, str | None]:
    members = town.membership(name).topology.members
    return {node_id: member.live.name if member.live else None for node_id, member in members.items()}


def as_a_client_sees_it(visitor: Visitor, broker: str) -> dict[str, str | None]:
    """The members as our client sees them after everything that it received on one connection."""
    topology = ClientTopology()
    for packet in visitor.news():
        assert isinstance(packet, ClusterTopologyV2 | ClusterTopologyV4)
        topology.on_packet(packet, connector(broker), True)
    return {node_id: node.primary.name if node.primary else None for node_id, node in topology.nodes.items()}


@pytest.mark.search
@pytest.mark.parametrize("seed", range(40))
def test_members_agree_when_everything_is_healed(seed: int) -> None:
    chance = Random(seed)
    town = Town(seed)
    for name in NAMES:
        town.build(name, STATIC[name], check_period_ms=2_000, connection_ttl_ms=5_000).start()
    town.run(5.0)
    for _ in range(chance.randint(5, 30)):
        disturb(town, chance)
        town.run(chance.choice((0.001, 0.01, 0.3, 3.0, 10.0)))
    witness = next((name for name in NAMES if town.hosts[name].ready), None)
    visitor = town.visit(witness) if witness is not None else None
    heal(town)
    assert {name: known(town, name) for name in NAMES} == dict.fromkeys(NAMES, truth(town))
    if visitor is not None and visitor.closed is None and witness is not None:
        assert as_a_client_sees_it(visitor, witness) == truth(town)


@pytest.mark.search
@pytest.mark.parametrize("seed", range(30))
def test_everybody_knows_which_of_a_pair_is_live_and_which_stands_by(seed: int) -> None:
    chance = Random(seed)
    town = Town(seed)
    patience = {"check_period_ms": 2_000, "connection_ttl_ms": 5_000}
    town.build("A", "B", ha_policy=SharedStorePrimary(), **patience)
    town.build("B", "A", ha_policy=SharedStoreBackup(), **patience)
    town.build("C", "AB", **patience)
    town.build("D", "C", **patience)
    for name in NAMES:
        town.hosts[name].start()
        town.run(5.0)
    for _ in range(chance.randint(5, 30)):
        disturb(town, chance)
        town.run(chance.choice((0.001, 0.01, 0.3, 3.0, 10.0)))
    heal(town)
    # The primary came back at the latest with the healing, and its backup gave way.
    assert town.node_id("A") == town.node_id("B")
    lives = {town.node_id(name): name for name in "ACD"}
    assert {name: known(town, name) for name in NAMES} == dict.fromkeys(NAMES, lives)
    for name in NAMES:
        backup = town.member(name, "A").backup
        assert backup is not None and backup.name == "B", name
