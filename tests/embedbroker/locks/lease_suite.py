"""What every lock manager does, as functions of one: run over all drivers, here and beside a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedbroker.locks import (
    GiveLease,
    KeepLease,
    Lease,
    LockFault,
    LockManagers,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)

__all__ = ["SUITE"]

KEY, OTHER = "9e6c1b2a-0f3b-11f1-b3a4-02fc00000001", "b0c8e6d4-0f3b-11f1-b3a4-02fc00000001"


def a_lease_has_one_holder_until_it_is_given_back(manager: LockManagers) -> None:
    first, second = manager.open("first"), manager.open("second")
    (lease,) = first.run((TakeLease(KEY),))
    assert isinstance(lease, Lease) and (lease.lasts_s is None or lease.lasts_s > 0)
    assert second.run((TakeLease(KEY), KeepLease(KEY), TakeLease(KEY))) == (None, None, None)
    assert first.run((GiveLease(KEY),)) == (None,)
    assert second.run((TakeLease(KEY),)) == (lease,)
    assert first.run((TakeLease(KEY), KeepLease(KEY))) == (None, None)
    first.close()
    second.close()


def who_has_a_lease_keeps_it_and_may_ask_again(manager: LockManagers) -> None:
    session = manager.open("first")
    answers = session.run((TakeLease(KEY), TakeLease(KEY), KeepLease(KEY)))
    assert all(isinstance(answer, Lease) for answer in answers)
    session.close()


def leases_of_different_keys_have_nothing_to_do_with_each_other(manager: LockManagers) -> None:
    first, second = manager.open("first"), manager.open("second")
    assert first.run((TakeLease(KEY),)) != (None,)
    assert second.run((TakeLease(OTHER),)) != (None,)
    first.run((GiveLease(KEY),))
    assert second.run((KeepLease(OTHER),)) != (None,)
    first.close()
    second.close()


def giving_back_what_is_not_held_is_no_fault_and_takes_nothing_from_others(manager: LockManagers) -> None:
    first, second = manager.open("first"), manager.open("second")
    first.run((TakeLease(KEY),))
    assert second.run((GiveLease(KEY), GiveLease(OTHER))) == (None, None)
    assert first.run((KeepLease(KEY),)) != (None,)
    first.close()
    second.close()


def the_holder_is_named_to_everybody_and_looking_takes_nothing(manager: LockManagers) -> None:
    first, second = manager.open("primary 'a'"), manager.open("backup 'b'")
    assert second.run((ReadLeaseHolder(KEY),)) == (None,)
    first.run((TakeLease(KEY),))
    for session in (first, second):
        (holder,) = session.run((ReadLeaseHolder(KEY),))
        assert str(holder).startswith("primary 'a'")
    first.run((GiveLease(KEY),))
    assert second.run((ReadLeaseHolder(KEY),)) == (None,)
    first.close()
    second.close()


def a_session_that_ends_in_order_has_given_everything_back_and_numbers_stay(manager: LockManagers) -> None:
    first, second = manager.open("first"), manager.open("second")
    first.run((TakeLease(KEY), TakeLease(OTHER), SwapSequence(KEY, 0, 5), GiveLease(KEY), GiveLease(OTHER)))
    first.close()
    first.close()
    taken, also, number = second.run((TakeLease(KEY), TakeLease(OTHER), ReadSequence(KEY)))
    assert taken is not None and also is not None and number == 5
    second.close()


def a_closed_session_does_nothing_more(manager: LockManagers) -> None:
    first, second = manager.open("first"), manager.open("second")
    first.close()
    with pytest.raises(LockFault, match="closed"):
        first.run((TakeLease(KEY),))
    assert second.run((TakeLease(KEY),)) != (None,)
    second.close()


def a_number_begins_with_nought_and_is_swapped_by_who_knows_it(manager: LockManagers) -> None:
    first, second = manager.open("first"), manager.open("second")
    assert first.run((ReadSequence(KEY), SwapSequence(KEY, 1, 2), SwapSequence(KEY, 0, -1))) == (0, False, True)
    assert second.run((ReadSequence(KEY), SwapSequence(KEY, 0, 7), SwapSequence(KEY, -1, 1))) == (-1, False, True)
    big = 2**63 - 1
    assert first.run((SwapSequence(KEY, 1, big), ReadSequence(KEY), ReadSequence(OTHER))) == (True, big, 0)
    first.close()
    second.close()


def a_key_that_leads_elsewhere_is_refused(manager: LockManagers) -> None:
    session = manager.open("first")
    for key in ("../elsewhere", "a/b"):
        with pytest.raises(LockFault, match="name"):
            session.run((TakeLease(key),))
    session.close()


SUITE: list[Callable[[LockManagers], None]] = [
    a_lease_has_one_holder_until_it_is_given_back,
    who_has_a_lease_keeps_it_and_may_ask_again,
    leases_of_different_keys_have_nothing_to_do_with_each_other,
    giving_back_what_is_not_held_is_no_fault_and_takes_nothing_from_others,
    the_holder_is_named_to_everybody_and_looking_takes_nothing,
    a_session_that_ends_in_order_has_given_everything_back_and_numbers_stay,
    a_closed_session_does_nothing_more,
    a_number_begins_with_nought_and_is_swapped_by_who_knows_it,
]
"""Each is called with an unused manager."""

FILES_AND_NODES: list[Callable[[LockManagers], None]] = [a_key_that_leads_elsewhere_is_refused]
"""Of managers whose keys become names."""
