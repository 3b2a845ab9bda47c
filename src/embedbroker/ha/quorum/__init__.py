"""Votes of the active brokers of a cluster: requests, rounds, and grants of voters."""

from ._grants import DamagedGrants, VoteGrants, VoteRequest
from ._round import Electorate, VoteRound, VoteRoundStatistics, votes_needed
from ._vote_requests import receive_votes, repeat_vote_request, round_to_go_on, round_to_take_over
from ._voter import GrantStore, Voter, connector_text, leads_to

__all__ = [
    "DamagedGrants",
    "Electorate",
    "GrantStore",
    "VoteGrants",
    "VoteRequest",
    "VoteRound",
    "VoteRoundStatistics",
    "Voter",
    "connector_text",
    "leads_to",
    "receive_votes",
    "repeat_vote_request",
    "round_to_go_on",
    "round_to_take_over",
    "votes_needed",
]
