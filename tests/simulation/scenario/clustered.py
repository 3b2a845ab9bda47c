"""The configuration of a broker among others: where it finds them, and when it gives them up.

It writes values down. Does not depend on policies and what they lead to.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from embedbroker.config import BrokerConfig, ClusterConnection, ReplicationBackup, ReplicationPrimary

__all__ = ["clustered"]

_PORT = 61616


def clustered(
    config: BrokerConfig, policy: ReplicationPrimary | ReplicationBackup, name: str, names: Sequence[str]
) -> BrokerConfig:
    """Of one of several brokers. They look for each other at once, and give up one that is silent for two seconds."""
    connection = ClusterConnection(
        connector=name,
        static_connectors=[each for each in names if each != name],
        retry_interval_ms=200,
        call_timeout_ms=2_000,
        check_period_ms=500,
        connection_ttl_ms=2_000,
        # Messages stay where they are sent: how they get to others is simulated in `tests.simulation.sites`.
        max_hops=0,
    )
    return evolve(
        config,
        name=name,
        ha_policy=policy,
        connectors={each: f"tcp://{each}:{_PORT}" for each in names},
        cluster_connections=connection,
        cluster_user="cluster",
        cluster_password="of the group",
    )
