"""`user`: users of a running broker are shown, added, changed and removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker, ThreadedBroker, User
from embedbroker.cli._commands import commands
from embedclient.blocking import ConnectionFactory
from embedclient.errors import JMSSecurityException

Command = Callable[..., Result]


@pytest.fixture
def broker() -> Iterator[ThreadedBroker]:
    with EmbeddedBroker.in_thread(users=[User("admin", "a", roles=["amq"])], failed_login_delay_ms=0) as broker:
        yield broker


@pytest.fixture
def run(broker: ThreadedBroker) -> Command:
    def run(*words: str, typed: str | None = None) -> Result:
        options = ["--url", broker.url, "--user", "admin", "--password", "a"]
        return CliRunner().invoke(commands, ["user", *words, *options], input=typed)

    return run


def is_admitted(broker: ThreadedBroker, user: str, password: str) -> bool:
    try:
        with ConnectionFactory(broker.url).connect(user, password):
            return True
    except JMSSecurityException:
        return False


def test_a_user_is_added_shown_changed_and_removed(run: Command, broker: ThreadedBroker) -> None:
    added = run("add", "app", "--role", "view", "--role", "amq", "--new-password", "one")
    assert (added.exit_code, added.stdout, added.stderr) == (0, "", "added user app\n")
    assert is_admitted(broker, "app", "one")
    assert [line.split(maxsplit=1) for line in run("list").stdout.splitlines()] == [
        ["NAME", "ROLES"], ["admin", "amq"], ["app", "amq, view"]
    ]  # fmt: skip
    assert run("reset", "app", typed="two\n").stderr == "reset user app\n"
    assert is_admitted(broker, "app", "two") and not is_admitted(broker, "app", "one")
    assert run("reset", "app", "--role", "other", "--keep-password").exit_code == 0
    (row,) = [json.loads(line) for line in run("list", "app", "--json").stdout.splitlines()]
    assert row == {"username": "app", "roles": ["other"]} and is_admitted(broker, "app", "two")
    removed = run("remove", "app", "--json")
    assert (json.loads(removed.stdout), removed.stderr) == ({"event": "removed", "user": "app"}, "")
    assert not is_admitted(broker, "app", "two")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("add", "app", "--new-password", "p"), 2, "a new user needs --role"),
        (("add", "admin", "--role", "amq", "--new-password", "p"), 6, "AMQ229223: User admin already exists"),
        (("add", "app", "--role", "amq"), 2, "the new password is empty"),
        (("reset", "app", "--new-password", "p"), 6, "AMQ229224: User app does not exist"),
        (("reset", "admin", "--keep-password"), 2, "--keep-password needs --role"),
        (("reset", "admin", "--keep-password", "--new-password", "p"), 2, "exclude each other"),
        (("remove", "app"), 6, "AMQ229224: User app does not exist"),
    ],
)
def test_what_is_refused(run: Command, words: tuple[str, ...], code: int, text: str) -> None:
    refused = run(*words, typed="\n")
    assert refused.exit_code == code, refused.output
    assert text in refused.stderr and not refused.stdout
