"""The ledger's rules, one by one: what it receives, and what it must conclude."""

from __future__ import annotations

import pytest

from embedbroker.ledger import Finding, Ledger, TimelineBucket


def queue_ledger(count: int = 0, *, confirmed: bool = True, producer: str = "p") -> Ledger:
    """A ledger with one queue ``q`` and ``count`` messages ``m0``... on it."""
    ledger = Ledger()
    ledger.subscribe("q", "q")
    for number in range(count):
        ledger.sent(f"m{number}", "q", 0.0, producer=producer)
        if confirmed:
            ledger.confirmed(f"m{number}", 0.5)
    return ledger


def consume(ledger: Ledger, key: str, *, redelivered: bool = False, subscription: str = "q") -> Finding:
    finding = ledger.delivered(subscription, key, 1.0, redelivered=redelivered, consumer="c")
    ledger.acknowledging(subscription, key)
    ledger.acknowledged(subscription, key, 1.0)
    return finding


def test_a_message_that_is_sent_delivered_and_acknowledged_once_is_clean() -> None:
    ledger = queue_ledger(3)
    assert [consume(ledger, f"m{number}") for number in range(3)] == [Finding.NONE] * 3
    verdict = ledger.verdict(drained=True)
    assert verdict.clean
    assert (verdict.sent, verdict.confirmed, verdict.delivered, verdict.acknowledged) == (3, 3, 3, 3)


def test_a_confirmed_message_that_never_arrives_is_lost() -> None:
    ledger = queue_ledger(2)
    consume(ledger, "m1")
    assert ledger.missing("q") == ["m0"]
    assert ledger.verdict(drained=False).nothing_lost
    verdict = ledger.verdict(drained=True)
    assert (verdict.lost.count, verdict.lost.keys) == (1, ("m0",))
    assert not verdict.clean
    assert verdict.losses() == {"lost": verdict.lost}


def test_a_change_of_the_filter_counts_from_its_end_on() -> None:
    ledger = queue_ledger(2)
    ledger.sent("m2", "q", 0.6)  # on its way: it may come to the old filter, or to the new one
    ledger.suspend("q", keeps_messages=True)
    ledger.sent("m3", "q", 0.7, reaches=())
    for key in ("m2", "m3"):
        ledger.confirmed(key, 0.8)
    ledger.resume("q", keeps_messages=True)
    for key, reaches in (("m4", ()), ("m5", ("q",))):
        ledger.sent(key, "q", 0.9, reaches=reaches)
        ledger.confirmed(key, 1.0)
    assert ledger.missing("q") == ["m0", "m1", "m5"]
    assert [consume(ledger, key) for key in ("m2", "m3")] == [Finding.NONE] * 2
    assert consume(ledger, "m4") == Finding.MISROUTED


def test_a_purge_excuses_what_was_sent_before_its_end() -> None:
    ledger = queue_ledger(2)
    ledger.purging("q")
    ledger.sent("m2", "q", 0.6)
    ledger.confirmed("m2", 0.7)
    assert ledger.missing("q") == []  # any of them may be gone by now
    ledger.purged("q", ["m1"])
    ledger.sent("m3", "q", 0.8)
    ledger.confirmed("m3", 0.9)
    assert ledger.missing("q") == ["m1", "m3"]
    assert consume(ledger, "m0") == Finding.NONE


def test_a_purge_with_a_filter_excuses_only_what_matches() -> None:
    def spares(key: str) -> bool:
        return key in ("m1", "m3")

    ledger = queue_ledger(2)
    ledger.purging("q", spares)
    for number in (2, 3):
        ledger.sent(f"m{number}", "q", 0.6)
        ledger.confirmed(f"m{number}", 0.7)
    assert ledger.missing("q") == ["m1", "m3"]  # at any time, also while the purge is under way
    ledger.purged("q", ["m2"], spares)
    assert ledger.missing("q") == ["m1", "m2", "m3"]
    assert ledger.verdict(drained=True).lost.keys == ("m1", "m2", "m3")


def test_a_purge_of_everything_beside_one_with_a_filter_excuses_everything() -> None:
    def spares(key: str) -> bool:
        return True

    ledger = queue_ledger(1)
    ledger.purging("q", spares)
    ledger.purging("q")
    assert ledger.missing("q") == []
    ledger.purged("q", ["m0"])
    assert ledger.missing("q") == ["m0"]
    ledger.purged("q", spares=spares)
    assert ledger.missing("q") == ["m0"]


def test_an_unanswered_or_doubtful_send_that_never_arrives_is_not_lost() -> None:
    ledger = queue_ledger(2, confirmed=False)
    ledger.in_doubt("m1")
    verdict = ledger.verdict(drained=True)
    assert verdict.clean
    assert (verdict.unanswered, verdict.in_doubt.keys) == (1, ("m1",))


def test_a_message_in_doubt_that_somebody_saw_must_not_vanish() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.in_doubt("m0")
    ledger.delivered("q", "m0", 1.0)
    assert ledger.verdict(drained=True).vanished.keys == ("m0",)


def test_a_rolled_back_acknowledgement_must_be_followed_by_another_delivery() -> None:
    ledger = queue_ledger(1)
    ledger.delivered("q", "m0", 1.0)
    ledger.acknowledging("q", "m0", transaction="t")
    assert ledger.open_transactions == 1
    ledger.rolled_back("t")
    assert ledger.verdict(drained=True).vanished.keys == ("m0",)
    assert consume(ledger, "m0", redelivered=True) == Finding.REDELIVERED
    assert ledger.verdict(drained=True).clean


def test_the_second_delivery_is_judged_by_flag_and_history() -> None:
    ledger = queue_ledger(6)
    for number in range(6):
        ledger.delivered("q", f"m{number}", 1.0, consumer="c")
    assert ledger.delivered("q", "m0", 2.0) == Finding.DUPLICATED_UNFLAGGED
    assert ledger.delivered("q", "m1", 2.0, redelivered=True) == Finding.REDELIVERED
    ledger.interrupted("q", ["m2"])
    assert ledger.delivered("q", "m2", 2.0) == Finding.RETURNED
    assert ledger.delivered("q", "m2", 2.0) == Finding.DUPLICATED_UNFLAGGED
    ledger.acknowledging("q", "m3")
    ledger.acknowledgement_in_doubt("q", "m3")
    assert ledger.delivered("q", "m3", 2.0, redelivered=True) == Finding.DUPLICATED_FLAGGED
    ledger.acknowledging("q", "m4")
    ledger.acknowledged("q", "m4", 2.0)
    assert ledger.delivered("q", "m4", 2.0, redelivered=True) == Finding.REAPPEARED
    ledger.killed(3.0)
    assert ledger.delivered("q", "m5", 4.0) == Finding.AFTER_RESTART
    verdict = ledger.verdict(drained=False)
    assert verdict.duplicated_unflagged.keys == ("m0", "m2")
    assert set(verdict.faults()) == {"duplicated_unflagged", "reappeared"}
    assert not verdict.clean


def test_a_message_that_was_given_back_may_move_and_loses_its_mark() -> None:
    ledger = queue_ledger(3)
    for number in range(3):
        ledger.delivered("q", f"m{number}", 1.0, broker="a")
    assert ledger.delivered("q", "m0", 2.0, broker="b") == Finding.DUPLICATED_UNFLAGGED
    ledger.interrupted("q")
    assert ledger.delivered("q", "m1", 3.0, broker="a") == Finding.DUPLICATED_UNFLAGGED
    assert ledger.delivered("q", "m2", 3.0, broker="b") == Finding.MOVED
    ledger.acknowledging("q", "m2")
    ledger.acknowledged("q", "m2", 3.5)
    assert ledger.delivered("q", "m2", 4.0, broker="a") == Finding.REAPPEARED
    verdict = ledger.verdict(drained=False)
    assert verdict.moved.keys == ("m2",)
    assert set(verdict.faults()) == {"duplicated_unflagged", "reappeared"}


def test_copies_of_a_resent_message_have_a_verdict_of_their_own() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.in_doubt("m0")
    ledger.resent("m0", 1.0)
    ledger.confirmed("m0", 1.5)
    assert consume(ledger, "m0") == Finding.NONE
    assert consume(ledger, "m0") == Finding.RESEND
    assert consume(ledger, "m0") == Finding.DUPLICATED_UNFLAGGED
    verdict = ledger.verdict(drained=True)
    assert (verdict.resent.keys, verdict.resend_duplicates.count) == (("m0",), 1)


def test_no_second_copy_of_a_message_that_is_taken_once_is_excused() -> None:
    ledger = queue_ledger(2, confirmed=False)
    for key in ("m0", "m1"):
        ledger.in_doubt(key)
        ledger.resent(key, 1.0, once=True)
    ledger.confirmed("m0", 1.5)
    assert consume(ledger, "m0") == Finding.NONE
    assert consume(ledger, "m0") == Finding.REAPPEARED
    # Although this one is refused, the first may have been taken.
    ledger.refused("m1")
    assert consume(ledger, "m1") == Finding.NONE


def test_sending_again_after_a_refusal_is_not_a_resend() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.refused("m0")
    assert ledger.delivered("q", "m0", 1.0) == Finding.PHANTOM
    ledger.resent("m0", 1.0)
    ledger.sent("m1", "q", 1.0, producer="p")
    ledger.delivered("q", "m1", 1.0)
    assert ledger.delivered("q", "m0", 2.0) == Finding.DUPLICATED_UNFLAGGED
    ledger.confirmed("m0", 2.0)
    assert not ledger.verdict(drained=False).resent


def test_order_holds_per_producer_priority_and_consumer() -> None:
    ledger = Ledger()
    ledger.subscribe("q", "q")
    for key, producer, priority in [("a", "p", 4), ("b", "p", 4), ("c", "p", 9), ("d", "r", 4)]:
        ledger.sent(key, "q", 0.0, producer=producer, priority=priority)
    assert ledger.delivered("q", "d", 1.0, consumer="1") == Finding.NONE
    assert ledger.delivered("q", "c", 1.0, consumer="1") == Finding.NONE
    assert ledger.delivered("q", "b", 1.0, consumer="1") == Finding.NONE
    assert ledger.delivered("q", "a", 1.0, consumer="1") == Finding.REORDERED


def test_send_in_doubt_may_come_behind_those_of_the_next_session() -> None:
    ledger = queue_ledger(3)
    ledger.in_doubt("m0")
    ledger.confirmed("m1", 1.0)
    ledger.confirmed("m2", 1.0)
    assert ledger.delivered("q", "m2", 2.0, consumer="a") == Finding.NONE
    assert ledger.delivered("q", "m0", 3.0, consumer="a") == Finding.NONE
    assert ledger.delivered("q", "m1", 3.0, consumer="a") == Finding.REORDERED


def test_messages_another_consumer_gave_back_may_come_late() -> None:
    ledger = queue_ledger(2)
    ledger.delivered("q", "m1", 1.0, consumer="a")
    ledger.interrupted("q")
    assert ledger.delivered("q", "m0", 1.0, consumer="a") == Finding.NONE
    ledger.sent("m2", "q", 2.0, producer="p")
    ledger.sent("m3", "q", 2.0, producer="p")
    ledger.delivered("q", "m3", 3.0, consumer="a")
    assert ledger.delivered("q", "m2", 3.0, consumer="a") == Finding.REORDERED


def test_a_subscription_is_promised_what_its_filter_takes_while_it_is_open() -> None:
    ledger = Ledger()
    ledger.sent("before", "t", 0.0)
    ledger.subscribe("red", "t")
    ledger.subscribe("blue", "t")
    ledger.sent("one", "t", 0.0, reaches=["red"])
    ledger.suspend("red")
    ledger.sent("two", "t", 0.0)
    for key in ("before", "one", "two"):
        ledger.confirmed(key, 0.0)
    assert (ledger.missing("red"), ledger.missing("blue")) == ([], ["two"])
    assert ledger.delivered("blue", "before", 1.0) == Finding.NONE
    assert ledger.delivered("blue", "one", 1.0) == Finding.MISROUTED
    ledger.resume("red")
    ledger.sent("three", "t", 2.0)
    ledger.confirmed("three", 2.0)
    assert ledger.missing("red") == ["three"]


def test_expired_messages_are_not_lost_and_must_not_be_delivered() -> None:
    ledger = Ledger(expiry_tolerance_s=0.1)
    ledger.subscribe("q", "q")
    for key in ("early", "edge", "late", "never"):
        ledger.sent(key, "q", 0.0, expires_at=1.0)
        ledger.confirmed(key, 0.0)
    assert ledger.delivered("q", "early", 0.9) == Finding.NONE
    assert ledger.delivered("q", "edge", 1.05) == Finding.NONE
    assert ledger.delivered("q", "late", 2.0) == Finding.LATE
    verdict = ledger.verdict(drained=True)
    assert verdict.nothing_lost
    assert verdict.expired == 1


@pytest.mark.parametrize(
    ("durable", "subscription_is_durable", "expected"),
    [
        (True, True, Finding.DUPLICATED_UNFLAGGED),
        (False, True, Finding.AFTER_RESTART),
        (True, False, Finding.AFTER_RESTART),
    ],
)
def test_counts_survive_a_kill_with_their_messages(
    durable: bool, subscription_is_durable: bool, expected: Finding
) -> None:
    """A message that was not durable, or in no durable queue, and was sent again with its id, has a separate count."""
    ledger = Ledger(counts_survive=True)
    ledger.subscribe("q", "q", durable=subscription_is_durable)
    ledger.sent("m", "q", 0.0, durable=durable)
    assert ledger.delivered("q", "m", 1.0) == Finding.NONE
    ledger.killed(2.0)
    ledger.resent("m", 3.0, once=True)
    assert ledger.delivered("q", "m", 4.0) == expected


def test_non_durable_messages_may_be_lost_by_a_kill_but_not_without_one() -> None:
    ledger = Ledger()
    ledger.subscribe("q", "q")
    ledger.sent("a", "q", 0.0, durable=False)
    ledger.confirmed("a", 0.0)
    ledger.killed(1.0)
    ledger.sent("b", "q", 2.0, durable=False)
    ledger.confirmed("b", 2.0)
    assert ledger.verdict(drained=True).lost.keys == ("b",)


def test_a_dead_lettered_message_is_settled() -> None:
    ledger = queue_ledger(1)
    ledger.dead_lettered("q", "m0")
    verdict = ledger.verdict(drained=True)
    assert verdict.clean
    assert verdict.dead_lettered == 1


def test_the_sends_of_a_rolled_back_transaction_are_phantoms_when_seen() -> None:
    ledger = Ledger()
    ledger.subscribe("q", "q")
    ledger.sent("a", "q", 0.0, transaction="t")
    ledger.rolled_back("t")
    assert ledger.delivered("q", "a", 1.0) == Finding.PHANTOM
    assert ledger.delivered("q", "unheard of", 1.0) == Finding.PHANTOM
    assert ledger.verdict(drained=False).phantom.keys == ("a", "unheard of")


def test_a_committed_transaction_confirms_its_sends_and_acknowledgements() -> None:
    ledger = queue_ledger(1)
    ledger.delivered("q", "m0", 1.0)
    ledger.acknowledging("q", "m0", transaction="t")
    ledger.sent("a", "q", 1.0, transaction="t")
    ledger.committed("t", 2.0)
    assert ledger.delivered("q", "m0", 3.0, redelivered=True) == Finding.REAPPEARED
    assert ledger.missing("q") == ["m0", "a"]


@pytest.mark.parametrize(
    ("send_seen", "again", "torn"),
    [(True, False, False), (False, True, False), (True, True, True), (False, False, True)],
)
def test_a_commit_in_doubt_happens_whole_or_not_at_all(send_seen: bool, again: bool, torn: bool) -> None:
    ledger = queue_ledger(1)
    ledger.delivered("q", "m0", 1.0)
    ledger.acknowledging("q", "m0", transaction="t")
    ledger.sent("a", "q", 1.0, transaction="t")
    ledger.transaction_in_doubt("t")
    if again:
        consume(ledger, "m0", redelivered=True)
    if send_seen:
        consume(ledger, "a")
    verdict = ledger.verdict(drained=True)
    assert bool(verdict.torn_transactions) is torn
    assert not verdict.lost


@pytest.mark.parametrize(("killed", "missing"), [(True, ["a"]), (False, ["m0", "a"])])
def test_what_a_life_showed_that_was_undone_with_it_says_nothing_of_a_commit(killed: bool, missing: list[str]) -> None:
    """1. An operator rolls back. 2. The message is shown again. 3. Only a kill undoes that; then a commit may hold."""
    ledger = queue_ledger(1)
    ledger.delivered("q", "m0", 1.0)
    ledger.acknowledging("q", "m0", transaction="t")
    ledger.sent("a", "q", 1.0, transaction="t")
    ledger.delivered("q", "m0", 2.0, redelivered=True)
    if killed:
        ledger.killed(3.0)
    ledger.transaction_in_doubt("t", shown_in_vain=True)
    assert ledger.delivered("q", "a", 4.0) == Finding.NONE
    assert ledger.missing("q") == missing
    assert bool(ledger.verdict(drained=True).torn_transactions) is not killed


def test_a_batch_ends_as_a_transaction_does_and_is_none() -> None:
    ledger = queue_ledger(2)
    for key in ("m0", "m1"):
        ledger.delivered("q", key, 1.0)
        ledger.acknowledging("q", key, batch="b")
    assert (ledger.open_transactions, ledger.killed(2.0).open_transactions) == (0, 0)
    assert not ledger.committed("b", 3.0)
    assert ledger.verdict(drained=True).acknowledged == 2


def test_a_kill_tells_what_it_met_and_how_long_recovery_took() -> None:
    ledger = queue_ledger(2, confirmed=False)
    ledger.sent("a", "q", 1.0, transaction="t")
    kill = ledger.killed(10.0)
    assert (kill.unconfirmed_sends, kill.open_transactions) == (3, 1)
    ledger.delivered("q", "m0", 10.1)  # out of a client's buffer
    ledger.restarted(11.0)
    ledger.delivered("q", "m0", 11.5, stale=True)  # from a buffer, too: its consumer is not connected yet
    ledger.delivered("q", "m1", 12.0)
    ledger.killed(20.0)
    ledger.restarted(20.5)
    ledger.delivered("q", "a", 21.0)
    ledger.killed(30.0)
    verdict = ledger.verdict(drained=False)
    assert [kill.recovery_s for kill in verdict.kills] == [2.0, 1.0, None]
    assert verdict.recovery_s == (1.0, 1.5, 2.0)


def test_while_a_consumer_gives_back_there_is_no_order() -> None:
    ledger = queue_ledger(6)
    ledger.giving_back("q")
    ledger.giving_back("q")
    assert not ledger.delivered("q", "m1", 2.0)
    assert not ledger.delivered("q", "m0", 2.0)
    ledger.gave_back("q")
    assert not ledger.delivered("q", "m3", 2.0)
    assert not ledger.delivered("q", "m2", 2.0)
    ledger.gave_back("q")
    ledger.sent("late", "q", 3.0)
    ledger.sent("later", "q", 3.0)
    assert not ledger.delivered("q", "later", 4.0)
    assert ledger.delivered("q", "late", 4.0) is Finding.REORDERED


def test_the_timeline_counts_per_slice() -> None:
    ledger = queue_ledger(1)
    consume(ledger, "m0")
    timeline = ledger.timeline()
    assert timeline.buckets == {0: TimelineBucket(1, 1, 0, 0), 1: TimelineBucket(0, 0, 1, 1)}


def test_examples_are_bounded_and_counts_are_not() -> None:
    ledger = Ledger(examples_max=2)
    ledger.subscribe("q", "q")
    for number in range(5):
        ledger.sent(f"m{number}", "q", 0.0)
        ledger.confirmed(f"m{number}", 0.0)
    lost = ledger.verdict(drained=True).lost
    assert (lost.count, lost.keys) == (5, ("m0", "m1"))


def test_what_a_browser_saw_must_not_vanish() -> None:
    ledger = queue_ledger(3, confirmed=False)
    ledger.refused("m2")
    assert [ledger.shown("q", key) for key in ("m0", "m2", "unheard of")] == [
        Finding.NONE,
        Finding.PHANTOM,
        Finding.PHANTOM,
    ]
    assert ledger.missing("q") == ["m0"]


def test_an_inspection_must_not_find_what_was_acknowledged() -> None:
    ledger = queue_ledger(1)
    consume(ledger, "m0")
    assert ledger.shown("q", "m0") == Finding.NONE
    assert ledger.shown("q", "m0", now_held=True) == Finding.REAPPEARED


def test_an_acknowledgement_confirmed_after_the_message_went_to_another_consumer_is_a_fault() -> None:
    ledger = queue_ledger(2)
    for number in range(2):
        ledger.delivered("q", f"m{number}", 1.0, consumer="a")
    ledger.acknowledging("q", "m0")
    ledger.acknowledging("q", "m1", transaction="t")
    for number in range(2):
        ledger.delivered("q", f"m{number}", 2.0, redelivered=True, consumer="b")
    assert ledger.acknowledged("q", "m0", 3.0) == Finding.REAPPEARED
    assert ledger.committed("t", 3.0) == Finding.REAPPEARED


def test_a_late_rollback_does_not_undo_the_acknowledgement_of_the_next_consumer() -> None:
    ledger = queue_ledger(1)
    ledger.delivered("q", "m0", 1.0)
    ledger.acknowledging("q", "m0", transaction="t")
    assert consume(ledger, "m0", redelivered=True) == Finding.DUPLICATED_FLAGGED
    ledger.rolled_back("t")
    assert ledger.verdict(drained=True).clean


def test_a_message_sent_again_has_left_its_place_in_the_order() -> None:
    ledger = queue_ledger(3, confirmed=False)
    ledger.refused("m0")
    ledger.resent("m0", 1.0)
    assert [ledger.delivered("q", key, 2.0) for key in ("m1", "m2", "m0")] == [Finding.NONE] * 3


def test_what_a_consumer_shows_that_the_broker_has_given_up_proves_nothing() -> None:
    ledger = queue_ledger(2)
    consume(ledger, "m0")
    assert ledger.delivered("q", "m0", 1.0, stale=True) == Finding.NONE
    assert ledger.verdict(drained=False).clean
    ledger.refused("m1")
    assert ledger.delivered("q", "m1", 1.0, stale=True) == Finding.PHANTOM


def test_a_first_delivery_is_not_flagged_unless_somebody_may_have_given_the_message_back() -> None:
    ledger = queue_ledger(1)
    ledger.interrupted("q")
    ledger.sent("new", "q", 1.0)
    assert ledger.delivered("q", "m0", 2.0, redelivered=True) == Finding.NONE
    assert ledger.delivered("q", "new", 2.0, redelivered=True) == Finding.FLAGGED_AT_ONCE


def test_a_dead_lettered_message_must_not_come_back() -> None:
    ledger = queue_ledger(1)
    ledger.dead_lettered("q", "m0")
    assert ledger.shown("q", "m0", now_held=True) == Finding.REAPPEARED
    assert ledger.delivered("q", "m0", 1.0, redelivered=True) == Finding.REAPPEARED


def test_after_a_restart_every_copy_of_a_resent_message_may_come_once_more() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.in_doubt("m0")
    ledger.resent("m0", 1.0)
    findings = [ledger.delivered("q", "m0", 2.0) for _ in range(2)]
    ledger.killed(3.0)
    findings += [ledger.delivered("q", "m0", 4.0) for _ in range(3)]
    again = [Finding.AFTER_RESTART, Finding.RESEND, Finding.DUPLICATED_UNFLAGGED]
    assert findings == [Finding.NONE, Finding.RESEND, *again]


def test_a_refused_resend_leaves_the_first_send_in_doubt() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.in_doubt("m0")
    ledger.resent("m0", 1.0, transaction="t")
    ledger.rolled_back("t")
    assert ledger.delivered("q", "m0", 2.0) == Finding.NONE
    assert ledger.verdict(drained=False).in_doubt.keys == ("m0",)


def test_a_dead_letter_does_not_tell_whether_its_transaction_was_committed() -> None:
    ledger = queue_ledger(2)
    for number in range(2):
        ledger.delivered("q", f"m{number}", 1.0)
        ledger.acknowledging("q", f"m{number}", transaction="t")
    ledger.transaction_in_doubt("t")
    ledger.dead_lettered("q", "m0")
    consume(ledger, "m1", redelivered=True)
    assert ledger.verdict(drained=True).clean


def test_with_a_reader_of_expiry_addresses_an_expiring_message_can_be_missed() -> None:
    ledger = Ledger(expiries_are_found=True)
    ledger.subscribe("q", "q")
    for key in ("found", "missed", "early"):
        ledger.sent(key, "q", 0.0, expires_at=1.0)
        ledger.confirmed(key, 0.0)
    assert ledger.expired("q", "found", 1.0) == Finding.NONE
    assert ledger.expired("q", "early", 0.5) == Finding.EXPIRED_EARLY
    verdict = ledger.verdict(drained=True)
    assert verdict.lost.keys == ("missed",)
    assert verdict.expired_early.keys == ("early",)
    assert ledger.delivered("q", "found", 0.9) == Finding.REAPPEARED


def test_each_copy_of_a_resent_message_can_be_given_back() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.in_doubt("m0")
    ledger.resent("m0", 1.0)
    findings = [ledger.delivered("q", "m0", 2.0) for _ in range(2)]
    ledger.interrupted("q", ["m0", "m0"])
    findings += [ledger.delivered("q", "m0", 3.0) for _ in range(2)]
    assert Finding.DUPLICATED_UNFLAGGED not in findings
    ledger.delivered("q", "m0", 4.0)
    assert ledger.verdict(drained=False).duplicated_unflagged.count == 1


def test_a_flagged_copy_after_a_restart_does_not_use_up_what_the_others_may_do() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.in_doubt("m0")
    ledger.resent("m0", 1.0)
    findings = [ledger.delivered("q", "m0", 2.0) for _ in range(2)]
    ledger.killed(3.0)
    findings.append(ledger.delivered("q", "m0", 4.0, redelivered=True))
    findings += [ledger.delivered("q", "m0", 5.0) for _ in range(2)]
    assert Finding.DUPLICATED_UNFLAGGED not in findings


def test_a_copy_given_back_before_the_resend_may_come_again_beside_the_other() -> None:
    ledger = queue_ledger(1, confirmed=False)
    ledger.delivered("q", "m0", 1.0)
    ledger.interrupted("q", ["m0"])
    ledger.in_doubt("m0")
    ledger.resent("m0", 2.0)
    findings = [ledger.delivered("q", "m0", 3.0) for _ in range(3)]
    assert [Finding.DUPLICATED_UNFLAGGED in finding for finding in findings] == [False, False, True]
