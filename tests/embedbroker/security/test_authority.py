"""Logins, limits and the lines about refusals; time is a number."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import BrokerConfig, GuestLogin, ResourceLimits, SecuritySetting, User
from embedbroker.kernel import Permission, Principal, Refused
from embedbroker.security import FailedLogins, SecurityManager, hash_password, hash_password_as_artemis
from embedclient.errors import ErrorCode

SALT = bytes(32)
APP = User("app", "secret", roles=["amq"])
PEER = "10.0.0.1:4711"


def manager(*users: User, log: list[str] | None = None, **config: object) -> SecurityManager:
    lines = [] if log is None else log
    return SecurityManager(BrokerConfig(users=users or (APP,), **config), lines.append)  # type: ignore[arg-type]


def refusal(found: object) -> Refused:
    assert isinstance(found, Refused)
    return found


@pytest.mark.parametrize(
    "password", ["secret", hash_password("secret", SALT), hash_password_as_artemis("secret", SALT)]
)
@pytest.mark.parametrize("cache", [0, 10])
def test_a_user_logs_in_with_its_password_alone(password: str, cache: int) -> None:
    security = manager(User("app", password, roles=["amq"]), authentication_cache_size=cache, failed_login_delay_ms=0)
    for _ in range(2):
        assert security.log_in("app", "secret", PEER, 0.0) == Principal("app", frozenset({"amq"}))
        texts = {
            refusal(security.log_in(user, given, PEER, 0.0)).text.replace(
                f"Username: {'null' if user is None else user};", "Username: ?;"
            )
            for user, given in [
                ("app", "Secret"),
                ("app", ""),
                ("app", None),
                ("other", "secret"),
                (None, None),
                ("", ""),
            ]
        }
        # An unknown user and a wrong password look the same.
        text = f"AMQ229031: Unable to validate user from {PEER}. Username: ?; SSL certificate subject DN: unavailable"
        assert texts == {text}
        assert refusal(security.log_in("app", password + "x", PEER, 0.0)).code == ErrorCode.SECURITY_EXCEPTION


def test_a_refusal_names_the_certificate_and_stays_on_one_line() -> None:
    lines: list[str] = []
    config = BrokerConfig(users=[User("app", "secret")], failed_login_delay_ms=0)
    security = SecurityManager(config, lines.append)
    text = refusal(security.log_in("a\nb" + "x" * 300, "guess", PEER, 0.0, "CN=\x00other")).text
    name = "a\\nb" + "x" * 197 + "..."
    assert text == (
        f"AMQ229031: Unable to validate user from {PEER}. Username: {name}; SSL certificate subject DN: CN=\\x00other"
    )
    assert lines == [f"security: {text}"]


def test_the_log_names_the_peer_and_the_cause_of_a_refused_cluster_user() -> None:
    lines: list[str] = []
    security = SecurityManager(BrokerConfig(cluster_user="cluster", cluster_password="p"), lines.append)
    assert isinstance(security.log_in("cluster", "q", PEER, 0.0), Refused)
    assert lines == [
        f"security: AMQ229099: Unable to authenticate cluster user: cluster; from {PEER}: "
        "wrong password, or the default one, which is refused"
    ]


def test_an_empty_password_is_refused_and_a_missing_one_admits_no_password() -> None:
    with pytest.raises(ValueError, match="password of user 'app' must not be empty"):
        User("app", "")
    with pytest.raises(ValueError, match="user 'app' needs a password or a certificate"):
        User("app")
    security = manager(User("app", certificate="CN=app"), failed_login_delay_ms=0)
    for password in ("", None, "None"):
        assert isinstance(security.log_in("app", password, PEER, 0.0), Refused)


BY_NAME = User("app", "secret", roles=["a"], certificate="CN=app, O=Example")
BY_PATTERN = User("any", roles=["b"], certificate="/CN=[a-z]+, O=Example/")


@pytest.mark.parametrize(
    ("user", "password", "subject", "expected"),
    [
        (None, None, "CN=app, O=Example", "app"),
        (None, None, "CN=other, O=Example", "any"),
        ("app", None, "CN=app, O=Example", "app"),
        # A wrong password of the certificate's own user changes nothing, as with Artemis' sufficient modules.
        ("app", "wrong", "CN=app, O=Example", "app"),
        # A password of another user makes the client that user, if it is right.
        ("app", "secret", "CN=other, O=Example", "app"),
        ("app", "wrong", "CN=other, O=Example", None),
        # A pattern must match the whole subject.
        (None, None, "CN=other, O=Example, C=US", None),
        (None, None, "CN=OTHER, O=Example", None),
        (None, None, None, None),
    ],
)
def test_a_certificate_that_tls_has_verified_is_a_login(
    user: str | None, password: str | None, subject: str | None, expected: str | None
) -> None:
    security = manager(BY_NAME, BY_PATTERN, failed_login_delay_ms=0)
    found = security.log_in(user, password, PEER, 0.0, subject)
    assert (found.user if isinstance(found, Principal) else None) == expected
    if isinstance(found, Principal):
        assert found.roles == {"app": BY_NAME, "any": BY_PATTERN}[found.user].roles


def test_a_certificate_must_be_a_subject_or_a_regular_expression() -> None:
    with pytest.raises(ValueError, match=r"certificate '/\(/' of user 'app' is no regular expression"):
        User("app", certificate="/(/")
    with pytest.raises(ValueError, match="certificate must not be empty"):
        User("app", certificate="")


def test_a_password_that_cannot_be_used_is_refused_with_the_name_of_its_user() -> None:
    with pytest.raises(ValueError, match="users: the password of user 'app': ENC"):
        manager(User("app", "ENC(-41e444c3ed07d6dd)"))


def test_a_guest_replaces_what_is_not_valid() -> None:
    security = manager(guest=GuestLogin())
    guest = Principal("guest", frozenset({"guests"}))
    assert security.log_in("app", "secret", PEER, 0.0) == Principal("app", frozenset({"amq"}))
    assert security.log_in("app", "wrong", PEER, 0.0) == guest
    assert security.log_in(None, None, PEER, 0.0) == guest
    strict = manager(guest=GuestLogin("visitor", "v", credentials_invalidate=True))
    assert strict.log_in(None, None, PEER, 0.0) == Principal("visitor", frozenset({"v"}))
    assert isinstance(strict.log_in("app", "wrong", PEER, 0.0), Refused)


def test_the_cluster_user_may_do_everything_with_its_own_password_only() -> None:
    security = manager(cluster_user="cluster", cluster_password="p", security_settings={})
    trusted = security.log_in("cluster", "p", PEER, 0.0)
    assert isinstance(trusted, Principal) and security.allows(trusted, Permission.SEND, "a", None)
    for password in ("q", None, ""):
        refused = refusal(security.log_in("cluster", password, PEER, 0.0))
        assert refused.code == ErrorCode.CLUSTER_SECURITY_EXCEPTION and refused.text == (
            "AMQ229099: Unable to authenticate cluster user: cluster"
        )


def test_the_public_password_of_clusters_admits_nothing() -> None:
    config = BrokerConfig()
    assert isinstance(manager().log_in(config.cluster_user, config.cluster_password, PEER, 0.0), Refused)


# -- guessing ----------------------------------------------------------------------------------------------------------


def test_guessing_is_slowed_more_with_each_failure_and_for_one_user_from_one_address_only() -> None:
    security = manager(APP, User("other", "o"))
    now, delays = 0.0, []
    for number in range(14):
        refused = refusal(security.log_in("app", f"guess-{number}", PEER, now))
        assert "too many" not in refused.text
        waiting = refusal(security.log_in("app", f"early-{number}", PEER, now))
        if "try again in " in waiting.text:
            delays.append(float(waiting.text.split()[-2]))
            # The right password does not help either, from here. From elsewhere it does.
            assert isinstance(security.log_in("app", "secret", PEER, now), Refused)
            now += delays[-1]
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[60.0] * len(delays[6:])] and len(delays) > 8
    assert isinstance(security.log_in("app", "secret", "10.0.0.2:4711", now), Principal)
    assert isinstance(security.log_in("other", "o", PEER, now), Principal)
    # A login that is known to be valid costs no hash, and is not slowed.
    assert "try again" in refusal(security.log_in("app", "x", "10.0.0.1:9", now - 1)).text
    assert isinstance(security.log_in("app", "secret", "10.0.0.1:9", now - 1), Principal)


def test_failures_are_forgotten_after_ten_minutes() -> None:
    failed = FailedLogins(1.0)
    for _ in range(6):
        failed.add("a", "u", 0.0)
    assert failed.remaining_s("a", "u", 0.0) == 2.0
    assert failed.remaining_s("b", "u", 0.0) == failed.remaining_s("a", "v", 0.0) == 0.0
    failed.add("a", "u", 601.0)
    assert failed.remaining_s("a", "u", 601.0) == 0.0


def test_an_address_that_fails_with_many_users_is_slowed_for_all_of_them() -> None:
    security = manager()
    answers = [refusal(security.log_in(f"user-{number}", "1234", PEER, 0.0)).text for number in range(102)]
    assert "try again" not in answers[99] and "try again in 1.0 s" in answers[100]
    assert isinstance(security.log_in("app", "secret", PEER, 0.0), Refused)
    assert isinstance(security.log_in("app", "secret", PEER, 1.1), Principal)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1:1", "10.0.0.1:2", True),
        ("10.0.0.1:1", "10.0.0.2:1", False),
        ("[2001:db8::1]:1", "[2001:db8::ffff:2]:2", True),
        ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", False),
        ("[::ffff:10.0.0.1]:1", "10.0.0.1:2", True),
        ("[fe80::1%eth0]:1", "[fe80::2%eth1]:1", True),
        ("pipe", "pipe", True),
        ("host:1", "host:2", True),
    ],
)
def test_failures_are_counted_by_host_and_by_network_for_ipv6(one: str, other: str, same: bool) -> None:
    security = manager()
    for number in range(5):
        security.log_in("app", f"guess-{number}", one, 0.0)
    assert isinstance(security.log_in("app", "secret", other, 0.0), Refused) is same


def test_a_hundred_thousand_failed_logins_leave_a_bounded_amount() -> None:
    log: list[str] = []
    security = manager(log=log)
    for number in range(100_000):
        peer = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:1"
        assert isinstance(security.log_in("u" * 300 + str(number), f"p{number}", peer, number / 1000), Refused)
    figures = security.statistics()
    assert figures.refused_logins == 100_000 and figures.logins == 0
    assert figures.cached_logins <= 2000 and figures.failed_logins <= 20_000
    # 100 s: twenty lines in ten seconds, and one with the number of the others.
    assert len(log) <= 11 * 21 and max(map(len, log)) < 400
    assert any("more refusals were not logged" in line for line in log)
    assert isinstance(security.log_in("app", "secret", "10.99.0.1:1", 100.0), Principal)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_permissions_follow_a_replaced_configuration_at_once() -> None:
    config = BrokerConfig(users=[APP])
    security = SecurityManager(config, lambda _line: None)
    principal = security.log_in("app", "secret", PEER, 0.0)
    assert isinstance(principal, Principal) and security.allows(principal, Permission.SEND, "a", None)
    security.replace(evolve(config, users=[evolve(APP, password="new")], security_settings={"#": SecuritySetting()}))
    assert not security.allows(principal, Permission.SEND, "a", None)
    assert isinstance(security.log_in("app", "secret", PEER, 0.0), Refused)
    assert isinstance(security.log_in("app", "new", PEER, 0.0), Principal)
    with pytest.raises(ValueError, match="ENC"):
        security.replace(BrokerConfig(users=[User("app", "ENC()")]))
    assert isinstance(security.log_in("app", "new", PEER, 0.0), Principal)


def test_a_refusal_is_a_line_with_all_names_quoted() -> None:
    log: list[str] = []
    security = manager(log=log)
    security.access_refused(Principal("app\n"), Permission.CONSUME, "a\n" * 1000, "q")
    assert len(log) == 1 and "\n" not in log[0] and len(log[0]) < 1000
    assert log[0].startswith("security: user 'app\\n' was refused CONSUME on address ")


def test_a_principal_carries_its_limit_of_queues() -> None:
    security = manager(resource_limits={"app": ResourceLimits(max_queues=3)})
    found = security.log_in("app", "secret", PEER, 0.0)
    assert isinstance(found, Principal) and found.queues_max == 3
