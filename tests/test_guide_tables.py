"""The tables of the guide agree with the code: parameters, settings, options, exit codes, errors, verdicts."""

from __future__ import annotations

import inspect
import json
import re
from argparse import Action, ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from attrs import NOTHING, fields

from embedbroker import (
    AcceptorConfig,
    AddressFullPolicy,
    AddressSettings,
    BridgeConfig,
    BridgeRoutingType,
    BroadcastGroup,
    BrokerConfig,
    ClusterConnection,
    Colocated,
    DiscoveryGroup,
    GroupingHandlerConfig,
    MessageLoadBalancing,
    ReplicationBackup,
    ReplicationPrimary,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.cli import _failure as failures
from embedbroker.cli._commands import commands
from embedbroker.cli._message_text import as_json_line
from embedbroker.config import AddressSettingsRepository
from embedbroker.ledger import Tally, Verdict
from embedbroker.management import CONTROLS, Control
from embedclient import LocatorSettings, TextMessage, errors
from embedclient._client._url import FactorySettings
from embedclient._client._url_parameters import (
    DISCOVERY_PARAMETERS,
    FACTORY_PARAMETERS,
    LOCATOR_PARAMETERS,
    TRANSPORT_PARAMETERS,
    VM_PARAMETERS,
)
from embedclient.model import ACCEPTOR_PARAMETERS
from tests.simulation.__main__ import make_parser

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
CODE = re.compile(r"`([^`]*)`")
Row = list[str]


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of any level."""
    text = (GUIDE / f"{page}.md").read_text()
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page}.md has no heading {heading!r}"
    return found[1]


def tables(text: str) -> list[list[Row]]:
    """The rows of each table, cells stripped, without the head."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[cells(line) for line in block.splitlines()[2:]] for block in blocks]


def cells(line: str) -> Row:
    # A bar that belongs to the text of a cell is written behind a backslash.
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


def only_table(page: str, heading: str) -> list[Row]:
    (rows,) = tables(section(page, heading))
    return rows


def codes(cell: str) -> list[str]:
    return CODE.findall(cell)


def named_defaults(rows: list[Row]) -> dict[str, str]:
    """Each name in code of the first column, with the text of the second column."""
    return {name: row[1].strip("`") for row in rows for name in codes(row[0])}


def url_text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_url_parameter_is_there_with_its_default() -> None:
    shown = named_defaults(only_table("connections", "Connection") + only_table("connections", "Messages"))
    settings = {field.name: field.default for field in fields(LocatorSettings)}
    factory = {field.name: field.default for field in fields(FactorySettings)}
    known = {name: url_text(settings[field]) for name, (field, _) in LOCATOR_PARAMETERS.items()}
    known |= {name: url_text(factory[field]) for name, (field, _) in FACTORY_PARAMETERS.items() if field}
    idle = set(codes(section("connections", "Accepted, without effect")))
    assert shown == {name: default for name, default in known.items() if name not in idle}
    transport = set(named_defaults(only_table("connections", "Transport") + only_table("tls", "Settings")))
    transport -= ACCEPTOR_PARAMETERS - TRANSPORT_PARAMETERS.keys()
    discovery = set(named_defaults(only_table("connections", "Discovery parameters")))
    everything = {*LOCATOR_PARAMETERS, *FACTORY_PARAMETERS, *TRANSPORT_PARAMETERS, *VM_PARAMETERS}
    assert idle | transport | discovery | set(shown) == everything | set(DISCOVERY_PARAMETERS)


def test_every_address_setting_is_there_with_its_default() -> None:
    shown = named_defaults(only_table("addresses", "Address settings"))
    defaults = AddressSettingsRepository().of("any")
    values = {field.name: getattr(defaults, field.name) for field in fields(AddressSettings)}
    assert shown == {
        name: value.value if isinstance(value, AddressFullPolicy) else repr(value) for name, value in values.items()
    }


def test_every_field_of_the_configuration_is_there_with_its_default() -> None:
    shown = named_defaults(only_table("embedding", "Configuration"))
    assert list(shown) == [field.name for field in fields(BrokerConfig)]
    shown.pop("address_settings")
    assert shown == {name: repr(getattr(BrokerConfig(), name)) for name in shown}


def test_every_setting_of_a_cluster_connection_is_there_with_its_default() -> None:
    shown = named_defaults(only_table("clusters", "ClusterConnection"))
    defaults = {field.name: field.default for field in fields(ClusterConnection)}
    assert shown == {
        name: value.value if isinstance(value, MessageLoadBalancing) else repr(value)
        for name, value in defaults.items()
    }


@pytest.mark.parametrize("kind", [BroadcastGroup, DiscoveryGroup], ids=lambda kind: kind.__name__)
def test_every_setting_of_a_group_is_there_with_its_default(kind: type[BroadcastGroup | DiscoveryGroup]) -> None:
    shown = named_defaults(only_table("clusters", kind.__name__))
    assert shown == {field.name: "" if field.default is NOTHING else repr(field.default) for field in fields(kind)}


def test_every_setting_of_a_bridge_is_there_with_its_default() -> None:
    shown = {codes(row[0])[0]: "".join(codes(row[1])) for row in only_table("bridges", "BridgeConfig")}
    defaults: dict[str, Any] = {field.name: field.default for field in fields(BridgeConfig)} | {"properties": {}}
    assert shown == {
        name: "" if value is NOTHING else value.value if isinstance(value, BridgeRoutingType) else repr(value)
        for name, value in defaults.items()
    }


def test_every_setting_of_an_acceptor_is_there_with_its_default() -> None:
    shown = {codes(row[0])[0]: "".join(codes(row[1])) for row in only_table("embedding", "Several acceptors")}
    defaults: dict[str, Any] = {field.name: field.default for field in fields(AcceptorConfig)}
    assert shown == {name: "" if value is NOTHING else repr(value) for name, value in defaults.items()}


def test_every_setting_of_a_grouping_handler_is_there_with_its_default() -> None:
    shown = {codes(row[0])[0]: "".join(codes(row[1])) for row in only_table("clusters", "Message groups")}
    defaults: dict[str, Any] = {field.name: field.default for field in fields(GroupingHandlerConfig)}
    assert shown == {name: "" if value is NOTHING else repr(value) for name, value in defaults.items()}


@pytest.mark.parametrize(
    ("heading", "primary", "backup"),
    [
        ("A shared directory", SharedStorePrimary, SharedStoreBackup),
        ("Replication", ReplicationPrimary, ReplicationBackup),
    ],
)
def test_every_setting_of_a_policy_is_there_with_its_default(
    heading: str, primary: type[SharedStorePrimary], backup: type[SharedStoreBackup]
) -> None:
    rows = tables(section("high-availability", heading))[0]
    shown = {
        (name, policy): default
        for row in rows
        for name, default in zip(codes(row[0]), codes(row[2]), strict=True)
        for policy in ((primary, backup) if row[1] == "both" else (primary if row[1] == "primary" else backup,))
    }
    known = {(field.name, policy): repr(field.default) for policy in (primary, backup) for field in fields(policy)}
    # Where messages go when a broker stops has no effect yet, and is stated once for all policies.
    assert shown == {key: default for key, default in known.items() if key[0] != "scale_down"}


def test_every_setting_of_a_colocated_broker_is_there_with_its_default() -> None:
    shown = {codes(row[0])[0]: "".join(codes(row[1])) for row in only_table("high-availability", "Colocated backups")}
    policy = Colocated()
    defaults = {field.name: repr(getattr(policy, field.name)) for field in fields(Colocated)}
    assert shown == defaults | {"primary": "ReplicationPrimary()", "backup": ""}


def test_every_limit_of_the_configuration_is_in_the_table_of_limits() -> None:
    limits = {field.name for field in fields(BrokerConfig) if field.name.endswith(("_max", "_bytes"))}
    shown = {name for row in tables(section("limits", "Limits"))[0] for name in codes(row[2])}
    assert limits - shown == {"work_per_step_max", "segment_size_bytes"}


def options_of(command: click.Command) -> dict[str, str]:
    found: dict[str, str] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            default = "off" if parameter.is_flag else url_text(parameter.to_info_dict()["default"])
            found |= dict.fromkeys(parameter.opts, default)
    return found


MANAGEMENT = "queue, address, divert, security, message, connection, session, consumer, producer, transaction"
READING = ("stat", "show", "list", "browse", "scheduled", "count", "groups", "decided")
COMMANDS = {
    "run": ("run", 0),
    "send": ("send, receive, browse", 1),
    "receive": ("send, receive, browse", 2),
    "browse": ("send, receive, browse", 3),
    "perf": ("perf", 0),
    "connection close": (MANAGEMENT, 1),
    "session close": (MANAGEMENT, 1),
    "consumer close": (MANAGEMENT, 1),
    "message retry": (MANAGEMENT, 1),
    "queue stat": (MANAGEMENT, 3),
    "queue list": (MANAGEMENT, 3),
    "address show": (MANAGEMENT, 3),
    "address list": (MANAGEMENT, 3),
    "connection list": (MANAGEMENT, 3),
    "session list": (MANAGEMENT, 3),
    "consumer list": (MANAGEMENT, 3),
    "producer list": (MANAGEMENT, 3),
    "queue create": (MANAGEMENT, 4),
    "queue delete": (MANAGEMENT, 5),
    "queue purge": (MANAGEMENT, 6),
    "message browse": (MANAGEMENT, 7),
    "message scheduled": (MANAGEMENT, 8),
    "message deliver": (MANAGEMENT, 11),
    "message count": (MANAGEMENT, 9),
    "message send": (MANAGEMENT, 10),
    "message move": (MANAGEMENT, 24),
    "message delete": (MANAGEMENT, 11),
    "message expire": (MANAGEMENT, 11),
    "message reject": (MANAGEMENT, 11),
    "message copy": (MANAGEMENT, 12),
    "transaction list": (MANAGEMENT, 22),
    "transaction decided": (MANAGEMENT, 22),
    "transaction commit": (MANAGEMENT, 1),
    "transaction rollback": (MANAGEMENT, 1),
    "address create": (MANAGEMENT, 13),
    "address delete": (MANAGEMENT, 14),
    "drill": ("drill", 0),
    "mask": ("mask", 0),
    "journal verify": ("journal", 0),
    "journal show": ("journal", 1),
    "pipeline audit": ("pipeline", 0),
    "pipeline reconcile": ("pipeline", 1),
    "pipeline repair": ("pipeline", 2),
    "pipeline export": ("pipeline", 3),
    "pipeline import": ("pipeline", 4),
    "queue pause": (MANAGEMENT, 15),
    "address pause": (MANAGEMENT, 15),
    "queue update": (MANAGEMENT, 19),
    "address settings show": (MANAGEMENT, 16),
    "address settings set": (MANAGEMENT, 1),
    "address settings remove": (MANAGEMENT, 1),
    "security show": (MANAGEMENT, 17),
    "security set": (MANAGEMENT, 18),
    "security remove": (MANAGEMENT, 1),
    "queue resume": (MANAGEMENT, 1),
    "address resume": (MANAGEMENT, 1),
    "queue disable": (MANAGEMENT, 1),
    "queue enable": (MANAGEMENT, 1),
    "queue groups": (MANAGEMENT, 22),
    "queue reset-groups": (MANAGEMENT, 23),
    "divert list": (MANAGEMENT, 20),
    "divert create": (MANAGEMENT, 21),
    "divert destroy": (MANAGEMENT, 1),
    "bridge list": ("bridge", 2),
    "bridge create": ("bridge", 3),
    "bridge destroy": ("bridge", 4),
    "bridge start": ("bridge", 4),
    "bridge stop": ("bridge", 4),
    "bridge add-connector": ("bridge", 4),
    "bridge remove-connector": ("bridge", 4),
    "user list": ("user", 2),
    "user add": ("user", 3),
    "user reset": ("user", 4),
    "user remove": ("user", 5),
    "cert": ("cert", 0),
    "request": ("request", 0),
    "pipeline demo": ("pipeline", 5),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_there_with_its_default(name: str) -> None:
    heading, number = COMMANDS[name]
    found = tables(section("command-line", heading))
    shown = named_defaults(found[number])
    if number and heading not in ("journal", "pipeline"):
        # The options that all commands of the section have.
        shown |= named_defaults(found[1 if heading == MANAGEMENT else 0])
    if heading == MANAGEMENT and name.split()[-1] not in READING:
        shown |= named_defaults(found[2])
    command: click.Command = commands
    for word in name.split():
        assert isinstance(command, click.Group)
        step = command.get_command(click.Context(command), word)
        assert step is not None
        command = step
    assert {option: default for option, default in shown.items() if option.startswith("-")} == options_of(command)


def test_every_command_of_management_is_in_the_tables() -> None:
    def walk(group: click.Group, *words: str) -> Iterator[str]:
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from walk(command, *words, name)
            else:
                yield " ".join((*words, name))

    groups = {name: commands.get_command(click.Context(commands), name) for name in MANAGEMENT.split(", ")}
    found = {name for word, group in groups.items() if isinstance(group, click.Group) for name in walk(group, word)}
    assert found == {name for name, (heading, _) in COMMANDS.items() if heading == MANAGEMENT}
    shown = " ".join(row[0] for row in tables(section("command-line", MANAGEMENT))[0])
    assert [name for name in found if not re.search(rf"`{name}\b", shown)] == []


def test_a_message_as_json_is_shown_with_every_name() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", section("command-line", "send, receive, browse"), re.DOTALL)
    assert list(json.loads(shown)) == list(json.loads(as_json_line(TextMessage("two coffees"))))


def test_every_command_has_a_place() -> None:
    text = (GUIDE / "command-line.md").read_text()
    headings = {word for heading in re.findall(r"^## (.*)", text, re.MULTILINE) for word in heading.split(", ")}
    assert set(commands.list_commands(click.Context(commands))) <= headings


def test_every_exit_code_is_there() -> None:
    shown = {int(number) for row in only_table("command-line", "Exit codes") for number in re.findall(r"\d+", row[0])}
    defined = {
        found.exit_code
        for found in vars(failures).values()
        if inspect.isclass(found) and issubclass(found, click.ClickException)
    }
    assert defined <= shown


def test_every_exception_is_there_with_its_codes() -> None:
    rows = tables(section("limits", "Errors"))[0]
    shown = {codes(row[0])[0]: (codes(row[1]), row[2], row[3]) for row in rows}
    expected: dict[str, tuple[list[str], str, str]] = {}
    for name in errors.__all__:
        found = getattr(errors, name)
        if inspect.isclass(found) and issubclass(found, errors.JMSException):
            builtins = [parent.__name__ for parent in found.__bases__ if parent.__module__ == "builtins"]
            become = ", ".join(str(int(code)) for code in errors.ErrorCode if type(_raised(code)) is found)
            expected[name] = ([one for one in builtins if one != "Exception"], str(int(found.DEFAULT_CODE)), become)
    expected["JMSException"] = ([], "999", "all others")
    assert shown == expected


def _raised(code: int) -> errors.JMSException:
    return errors.exception_for(code, "")


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_every_attribute_and_operation_of_management_is_there(control: Control) -> None:
    resource = control.name if control.name == "broker" else f"{control.name}.NAME"
    attributes = [(codes(row[0])[0], row[1]) for row in only_table("management", f"Attributes of {resource}")]
    assert attributes == [(attribute.name, attribute.type) for attribute in control.attributes.values()]
    if not control.operations:
        return
    operations = [(codes(row[0])[0], row[1]) for row in only_table("management", f"Operations of {resource}")]
    known = []
    for operation in control.operations:
        parameters = ", ".join(f"{each.kind.value} {each.name}" for each in operation.parameters)
        known.append((f"{operation.name}({parameters})", operation.type))
    assert operations == known


def test_every_option_of_the_simulator_is_there_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = named_defaults(only_table("simulation", "Running seeds"))
    add, actions, known = ArgumentParser.add_argument, list[Action](), dict[str, str]()

    def noted(parser: ArgumentParser, *names: str, **options: Any) -> Action:
        actions.append(add(parser, *names, **options))
        return actions[-1]

    monkeypatch.setattr(ArgumentParser, "add_argument", noted)
    make_parser()
    for action in actions:
        if "--help" not in action.option_strings:
            default = "off" if action.const is True else url_text(action.default)
            known |= dict.fromkeys(action.option_strings, default)
    assert shown == known


def test_every_tally_of_a_verdict_is_there() -> None:
    rows = only_table("simulation", "The ledger")
    tallies = {field.name for field in fields(Verdict) if isinstance(field.default, Tally)}
    assert {codes(row[0])[0] for row in rows} == tallies - {"flagged_at_once"}
    bad = {codes(row[0])[0] for row in rows if row[2] == "fault"}
    one = Tally(1, ("m",))
    for name in tallies:
        assert Verdict(drained=True, **{name: one}).clean == (name not in bad), name  # type: ignore[arg-type]
