"""`send`, `receive` and `browse` against a broker: what goes in comes out, and a failure states its reason."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker
from embedbroker.cli._commands import commands
from embedclient import Queue, TextMessage, blocking
from tests.embedbroker.cli.command_processes import COMMAND, started

Command = Callable[..., Result]


@pytest.fixture
def url() -> Iterator[str]:
    with EmbeddedBroker.in_thread() as broker:
        yield broker.url


@pytest.fixture
def run(url: str) -> Command:
    def run(name: str, *arguments: str, input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(commands, [name, "--url", url, *arguments], input=input)

    return run


def received(run: Command, *arguments: str) -> list[dict[str, Any]]:
    result = run("receive", *arguments, "--json", "--count", "0", "--timeout", "0.2")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_texts_arrive_in_order_with_their_properties(run: Command) -> None:
    assert run("send", "orders", "one", "two", "-p", "color=red", "-p", "size=3", "-p", "name=007x").exit_code == 0
    messages = received(run, "queue://orders")
    assert [message["body"] for message in messages] == ["one", "two"]
    properties = messages[0]["properties"]
    assert (properties["color"], properties["size"], properties["name"]) == ("red", 3, "007x")
    assert messages[0]["type"] == "text"
    assert messages[0]["durable"] is True
    assert received(run, "orders") == []


def test_every_kind_of_body_comes_back_as_it_went(run: Command) -> None:
    assert run("send", "q", '{"x": 1, "y": "z"}', "--type", "map").exit_code == 0
    assert run("send", "q", '[1, "two", null]', "--type", "stream").exit_code == 0
    assert run("send", "q", "--type", "bytes", input=b"\x00\xff").exit_code == 0
    bodies = [(message["type"], message["body"]) for message in received(run, "q")]
    encoded = base64.b64encode(b"\x00\xff").decode()
    assert bodies == [
        ("map", {"x": 1, "y": "z"}),
        ("stream", [1, "two", None]),
        ("bytes", {"base64": encoded}),
    ]


def test_headers_are_what_was_asked_for(run: Command) -> None:
    options = ("--priority", "9", "--ttl", "60", "--non-persistent", "--correlation-id", "c-1")
    assert run("send", "q", "x", *options).exit_code == 0
    (message,) = received(run, "q")
    assert message["priority"] == 9
    assert message["durable"] is False
    assert message["correlation_id"] == "c-1"
    assert message["expiration"] - message["timestamp"] == 60_000


def test_delayed_message_comes_behind_one_that_was_sent_later(run: Command) -> None:
    assert run("send", "q", "later", "--delay", "0.5").exit_code == 0
    assert run("send", "q", "now").exit_code == 0
    result = run("receive", "q", "--json", "--count", "2", "--timeout", "30")
    assert [json.loads(line)["body"] for line in result.stdout.splitlines()] == ["now", "later"]


def test_stdin_is_one_message_or_one_per_line(run: Command) -> None:
    assert run("send", "q", input="a\nb\n").exit_code == 0
    assert run("send", "q", "--lines", "--transacted", input="c\nd\n").exit_code == 0
    assert [message["body"] for message in received(run, "q")] == ["a\nb\n", "c", "d"]


def test_a_browser_takes_nothing_and_a_selector_chooses(run: Command) -> None:
    assert run("send", "q", "red", "-p", "color=red").exit_code == 0
    assert run("send", "q", "blue", "-p", "color=blue").exit_code == 0
    assert run("browse", "q").stdout == "red\nblue\n"
    assert run("browse", "q", "--count", "1").stdout == "red\n"
    assert run("browse", "q", "--selector", "color = 'blue'").stdout == "blue\n"
    shown = run("receive", "q", "--selector", "color = 'blue'", "--headers").stdout
    assert "color: blue\n" in shown
    assert shown.endswith("\n\nblue\n\n")
    assert run("browse", "q").stdout == "red\n"


def test_fewer_messages_than_wanted_are_one(run: Command) -> None:
    assert run("send", "q", "x").exit_code == 0
    result = run("receive", "q", "--count", "2", "--timeout", "0.1")
    assert result.exit_code == 1
    assert result.stdout == "x\n"


def test_a_durable_subscription_keeps_what_is_sent_between(run: Command) -> None:
    subscribe = ("--client-id", "me", "--durable", "news", "topic://weather")
    assert received(run, *subscribe) == []
    assert run("send", "topic://weather", "rain").exit_code == 0
    assert [message["body"] for message in received(run, *subscribe)] == ["rain"]
    assert run("receive", "topic://weather", "--durable", "news").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("receive", "q", "--selector", "size >"), 6, "size >"),
        (("send", "q?no-such-attribute=1", "x"), 6, "no-such-attribute"),
        (("browse", "topic://t"), 6, "topic"),
        (("send", "topics://t", "x"), 2, "topics:// is no kind of destination"),
        (("receive", "foo://t"), 2, "queue://, topic://"),
        (("browse", "foo://t"), 2, "queue://, topic://"),
        (("perf", "--destination", "foo://t"), 2, "queue://, topic://"),
        (("send", "q", "--type", "map", "no json"), 2, "JSON"),
        (("send", "q", "x", "-p", "novalue"), 2, "novalue"),
        (("send", "q", "x", "--ttl", "-1"), 2, "--ttl"),
        (("send", "q", "x", "--delay", "soon"), 2, "--delay"),
        (("send", "q", "x", "--ttl", "nan"), 2, "'nan' is not a number with an end"),
        (("receive", "q", "--timeout", "inf"), 2, "'inf' is not a number with an end"),
        (("perf", "--seconds", "nan"), 2, "'nan' is not a number with an end"),
        (("send", "", "x"), 2, "the name of a destination must not be empty"),
        (("receive", "queue://"), 2, "the name of a destination must not be empty"),
    ],
)
def test_what_cannot_work_says_why(run: Command, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("option", ["--seconds", "--fault-seconds"])
def test_a_drill_has_an_end(option: str) -> None:
    result = CliRunner().invoke(commands, ["drill", option, "inf"])
    assert result.exit_code == 2
    assert "'inf' is not a number with an end" in result.stderr


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("tcp://127.0.0.1:1", 5, "127.0.0.1:1"),
        ("tcp://127.0.0.1:1?noSuchParameter=1", 6, "noSuchParameter"),
    ],
)
def test_a_broker_that_is_not_there_is_named(url: str, code: int, said: str) -> None:
    result = CliRunner().invoke(commands, ["send", "--url", url, "q", "x"])
    assert result.exit_code == code
    assert result.stderr.startswith("embedbroker: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["receive", "browse"])
def test_a_reader_that_goes_ends_the_command_without_a_word(run: Command, url: str, command: str) -> None:
    assert run("send", "q", "x", "--count", "3").exit_code == 0
    with started(command, "--url", url, "q", "--count", "3", "--json") as process:
        assert process.process.stdout is not None
        process.process.stdout.close()
        assert process.exit_code() == 128 + signal.SIGPIPE
        assert process.rest_of_errors() == ""
    # Nothing was printed, so nothing was acknowledged.
    assert len(received(run, "q")) == 3


def test_an_interrupted_receive_ends_in_order(run: Command, url: str) -> None:
    assert run("send", "q", "x").exit_code == 0
    with started("receive", "--url", url, "q", "--count", "0", "--json") as process:
        assert process.event()["body"] == "x"
        process.send(signal.SIGINT)
        assert process.exit_code() == 128 + signal.SIGINT
        assert process.rest_of_errors() == ""
    assert received(run, "q") == []


def test_a_send_that_waits_for_stdin_is_ended_by_ctrl_c(run: Command, url: str) -> None:
    with started("send", "--url", url, "q", "--lines", stdin=subprocess.PIPE) as process:
        assert process.process.stdin is not None
        process.process.stdin.write("one\n")
        process.process.stdin.flush()
        assert run("receive", "q").stdout == "one\n"  # so it is waiting for the next line now, or about to
        process.send(signal.SIGINT)
        assert process.exit_code() == 128 + signal.SIGINT
        assert process.rest_of_errors() == ""


def test_stdout_on_a_full_disk_is_one_line(run: Command, url: str) -> None:
    assert run("send", "q", "x").exit_code == 0
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "receive", "--url", url, "q"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr.splitlines()[0] == "embedbroker: cannot write: No space left on device"
    assert "Traceback" not in done.stderr
    assert [message["body"] for message in received(run, "q")] == ["x"]


def test_bytes_of_the_command_line_that_are_no_text_go_as_bytes_only(run: Command) -> None:
    body = os.fsdecode(b"a\xff")
    assert run("send", "q", body, "--type", "bytes").exit_code == 0
    (message,) = received(run, "q")
    assert message["body"] == {"base64": base64.b64encode(b"a\xff").decode()}
    for kind in ("text", "map"):
        refused = run("send", "q", body, "--type", kind)
        assert refused.exit_code == 2
        assert "not UTF-8 text; send it with --type bytes" in refused.stderr


def test_json_that_is_nested_too_deep_is_refused_in_a_body_and_a_text_in_a_property(run: Command) -> None:
    deep = "[" * 50_000
    refused = run("send", "q", deep, "--type", "stream")
    assert refused.exit_code == 2
    assert "the body of a stream message is JSON" in refused.stderr
    assert run("send", "q", "x", "-p", f"deep={deep}").exit_code == 0
    (message,) = received(run, "q")
    assert message["properties"]["deep"] == deep


def test_what_was_sent_is_printed_as_json_with_its_id(run: Command) -> None:
    sent = run("send", "q", "one", "two", "--transacted", "--json")
    assert sent.exit_code == 0, sent.output
    printed = [json.loads(line) for line in sent.stdout.splitlines()]
    assert [(each["id"], each["body"]) for each in printed] == [
        (each["id"], each["body"]) for each in received(run, "q")
    ]
    assert [each["body"] for each in printed] == ["one", "two"]


def test_a_request_prints_its_reply(run: Command, url: str) -> None:
    def serve() -> None:
        with (
            blocking.ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer(Queue("adder")) as consumer,
        ):
            request = consumer.receive(timeout=30)
            assert isinstance(request, TextMessage) and request.reply_to is not None
            session.create_producer().send(f"{request.body} done", destination=request.reply_to)

    service = threading.Thread(target=serve)
    service.start()
    result = run("request", "adder", "1 + 2", "--timeout", "30")
    service.join()
    assert (result.exit_code, result.stdout) == (0, "1 + 2 done\n"), result.output
    late = run("request", "nothing", "x", "--timeout", "0.05")
    assert late.exit_code == 1 and "no reply within 0.05 s" in late.output


def test_a_command_that_does_not_exist_names_the_closest() -> None:
    result = CliRunner().invoke(commands, ["sned"])
    assert result.exit_code == 2
    assert "No such command 'sned'. Did you mean 'send'?" in result.output
