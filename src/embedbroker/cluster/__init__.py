"""A broker among others: the members of its cluster, and the control channel between brokers."""

from embedclient.wire.core import enclose

from ._ballot import Ballot, Electorate, votes_needed
from ._contacts import Caller, Contact, Switchboard
from ._guests import Guest, Guests
from ._link import ControlLink, LinkEnd, LinkState, where
from ._membership import Membership
from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL, FrameReceiver, Peer, Pipe, Send
from ._questions import ballot_to_go_on, ballot_to_take_over, hear_votes, repeat_question
from ._rivals import refuse_other_backups
from ._topology import Change, Listener, Member, MemberDown, MemberUp, Topology, Verdict
from ._voter import Voter, WordStore, connector_text, leads_to
from ._words import Bid, DamagedWords, Words

__all__ = [
    "CONTROL_CHANNEL",
    "PING_CHANNEL",
    "STREAM_CHANNEL",
    "Ballot",
    "Bid",
    "Caller",
    "Change",
    "Contact",
    "ControlLink",
    "DamagedWords",
    "Electorate",
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
    "Voter",
    "WordStore",
    "Words",
    "ballot_to_go_on",
    "ballot_to_take_over",
    "connector_text",
    "enclose",
    "hear_votes",
    "leads_to",
    "refuse_other_backups",
    "repeat_question",
    "votes_needed",
    "where",
]
