"""A broker among others: the members of its cluster, and the control channel between brokers."""

from ._contacts import Caller, Contact, Switchboard
from ._guests import Guest, Guests
from ._link import ControlLink, LinkEnd, LinkState
from ._membership import Membership
from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL, FrameReceiver, Peer, Pipe
from ._topology import Change, Listener, Member, MemberDown, MemberUp, Topology, Verdict

__all__ = [
    "CONTROL_CHANNEL",
    "PING_CHANNEL",
    "STREAM_CHANNEL",
    "Caller",
    "Change",
    "Contact",
    "ControlLink",
    "FrameReceiver",
    "Guest",
    "Guests",
    "LinkEnd",
    "LinkState",
    "Listener",
    "Member",
    "MemberDown",
    "MemberUp",
    "Membership",
    "Peer",
    "Pipe",
    "Switchboard",
    "Topology",
    "Verdict",
]
