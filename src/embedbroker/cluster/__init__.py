"""A broker among others: the members of its cluster, and the control channel between brokers."""

from embedclient.wire.core import enclose

from ._control_link import ControlLink, LinkEnd, LinkState, where
from ._foreign_backups import refuse_other_backups
from ._inbound import Guest, Guests
from ._membership import Membership
from ._outbound import Caller, Contact, Switchboard
from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL, FrameReceiver, Peer, Pipe, Send
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
    "Send",
    "Switchboard",
    "Topology",
    "Verdict",
    "enclose",
    "refuse_other_backups",
    "where",
]
