"""Lines that are logged once."""

from __future__ import annotations

from embedbroker.kernel._log_once import LogOnce


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
