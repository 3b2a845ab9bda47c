"""Client commands against a broker with TLS and users: credentials of options and of the environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker, SecuritySetting, ThreadedBroker, User
from embedbroker.cli._commands import commands
from tests.tls.certificates import PASSWORD, Files

Command = Callable[..., Result]
USERS = [User("app", "app secret", roles=["amq"]), User("reader", "reader secret", roles=["readers"])]
SETTINGS = {"#": SecuritySetting.all("amq"), "orders": evolve(SecuritySetting.all("amq"), browse=["readers"])}
APP = {"EMBEDBROKER_USER": "app", "EMBEDBROKER_PASSWORD": "app secret"}
READER = ("--user", "reader", "--password", "reader secret")
PERF = ("perf", "--seconds", "0.3", "--warmup", "0.1", "--json")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def broker(files: Files) -> Iterator[ThreadedBroker]:
    """A broker that requires a certificate and a login."""
    tls = files.serving(need_client_auth=True, trust_store_path=files.trust)
    settings = {**SETTINGS, "activemq.management": SecuritySetting.all("amq")}
    with EmbeddedBroker.in_thread(tls=tls, users=USERS, security_settings=settings, failed_login_delay_ms=0) as broker:
        yield broker


@pytest.fixture
def url(broker: ThreadedBroker, files: Files) -> str:
    client = files.write("client.p12", files.sign("client").pkcs12(PASSWORD, "client"))
    key = f"keyStorePath={client}&keyStorePassword={PASSWORD}"
    return f"tcp://127.0.0.1:{broker.port}?sslEnabled=true&trustStorePath={files.trust}&{key}"


def run(*words: str, **environment: str) -> Result:
    return CliRunner(env={"EMBEDBROKER_USER": None, "EMBEDBROKER_PASSWORD": None, **environment}).invoke(
        commands, list(words)
    )


def succeeded(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_messages_go_through_tls_with_credentials_of_the_environment(url: str) -> None:
    place = ("--url", url)
    succeeded(run("queue", "create", "orders", *place, **APP))
    succeeded(run("send", "orders", "one", "two", *place, **APP))
    browsed = succeeded(run("browse", "orders", "--json", *place, *READER))
    assert [json.loads(line)["body"] for line in browsed.splitlines()] == ["one", "two"]
    succeeded(run("send", "other", "three", *place, **APP))
    received = succeeded(run("receive", "other", "--count", "1", "--timeout", "10", "--json", *place, **APP))
    assert json.loads(received)["body"] == "three"
    only = ("--field", "name", "--value", "orders")
    (row,) = succeeded(run("queue", "stat", "--json", *only, *place, **APP)).splitlines()
    assert int(json.loads(row)["messageCount"]) == 2
    assert json.loads(succeeded(run(*PERF, *place, **APP)))["received"] > 0


def test_the_environment_may_have_the_url_too(url: str) -> None:
    succeeded(run("send", "q", "one", EMBEDBROKER_URL=url, **APP))
    assert "one" in succeeded(run("receive", "q", "--timeout", "10", EMBEDBROKER_URL=url, **APP))


def test_options_come_before_the_environment(url: str) -> None:
    succeeded(run("queue", "create", "orders", "--url", url, **APP))
    refused = run("send", "orders", "no", "--url", url, *READER, **APP)
    assert refused.exit_code != 0
    assert "AMQ229032: User: reader does not have permission='SEND' on address orders" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [("send", "q", "x"), ("receive", "q"), ("browse", "q"), ("queue", "stat"), ("address", "show"), PERF],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.parametrize("given", [(), ("--user", "app", "--password", "guess-7")], ids=["none", "wrong"])
def test_missing_and_wrong_credentials_are_one_line_without_the_password(
    words: tuple[str, ...], given: tuple[str, ...], url: str
) -> None:
    refused = run(*words, "--url", url, *given)
    user = "app" if given else "null"
    assert refused.exit_code != 0 and "AMQ229031: Unable to validate user from 127.0.0.1" in refused.stderr
    assert f"Username: {user}; SSL certificate subject DN: CN=client, OU=Tests, O=Example" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not any(secret in refused.output for secret in ("guess-7", PASSWORD, "Traceback"))


@pytest.mark.parametrize("words", [("send", "q", "x"), ("queue", "stat"), PERF], ids=lambda words: words[0])
def test_a_command_without_a_certificate_is_one_line_with_the_remedy(
    words: tuple[str, ...], broker: ThreadedBroker, files: Files
) -> None:
    plain = f"tcp://127.0.0.1:{broker.port}?sslEnabled=true&trustStorePath={files.trust}"
    refused = run(*words, "--url", plain, **APP)
    assert refused.exit_code != 0 and "it requires a certificate of this end; set keyStorePath" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_command_without_the_permission_to_manage_is_refused(url: str) -> None:
    refused = run("queue", "stat", "--url", url, *READER)
    assert refused.exit_code != 0 and "permission='" in refused.stderr and "User: reader" in refused.stderr
