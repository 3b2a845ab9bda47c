"""Lines that are logged once."""

from __future__ import annotations

from functools import partial

from embedbroker.kernel._clock import Clock
from embedbroker.kernel._log_once import LogOnce, LogSometimes


def test_a_line_is_logged_once_for_its_key() -> None:
    lines: list[str] = []
    log = LogOnce(lines.append)
    for key, text in (("a", "1"), ("a", "2"), ("b", "1"), ("a", "3")):
        log(key, text)
    assert lines == ["1", "1"]


def test_new_lines_are_logged_however_many_there_were() -> None:
    lines: list[str] = []
    log = LogOnce(lines.append)
    for number in range(20_000):
        log(str(number), str(number))
    assert len(lines) == 20_000


def test_lines_about_many_keys_are_bounded_and_only_written_texts_are_built() -> None:
    lines: list[str] = []
    built: list[int] = []
    clock = Clock()
    log = LogSometimes(lines.append, clock, 60.0, "addresses are full")

    def text(number: int) -> str:
        built.append(number)
        return f"address {number}"

    for minute in range(3):
        clock.monotonic = 60.0 * minute
        for number in range(3_000):
            log(f"key {number % 1_500}", partial(text, number))
    expected = [f"address {number}" for number in range(50)]
    expected.append("50 lines within 60 s, further ones are left out for that time: addresses are full")
    assert lines == expected * 3
    assert built == list(range(50)) * 3


def test_a_line_about_a_key_is_written_again_after_the_pause() -> None:
    lines: list[str] = []
    clock = Clock()
    log = LogSometimes(lines.append, clock, 60.0, "")
    for second in (0.0, 30.0, 59.0, 60.0, 61.0, 121.0):
        clock.monotonic = second
        log("a", partial(str, second))
    assert lines == ["0.0", "60.0", "121.0"]
