"""Users that management adds, changes and removes while the broker runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedbroker.config import GuestLogin, SecuritySetting, User, UserChange
from embedbroker.node import HostTask, Manage, ReplaceUsers, TaskDone, TaskKind
from embedclient.wire.core import (
    CreateSessionResponse,
    ExceptionResponse,
    NullResponse,
    SessionReceiveMessage,
    SessionSend,
)

from .managing import Manager, request_of
from .scripted import Stage

ADMIN = User("admin", "a", roles=["admin"])


def staged(**config: Any) -> tuple[Stage, Manager]:
    stage = Stage(users=[ADMIN, User("app", "secret", roles=["amq", "more"])], failed_login_delay_ms=0, **config)
    return stage, Manager(stage.connect().open_session(user="admin", password="a"))


def is_admitted(stage: Stage, user: str, password: str) -> bool:
    peer = stage.connect().open_session(user=user, password=password, answered=False)
    return bool(peer.packets(CreateSessionResponse))


def listed(manager: Manager, name: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(manager.call("broker", "listUser", name))
    return rows


@pytest.mark.parametrize("plaintext", [True, False])
def test_a_new_user_logs_in_at_once_and_a_removed_one_does_not(plaintext: bool) -> None:
    stage, manager = staged()
    assert not is_admitted(stage, "new", "p")
    assert manager.call("broker", "addUser", "new", "p", " amq, view ,amq", plaintext) is None
    assert listed(manager, "new") == [{"username": "new", "roles": ["amq", "view"]}]
    # The failure before is not remembered.
    assert is_admitted(stage, "new", "p") and not is_admitted(stage, "new", "other")
    assert manager.call("broker", "removeUser", "new") is None
    assert not is_admitted(stage, "new", "p")
    assert listed(manager) == [
        {"username": "admin", "roles": ["admin"]}, {"username": "app", "roles": ["amq", "more"]}
    ]  # fmt: skip


def test_a_reset_changes_the_password_the_roles_or_both() -> None:
    stage, manager = staged()
    assert is_admitted(stage, "app", "secret")
    manager.call("broker", "resetUser", "app", "changed", None)
    assert is_admitted(stage, "app", "changed") and not is_admitted(stage, "app", "secret")
    assert listed(manager, "app")[0]["roles"] == ["amq", "more"]
    manager.call("broker", "resetUser", "app", None, "one,two", False)
    assert listed(manager, "app")[0]["roles"] == ["one", "two"] and is_admitted(stage, "app", "changed")
    manager.call("broker", "resetUser", "app", "hashed", "three", False)
    assert is_admitted(stage, "app", "hashed") and listed(manager, "app")[0]["roles"] == ["three"]


@pytest.mark.parametrize(
    ("operation", "arguments", "text"),
    [
        ("addUser", ("app", "p", "amq", True), "AMQ229223: User app already exists"),
        ("addUser", ("app", "p", "amq", False), "AMQ229223: User app already exists"),
        ("addUser", ("", "p", "amq", True), "name must not be empty"),
        ("addUser", ("new", "", "amq", True), "the password of user 'new' must not be empty"),
        ("addUser", ("new", None, "amq", True), "the password of user 'new' must not be empty"),
        ("addUser", ("new", "p", " ,", True), "a new user needs roles: names with commas"),
        ("addUser", ("a,b", "p", "amq", True), "user 'a,b': a comma separates users"),
        ("addUser", (" new", "p", "amq", True), "user ' new': it begins or ends with a blank; leave it out"),
        ("addUser", ("new ", "p", "amq", True), "user 'new ': it begins or ends with a blank; leave it out"),
        (
            "addUser",
            ("new\nline", "p", "amq", True),
            r"user 'new\nline': it contains a character that cannot be printed",
        ),
        ("addUser", ("new\udc00", "p", "amq", True), r"user 'new\udc00': it contains a character that cannot be"),
        ("addUser", ("n" * 251, "p", "amq", True), "it has 251 characters; use no more than 250"),
        ("addUser", ("new", "p", "amq,one\nline", True), r"role 'one\nline': it contains a character that cannot be"),
        ("addUser", ("new", "p", "\udc00", True), r"role '\udc00': it contains a character that cannot be printed"),
        ("addUser", ("new", "p", "r" * 251, True), "it has 251 characters; use no more than 250"),
        ("addUser", ("new", "p\udc00", "amq", False), "the password contains half a surrogate"),
        ("resetUser", ("app", "p\ud800", None), "the password contains half a surrogate"),
        ("resetUser", ("app", None, "one\nline"), r"role 'one\nline': it contains a character that cannot be printed"),
        ("addUser", ("new", "ENC(nonsense)", "amq", True), "does not contain a hash"),
        ("addUser", ("new", "p", "amq"), "AMQ229069: no operation addUser/3"),
        ("resetUser", ("nope", "p", None, True), "AMQ229224: User nope does not exist"),
        ("resetUser", ("app", "", None), "the password of user 'app' must not be empty"),
        ("resetUser", ("app", None, ""), "roles must be names with commas"),
        ("removeUser", ("nope",), "AMQ229224: User nope does not exist"),
        ("removeUser", (None,), "AMQ229224: User  does not exist"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(operation: str, arguments: tuple[object, ...], text: str) -> None:
    stage, manager = staged()
    before = listed(manager)
    assert text in manager.failure("broker", operation=operation, body=json.dumps(arguments))
    assert listed(manager) == before and is_admitted(stage, "app", "secret")


def test_an_unknown_user_is_listed_without_roles_as_by_artemis() -> None:
    assert listed(staged()[1], "nope") == [{"username": "nope", "roles": []}]


def test_a_broker_that_is_open_to_every_client_has_no_users() -> None:
    stage = Stage()
    manager = Manager(stage.connect().open_session())
    for operation, body in (("listUser", '[""]'), ("addUser", '["a","b","c",true]'), ("removeUser", '["a"]')):
        text = manager.failure("broker", operation=operation, body=body)
        assert text == "the broker has no users, and is open to every client: start it with users, or a guest"


def test_roles_of_a_user_count_for_its_next_session() -> None:
    everything = SecuritySetting.all("admin")
    stage, manager = staged(security_settings={"#": everything})
    before = stage.connect().open_session(user="app", password="secret")
    manager.call("broker", "resetUser", "app", None, "admin")
    # Sessions keep their roles.
    before.send(SessionSend(request_of("broker", attribute="Version"), True, -1))
    assert "'MANAGE'" in str(before.refusal().message)
    other = stage.connect().open_session(user="app", password="secret")
    other.send(SessionSend(request_of("broker", attribute="Version", reply_to=None), True, -1))
    assert other.packets(NullResponse) and not other.packets(ExceptionResponse)


def test_a_line_of_the_log_names_the_caller_and_never_the_password() -> None:
    stage, manager = staged()
    stage.warnings()
    manager.call("broker", "addUser", "new", "geheim", "amq", False)
    manager.call("broker", "resetUser", "new", "geheim", "more,other")
    manager.call("broker", "removeUser", "new")
    manager.failure("broker", operation="removeUser", body='["new"]')
    *changes, refused = [line for line in stage.warnings() if "management" in line]
    assert changes == [
        "management: user 'admin' added user 'new' with the roles amq",
        "management: user 'admin' reset password and roles to more, other of user 'new'",
        "management: user 'admin' removed user 'new'",
    ]
    assert "AMQ229224" in refused and not any("geheim" in line for line in (*changes, refused))


def test_a_line_of_the_log_shows_a_part_of_many_roles() -> None:
    stage, manager = staged()
    stage.warnings()
    # The longest names that are allowed, and a password with characters beyond the basic plane.
    name, roles = "n" * 250, ",".join(f"{number:0250}" for number in range(20))
    manager.call("broker", "addUser", name, "p\U0001f600", roles, True)
    manager.call("broker", "resetUser", name, None, roles)
    lines = [line for line in stage.warnings() if "management" in line]
    assert len(lines) == 2 and all(len(line) < 500 and "..." in line for line in lines)
    assert is_admitted(stage, name, "p\U0001f600")


def test_a_line_of_the_log_about_a_failure_can_be_printed() -> None:
    stage, manager = staged()
    stage.warnings()
    manager.failure("broker", operation="removeUser", body=json.dumps(["a\nb \x1b[2J \udc00"]))
    (line,) = [line for line in stage.warnings() if "removeUser" in line]
    assert line.isprintable() and line.endswith(r"AMQ229224: User a b \x1b[2J \udc00 does not exist")


def test_others_are_served_while_a_password_is_hashed() -> None:
    stage, manager = staged()
    stage.checks_passwords = False
    request = request_of("broker", operation="addUser", body='["new","geheim","amq",false]')
    manager.peer.send(SessionSend(request, False, -1))
    (task,) = stage.host_tasks
    assert task.kind is TaskKind.COMPUTE and "geheim" not in f"{task} {task.argument}"
    assert is_admitted(stage, "app", "secret") and not is_admitted(stage, "new", "geheim")
    # Another change is faster: the user exists when the hash is there.
    stage.step(Manage(1, "broker", None, "addUser", ("new", "q", "amq", True)))
    stage.finish_computations()
    stage.settle_disk()
    assert is_admitted(stage, "new", "q") and not is_admitted(stage, "new", "geheim")


class _Files:
    """Users that are in files."""

    loaded: tuple[tuple[User, ...], GuestLogin | None] = ((), None)

    def refresh(self, *, always: bool = False) -> None:
        raise AssertionError("the node reads no files")

    def list_users(self, name: str | None) -> dict[str, list[str]]:
        raise AssertionError("the node reads no files")

    def change(self, change: UserChange) -> None:
        raise AssertionError("the node changes no files")


def test_files_are_changed_by_the_host_and_the_answer_waits_for_it() -> None:
    stage, manager = staged(user_source=_Files())
    sent = {
        "addUser": (["new", "p", "amq", False], UserChange("new", True, False, "p", True, ("amq",))),
        "resetUser": (["app", None, "x,y", True], UserChange("app", roles=("x", "y"))),
        "removeUser": (["app"], UserChange("app", removes=True)),
    }
    for operation, (arguments, change) in sent.items():
        request = request_of("broker", operation=operation, body=json.dumps(arguments))
        manager.peer.send(SessionSend(request, False, -1))
        task = stage.host_tasks.pop()
        assert (task.kind, task.argument) == (TaskKind.CHANGE_USERS, change)
        assert not manager.peer.clear()
        stage.step(ReplaceUsers((ADMIN, User("written", "w", roles=["amq"])), None))
        stage.step(TaskDone(task.number, None, None))
        stage.settle_disk()
        (reply,) = manager.peer.clear()
        assert isinstance(reply, SessionReceiveMessage)
        assert reply.message.property("_AMQ_OperationSucceeded") is True
        assert is_admitted(stage, "written", "w")


def test_a_failure_of_the_host_is_the_failure_of_the_call() -> None:
    stage, manager = staged(user_source=_Files())
    answers: list[str] = []

    def answer(task: HostTask) -> None:
        stage.step(TaskDone(task.number, None, "the files of users cannot be written: No space left on device"))
        answers.append("answered")

    stage.on_task = answer
    body = json.dumps(["new", "p", "amq", False])
    assert "No space left" in manager.failure("broker", operation="addUser", body=body)
    stage.on_task = lambda task: stage.step(TaskDone(task.number, {"a": ["b"], "c": []}, None))
    assert listed(manager) == [{"username": "a", "roles": ["b"]}, {"username": "c", "roles": []}]
    assert answers == ["answered"]


def test_a_caller_that_has_gone_gets_no_answer() -> None:
    stage, manager = staged(user_source=_Files())
    request = request_of("broker", operation="removeUser", body='["app"]')
    manager.peer.send(SessionSend(request, False, -1))
    task = stage.host_tasks.pop()
    manager.peer.lose()
    stage.step(TaskDone(task.number, None, None))
    stage.settle_disk()
    assert is_admitted(stage, "app", "secret")


def test_a_password_that_is_not_plaintext_is_stored_as_a_hash() -> None:
    stage, manager = staged()
    manager.call("broker", "addUser", "new", "p", "amq", False)
    stage.checks_passwords = False
    assert not is_admitted(stage, "new", "p") and len(stage.password_checks) == 1


def test_the_caches_are_cleared_and_sessions_go_on() -> None:
    stage, manager = staged()
    security = stage.node.core.security
    assert security is not None
    peer = stage.connect().open_session(user="app", password="secret")
    peer.create_queue()
    peer.post("one")
    granted = security.statistics().granted
    peer.post("two")
    assert security.statistics().granted == granted
    assert manager.read("broker", "AuthenticationCacheSize") == 2
    grants = manager.read("broker", "AuthorizationCacheSize")
    assert manager.call("broker", "clearAuthenticationCache") is None
    assert manager.read("broker", "AuthenticationCacheSize") == 0
    assert is_admitted(stage, "app", "secret") and not is_admitted(stage, "app", "wrong")
    assert manager.call("broker", "clearAuthorizationCache") is None
    # The request to read the figure needs grants itself.
    assert 0 < manager.read("broker", "AuthorizationCacheSize") < grants
    granted = security.statistics().granted
    peer.post("three")
    assert security.statistics().granted == granted + 1
    assert stage.node.kernel.address_manager.queues["q"].message_count == 3


def test_a_broker_without_security_has_no_caches_to_clear() -> None:
    manager = Manager(Stage().connect().open_session())
    for operation in ("clearAuthenticationCache", "clearAuthorizationCache"):
        assert manager.call("broker", operation) is None
