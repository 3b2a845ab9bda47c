"""`embedbroker run` as a process: its first line, signals, and every way in which it cannot start."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from embedbroker import AcceptorConfig, BrokerConfig, EmbeddedBroker
from embedbroker.cli._collector import CollectorForBroker
from embedbroker.cli._run import with_options
from embedclient import Queue
from embedclient.blocking import ConnectionFactory
from tests.embedbroker.cli.command_processes import COMMAND, CommandProcess, broker, called, finished, started

CANNOT_START = 3


def one_line(errors: str) -> str:
    """What stands on stderr, which has to be one line for people."""
    assert errors.count("\n") == 1, errors
    assert "Traceback" not in errors
    assert errors.startswith("embedbroker: ")
    return errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_stops_in_order(number: signal.Signals, tmp_path: Path) -> None:
    with started("run", "--json", "--port", "0", "--data", tmp_path / "data", "--name", "orders") as process:
        ready = process.event()
        assert ready["event"] == "ready"
        assert ready["name"] == "orders"
        assert ready["pid"] == process.process.pid
        scheme, _, place = ready["url"].partition("://")
        host, _, port = place.rpartition(":")
        assert scheme == "tcp"
        with socket.create_connection((host, int(port))):
            pass
        process.send(number)
        assert process.event() == {"event": "stopping", "signal": number.name}
        assert process.event() == {"event": "stopped"}
        assert process.exit_code() == 0
        assert process.rest_of_errors() == ""


def test_options_say_where_the_one_acceptor_of_a_file_is_but_not_where_several_are() -> None:
    one = BrokerConfig(acceptors=[AcceptorConfig("one", port=5, auto_start=False)])
    assert with_options(one, {"port": 0, "name": "b"}) == BrokerConfig(
        name="b", acceptors=[AcceptorConfig("one", auto_start=False)]
    )
    two = BrokerConfig(acceptors=[*one.acceptors, AcceptorConfig("two", host="0.0.0.0", port=6)])
    assert with_options(two, {"name": "b"}).acceptors == two.acceptors
    # Also with the values that a broker has without acceptors.
    with pytest.raises(ValueError, match=r"--host: the file has the acceptors 'one', 'two', each with its own host;"):
        with_options(two, {"host": "127.0.0.1"})


def test_without_json_it_says_the_same_to_people() -> None:
    with started("run", "--port", "0") as process:
        assert process.process.stdout is not None
        line = process.process.stdout.readline()
        assert line.startswith("broker 'embedbroker' is ready: tcp://127.0.0.1:")
        assert line.endswith("(in memory)\n")
        process.send(signal.SIGTERM)
        assert process.exit_code() == 0


class CollectorCycle:
    itself: CollectorCycle


def test_the_collector_leaves_what_was_there_alone_while_the_broker_runs() -> None:
    before = gc.get_threshold()
    there: list[object] = []
    with CollectorForBroker():
        assert gc.get_threshold() != before
        assert not any(each is there for each in gc.get_objects())
        # Cycles that arise are found.
        cycle = CollectorCycle()
        cycle.itself, gone = cycle, weakref.ref(cycle)
        del cycle
        gc.collect()
        assert gone() is None
    assert gc.get_threshold() == before
    assert any(each is there for each in gc.get_objects())


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_it_stops_in_order_when_nobody_reads_what_it_says(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [*COMMAND, "run", "--json", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_it_ends_with_its_stdin_where_that_is_wanted() -> None:
    command = [*COMMAND, "run", "--json", "--port", "0", "--until-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdin.write("this means nothing\n")
        process.stdin.close()
        assert [json.loads(line)["event"] for line in process.stdout] == ["stopping", "stopped"]
        assert process.wait() == 0


def test_a_second_signal_stops_it_at_once() -> None:
    # A broker whose orderly stop takes for ever.
    code = (
        "import sys, trio, embedbroker.cli, embedbroker as b\n"
        "async def stop(self): await trio.sleep_forever()\n"
        "b.EmbeddedBroker.stop = stop\n"
        "sys.argv[1:] = ['run', '--port', '0', '--json']\n"
        "embedbroker.cli.main()\n"
    )
    with started(command=[sys.executable, "-c", code]) as process:
        assert process.event()["event"] == "ready"
        process.send(signal.SIGTERM)
        assert process.event()["event"] == "stopping"
        process.send(signal.SIGINT)
        assert process.exit_code() == -signal.SIGINT


def test_the_package_itself_is_the_command() -> None:
    with started("--version", command=[sys.executable, "-m", "embedbroker"]) as process:
        assert process.rest_of_output() == finished("--version").stdout
        assert process.exit_code() == 0


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = finished("run", "--port", str(port))
    assert ended.returncode == CANNOT_START
    assert one_line(ended.stderr) == f"embedbroker: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert ended.stdout == ""


def test_a_host_that_is_not_there_is_named() -> None:
    ended = called("run", "--host", "192.0.2.1", "--port", "0")
    assert ended.returncode == CANNOT_START
    assert "192.0.2.1" in one_line(ended.stderr)


def test_a_host_without_a_name_is_refused_with_what_it_may_be() -> None:
    ended = called("run", "--host", "", "--port", "0")
    assert ended.returncode == CANNOT_START
    assert "host must name an address to listen on" in one_line(ended.stderr)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--host", "no..host", "'no..host' is not the name of a host"),
        ("--data", "", "data_directory must be a path, not ''"),
        ("--name", "", "name must not be empty"),
        ("--name", "\udcff", "name must be Unicode text"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_named(option: str, value: str, said: str) -> None:
    ended = called("run", "--port", "0", option, value)
    assert ended.returncode == CANNOT_START
    assert said in one_line(ended.stderr)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    directory = tmp_path / "file" / "data"
    ended = called("run", "--port", "0", "--data", directory)
    assert ended.returncode == CANNOT_START
    assert str(directory) in one_line(ended.stderr)


BROKER_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
    <name>${NODE:nobody}</name>
    <acceptors><acceptor name="main">tcp://127.0.0.1:0</acceptor></acceptors>
    <security-enabled>false</security-enabled>
    <journal-type>NIO</journal-type>
</core></configuration>
"""


def test_a_broker_runs_with_a_file_and_says_what_has_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    second = "<acceptor name='second'>tcp://127.0.0.1:0</acceptor></acceptors>"
    file.write_text(BROKER_XML.replace("</acceptors>", second))
    with started("run", "--json", "--config", file, "-D", "NODE=alice") as process:
        ready = process.event()
        assert (ready["event"], ready["name"]) == ("ready", "alice")
        assert ready["url"].startswith("tcp://127.0.0.1:")
        assert list(ready["urls"]) == ["main", "second"] and ready["urls"]["main"] == ready["url"]
        process.send(signal.SIGTERM)
        assert process.exit_code() == 0
        assert process.rest_of_errors().endswith(f" WARNING {file}: core/journal-type: has no effect here\n")
    assert (tmp_path / "data" / "journal").is_dir()


PAIR_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
    <acceptors><acceptor name="main">tcp://127.0.0.1:0</acceptor></acceptors>
    <security-enabled>false</security-enabled>
    <ha-policy><shared-store><{part}/></shared-store></ha-policy>
</core></configuration>
"""


def test_a_backup_says_that_it_waits_and_that_it_is_ready_when_the_live_broker_was_killed(tmp_path: Path) -> None:
    files = {}
    for part in ("master", "slave"):
        files[part] = tmp_path / f"{part}.xml"
        files[part].write_text(PAIR_XML.replace("{part}", part))
    shared = ("--data", tmp_path / "shared")
    with started("run", "--json", "--config", files["master"], "--name", "p", *shared) as live:
        assert live.event()["event"] == "ready"
        with started("run", "--json", "--config", files["slave"], "--name", "b", *shared) as backup:
            assert backup.event() == {"event": "backup", "name": "b", "pid": backup.process.pid}
            live.send(signal.SIGKILL)
            ready = backup.event()
            assert (ready["event"], ready["name"]) == ("ready", "b")
            with started("run", "--json", "--config", files["master"], "--name", "p", *shared) as returned:
                assert returned.event()["event"] == "ready"
                assert backup.event()["event"] == "backup"
                backup.send(signal.SIGTERM)
                assert backup.event()["event"] == "stopping"
                assert backup.exit_code() == 0


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML.replace("tcp://127.0.0.1:0", "tcp://192.0.2.1:1"))
    typed = ("--host", "127.0.0.1", "--port", "0", "--data", str(tmp_path / "other"), "--name", "bob")
    with started("run", "--json", "--config", file, *typed) as process:
        assert process.event()["name"] == "bob"
    assert (tmp_path / "other").is_dir()
    assert not (tmp_path / "data").exists()


def test_a_changed_file_is_adopted_and_one_that_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    period = "<configuration-file-refresh-period>20</configuration-file-refresh-period>"
    file, changed = tmp_path / "broker.xml", tmp_path / "changed.xml"

    def write(inner: str) -> None:
        changed.write_text(BROKER_XML.replace("</core>", f"{period}\n{inner}</core>"))
        changed.replace(file)

    def next_line(process: CommandProcess) -> str:
        while "configuration" not in (line := process.error_line()):
            assert line, "the broker ended"
        return line.partition(" ")[2].partition(" ")[2]

    write("")
    with started("run", "--json", "-v", "--config", file, "--name", "bob") as process:
        url = process.event()["url"]
        write("<diverts>")
        why = f"{file}: line 7, column 12: mismatched tag"
        assert next_line(process) == f"ERROR the configuration is not changed, its file cannot be used: {why}\n"
        divert = "<address>orders</address><forwarding-address>audit</forwarding-address>"
        write(f"<diverts><divert name='copy'>{divert}</divert></diverts>")
        assert next_line(process).startswith("INFO the configuration is read again: ")
        shown = called("divert", "list", "--json", "--url", url)
        assert [json.loads(line)["UniqueName"] for line in shown.stdout.splitlines()] == ["copy"]


def test_every_error_of_a_file_stands_in_the_one_line(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML.replace("journal-type", "journal-tpye").replace("false", "perhaps"))
    ended = called("run", "--config", file)
    assert ended.returncode == CANNOT_START
    assert one_line(ended.stderr) == (
        f"embedbroker: {file}: core/journal-tpye: unknown name; did you mean 'journal-type'?; "
        f"{file}: core/security-enabled: expected true or false, not 'perhaps'\n"
    )


def test_what_does_not_fit_together_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    more = (
        "<ha-policy><shared-store><primary/></shared-store></ha-policy><persistence-enabled>false</persistence-enabled>"
    )
    file.write_text(BROKER_XML.replace("</core>", f"{more}</core>"))
    ended = called("run", "--config", file)
    assert ended.returncode == CANNOT_START
    assert "ha_policy SharedStorePrimary needs the data_directory" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr
    nameless = called("run", "--name", "")
    assert nameless.returncode == CANNOT_START
    assert one_line(nameless.stderr) == "embedbroker: name must not be empty\n"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = called("run", "--config", tmp_path / "nowhere.xml")
    assert ended.returncode == CANNOT_START
    assert one_line(ended.stderr) == f"embedbroker: cannot read {tmp_path}/nowhere.xml: No such file or directory\n"


@pytest.mark.parametrize("options", [["-D", "a=b"], ["--config", "x", "-D", "a"], ["--config", "x", "-D", "=b"]])
def test_properties_are_pairs_for_a_file(options: list[str]) -> None:
    ended = called("run", *options)
    assert ended.returncode == 2
    assert "-D" in ended.stderr


def test_a_second_broker_on_a_directory_learns_who_has_it(tmp_path: Path) -> None:
    with broker("--data", tmp_path, "--name", "first") as (first, _):
        ended = called("run", "--port", "0", "--data", tmp_path, "--name", "second")
        assert ended.returncode == CANNOT_START
        line = one_line(ended.stderr)
        assert str(tmp_path) in line
        assert f"'first' in process {first.process.pid}" in line


def test_a_killed_broker_leaves_no_lock_behind(tmp_path: Path) -> None:
    with broker("--data", tmp_path) as (first, _):
        first.send(signal.SIGKILL)
        assert first.exit_code() == -signal.SIGKILL
        with broker("--data", tmp_path):
            pass


def test_a_damaged_journal_is_named_with_its_place(tmp_path: Path) -> None:
    with broker("--data", tmp_path) as (process, url):
        assert called("send", "--url", url, "orders", "text", "--count", "20").returncode == 0
        process.send(signal.SIGTERM)
        assert process.exit_code() == 0
    segment = min(tmp_path.glob("*.journal"))
    with segment.open("r+b") as file:
        place = file.read().index(b"t\0e\0x\0t")  # the body of the first message
        file.seek(place)
        file.write(b"X")
    ended = called("run", "--port", "0", "--data", tmp_path)
    assert ended.returncode == CANNOT_START
    line = one_line(ended.stderr)
    assert segment.name in line
    assert "offset" in line


def test_a_file_full_of_garbage_is_named(tmp_path: Path) -> None:
    (tmp_path / "segment-0000000001.journal").write_bytes(bytes(range(256)) * 256)
    (tmp_path / "segment-0000000002.journal").write_bytes(bytes(range(256)) * 256)
    ended = called("run", "--port", "0", "--data", tmp_path)
    assert ended.returncode == CANNOT_START
    assert "segment-000000000" in one_line(ended.stderr)


def test_wrong_options_are_two() -> None:
    ended = called("run", "--port", "70000")
    assert ended.returncode == 2
    assert "70000" in ended.stderr


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['click'] = None; from embedbroker.cli import main; main()"
    ended = finished(command=[sys.executable, "-c", code])
    assert ended.returncode == 2
    assert "pip install 'embedbroker[cli]'" in one_line(ended.stderr)


def test_run_loads_nothing_that_only_other_commands_need() -> None:
    code = (
        "import sys; sys.argv[1:] = ['run', '--help']\n"
        "import atexit; atexit.register(lambda: print('loaded', 'rich' in sys.modules, 'statistics' in sys.modules))\n"
        "from embedbroker.cli import main; main()"
    )
    ended = finished(command=[sys.executable, "-c", code])
    assert ended.stdout.splitlines()[-1] == "loaded False False"


def test_every_command_has_a_line_of_help() -> None:
    ended = called("--help")
    assert ended.returncode == 0
    for name in ("run", "drill", "perf", "send", "receive", "browse", "journal"):
        assert f"\n  {name} " in ended.stdout, os.linesep + ended.stdout


def test_output_on_a_full_disk_does_not_end_a_broker() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", "--json", "--port", "0", "--until-eof"],
            input="",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_filter_of_the_file_that_is_none_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    queue = '<anycast><queue name="red"><filter string="colour ="/></queue></anycast>'
    addresses = f'<addresses><address name="paints">{queue}</address></addresses>'
    memory = "<persistence-enabled>false</persistence-enabled>"
    file = tmp_path / "broker.xml"
    file.write_text(BROKER_XML.replace("</core>", f"{memory}{addresses}</core>"))
    ended = called("run", "--config", file)
    assert ended.returncode == CANNOT_START
    said = "address 'paints', queue 'red': filter: invalid selector: the selector ends too early at position 8 of"
    assert said in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


LEAVING_XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
    <connectors><connector name="heir">{url}</connector></connectors>
    <acceptors><acceptor name="main">tcp://127.0.0.1:0</acceptor></acceptors>
    <security-enabled>false</security-enabled>
    <ha-policy><live-only><scale-down>
        <connectors><connector-ref>heir</connector-ref></connectors>
    </scale-down></live-only></ha-policy>
</core></configuration>
"""


def test_a_broker_that_scales_down_has_moved_everything_when_its_process_ends(tmp_path: Path) -> None:
    with EmbeddedBroker.in_thread(name="heir", port=0) as heir:
        file = tmp_path / "broker.xml"
        file.write_text(LEAVING_XML.replace("{url}", heir.url))
        with started("run", "--json", "--config", file, "--data", tmp_path / "data") as process:
            with ConnectionFactory(process.event()["url"]).connect() as connection, connection.session() as session:
                session.create_producer(Queue("orders")).send("moved")
            process.send(signal.SIGTERM)
            assert process.event()["event"] == "stopping"
            assert process.event() == {"event": "stopped"}
            assert process.exit_code() == 0
        with ConnectionFactory(heir.url).connect() as connection, connection.session() as session:
            assert session.create_consumer(Queue("orders")).receive_body(str, timeout=60) == "moved"
