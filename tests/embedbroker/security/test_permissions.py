"""Which match of an address counts, and what it grants; cases as in Artemis' acceptance list."""

from __future__ import annotations

import pytest

from embedbroker.config import SecuritySetting
from embedbroker.kernel import Permission
from embedbroker.security import Permissions

ROLES = frozenset({"r"})
CONSUME, SEND = Permission.CONSUME, Permission.SEND


def allowed(
    settings: dict[str, SecuritySetting], permission: Permission, address: str, queue: str | None = None
) -> bool:
    uncached = Permissions(settings, 0).allows(ROLES, permission, address, queue)
    cached = Permissions(settings, 10)
    assert [cached.allows(ROLES, permission, address, queue) for _ in range(2)] == [uncached] * 2
    return uncached


@pytest.mark.parametrize("permission", list(Permission))
def test_a_role_has_the_permissions_it_is_granted_and_no_other(permission: Permission) -> None:
    granted = SecuritySetting(**{permission.name.lower(): ["other", "r"]})
    for asked in Permission:
        assert allowed({"#": granted}, asked, "a") is (asked is permission)
        assert allowed({"#": SecuritySetting.all("other")}, asked, "a") is False
        assert allowed({"#": SecuritySetting.all("r")}, asked, "a") is True


def test_without_a_match_nothing_is_allowed() -> None:
    settings = {"orders.#": SecuritySetting.all("r")}
    assert allowed(settings, SEND, "orders") and allowed(settings, SEND, "orders.new.today")
    assert not allowed(settings, SEND, "order") and not allowed(settings, SEND, "ordersx")
    assert not allowed({}, SEND, "orders")


@pytest.mark.parametrize(
    ("address", "may"),
    [("a.b.c", False), ("a.x.c", True), ("a.b", False), ("a", False), ("b", True), ("a.b.c.d", False)],
)
def test_only_the_most_specific_match_counts(address: str, may: bool) -> None:
    yes, no = SecuritySetting(send=["r"]), SecuritySetting(consume=["r"])
    settings = {"#": yes, "a.#": no, "a.*.c": yes, "a.b.c": no}
    assert allowed(settings, SEND, address) is may


def test_a_match_of_one_queue_wins_for_what_names_the_queue() -> None:
    settings = {"a": SecuritySetting.all("r"), "a::q": SecuritySetting(consume=["r"])}
    assert allowed(settings, CONSUME, "a", "q") and not allowed(settings, SEND, "a", "q")
    # Also for what creates and deletes it.
    assert not allowed(settings, Permission.CREATE_DURABLE_QUEUE, "a", "q")
    assert allowed(settings, SEND, "a") and allowed(settings, SEND, "a", "other")


def test_the_older_form_of_a_queue_is_tried_for_readers() -> None:
    settings = {"a": SecuritySetting(send=["r"]), "a.q": SecuritySetting.all("r")}
    assert allowed(settings, CONSUME, "a", "q") and allowed(settings, Permission.BROWSE, "a", "q")
    assert not allowed(settings, Permission.DELETE_DURABLE_QUEUE, "a", "q")
    assert not allowed({"a": SecuritySetting(), "a.#": SecuritySetting.all("r")}, CONSUME, "a", "q")


def test_the_star_stands_for_every_user_with_a_role() -> None:
    permissions = Permissions({"#": SecuritySetting(send=["*"])}, 0)
    assert permissions.allows(ROLES, SEND, "a", None)
    assert not permissions.allows(frozenset(), SEND, "a", None)
    # It is no role that a user could have.
    assert not Permissions({"#": SecuritySetting(send=["r"])}, 0).allows(frozenset("*"), SEND, "a", None)


def test_the_cache_is_bounded_and_keeps_no_long_names() -> None:
    permissions = Permissions({"#": SecuritySetting.all("r")}, 100)
    for number in range(1000):
        assert permissions.allows(ROLES, SEND, f"a{number}", None)
        assert permissions.allows(ROLES, SEND, "x" * 2000 + str(number), "q" * 2000)
        assert not permissions.allows(frozenset({"other"}), SEND, f"a{number}", None)
        assert permissions.cached <= 100
