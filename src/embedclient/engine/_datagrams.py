"""Inputs and outputs of a step machine that sends and receives the datagrams of groups: multicast, or a directory.

Responsible for the vocabulary between a broker's node and the edge that has the sockets. Does not depend on the content
of a datagram.

An endpoint is a text that the machine chooses. It names one use of a group, and stands in log lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from ..model import BroadcastEndpoint

__all__ = ["DatagramReceived", "GroupFailed", "JoinGroup", "LeaveGroup", "SendDatagram"]


@frozen
class JoinGroup:
    """Receive the datagrams of a group. A failure is a `GroupFailed`, and the machine may request it again."""

    endpoint: str
    group: BroadcastEndpoint


@frozen
class SendDatagram:
    """Send a datagram to a group. It may be lost; a failure that is known is a `GroupFailed`."""

    endpoint: str
    group: BroadcastEndpoint
    data: bytes


@frozen
class LeaveGroup:
    """Receive and send nothing more. The edge must not report anything about the endpoint afterwards."""

    endpoint: str


@frozen
class DatagramReceived:
    """A datagram of a group that was joined."""

    endpoint: str
    data: bytes


@frozen
class GroupFailed:
    """The group cannot be joined or sent to; the text names it and what to do."""

    endpoint: str
    reason: str
