"""One node of a drill: its brokers, its clients' state, and the place where they connect."""

from __future__ import annotations

from attrs import frozen

from embedclient import XAConnectionFactory

from ._group import Group
from ._stage import Stage

__all__ = ["Node"]


@frozen
class Node:
    """A broker, or a pair of them, and its clients. Several nodes are a cluster."""

    stage: Stage
    group: Group
    factory: XAConnectionFactory
