"""A broker.xml that changes while its broker runs: it is looked at each period, in virtual time."""

from __future__ import annotations

import errno
import io
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from embedbroker import (
    AddressConfiguration,
    AddressSettings,
    BrokerConfig,
    DivertConfiguration,
    EmbeddedBroker,
    QueueConfiguration,
    SecuritySetting,
    WildcardConfiguration,
    load_config,
)
from embedbroker.runtime import _configuration_watch
from embedclient import ConnectionFactory
from embedclient.errors import JMSException, JMSSecurityException

PERIOD_S = 5
PERMISSIONS = """<security-setting match="#"><permission type="send" roles="{senders}"/>
<permission type="createAddress" roles="amq"/><permission type="createDurableQueue" roles="amq"/></security-setting>"""
SETTINGS = """<address-setting match="#"><max-delivery-attempts>{attempts}</max-delivery-attempts></address-setting>"""
DIVERT = """<divert name="copy"><address>orders</address><forwarding-address>{target}</forwarding-address>
<exclusive>{exclusive}</exclusive></divert>"""
ADDRESS = """<address name="stock"><anycast><queue name="stock" {attributes}>{filter}</queue></anycast></address>"""


class File:
    """A broker.xml with a part of each kind."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "broker.xml"
        self.values = {
            "core": "", "senders": "amq", "attempts": "3", "target": "audit", "exclusive": "false", "attributes": "",
            "filter": "", "diverts": DIVERT, "addresses": ADDRESS,
        }  # fmt: skip
        self.written = 0

    def write(self, **changes: str) -> None:
        """Write the file with other values, as a file with a later modification time."""
        self.values |= changes
        parts = {
            "security-settings": PERMISSIONS, "address-settings": SETTINGS, "diverts": self.values["diverts"],
            "addresses": self.values["addresses"],
        }  # fmt: skip
        inner = "".join(f"<{name}>{text.format(**self.values)}</{name}>" for name, text in parts.items())
        self.write_text(
            '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
            "<persistence-enabled>false</persistence-enabled><security-enabled>false</security-enabled>"
            f'<acceptors><acceptor name="a">tcp://127.0.0.1:0</acceptor></acceptors>{self.values["core"]}{inner}'
            "</core></configuration>"
        )

    def write_text(self, text: str) -> None:
        self.path.write_text(text)
        self.written += 1
        os.utime(self.path, (self.written, self.written))


@pytest.fixture
def file(tmp_path: Path) -> File:
    file = File(tmp_path)
    file.write()
    return file


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines about the configuration that were logged since the last call."""
    caplog.set_level(logging.INFO)

    def taken() -> list[str]:
        found = [each.getMessage() for each in caplog.records if "configuration" in each.getMessage()]
        caplog.clear()
        return found

    return taken


@pytest.fixture(autouse=True)
def looks_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look end within its moment of virtual time, which does not wait for threads."""

    class Here:
        def __init__(self, count: int, warn: Callable[[str], None]) -> None:
            pass

        async def run(self, work: Callable[..., Any], *arguments: Any, abandon_on_cancel: bool = False) -> Any:
            return work(*arguments)

    monkeypatch.setattr(_configuration_watch, "Threads", Here)


async def settle(seconds: float = PERIOD_S) -> None:
    """Let virtual time pass, until the file was looked at once more."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()
    await trio.testing.wait_all_tasks_blocked()


READ_AGAIN = "the configuration is read again: security_settings, address_settings, diverts, addresses"


async def test_a_changed_file_is_adopted_at_the_next_look(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        management = broker.management
        await settle()
        assert lines() == []
        file.write(
            senders="amq,guests", attempts="7", target="archive", exclusive="true", attributes='max-consumers="2"',
            filter='<filter string="a = 1"/>',
        )  # fmt: skip
        assert (await management.address_settings("x")).max_delivery_attempts == 3
        await settle()
        assert lines() == [READ_AGAIN]
        assert (await management.security_settings("x")).send == {"amq", "guests"}
        assert (await management.address_settings("x")).max_delivery_attempts == 7
        assert await management.get("divert.copy", "ForwardingAddress") == "archive"
        assert await management.get("divert.copy", "Exclusive") is True
        assert await management.get("queue.stock", "MaxConsumers") == 2
        assert await management.get("queue.stock", "Filter") == "a = 1"
        # What is no longer in the file has its default again.
        file.write(attributes="", filter="")
        await settle()
        assert await management.get("queue.stock", "MaxConsumers") == -1
        assert not await management.get("queue.stock", "Filter")
        assert lines() == [READ_AGAIN]


async def test_management_reloads_the_file_at_once(file: File, lines: Callable[[], list[str]]) -> None:
    """Also without a period; Artemis' reloadConfigurationFile."""
    file.write(core="<configuration-file-refresh-period>-1</configuration-file-refresh-period>")
    async with EmbeddedBroker(load_config(file.path)) as broker:
        management = broker.management
        file.write(attempts="7")
        await management.invoke("broker", "reloadConfigurationFile")
        assert (await management.address_settings("x")).max_delivery_attempts == 7
        assert lines()[-1] == READ_AGAIN
        file.write(exclusive="perhaps")
        with pytest.raises(JMSException, match=r"its file cannot be used: .*exclusive"):
            await management.invoke("broker", "reloadConfigurationFile")
    async with EmbeddedBroker() as broker:
        with pytest.raises(JMSException, match="the broker has no configuration file"):
            await broker.management.invoke("broker", "reloadConfigurationFile")


async def test_what_is_new_in_the_file_is_created_and_what_is_missing_stays(
    file: File, autojump_clock: MockClock
) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        management = broker.management
        await management.create_divert("mine", "orders", "elsewhere")
        file.write(
            diverts=DIVERT.replace("copy", "other"),
            addresses='<address name="new"><multicast><queue name="subscription"/></multicast></address>',
        )
        await settle()
        assert sorted(await management.divert_names()) == ["copy", "mine", "other"]
        assert {"stock", "subscription"} <= set(await management.queue_names())
        assert await management.get("queue.subscription", "RoutingType") == "MULTICAST"


async def test_the_routing_type_of_a_queue_changes_and_its_messages_stay(file: File, autojump_clock: MockClock) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        await broker.management.send_message("stock", "tea")
        file.write(addresses=ADDRESS.replace("anycast", "multicast"))
        await settle()
        assert await broker.management.get("queue.stock", "RoutingType") == "MULTICAST"
        assert await broker.management.get("address.stock", "RoutingTypes") == ["MULTICAST"]
        assert await broker.management.message_count("stock") == 1


async def test_what_management_set_stays_in_force(file: File, autojump_clock: MockClock) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        management = broker.management
        await management.add_address_settings("#", AddressSettings(max_delivery_attempts=1))
        await management.add_address_settings("gone", AddressSettings(max_delivery_attempts=2))
        await management.remove_address_settings("gone")
        await management.add_security_settings("mine.#", SecuritySetting(send=["me"]))
        file.write(attempts="8", senders="others")
        await settle()
        assert (await management.address_settings("gone")).max_delivery_attempts == 1
        assert (await management.security_settings("mine.x")).send == {"me"}
        assert (await management.security_settings("x")).send == {"others"}
        await management.remove_address_settings("#")
        file.write(attempts="9")
        await settle()
        assert (await management.address_settings("x")).max_delivery_attempts == 9


async def test_settings_that_the_journal_holds_stay_in_force(file: File) -> None:
    folder = file.path.parent / "data"
    async with EmbeddedBroker(load_config(file.path), data_directory=folder) as broker:
        await broker.management.add_address_settings("#", AddressSettings(max_delivery_attempts=1))
        await broker.crash()
        await broker.start()
        file.write(attempts="8", target="archive")
        await broker.management.reload_configuration(load_config(file.path))
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "archive"
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 1


def secure(file: File) -> str:
    """Write the file without its element that switches security off, and files of users; return its text."""
    text = file.path.read_text().replace("<security-enabled>false</security-enabled>", "")
    file.write_text(text)
    users = "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule"
    (file.path.parent / "login.config").write_text(
        f"""activemq {{ {users} required reload=true org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.role="roles.properties"; }};"""
    )
    (file.path.parent / "users.properties").write_text("app=secret\n")
    (file.path.parent / "roles.properties").write_text("amq=app\n")
    return text


async def test_permissions_count_in_open_sessions(file: File, autojump_clock: MockClock) -> None:
    text = secure(file)
    async with (
        EmbeddedBroker(load_config(file.path)) as broker,
        ConnectionFactory(broker.vm_url).connect("app", "secret") as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("queue://orders")
        await producer.send("one")
        file.write_text(text.replace('type="send" roles="amq"', 'type="send" roles="others"'))
        await settle()
        with pytest.raises(JMSSecurityException, match="SEND"):
            await producer.send("two")


# -- files that cannot be used ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "broker.xml: the file is empty"),
        ("<configuration><core>", "broker.xml: line 1, column 22: no element found"),
        ("<a>\n<b></a>", "broker.xml: line 2, column 6: mismatched tag"),
    ],
)
async def test_a_file_that_is_half_written_keeps_everything_with_one_line(
    file: File, text: str, reason: str, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        file.write_text(text)
        for _ in range(3):
            await settle()
        (line,) = lines()
        assert line.startswith("the configuration is not changed, its file cannot be used: /") and reason in line
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 3
        file.write(attempts="4")
        await settle()
        assert lines() == [READ_AGAIN]
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 4


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"attempts": "many"}, ["broker.xml: core/address-settings/address-setting[#]/max-delivery-attempts: "]),
        (
            {"attempts": "many", "exclusive": "maybe"},
            ["max-delivery-attempts: ", "; ", "broker.xml: core/diverts/divert[copy]/exclusive: "],
        ),
        ({"filter": '<filter string="= 1"/>'}, ["addresses: address 'stock', queue 'stock': filter: "]),
        ({"core": "<nam>x</nam>"}, ["broker.xml: core/nam: ", "'name'"]),
    ],
)
async def test_a_wrong_value_keeps_everything_and_is_named(
    file: File,
    changes: dict[str, str],
    reasons: list[str],
    autojump_clock: MockClock,
    lines: Callable[[], list[str]],
) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        file.write(target="archive", **changes)
        for _ in range(3):
            await settle()
        (line,) = lines()
        assert [each for each in reasons if each not in line] == []
        assert "\n" not in line
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "audit"


async def test_a_file_that_is_missing_keeps_everything_and_may_come_back(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        other = file.path.rename(file.path.with_suffix(".old"))
        for _ in range(3):
            await settle()
        (line,) = lines()
        assert line.endswith("broker.xml: the file is missing or cannot be looked at; put it back")
        other.rename(file.path)
        await settle()
        assert lines() == []
        file.write(attempts="4")
        await settle()
        assert lines() == [READ_AGAIN]
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 4


@pytest.mark.parametrize("name", ["broker.xml", "login.config", "users.properties"])
async def test_a_file_that_cannot_be_opened_for_a_moment_is_adopted_later(
    file: File, name: str, autojump_clock: MockClock, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = io.open

    def fail(path: Any, *arguments: Any, **named: Any) -> Any:
        if path == file.path.with_name(name):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(path, *arguments, **named)

    text = secure(file)
    async with EmbeddedBroker(load_config(file.path)) as broker:
        file.write_text(text.replace(SETTINGS.format(attempts=3), SETTINGS.format(attempts=4)))
        with monkeypatch.context() as patch:
            patch.setattr(io, "open", fail)
            await settle()
            await settle()
        (line,) = lines()
        assert f"{name}: cannot be read: Too many open files" in line
        await settle()
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 4


async def test_a_wrong_file_is_parsed_once_until_a_file_of_it_changes(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    opened = io.open

    def count(path: Any, *arguments: Any, **named: Any) -> Any:
        if path == file.path and arguments[0] == "rb":
            reads.append(file.path.name)
        return opened(path, *arguments, **named)

    secured = secure(file)
    included = file.path.with_name("settings.xml")
    included.write_text('<address-settings xmlns="urn:activemq:core"><wrong/></address-settings>')
    start, end = secured.index("<address-settings>"), secured.index("</address-settings>")
    include = f"<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='{included.name}'/>"
    async with EmbeddedBroker(load_config(file.path)) as broker:
        monkeypatch.setattr(io, "open", count)
        file.write_text(secured[:start] + include + secured[end:].removeprefix("</address-settings>"))
        users = file.path.with_name("users.properties")
        users.write_text("app=ENC(nonsense)\n")
        for _ in range(3):
            await settle()
        (line,) = lines()
        assert "settings.xml: core/address-settings/wrong: " in line and "user 'app'" in line
        assert len(reads) == 1
        included.write_text(
            f'<address-settings xmlns="urn:activemq:core">{SETTINGS.format(attempts=8)}</address-settings>'
        )
        for _ in range(3):
            await settle()
        (line,) = lines()
        assert "settings.xml" not in line and "user 'app'" in line
        assert len(reads) == 2
        users.write_text("app=secret\n")
        for _ in range(3):
            await settle()
        assert lines() == [READ_AGAIN]
        assert len(reads) == 3
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 8


async def test_a_change_beside_a_wrong_filter_is_named_once_the_filter_is_right(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    async with EmbeddedBroker(load_config(file.path)):
        file.write(core="<name>other</name>", filter='<filter string="= 1"/>')
        await settle()
        assert len(lines()) == 1
        file.write(filter='<filter string="a = 1"/>')
        await settle()
        assert lines() == [READ_AGAIN, "changes of the configuration that need a restart: name"]


async def test_a_file_that_takes_long_delays_neither_clients_nor_the_stop(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    begun, adopted, released = trio.Event(), trio.Event(), threading.Event()
    opened = io.open

    def open_late(path: Any, *arguments: Any, **named: Any) -> Any:
        if path == file.path:
            trio.from_thread.run_sync(begun.set)
            released.wait(30)
        return opened(path, *arguments, **named)

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == READ_AGAIN:
                adopted.set()

    handler, logger = Lines(), logging.getLogger("embedbroker.broker")
    config = load_config(file.path)
    file.write(attempts="7")
    monkeypatch.setattr(io, "open", open_late)
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.addHandler(handler)
    try:
        with trio.fail_after(30):
            async with EmbeddedBroker(config) as broker:
                await begun.wait()
                assert (await broker.management.address_settings("x")).max_delivery_attempts == 3
                released.set()
                await adopted.wait()
                assert (await broker.management.address_settings("x")).max_delivery_attempts == 7
            begun = trio.Event()
            released.clear()
            async with EmbeddedBroker(config):
                await begun.wait()
    finally:
        released.set()
        logger.removeHandler(handler)


async def test_parts_that_are_refused_are_named_and_the_others_hold(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    async with EmbeddedBroker(load_config(file.path)) as broker:
        await broker.management.create_queue("copies")
        file.write(diverts=DIVERT.replace("copy", "copies") + DIVERT, target="archive")
        await settle()
        assert lines() == [
            READ_AGAIN,
            "the changed configuration is not adopted as a whole: divert 'copies': a queue has this name; choose "
            "another one",
        ]
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "archive"


# -- when it is looked at --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "is_adopted"), [("-1", False), ("0", False), ("1000", True)])
async def test_the_period_is_that_of_the_file(
    file: File, period: str, is_adopted: bool, autojump_clock: MockClock
) -> None:
    file.write(core=f"<configuration-file-refresh-period>{period}</configuration-file-refresh-period>")
    config = load_config(file.path)
    assert config.configuration_file_refresh_period_ms == int(period)
    async with EmbeddedBroker(config) as broker:
        file.write(attempts="7")
        await settle(1)
        expected = 7 if is_adopted else 3
        assert (await broker.management.address_settings("x")).max_delivery_attempts == expected


async def test_changes_from_before_the_start_and_from_between_two_starts_count(
    file: File, autojump_clock: MockClock
) -> None:
    config = load_config(file.path)
    file.write(attempts="4")
    async with EmbeddedBroker(config) as broker:
        await trio.testing.wait_all_tasks_blocked()
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 4
        await broker.crash()
        file.write(attempts="5")
        await broker.start()
        await trio.testing.wait_all_tasks_blocked()
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 5
        # The file of the last life counts for this one, too, although it did not change since.
        await broker.crash()
        await broker.start()
        await trio.testing.wait_all_tasks_blocked()
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 5


async def test_what_needs_a_restart_is_named(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    async with EmbeddedBroker(load_config(file.path)):
        core = "<name>other</name><global-max-size>100M</global-max-size>"
        file.write(core=core)
        await settle()
        needs = "changes of the configuration that need a restart: name, global_max_size_bytes"
        assert lines() == [READ_AGAIN, needs]
        file.write(core=core, attempts="5")
        await settle()
        assert lines() == [READ_AGAIN]


async def test_values_that_the_program_gives_stay(
    file: File, autojump_clock: MockClock, lines: Callable[[], list[str]]
) -> None:
    mine = {"#": AddressSettings(max_delivery_attempts=1)}
    async with EmbeddedBroker(load_config(file.path), address_settings=mine) as broker:
        file.write(attempts="7", target="archive")
        await settle()
        assert lines() == ["the configuration is read again: security_settings, diverts, addresses"]
        assert (await broker.management.address_settings("x")).max_delivery_attempts == 1
        assert await broker.management.get("divert.copy", "ForwardingAddress") == "archive"


async def test_a_warning_about_the_file_is_logged_once(file: File, autojump_clock: MockClock) -> None:
    warnings: list[str] = []
    file.write(core="<graceful-shutdown-enabled>true</graceful-shutdown-enabled>")
    async with EmbeddedBroker(load_config(file.path, on_warning=warnings.append)):
        (known,) = warnings
        file.write(attempts="7", core=f"{file.values['core']}<page-sync-timeout>5</page-sync-timeout>")
        await settle()
        assert [line.partition(": ")[2] for line in warnings] == [
            "core/graceful-shutdown-enabled: has no effect here", "core/page-sync-timeout: has no effect here",
        ]  # fmt: skip
        assert warnings[0] == known


# -- a configuration that a program adopts ---------------------------------------------------------------------------


async def test_a_program_adopts_a_configuration() -> None:
    config = BrokerConfig(
        address_settings={"#": AddressSettings(dead_letter_address="dead")},
        security_settings={"#": SecuritySetting(send=["me"])},
        diverts={"copy": DivertConfiguration("orders", "audit")},
        addresses={"stock": AddressConfiguration(anycast={"stock": QueueConfiguration(max_consumers=2)})},
    )
    async with EmbeddedBroker() as broker:
        management = broker.management
        await management.reload_configuration(config)
        assert (await management.address_settings("x")).dead_letter_address == "dead"
        assert (await management.security_settings("x")).send == {"me"}
        assert await management.divert_names() == ["copy"]
        assert {"stock", "dead"} <= set(await management.queue_names())
        # Of a queue that exists, too.
        groups = QueueConfiguration(group_rebalance=True, group_rebalance_pause_dispatch=True, group_buckets=3)
        addresses = {"stock": AddressConfiguration(anycast={"stock": groups})}
        await management.reload_configuration(evolve(config, addresses=addresses))
        found = [
            await management.get("queue.stock", name)
            for name in ("GroupRebalance", "GroupRebalancePauseDispatch", "GroupBuckets", "MaxConsumers")
        ]
        assert found == [True, True, 3, -1]
        wrong = BrokerConfig(diverts={"new": DivertConfiguration("a", "b", filter="= 1")})
        with pytest.raises(ValueError, match="diverts: divert 'new': filter: "):
            await management.reload_configuration(wrong)
        with pytest.raises(TypeError, match="config must be a BrokerConfig, not str"):
            await management.reload_configuration("broker.xml")  # type: ignore[arg-type]  # the mistake
        assert await management.divert_names() == ["copy"]


async def test_what_a_configuration_created_goes_when_it_is_missing_where_settings_order_that(tmp_path: Path) -> None:
    settings = {
        "stock.#": AddressSettings(config_delete_queues=True),
        "old.#": AddressSettings(config_delete_addresses=True),
    }
    config = BrokerConfig(
        data_directory=str(tmp_path),
        address_settings=settings,
        addresses={
            "stock": AddressConfiguration(anycast={"stock": QueueConfiguration(), "more": QueueConfiguration()}),
            "old": AddressConfiguration(anycast={"old": QueueConfiguration()}),
            "other": AddressConfiguration(anycast={"other": QueueConfiguration()}),
        },
    )
    left = {"stock": AddressConfiguration(anycast={"stock": QueueConfiguration()})}
    async with EmbeddedBroker(config) as broker:
        management = broker.management
        await management.create_queue("mine", address="stock")
        assert await management.get("queue.more", "ConfigurationManaged") is True
        assert await management.get("queue.mine", "ConfigurationManaged") is False
    # At a start, after a journal, and then while the broker runs.
    async with EmbeddedBroker(evolve(config, addresses=left | {"old": config.addresses["old"]})) as broker:
        management = broker.management
        assert set(await management.queue_names()) == {"stock", "mine", "old", "other"}
        await management.reload_configuration(evolve(config, addresses=left))
        assert set(await management.queue_names()) == {"stock", "mine", "other"}
        assert "old" not in [each.name for each in await management.addresses()]


async def test_a_later_start_does_not_delete_what_a_newer_configuration_brought(tmp_path: Path) -> None:
    force = AddressSettings(config_delete_queues=True, config_delete_addresses=True, config_delete_diverts=True)
    config = BrokerConfig(data_directory=str(tmp_path), address_settings={"#": force})
    newer = evolve(
        config,
        addresses={"stock": AddressConfiguration(anycast={"stock": QueueConfiguration()})},
        diverts={"copy": DivertConfiguration("stock", "audit")},
    )
    async with EmbeddedBroker(config) as broker:
        await broker.management.reload_configuration(newer)
        await broker.stop()
        await broker.start()
        assert "stock" in await broker.management.queue_names()
        assert await broker.management.divert_names() == ["copy"]
    # A configuration that is read now is the truth.
    async with EmbeddedBroker(config) as broker:
        assert "stock" not in await broker.management.queue_names()
        assert await broker.management.divert_names() == []


@pytest.mark.parametrize("changed", ["address_settings", "security_settings"])
async def test_a_reload_names_the_characters_of_matches_that_need_a_restart(changed: str) -> None:
    settings: dict[str, Any] = {
        "address_settings": {"(a.#.b)": AddressSettings(max_delivery_attempts=1)},
        "security_settings": {"a.#.b": SecuritySetting(send=["me"])},
    }
    config = BrokerConfig(
        literal_match_markers="()",
        wildcard_addresses=WildcardConfiguration(any_words=">"),
        **{changed: settings[changed]},
    )
    async with EmbeddedBroker() as broker:
        with pytest.raises(JMSException, match="until a restart, literal_match_markers and wildcard_addresses are"):
            await broker.management.reload_configuration(config)


@pytest.mark.parametrize(("configured", "expected"), [(None, False), (True, True)])
async def test_configuration_that_does_not_state_it_leaves_a_queue_disabled(
    configured: bool | None, expected: bool
) -> None:
    queues = {"stock": QueueConfiguration(enabled=configured)}
    config = BrokerConfig(addresses={"stock": AddressConfiguration(anycast=queues)})
    async with EmbeddedBroker(config) as broker:
        await broker.management.disable_queue("stock")
        await broker.management.reload_configuration(config)
        assert await broker.management.get("queue.stock", "Enabled") is expected


@pytest.mark.parametrize(("of_addresses", "of_permissions"), [("a.#.b", "a"), ("a", "a.#.b")])
async def test_settings_for_other_wildcards_are_refused_and_nothing_is_changed(
    of_addresses: str, of_permissions: str
) -> None:
    config = BrokerConfig(
        wildcard_addresses=WildcardConfiguration(any_words=">"),
        address_settings={of_addresses: AddressSettings(max_delivery_attempts=1)},
        security_settings={of_permissions: SecuritySetting(send=["me"])},
        diverts={"copy": DivertConfiguration("a", "b")},
    )
    async with EmbeddedBroker() as broker:
        with pytest.raises(JMSException, match=r"match 'a\.#\.b': '#' is allowed at the end only"):
            await broker.management.reload_configuration(config)
        assert (await broker.management.address_settings("a")).max_delivery_attempts is None
        assert (await broker.management.security_settings("a")).send == {"*"}
        assert await broker.management.divert_names() == []


async def test_a_limit_of_consumers_below_their_number_is_refused_and_the_rest_holds() -> None:
    def wanted(limit: int) -> BrokerConfig:
        queues = {"stock": QueueConfiguration(max_consumers=limit)}
        return BrokerConfig(addresses={"stock": AddressConfiguration(anycast=queues), "new": AddressConfiguration({})})

    async with (
        EmbeddedBroker(wanted(2)) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
        session.create_consumer("queue://stock"),
        session.create_consumer("queue://stock"),
    ):
        with pytest.raises(
            JMSException, match="address 'stock': AMQ229210: Can't update queue stock with maxConsumers: 1"
        ):
            await broker.management.reload_configuration(wanted(1))
        assert await broker.management.get("queue.stock", "MaxConsumers") == 2
        assert "new" in [each.name for each in await broker.management.addresses()]


def test_a_source_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="configuration_source must have a method watch, and str has none"):
        BrokerConfig(configuration_source="broker.xml")  # type: ignore[arg-type]  # the mistake
