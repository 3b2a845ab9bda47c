"""Conclusions about a peer that may not count requests it answered with an exception."""

import pytest

from embedclient.engine.core import PeerCount


class Peer:
    """Processes packets in order; counts failed requests or not."""

    def __init__(self, counts_exceptions: bool) -> None:
        self.counts_exceptions = counts_exceptions
        self.processed = -1
        self.last_confirmed = -1

    def process(self, fails: bool = False) -> None:
        self.processed += 1
        if not fails or self.counts_exceptions:
            self.last_confirmed += 1


@pytest.mark.parametrize("counts_exceptions", [True, False])
def test_without_exceptions_the_numbers_are_taken_as_they_come(counts_exceptions: bool) -> None:
    count, peer = PeerCount(), Peer(counts_exceptions)
    for _ in range(5):
        peer.process()
    assert count.on_confirmed(peer.last_confirmed, sent=7) == 4
    assert count.certain_range(peer.last_confirmed, unanswered=8) == (4, 4)


@pytest.mark.parametrize("counts_exceptions", [True, False])
def test_reattach_after_exception(counts_exceptions: bool) -> None:
    """The history in the module: packet 3 failed, packet 4 was answered, the cut came after it."""
    count, peer = PeerCount(), Peer(counts_exceptions)
    for number in range(5):
        peer.process(fails=number == 3)
    count.on_exception(3)
    count.on_reply(4)
    assert count.certain_range(peer.last_confirmed, unanswered=5) == (4, 4)


@pytest.mark.parametrize("counts_exceptions", [True, False])
def test_an_open_question_is_reported_as_a_range(counts_exceptions: bool) -> None:
    """1. Packet 0 failed. 2. Packets 1 to 3 need no reply. 3. The peer is cut after packet 2."""
    count, peer = PeerCount(), Peer(counts_exceptions)
    for number in range(3):
        peer.process(fails=number == 0)
    count.on_exception(0)
    low, high = count.certain_range(peer.last_confirmed, unanswered=10)
    assert low <= 2 <= high
    assert low < high


@pytest.mark.parametrize("counts_exceptions", [True, False])
def test_a_confirmation_after_a_reply_tells_the_kind_of_the_peer_for_good(counts_exceptions: bool) -> None:
    count, peer = PeerCount(), Peer(counts_exceptions)
    peer.process(fails=True)
    count.on_exception(0)
    peer.process()
    count.on_reply(1)
    assert count.on_confirmed(peer.last_confirmed, sent=1) == 1
    # From here on a further exception leaves no question open.
    peer.process(fails=True)
    count.on_exception(2)
    peer.process()
    peer.process()
    assert count.certain_range(peer.last_confirmed, unanswered=100) == (4, 4)


@pytest.mark.parametrize("counts_exceptions", [True, False])
def test_a_confirmation_never_claims_more_than_was_processed(counts_exceptions: bool) -> None:
    count, peer = PeerCount(), Peer(counts_exceptions)
    for number in range(6):
        peer.process(fails=number in (1, 2))
        if number in (1, 2):
            count.on_exception(number)
        assert count.on_confirmed(peer.last_confirmed, sent=9) <= peer.processed
        low, high = count.certain_range(peer.last_confirmed, unanswered=10)
        assert low <= peer.processed <= high


def test_reset_forgets_the_kind_of_the_peer() -> None:
    count = PeerCount()
    count.on_exception(0)
    count.on_confirmed(-1, sent=0)
    count.reset()
    count.on_exception(0)
    assert count.certain_range(4, unanswered=10) == (4, 5)
