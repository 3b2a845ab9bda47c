"""Votes of the live brokers of a cluster: requests, rounds, and grants of voters."""

from ._grants import Bid, DamagedWords, Words
from ._round import Ballot, Electorate, votes_needed
from ._vote_requests import ballot_to_go_on, ballot_to_take_over, hear_votes, repeat_question
from ._voter import Voter, WordStore, connector_text, leads_to

__all__ = [
    "Ballot",
    "Bid",
    "DamagedWords",
    "Electorate",
    "Voter",
    "WordStore",
    "Words",
    "ballot_to_go_on",
    "ballot_to_take_over",
    "connector_text",
    "hear_votes",
    "leads_to",
    "repeat_question",
    "votes_needed",
]
