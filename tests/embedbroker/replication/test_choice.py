"""Which live broker a backup joins."""

from __future__ import annotations

from embedbroker.replication._primary_choice import PrimaryChoice


def test_without_a_group_everybody_is_a_candidate_and_who_was_not_tried_goes_first() -> None:
    choice = PrimaryChoice(None, 2.0)
    assert choice.fits("a", None) and choice.fits("a", "group")
    assert choice.next(["a", "b"], 0.0) == "a"
    choice.tried("a", 0.0)
    assert choice.next(["a", "b"], 0.0) == "b"
    choice.tried("b", 1.0)
    assert choice.next(["a", "b"], 1.0) is None and choice.next_deadline(["a", "b"]) == 2.0
    assert choice.next(["a", "b"], 2.0) == "a"
    assert choice.next(["a", "b", "c"], 2.0) == "c"
    assert choice.next(["b"], 2.5) is None and choice.next(["b"], 3.0) == "b"


def test_of_a_group_only_its_members_are_candidates() -> None:
    choice = PrimaryChoice("east", 2.0)
    assert [choice.fits("a", name) for name in ("east", "west", None)] == [True, False, False]


def test_a_primary_that_returns_joins_nobody_but_the_broker_that_took_its_place() -> None:
    choice = PrimaryChoice("east", 2.0)
    choice.only = "a"
    assert choice.fits("a", None) and not choice.fits("b", "east")


def test_the_node_whose_copy_it_has_goes_first_as_long_as_it_was_not_tried() -> None:
    choice = PrimaryChoice(None, 2.0)
    choice.preferred = "b"
    assert choice.next(["a", "b"], 0.0) == "b"
    choice.tried("b", 0.0)
    assert choice.next(["a", "b"], 0.0) == "a"


def test_everybody_may_be_tried_again_when_something_changes() -> None:
    choice = PrimaryChoice(None, 2.0)
    choice.tried("a", 0.0)
    assert choice.next(["a"], 0.1) is None
    choice.forget()
    assert choice.next(["a"], 0.1) == "a"
