"""Diverts and wildcard queues that come and go, in step with a naive model of where each message goes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from embedbroker.config import DivertConfiguration
from embedbroker.kernel import Divert, Refused
from embedbroker.kernel.settling._diversion import DIVERT_DEPTH_MAX

from ..letters import letter
from ..stage import MULTICAST, Stage

NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(".".join)
PATTERNS = st.lists(st.sampled_from("ab*#"), min_size=1, max_size=3).map(".".join)
QUEUES = st.integers(0, 5).map("q{}".format)
DIVERTS = st.integers(0, 3).map("d{}".format)


class Loop(Exception):
    """A message would be diverted for ever."""


def matches(pattern: str, name: str) -> bool:
    """Whether a binding of one address takes a message of another."""

    def all_words(left: list[str], words: list[str]) -> bool:
        if not left:
            return not words
        if left[0] == "#":
            return any(all_words(left[1:], words[count:]) for count in range(len(words) + 1))
        return bool(words) and left[0] in ("*", words[0]) and all_words(left[1:], words[1:])

    return pattern == name or all_words(pattern.split("."), name.split("."))


class Routing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.queues: dict[str, str] = {}
        self.diverts: dict[str, tuple[str, str, bool]] = {}
        self.waiting: Counter[str] = Counter()

    def targets(self, name: str, depth: int = 0) -> Counter[str]:
        """The queues that one message comes to, its copies too."""
        taking = [each for each in self.diverts.values() if matches(each[0], name)]
        if taking and depth >= DIVERT_DEPTH_MAX:
            raise Loop
        exclusive = [each for each in taking if each[2]]
        found: Counter[str] = Counter()
        if not exclusive:
            found.update(queue for queue, address in self.queues.items() if matches(address, name))
        for _, forwarding, _ in exclusive or taking:
            found += self.targets(forwarding, depth + 1)
        return found

    @rule(name=QUEUES, address=PATTERNS)
    def bind(self, name: str, address: str) -> None:
        if name not in self.queues:
            self.stage.queue(name, address, MULTICAST)
            self.queues[name] = address

    @rule(name=QUEUES)
    @precondition(lambda self: self.queues)
    def unbind(self, name: str) -> None:
        if self.queues.pop(name, None) is not None:
            self.stage.kernel.teardown.delete_queue(self.stage.kernel.address_manager.queues[name])
            del self.waiting[name]

    @rule(name=DIVERTS, address=PATTERNS, forwarding=NAMES, exclusive=st.booleans())
    def divert(self, name: str, address: str, forwarding: str, exclusive: bool) -> None:
        if name not in self.diverts and address != forwarding:
            wanted = DivertConfiguration(address, forwarding, exclusive=exclusive)
            assert isinstance(self.stage.kernel.diverts.create(name, wanted), Divert)
            self.diverts[name] = address, forwarding, exclusive

    @rule(name=DIVERTS)
    @precondition(lambda self: self.diverts)
    def undivert(self, name: str) -> None:
        known = self.diverts.pop(name, None) is not None
        assert isinstance(self.stage.kernel.diverts.remove(name), Divert if known else Refused)

    @rule(name=NAMES, typed=st.booleans())
    def send(self, name: str, typed: bool) -> None:
        answer = self.stage.kernel.router.send(letter("m", name), MULTICAST if typed else None, None)
        try:
            self.waiting += self.targets(name)
        except Loop:
            assert isinstance(answer, Refused)
        else:
            assert answer is None

    @invariant()
    def messages_are_where_the_model_has_them(self) -> None:
        self.stage.run_all()
        self.stage.kernel.check()
        found = {name: len(self.stage.waiting(name)) for name in self.queues}
        assert found == {name: self.waiting[name] for name in self.queues}
        shared = self.stage.kernel.memory.statistics()
        assert (shared.used_bytes > 0) == (sum(found.values()) > 0)


TestRouting = pytest.mark.search(Routing.TestCase)
TestRouting.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
