"""Confirmation numbering, tested with two channels back to back."""

from hypothesis import given
from hypothesis import strategies as st

from embedclient.engine.core import Channel


def make_pair(window: int) -> tuple[Channel, Channel]:
    return Channel(10, window), Channel(10, window)


def test_a_channel_without_window_keeps_and_confirms_nothing() -> None:
    client, server = make_pair(-1)
    client.sent(b"x" * 100)
    assert client.sent_bytes_cached == 0
    assert server.received(100) is None
    assert server.flush() is None
    assert client.replay_after(-1) == []


def test_a_window_of_zero_confirms_every_packet_at_once() -> None:
    client, server = make_pair(0)
    for number in range(3):
        client.sent(b"frame")
        confirmed = server.received(5)
        assert confirmed == number
        assert client.on_confirmed(confirmed) == 1
    assert client.sent_bytes_cached == 0


def test_a_confirmation_is_due_when_the_received_bytes_reach_the_window() -> None:
    client, server = make_pair(20)
    frames = [bytes([65 + number]) * 8 for number in range(5)]
    due = []
    for frame in frames:
        client.sent(frame)
        due.append(server.received(len(frame)))
    assert due == [None, None, 2, None, None]
    assert client.on_confirmed(2) == 3
    assert client.sent_bytes_cached == 16
    assert server.flush() == 4
    assert server.flush() is None


def test_reattachment_replays_exactly_what_the_peer_did_not_process() -> None:
    client, server = make_pair(1 << 20)
    frames = [f"frame {number}".encode() for number in range(6)]
    for frame in frames:
        client.sent(frame)
    for frame in frames[:4]:
        assert server.received(len(frame)) is None
    assert client.replay_after(server.last_confirmed) == frames[4:]
    for frame in frames[4:]:
        server.received(len(frame))
    assert server.last_confirmed == 5
    assert client.on_confirmed(5) == 2


def test_a_stale_confirmation_drops_nothing() -> None:
    client, _ = make_pair(100)
    for _ in range(4):
        client.sent(b"1234")
    assert client.on_confirmed(2) == 3
    assert client.on_confirmed(1) == 0
    assert client.on_confirmed(2) == 0
    assert client.sent_bytes_cached == 4


def test_a_confirmation_beyond_everything_sent_makes_both_numberings_agree() -> None:
    client, _ = make_pair(100)
    client.sent(b"1234")
    assert client.on_confirmed(5) == 1
    assert client.next_command_id == 6
    client.sent(b"seven")
    assert client.on_confirmed(5) == 0
    assert client.on_confirmed(6) == 1


def test_reset_starts_both_directions_at_zero() -> None:
    client, _ = make_pair(100)
    client.sent(b"1234")
    client.received(4)
    client.reset()
    assert (client.last_confirmed, client.next_command_id, client.sent_bytes_cached) == (-1, 0, 0)
    assert client.flush() is None


def test_the_limit_of_the_resend_cache_is_reported() -> None:
    channel = Channel(10, 1 << 20, resend_bytes_max=10)
    seen = []
    for step in (channel.sent, channel.sent, lambda _: channel.on_confirmed(0)):
        step(b"12345678")
        seen.append(channel.over_limit)
    assert seen == [False, True, False]


def test_a_frame_is_kept_as_the_pieces_it_was_sent_in() -> None:
    channel = Channel(10, 1 << 20)
    body = bytearray(b"a long message")
    channel.sent(b"head", body, b"tail")
    channel.sent(b"next")
    assert (channel.sent_bytes_cached, channel.kept_count) == (26, 2)
    pieces = channel.replay_after(-1)
    assert pieces == [b"head", body, b"tail", b"next"] and pieces[1] is body
    assert channel.on_confirmed(0) == 1
    assert channel.sent_bytes_cached == 4


def test_a_channel_that_stops_keeping_goes_on_counting() -> None:
    client, server = make_pair(100)
    for _ in range(3):
        client.sent(b"1234")
    assert client.keeps
    client.stop_keeping()
    assert (client.keeps, client.sent_bytes_cached, client.kept_count) == (False, 0, 0)
    client.sent(b"1234")
    assert client.next_command_id == 4
    assert client.on_confirmed(2) == 0
    assert client.next_command_id == 4
    assert client.received(100) == 0
    assert not server.received(1)


def test_command_ids_wrap_around_like_signed_32_bit_numbers() -> None:
    client, server = make_pair(0)
    last = 2**31 - 2
    client.on_confirmed(last)
    server.last_confirmed = last
    for expected in (2**31 - 1, -(2**31), -(2**31) + 1):
        client.sent(b"frame")
        confirmed = server.received(5)
        assert confirmed == expected
        assert client.on_confirmed(confirmed) == 1
    assert client.next_command_id == 2**31 + 2


@given(
    window=st.integers(0, 60),
    sizes=st.lists(st.integers(1, 30), max_size=40),
    lost_from=st.integers(0, 40),
    confirmations_arrive=st.booleans(),
)
def test_nothing_is_lost_or_repeated_over_one_cut(
    window: int, sizes: list[int], lost_from: int, confirmations_arrive: bool
) -> None:
    client, server = make_pair(window)
    frames = [bytes([number]) * size for number, size in enumerate(sizes)]
    received: list[bytes | bytearray] = []
    for sent in frames:
        client.sent(sent)
    for frame in frames[:lost_from]:
        received.append(frame)
        confirmed = server.received(len(frame))
        if confirmed is not None and confirmations_arrive:
            client.on_confirmed(confirmed)
    for again in client.replay_after(server.last_confirmed):
        received.append(again)
        server.received(len(again))
    assert received == frames
    assert client.replay_after(server.last_confirmed) == []
    assert client.sent_bytes_cached == 0
