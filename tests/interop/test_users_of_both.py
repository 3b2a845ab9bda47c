"""Users, acceptors and message counters of management: the same results, errors and files as with Artemis."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker, load_config
from embedbroker.cli._commands import commands
from embedbroker.configfile._java_properties import read_properties
from embedclient import ConnectionFactory, JMSContext, Queue, TextMessage
from embedclient.errors import JMSSecurityException
from tests.interop.artemis import ArtemisBroker
from tests.interop.programs import Program

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

SHORT = "<message-counter-sample-period>1000</message-counter-sample-period>"


class RequiredLogin(ArtemisBroker):
    """An Artemis without guests, whose message counters have a short period."""

    def _create(self) -> None:
        super()._create()
        etc = self.directory / "etc"
        login = (etc / "login.config").read_text()
        first = login.index("org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule")
        (etc / "login.config").write_text(login[:first].replace("sufficient", "required") + "};")
        file = etc / "broker.xml"
        file.write_text(file.read_text().replace("</core>", f"{SHORT}</core>"))


class Side:
    """One of the two brokers, with the directory of its files."""

    def __init__(self, url: str, etc: Path) -> None:
        self.url = url
        self.etc = etc

    def files(self) -> tuple[dict[str, str], dict[str, str]]:
        """Users and roles; the digits of a hash become its lengths."""
        users = read_properties(self.etc / "artemis-users.properties")
        hashes = re.compile(r"ENC\((\d+):([0-9A-F]+):([0-9A-F]+)\)")
        shown = {
            name: hashes.sub(lambda found: f"ENC({found[1]}:{len(found[2])}:{len(found[3])})", value)
            for name, value in users.items()
        }
        return shown, read_properties(self.etc / "artemis-roles.properties")

    async def admits(self, user: str, password: str) -> bool:
        try:
            async with ConnectionFactory(self.url, user=user, password=password).connect():
                return True
        except JMSSecurityException:
            return False

    def run(self, *words: str, typed: str | None = None) -> Result:
        options = ["--url", self.url, "--user", "admin", "--password", "admin"]
        return CliRunner().invoke(commands, [*words, *options], input=typed)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    theirs = RequiredLogin(tmp_path_factory.mktemp("users") / "instance")
    with theirs:
        etc = tmp_path_factory.mktemp("ours") / "etc"
        shutil.copytree(theirs.directory / "etc", etc)
        config = load_config(etc / "broker.xml", on_warning=lambda _text: None)
        changes: dict[str, Any] = {"port": 0, "data_directory": None, "large_messages_directory": None}
        with EmbeddedBroker.in_thread(config, failed_login_delay_ms=0, **changes) as ours:
            yield {"theirs": Side(theirs.url, theirs.directory / "etc"), "ours": Side(ours.url, etc)}


async def request(context: JMSContext, resource: str, **properties: str) -> tuple[bool, Any]:
    replies = await context.create_temporary_queue()
    async with context.create_consumer(replies) as consumer:
        message = TextMessage(properties.pop("body", "[]"), reply_to=replies)
        message.properties["_AMQ_ResourceName"] = resource
        for name, value in properties.items():
            message.properties[f"_AMQ_{name}"] = value
        await context.create_producer().send(Queue("activemq.management"), message)
        reply = await consumer.receive(timeout=30)
    assert isinstance(reply, TextMessage)
    (result,) = json.loads(reply.text) if reply.text else (None,)
    return bool(reply.properties.get("_AMQ_OperationSucceeded")), result


def context_of(side: Side) -> Any:
    return ConnectionFactory(side.url, user="admin", password="admin").create_context()


CALLS: list[tuple[str, list[object]]] = [
    ("addUser", ["one", "p", "amq,view", True]),
    ("addUser", ["two", "p", "amq, extra", False]),
    ("addUser", ["one", "q", "amq", True]),
    ("listUser", ["one"]),
    ("listUser", ["two"]),
    ("listUser", ["nope"]),
    ("resetUser", ["one", "r", None]),
    ("resetUser", ["two", None, "view", False]),
    ("resetUser", ["one", None, "amq", True]),
    ("resetUser", ["nope", "x", "amq", False]),
    ("removeUser", ["nope"]),
    ("addUser", ["three"]),
    ("removeUser", ["one"]),
    ("listUser", ["one"]),
]


async def outcomes_of(side: Side) -> list[object]:
    found: list[object] = []
    async with context_of(side) as context:
        for operation, arguments in CALLS:
            outcome = await request(context, "broker", OperationName=operation, body=json.dumps(arguments))
            if operation == "listUser":
                rows = json.loads(outcome[1])
                outcome = outcome[0], [{**row, "roles": sorted(row["roles"])} for row in rows]
            found.append((operation, outcome, side.files()))
        _, everybody = await request(context, "broker", OperationName="listUser", body='[""]')
        found.append(sorted((row["username"], sorted(row["roles"])) for row in json.loads(everybody)))
    found.append([await side.admits(*pair) for pair in (("admin", "admin"), ("two", "p"), ("one", "r"))])
    return found


async def test_operations_on_users_have_the_results_the_errors_and_the_files_of_artemis(
    sides: dict[str, Side],
) -> None:
    expected = await outcomes_of(sides["theirs"])
    assert expected[-1] == [True, True, False]
    assert await outcomes_of(sides["ours"]) == expected


def test_the_user_commands_of_artemis_do_the_same_with_both(sides: dict[str, Side]) -> None:
    found = {}
    # These commands are of an instance only.
    script = sides["theirs"].etc.parent / "bin" / "artemis"
    for name, side in sides.items():
        options = ("--url", side.url, "--user", "admin", "--password", "admin")
        lines = []
        of_carla = ("--user-command-user", "carla")
        password = ("--user-command-password", "c")
        for words in (
            ("user", "add", *of_carla, *password, "--role", "amq,view"),
            ("user", "list", *of_carla),
            ("user", "reset", *of_carla, *password, "--role", "view", "--plaintext"),
            ("user", "rm", *of_carla),
        ):
            with Program([script, *words, *options]) as program:
                output = program.output(seconds_max=60)
            lines.append(["".join(sorted(line)) for line in output if "carla" in line])
        found[name] = lines, side.files()
    assert all(found["theirs"][0])
    assert found["ours"] == found["theirs"]


def test_our_command_does_the_same_with_both(sides: dict[str, Side]) -> None:
    found = {}
    for name, side in sides.items():
        runs = [
            side.run("user", "add", "dora", "--role", "view", "--role", "amq", "--new-password", "d"),
            side.run("user", "add", "dora", "--role", "amq", "--new-password", "d"),
            side.run("user", "list", "dora"),
            side.run("user", "reset", "dora", "--role", "amq", typed="changed\n"),
            side.run("user", "list", "dora", "--json"),
            side.run("user", "remove", "dora"),
            side.run("user", "remove", "dora"),
        ]
        outputs = [(run.exit_code, run.stdout, run.stderr.replace(side.url, "URL")) for run in runs]
        found[name] = outputs, side.files()
    assert [code for code, _, _ in found["theirs"][0]] == [0, 6, 0, 0, 0, 0, 6]
    assert found["ours"] == found["theirs"]


# -- acceptors -------------------------------------------------------------------------------------------------------


async def test_an_acceptor_has_the_attributes_of_artemis(sides: dict[str, Side]) -> None:
    found = {}
    for name, side in sides.items():
        async with context_of(side) as context:
            answers = [
                await request(context, "acceptor.artemis", Attribute=attribute)
                for attribute in ("Name", "FactoryClassName", "Started", "isStarted", "Nope")
            ]
            answers.append(await request(context, "acceptor.artemis", OperationName="isStarted"))
            answers.append(await request(context, "acceptor.artemis", OperationName="start"))
            answers.append(await request(context, "acceptor.nope", OperationName="start"))
            _, parameters = await request(context, "acceptor.artemis", Attribute="Parameters")
            assert {"scheme", "host", "port"} <= set(parameters) and all(
                isinstance(value, str) for value in parameters.values()
            )
            _, listed = await request(context, "broker", Attribute="Acceptors")
            _, as_json = await request(context, "broker", Attribute="AcceptorsAsJSON")
            shapes = [row[:2] for row in listed], [sorted(row) for row in json.loads(as_json)]
        found[name] = answers, shapes
    assert found["theirs"][0][2] == (True, True)
    assert found["ours"] == found["theirs"]


# -- message counters ------------------------------------------------------------------------------------------------


async def counters_of(side: Side) -> list[object]:
    found: list[object] = []
    async with context_of(side) as context:
        queue = "counted.one"
        wanted = json.dumps({"name": queue, "address": queue, "routing-type": "ANYCAST"})

        async def call(resource: str, operation: str, *arguments: object) -> Any:
            answer = await request(context, resource, OperationName=operation, body=json.dumps(arguments))
            return answer[1] if answer[0] else f"failed: {answer[1]}"

        await call("broker", "createQueue", wanted)
        for name in ("MessageCounterEnabled", "MessageCounterSamplePeriod", "MessageCounterMaxDayCount"):
            found.append(await request(context, "broker", Attribute=name))
        found.append(json.loads(await call(f"queue.{queue}", "listMessageCounter")))
        for text in "abc":
            await context.create_producer().send(Queue(queue), TextMessage(text))
        found.append(await call("broker", "enableMessageCounters"))
        row: dict[str, Any] = {"count": 0}
        while row["count"] < 3:
            row = json.loads(await call(f"queue.{queue}", "listMessageCounter"))
        found.append({key: value for key, value in row.items() if "Timestamp" not in key and "Delta" not in key})
        found.append(row["updateTimestamp"] == row["lastAddTimestamp"])
        found.append(re.sub(r"\d", "0", row["lastAckTimestamp"].replace("\u202f", " ")))
        history = json.loads(await call(f"queue.{queue}", "listMessageCounterHistory"))
        (day,) = history["dayCounters"]
        found.append((sorted(day), len(day["counters"]), max(day["counters"]), re.sub(r"\d", "0", day["date"])))
        for resource, operation, *arguments in (
            (f"queue.{queue}", "resetMessageCounter"),
            ("broker", "resetAllMessageCounters"),
            ("broker", "resetAllMessageCounterHistories"),
            ("broker", "setMessageCounterSamplePeriod", 0),
            ("broker", "setMessageCounterMaxDayCount", -1),
            ("broker", "setMessageCounterSamplePeriod", 5000),
            ("broker", "setMessageCounterMaxDayCount", 3),
            ("broker", "disableMessageCounters"),
        ):
            found.append((operation, await call(resource, operation, *arguments)))
        row = json.loads(await call(f"queue.{queue}", "listMessageCounter"))
        found.append((row["count"], row["messageCount"]))
        await call("broker", "destroyQueue", queue)
    return found


async def test_message_counters_are_those_of_artemis(sides: dict[str, Side]) -> None:
    assert await counters_of(sides["ours"]) == await counters_of(sides["theirs"])
