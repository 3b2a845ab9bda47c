"""Cutting a stream into frames: boundaries, limits, and what is held meanwhile."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import FRAME_HEADER, FrameSplitter, frame_spans


def frame(body_size: int) -> bytes:
    return FRAME_HEADER.pack(9 + body_size, 10, 0) + bytes(body_size)


def cut(splitter: FrameSplitter, data: bytes) -> list[bytes]:
    buffer, headers = splitter.feed(data)
    return [bytes(buffer[start:end]) for start, end in frame_spans(headers)]


def test_data_of_whole_frames_comes_back_uncopied() -> None:
    data = frame(8) + frame(0)
    buffer, headers = FrameSplitter().feed(data)
    assert buffer is data
    assert headers == [(17, 10, 0), (9, 10, 0)]
    assert list(frame_spans(headers)) == [(0, 21), (21, 34)]


@pytest.mark.parametrize("channel", [0, 10, -1, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("packet_type", [71, -2, -128, 127])
def test_a_header_is_read_with_its_frame(packet_type: int, channel: int) -> None:
    splitter = FrameSplitter()
    data = FRAME_HEADER.pack(10, packet_type, channel) + b"x"
    assert splitter.feed(data[:13]) == (b"", [])
    assert splitter.feed(data[13:] + data[:5]) == (data + data[:5], [(10, packet_type, channel)])
    assert splitter.pending_size == 5


@pytest.mark.parametrize("size", [4, 5, 12, 13, 40])
def test_a_length_outside_the_limits_is_found_as_soon_as_it_is_there(size: int) -> None:
    """Even behind whole frames, and before the rest of the header: nothing of that read is handled."""
    bad = FRAME_HEADER.pack(8, 10, 0) + bytes(27)
    with pytest.raises(RemoteProtocolError, match="frame length 8"):
        FrameSplitter().feed(frame(3) + bad[:size])
    assert cut(FrameSplitter(), frame(3) + bad[:3]) == [frame(3)]


def test_an_incomplete_frame_is_kept_until_the_rest_arrives() -> None:
    splitter = FrameSplitter()
    data = frame(8) + frame(100)
    assert cut(splitter, data[:40]) == [frame(8)]
    assert splitter.pending_size == 19
    assert cut(splitter, data[40:]) == [frame(100)]
    assert splitter.pending_size == 0


@given(sizes=st.lists(st.integers(0, 60), max_size=8), pieces=st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_any_division_of_the_stream_gives_the_same_frames(sizes: list[int], pieces: list[int]) -> None:
    frames = [frame(size) for size in sizes]
    stream = b"".join(frames)
    splitter = FrameSplitter()
    found: list[bytes] = []
    position = 0
    while position < len(stream):
        piece = pieces[len(found) % len(pieces)]
        found += cut(splitter, stream[position : position + piece])
        position += piece
    assert found == frames


@pytest.mark.parametrize("length", [0, 1, 8, -1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 - 3])
def test_a_length_outside_the_limits_breaks_the_stream_for_good(length: int) -> None:
    splitter = FrameSplitter()
    with pytest.raises(RemoteProtocolError, match=str(length)):
        splitter.feed(length.to_bytes(4, "big", signed=True))
    with pytest.raises(RemoteProtocolError):
        splitter.feed(frame(0))
    assert splitter.pending_size == 0


def test_the_limit_counts_the_length_field() -> None:
    assert cut(FrameSplitter(frame_size_bytes_max=20), frame(7)) == [frame(7)]
    with pytest.raises(RemoteProtocolError):
        FrameSplitter(frame_size_bytes_max=20).feed(frame(8))


def test_a_promised_frame_costs_what_was_received() -> None:
    splitter = FrameSplitter()
    tracemalloc.start()
    try:
        splitter.feed(FRAME_HEADER.pack(99 * 1024 * 1024, 71, 10))
        for _ in range(100):
            splitter.feed(bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert splitter.pending_size == 13 + 10_000


def test_a_huge_frame_in_small_pieces_is_put_together_once() -> None:
    splitter = FrameSplitter()
    data = frame(2_000_000)
    found: list[bytes] = []
    for position in range(0, len(data), 100):
        found += cut(splitter, data[position : position + 100])
    assert found == [data]
