"""The grants of a voter: one asker for each epoch of a node.

Responsible for which grant may follow another, and for the text of all grants in a file. Also responsible for what
askers and voters add to the texts of Artemis' votes. Does not depend on the reason of a request, and does not write
files.
"""

from __future__ import annotations

import re

from attrs import field, frozen

__all__ = ["ABSTAINS", "DamagedGrants", "VoteGrants", "VoteRequest", "with_attempt", "without_attempt"]

#: The text of a no without information: the voter has no place to keep its grants.
ABSTAINS = "abstains"

# More nodes than any cluster has, so that a broken peer cannot fill the memory.
_GRANTS_MAX = 1_000
_BID = re.compile(r"embedbroker (activation|start|withdrawn)=(\d{1,18})\.(\d{1,18}) (.+)\Z", re.ASCII | re.DOTALL)
_ANSWER = re.compile(r"embedbroker attempt=(\d{1,18}) (.*)\Z", re.ASCII | re.DOTALL)
# The holder of a grant that was given back; no connector has this name.
_NO_HOLDER = "nobody"


class DamagedGrants(Exception):
    """The text is not that of grants."""


@frozen
class VoteRequest:
    """The request of an asker to be the only broker that goes on from an epoch of a node.

    ``starts``: a primary begins. The whole cluster may begin with it, so voters need not have known it. ``withdrawn``:
    the asker did not get enough grants, and needs none any more. ``attempt`` distinguishes the rounds of one asker, and
    grows; 0: not given.
    """

    epoch: int
    asker: str
    starts: bool = field(default=False, eq=False)
    attempt: int = field(default=0, eq=False)
    withdrawn: bool = field(default=False, eq=False)

    def __str__(self) -> str:
        what = "withdrawn" if self.withdrawn else "start" if self.starts else "activation"
        return f"embedbroker {what}={self.epoch}.{self.attempt} {self.asker}"

    @classmethod
    def read(cls, text: str | None) -> VoteRequest | None:
        """Return the request in the text of a question; None for a question of Artemis."""
        match = _BID.match(text) if text is not None else None
        if match is None:
            return None
        what, epoch, attempt, asker = match.groups()
        return cls(int(epoch), asker, what == "start", int(attempt), what == "withdrawn")


def with_attempt(text: str | None, attempt: int) -> str | None:
    """Return the text of an answer with its attempt."""
    return f"embedbroker attempt={attempt} {text or ''}" if attempt else text


def without_attempt(text: str | None) -> tuple[str | None, int]:
    """Return the text and the attempt that `with_attempt` received; 0 for Artemis, whose answers contain no attempt."""
    match = _ANSWER.match(text) if text is not None else None
    return (match[2] or None, int(match[1])) if match is not None else (text, 0)


@frozen
class VoteGrants:
    """Hold the grants by node id, the oldest first."""

    given: dict[str, VoteRequest] = field(factory=dict)

    def has(self, node_id: str, request: VoteRequest) -> bool:
        """Return True if this very asker has the grant."""
        return self.given.get(node_id) == request

    def may_have(self, node_id: str, request: VoteRequest) -> bool:
        """Return True if no other asker has the grant, for that epoch or a later one."""
        given = self.given.get(node_id)
        if given is None or given == request:
            return True
        return given.epoch < request.epoch or given == VoteRequest(request.epoch, _NO_HOLDER)

    def after(self, node_id: str, request: VoteRequest) -> VoteGrants | None:
        """Return the grants after a request; None if it changes nothing."""
        given = self.given.get(node_id)
        has = given is not None and given == request
        if request.withdrawn:
            # A later attempt of the same asker may have won with that grant. Earlier epochs stay over.
            is_its = has and given is not None and given.attempt == request.attempt
            return self.with_grant(node_id, VoteRequest(request.epoch, _NO_HOLDER)) if is_its else None
        is_late = has and given is not None and given.attempt >= request.attempt
        return self.with_grant(node_id, request) if self.may_have(node_id, request) and not is_late else None

    def with_grant(self, node_id: str, request: VoteRequest) -> VoteGrants:
        """Return the grants, and one more."""
        given = {known: each for known, each in self.given.items() if known != node_id}
        given[node_id] = request
        for known in list(given)[: max(len(given) - _GRANTS_MAX, 0)]:
            del given[known]
        return VoteGrants(given)

    def text(self) -> bytes:
        """Return the content of a file."""
        lines = [b"\t".join(map(_escaped, (node_id, str(request)))) for node_id, request in self.given.items()]
        return b"\n".join([*lines, b"words: %d\n" % len(lines)])

    @classmethod
    def read(cls, text: bytes) -> VoteGrants:
        """Return the grants of a file.

        Raises:
            DamagedGrants: The text cannot be understood, or is not whole.
        """
        *lines, count, end = text.split(b"\n") if text.count(b"\n") else (b"", b"")
        if end or count != b"words: %d" % len(lines):
            raise DamagedGrants
        given: dict[str, VoteRequest] = {}
        for line in lines:
            node_id, _, request = line.partition(b"\t")
            found = VoteRequest.read(_plain(request))
            if found is None:
                raise DamagedGrants
            given[_plain(node_id)] = found
        return cls(given)


def _escaped(text: str) -> bytes:
    return text.encode("unicode_escape")


def _plain(text: bytes) -> str:
    try:
        return text.decode("unicode_escape")
    except UnicodeDecodeError:
        raise DamagedGrants from None
