"""Logins whose password must be hashed: the host does it, and the broker serves others meanwhile."""

from __future__ import annotations

import tracemalloc

import pytest

from embedbroker.config import User
from embedbroker.security import WAITING_LOGINS_MAX, hash_password
from embedclient.errors import ErrorCode
from embedclient.wire.core import CreateSession, CreateSessionResponse, ExceptionResponse, SessionSend

from .scripted import Peer, Stage, letter

HASH = hash_password("secret", bytes(32))
HASHED = User("app", HASH, roles=["amq"])
PLAIN = User("plain", "p", roles=["amq"])


def staged(**config: object) -> Stage:
    stage = Stage(users=[HASHED, PLAIN], failed_login_delay_ms=1000, **config)  # type: ignore[arg-type]  # fields
    stage.checks_passwords = False
    return stage


def ask(stage: Stage, user: str | None, password: str | None) -> Peer:
    return stage.connect().open_session(user=user, password=password, answered=False)


def outcome(peer: Peer) -> str:
    if peer.packets(CreateSessionResponse):
        return "admitted"
    refused = peer.packets(ExceptionResponse)
    return "refused" if refused else "waits"


@pytest.mark.parametrize(("password", "expected"), [("secret", "admitted"), ("wrong", "refused"), ("", "refused")])
def test_a_first_login_waits_for_its_hash_and_others_do_not(password: str, expected: str) -> None:
    stage = staged()
    peer = ask(stage, "app", password)
    assert outcome(peer) == "waits" and len(stage.password_checks) == 1
    other = ask(stage, "plain", "p")
    assert outcome(other) == "admitted"
    other.create_queue()
    other.send(SessionSend(letter("x"), True, -1))
    stage.finish_password_checks()
    assert outcome(peer) == expected


def test_results_are_kept_and_logins_that_wait_for_the_same_share_one_check() -> None:
    stage = staged()
    peers = [ask(stage, "app", "secret") for _ in range(3)]
    assert len(stage.password_checks) == 1
    stage.finish_password_checks()
    assert [outcome(peer) for peer in peers] == ["admitted"] * 3
    assert outcome(ask(stage, "app", "secret")) == "admitted" and not stage.password_checks


def test_without_a_cache_each_login_has_a_check() -> None:
    stage = staged(authentication_cache_size=0)
    for _ in range(2):
        peer = ask(stage, "app", "secret")
        assert len(stage.password_checks) == 1
        stage.finish_password_checks()
        assert outcome(peer) == "admitted"


def test_an_unknown_user_is_checked_like_a_known_one_and_refused() -> None:
    stage = staged()
    # The password is that of another user.
    peer = ask(stage, "nobody", "secret")
    assert outcome(peer) == "waits" and len(stage.password_checks) == 1
    stage.finish_password_checks()
    assert outcome(peer) == "refused"


def test_a_missing_password_is_not_hashed() -> None:
    stage = staged()
    assert outcome(ask(stage, "app", None)) == "refused" and not stage.password_checks


def test_a_client_that_has_gone_gets_no_session() -> None:
    stage = staged()
    peer = ask(stage, "app", "secret")
    peer.lose()
    stage.finish_password_checks()
    assert not stage.node.kernel.clients.sessions


def test_users_that_are_replaced_meanwhile_count() -> None:
    from embedbroker.node import ReplaceUsers

    stage = staged()
    peer = ask(stage, "app", "secret")
    stage.step(ReplaceUsers((User("app", hash_password("new", bytes(32)), roles=["amq"]),), None))
    stage.finish_password_checks()
    assert outcome(peer) == "waits"
    stage.finish_password_checks()
    assert outcome(peer) == "refused"


def test_guesses_at_once_are_bounded_and_slowed() -> None:
    stage = staged()
    peer = stage.connect()
    for number in range(WAITING_LOGINS_MAX + 10):
        peer.send(
            CreateSession(f"s{number}", 10, 136, "app", f"guess {number}", 102_400, False, True, True, -1, False, None),
            channel=1,
        )
    assert len(stage.password_checks) == WAITING_LOGINS_MAX
    refused = peer.packets(ExceptionResponse)
    assert len(refused) == 10
    assert all(
        each.code == ErrorCode.SECURITY_EXCEPTION and "too many logins at once" in str(each.message) for each in refused
    )
    del stage.password_checks[7:]
    stage.finish_password_checks()
    texts = [str(each.message) for each in peer.packets(ExceptionResponse)[10:]]
    # The sixth guess was hashed, and must wait like one that was not.
    assert ["too many failed logins" in text for text in texts] == [False] * 5 + [True] * 2
    security = stage.node.core.security
    assert security is not None and security.statistics().refused_logins == 17


def test_thousands_of_failed_logins_leave_a_few_lines_and_no_memory() -> None:
    stage = Stage(users=[PLAIN])
    witness = ask(stage, "plain", "p")
    guesser = stage.connect()
    create = CreateSession("s", 10, 136, "u" * 1000, "guess", 102_400, False, True, True, -1, False, None)
    tracemalloc.start()
    try:
        for _ in range(2_000):
            guesser.send(create, channel=1)
            assert isinstance(guesser.received.pop()[1], ExceptionResponse)
            stage.outputs.clear()
        assert tracemalloc.get_traced_memory()[0] < 1024 * 1024
    finally:
        tracemalloc.stop()
    lines = [text for _level, text in stage.notices if text.startswith("security:")]
    assert len(lines) <= 21 and max(map(len, lines)) < 500
    # The same client address is slowed, others are not, and those that are connected do not notice.
    witness.create_queue()
    assert outcome(ask(stage, "plain", "p")) == "admitted"


@pytest.mark.search
def test_twenty_thousand_guesses_cost_few_hashes() -> None:
    stage = staged()
    guesser = stage.connect()
    security = stage.node.core.security
    assert security is not None

    def hashes_of(password: str) -> int:
        guess = CreateSession("s", 10, 136, "app", password, 102_400, False, True, True, -1, False, None)
        guesser.send(guess, channel=1)
        ordered = len(stage.password_checks)
        stage.finish_password_checks()
        stage.outputs.clear()
        stage.notices.clear()
        return ordered

    hashes = 0
    for number in range(20_000):
        hashes += hashes_of(f"guess {number}")
        assert isinstance(guesser.received.pop()[1], ExceptionResponse)
        stage.seconds += 0.05
    figures = security.statistics()
    assert figures.refused_logins == 20_000 and figures.failed_logins == 2 and figures.cached_logins == hashes
    # Five for nothing; then the delay doubles from one second to a minute, and the guesses take 1,000 seconds.
    assert 10 < hashes < 5 + 6 + 1_000 / 60 + 2
    # The right password waits as long as a wrong one; one minute after the last guess that was hashed, it is admitted.
    stage.seconds += 61
    assert hashes_of("last guess") == 1
    assert hashes_of("secret") == 0 and outcome(guesser) == "refused"
    guesser.received.clear()
    stage.seconds += 61
    assert hashes_of("secret") == 1 and outcome(guesser) == "admitted"
    # Others are not delayed.
    assert outcome(ask(stage, "app", "secret")) == "admitted"
