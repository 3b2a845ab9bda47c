"""A whole broker.xml: unknown names, several errors at once, directories, warnings, address settings."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from embedbroker import EmbeddedBroker
from embedbroker.config import (
    AddressConfiguration,
    AddressFullPolicy,
    AddressSettings,
    BrokerConfig,
    QueueConfiguration,
)
from embedbroker.configfile import ConfigFileError, load_config
from embedclient import ConnectionFactory
from tests.embedbroker.configfile.config_files import ACCEPTOR, QUIET, document, load, load_text, refused, refused_text

# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("core", "problem"),
    [
        (
            "<ha-policy><replication><primary><foo/></primary></replication></ha-policy>",
            "core/ha-policy/replication/primary/foo: unknown name",
        ),
        ("<acceptor>x</acceptor>", "core/acceptor: unknown name; it belongs into core/acceptors"),
        (
            "<persist-id-cahce>true</persist-id-cahce>",
            "core/persist-id-cahce: unknown name; did you mean 'persist-id-cache'?",
        ),
        (
            "<ha-policy><shared-store><master><allow-failback>true</allow-failback></master></shared-store></ha-policy>",
            "core/ha-policy/shared-store/master/allow-failback: unknown name; "
            "it belongs into core/ha-policy/shared-store/backup",
        ),
        (
            "<expiry-delay>1</expiry-delay>",
            "core/expiry-delay: unknown name; it belongs into core/address-settings/address-setting",
        ),
        (
            "<ha-policy><raft/></ha-policy>",
            "core/ha-policy/raft: unknown name; expected one of live-only, primary-only, replication, shared-store",
        ),
        ("<name><first>a</first></name>", "core/name/first: unknown name; name holds text only"),
        (
            "<diverts><divert><filter string='a'><string>a</string></filter></divert></diverts>",
            "core/diverts/divert/filter/string: unknown name; filter holds attributes only",
        ),
        ("<name id='1'>a</name>", "core/name/@id: unknown attribute"),
        ("<bridges><bridge nmae='a'/></bridges>", "core/bridges/bridge/@nmae: unknown attribute; did you mean 'name'?"),
        ("<x xmlns='urn:other'/>", "core/urn:other:x: unknown name"),
    ],
)
def test_a_name_outside_the_schema_is_refused_with_its_path(core: str, problem: str, tmp_path: Path) -> None:
    problems = refused(tmp_path, core)
    assert problem in problems


def test_names_are_case_sensitive(tmp_path: Path) -> None:
    assert refused(tmp_path, "<Name>a</Name>") == ["core/Name: unknown name; did you mean 'name'?"]


def test_a_wrong_attribute_of_the_outermost_element_is_refused(tmp_path: Path) -> None:
    text = document(ACCEPTOR).replace("<configuration ", "<configuration version='2' ")
    assert refused_text(tmp_path, text) == ["@version: unknown attribute"]


def test_a_wrong_name_beside_core_is_refused(tmp_path: Path) -> None:
    text = document(ACCEPTOR, beside="<web xmlns='urn:x'/>")
    assert refused_text(tmp_path, text) == ["urn:x:web: unknown name; expected one of core, jms"]


def test_every_error_is_told_at_once_with_file_and_path(tmp_path: Path) -> None:
    core = """
        <nmae>a</nmae><transaction-timeout>soon</transaction-timeout><id-cache-size>-5</id-cache-size>
        <connectors><connector name="a">udp://a:1</connector></connectors>
        <address-settings>
            <address-setting match="x"><max-delivery-attempts>many</max-delivery-attempts></address-setting>
        </address-settings>
    """
    file = tmp_path / "broker.xml"
    file.write_text(document(ACCEPTOR + core))
    with pytest.raises(ConfigFileError) as caught:
        load_config(file)
    assert str(caught.value).splitlines() == [
        f"{file}: core/nmae: unknown name; did you mean 'name'?",
        f"{file}: core/id-cache-size: must be 0 or more, not -5",
        f"{file}: core/transaction-timeout: expected a whole number without a unit, not 'soon'",
        f"{file}: core/connectors/connector[a]: has the scheme 'udp'; tcp:// and vm:// are known",
        f"{file}: core/address-settings/address-setting[x]/max-delivery-attempts: expected a whole number without "
        "a unit, not 'many'",
    ]


@pytest.mark.parametrize(
    ("core", "problem"),
    [
        ("<name>a</name><name>b</name>", "core/name: stands there 2 times, once is allowed"),
        (ACCEPTOR * 3, "core/acceptors: stands there 3 times, once is allowed"),
        (
            "<ha-policy><shared-store><backup><allow-failback>true</allow-failback>"
            "<allow-failback>true</allow-failback></backup></shared-store></ha-policy>",
            "core/ha-policy/shared-store/backup/allow-failback: stands there 2 times, once is allowed",
        ),
    ],
)
def test_what_stands_there_twice_is_refused(core: str, problem: str, tmp_path: Path) -> None:
    assert problem in refused(tmp_path, core)


@pytest.mark.parametrize(
    "core",
    [
        "some text",
        "<acceptors>tcp://a:1</acceptors>",
        "<ha-policy>replication</ha-policy>",
        "<diverts><divert name='a'><filter string='a = 1'>a = 2</filter></divert></diverts>",
    ],
)
def test_text_between_elements_is_refused(core: str, tmp_path: Path) -> None:
    assert any("text is not expected here: " in problem for problem in refused(tmp_path, core))


# -- what an empty file means ----------------------------------------------------------------------------------------


def test_a_file_that_says_nothing_is_artemis_default_broker(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, document(""))
    assert loaded.config == BrokerConfig(data_directory=str(tmp_path / "data" / "journal"), address_settings={})
    assert loaded.warnings == [
        "core/acceptors: there are none: this broker listens on a free port of 127.0.0.1",
        "core/security-enabled: is missing, and so are login.config and security-settings: each client may do "
        "everything",
    ]


def test_security_that_is_switched_off_is_no_warning(tmp_path: Path) -> None:
    assert load(tmp_path, "<security-enabled>false</security-enabled>").warnings == []


# -- directories -----------------------------------------------------------------------------------------------------


def test_relative_directories_start_where_the_file_is(tmp_path: Path) -> None:
    config = load(tmp_path, "<journal-directory>../j</journal-directory>").config
    assert config.data_directory == str(tmp_path / "../j")


def test_in_a_directory_etc_they_start_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    core = "<journal-directory>j</journal-directory><name>${artemis.instance}|${artemis.instance.etc}</name>"
    config = load(tmp_path / "etc", core).config
    assert config.data_directory == str(tmp_path / "j")
    assert config.name == f"{tmp_path}|{tmp_path / 'etc'}"
    monkeypatch.chdir(tmp_path / "etc")
    assert load_config("broker.xml").data_directory == str(tmp_path / "j")


def test_the_property_of_the_instance_wins(tmp_path: Path) -> None:
    core = "<node-manager-lock-directory>locks</node-manager-lock-directory>"
    config = load(tmp_path, core, {"artemis.instance": "/brokers/a"}).config
    assert config.data_directory == "/brokers/a/data/journal"
    assert config.node_manager_lock_directory == "/brokers/a/locks"


def test_a_relative_instance_starts_where_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(tmp_path, "<name>${artemis.instance.uri}</name>", {"artemis.instance": "alice"}).config
    assert config.data_directory == str(tmp_path / "alice" / "data" / "journal")
    assert config.name == f"file://{tmp_path}/alice"


def test_without_persistence_there_is_no_directory(tmp_path: Path) -> None:
    core = "<persistence-enabled>false</persistence-enabled><journal-directory>j</journal-directory>"
    assert load(tmp_path, core).config.data_directory is None


def test_directories_beside_the_journal_are_silent_and_others_a_warning(tmp_path: Path) -> None:
    core = (
        "<journal-directory>data/journal</journal-directory><bindings-directory>data/bindings</bindings-directory>"
        "<paging-directory>/big/paging</paging-directory>"
        "<large-messages-directory>data/large-messages</large-messages-directory>"
    )
    assert load(tmp_path, core).warnings == [
        f"core/paging-directory: is not used: everything is written to {tmp_path / 'data' / 'journal'}"
    ]
    assert load(tmp_path, core).config.large_messages_directory == str(tmp_path / "data" / "large-messages")


@pytest.mark.parametrize("other", ["", "<persistence-enabled>false</persistence-enabled>"])
def test_large_messages_have_no_directory_in_the_journal_or_in_memory(tmp_path: Path, other: str) -> None:
    place = "a" if other else "j"
    core = f"<journal-directory>j</journal-directory><large-messages-directory>{place}</large-messages-directory>"
    found = load(tmp_path, core + other)
    assert found.config.large_messages_directory is None and found.warnings == []


def test_a_journal_of_artemis_in_the_directory_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    assert load(tmp_path, "<journal-directory>j</journal-directory>").warnings == []
    (tmp_path / "j" / "activemq-data-1.amq").touch()
    assert load(tmp_path, "<journal-directory>j</journal-directory>").warnings == [
        f"core/journal-directory: {tmp_path / 'j'} holds a journal of Artemis, which is not read: "
        "its messages are not seen"
    ]


# -- warnings --------------------------------------------------------------------------------------------------------


def test_warnings_are_logged_unless_somebody_wants_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(document(ACCEPTOR + QUIET + "<journal-type>NIO</journal-type>"))
    load_config(file)
    assert caplog.record_tuples == [
        ("embedbroker.configfile", logging.WARNING, f"{file}: core/journal-type: has no effect here")
    ]


def test_the_same_name_in_several_places_is_one_warning(tmp_path: Path) -> None:
    setting = "<address-setting match='{}'><default-ring-size>{}</default-ring-size></address-setting>"
    settings = setting.format("a", 5) + setting.format("b", 6) + setting.format("c", -1)
    assert load(tmp_path, f"<address-settings>{settings}</address-settings>").warnings == [
        "core/address-settings/address-setting[a]/default-ring-size (and in 1 more): has no effect here"
    ]


def test_values_that_ask_for_what_is_done_anyway_are_no_warning(tmp_path: Path) -> None:
    core = "<journal-datasync>true</journal-datasync><global-max-messages>-1</global-max-messages>"
    assert load(tmp_path, core).warnings == []
    assert load(tmp_path, core.replace("true", "false")).warnings == [
        "core/journal-datasync: has no effect here: every batch is synced to the disk"
    ]


@pytest.mark.parametrize(
    ("name", "as_it_is", "other", "reason"),
    [
        ("large-message-sync", "true", "false", "a body is synced before its message is confirmed"),
        ("max-redelivery-records", "-1", "10", "every count is recorded, and only the last one of a message is kept"),
        ("max-disk-usage", "-1", "90", "the disk is not watched; a broker stops when it is full"),
        (
            "wild-card-routing-enabled",
            "true",
            "false",
            "write it as routing-enabled of wildcard-addresses; Artemis ignores it, too",
        ),
        (
            "security-invalidation-interval",
            None,
            "10000",
            "a change of users or permissions empties the caches at once",
        ),
    ],
)
def test_what_has_no_effect_has_a_reason(
    tmp_path: Path, name: str, as_it_is: str | None, other: str, reason: str
) -> None:
    if as_it_is is not None:
        assert load(tmp_path, f"<{name}>{as_it_is}</{name}>").warnings == []
    assert load(tmp_path, f"<{name}>{other}</{name}>").warnings == [f"core/{name}: has no effect here: {reason}"]


def test_settings_that_describe_what_is_done_are_no_warning(tmp_path: Path) -> None:
    def warnings_of(name: str, value: str) -> list[str]:
        setting = f"<address-setting match='a'><{name}>{value}</{name}></address-setting>"
        return load(tmp_path, f"<address-settings>{setting}</address-settings>").warnings

    for name, value in (
        ("management-browse-page-size", "200"),
        ("management-message-attribute-size-limit", "256"),
        ("auto-delete-addresses-skip-usage-check", "true"),
    ):
        assert warnings_of(name, value) == []
        (warning,) = warnings_of(name, "false" if value == "true" else "5")
        assert "has no effect here: " in warning


def test_an_older_name_loads_with_a_warning_whatever_stands_in_it(tmp_path: Path) -> None:
    core = "<broker-balancers><broker-balancer name='a'><anything/></broker-balancer></broker-balancers>"
    assert load(tmp_path, core).warnings == ["core/broker-balancers: has no effect here"]


# -- limits that -1 leaves alone -------------------------------------------------------------------------------------


def test_minus_one_leaves_a_limit_at_its_default(tmp_path: Path) -> None:
    core = "<global-max-size>-1</global-max-size><connection-ttl-override>-1</connection-ttl-override>"
    loaded = load(tmp_path, core)
    assert loaded.config.global_max_size_bytes is None
    assert loaded.config.connection_ttl_ms == 60_000
    assert loaded.warnings == []


def test_a_time_to_live_is_for_clients_that_ask_for_none(tmp_path: Path) -> None:
    loaded = load(tmp_path, "<connection-ttl-override>7000</connection-ttl-override>")
    assert loaded.config.connection_ttl_ms == 7_000
    assert loaded.warnings == ["core/connection-ttl-override: clients that ask for another time to live get it"]


# -- address settings ------------------------------------------------------------------------------------------------


def test_settings_replace_the_default_ones_by_match(tmp_path: Path) -> None:
    core = """<address-settings>
        <address-setting match="#"><dead-letter-address>Dead</dead-letter-address></address-setting>
        <address-setting match="orders.*"><dead-letter-address/><expiry-delay>5</expiry-delay></address-setting>
    </address-settings>"""
    assert load(tmp_path, core).config.address_settings == {
        "#": AddressSettings(dead_letter_address="Dead"),
        "orders.*": AddressSettings(dead_letter_address="", expiry_delay_ms=5),
    }


@pytest.mark.parametrize("word", ["PAGE", "DROP"])
def test_full_policies_that_are_not_there_wait_with_a_warning(word: str, tmp_path: Path) -> None:
    setting = f"<address-setting match='a'><address-full-policy>{word}</address-full-policy></address-setting>"
    loaded = load(tmp_path, f"<address-settings>{setting}</address-settings>")
    assert loaded.config.address_settings["a"].address_full_policy is AddressFullPolicy.BLOCK
    assert loaded.warnings == [
        f"core/address-settings/address-setting[a]/address-full-policy: {word} is not there yet: "
        "producers of a full address wait, as with BLOCK"
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            "<address-setting/>",
            "core/address-settings/address-setting: has no match: write <address-setting match='...'>",
        ),
        ("<address-setting match=' '/>", "core/address-settings/address-setting[ ]: has no match: "),
        (
            "<address-setting match='a.#.b'/>",
            "core/address-settings/address-setting[a.#.b]: address-setting match 'a.#.b': '#' is allowed at the end",
        ),
        (
            "<address-setting match='a'/><address-setting match='a'/>",
            "core/address-settings/address-setting[a]: there are two of the name 'a'",
        ),
    ],
)
def test_wrong_matches_are_refused(settings: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, f"<address-settings>{settings}</address-settings>")
    assert found.startswith(problem)


# -- addresses -------------------------------------------------------------------------------------------------------

QUEUE = QueueConfiguration()


def test_addresses_with_their_queues(tmp_path: Path) -> None:
    core = """<addresses>
        <address name="orders"><anycast><queue name="orders"/><queue name="big" max-consumers="2">
            <filter string="size &gt; 10"/><durable>false</durable></queue></anycast></address>
        <address name="prices"><multicast/></address>
        <address name="both"><anycast/><multicast><queue name="audit"/></multicast></address>
    </addresses>"""
    loaded = load(tmp_path, core)
    big = QueueConfiguration(filter="size > 10", durable=False, max_consumers=2)
    assert loaded.config.addresses == {
        "orders": AddressConfiguration(anycast={"orders": QUEUE, "big": big}),
        "prices": AddressConfiguration(multicast={}),
        "both": AddressConfiguration(anycast={}, multicast={"audit": QUEUE}),
    }
    assert loaded.warnings == []


def test_destinations_of_an_older_file_are_addresses(tmp_path: Path) -> None:
    jms = """<jms xmlns="urn:activemq:jms"><jmx-domain>x</jmx-domain>
        <queue name="DLQ"/><queue name="red"><selector string="colour = 'red'"/></queue><topic name="prices"/></jms>"""
    loaded = load_text(tmp_path, document(ACCEPTOR + QUIET, beside=jms))
    assert loaded.config.addresses == {
        "DLQ": AddressConfiguration(anycast={"DLQ": QUEUE}),
        "red": AddressConfiguration(anycast={"red": QueueConfiguration(filter="colour = 'red'")}),
        "prices": AddressConfiguration(multicast={}),
    }
    assert loaded.warnings == ["jms/jmx-domain: has no effect here"]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("<address><anycast/></address>", "address: has no name: write <address name='...'>"),
        ("<address name='a'/>", "address[a]: an address serves anycast or multicast, or both"),
        (
            "<address name='a'><anycast><queue/></anycast></address>",
            "address[a]/anycast/queue: has no name",
        ),
        ("<address name='a'><anycast/></address>" * 2, "address[a]: there are two of the name 'a'"),
        (
            "<address name='a'><anycast><queue name='q'/><queue name='q'/></anycast></address>",
            "address[a]/anycast/queue[q]: there are two of the name 'q'",
        ),
        (
            "<address name='a'><multicast><queue name='q' max-consumers='-2'/></multicast></address>",
            "address[a]/multicast/queue[q]/@max-consumers: must be -1 or more, not -2",
        ),
        (
            "<address name='a'><multicast><queue name='q' exclusive='1'/></multicast></address>",
            "address[a]/multicast/queue[q]/@exclusive: expected true or false, not '1', which Artemis reads as false",
        ),
        (
            "<address name='a'><multicast><queue name='q'><filter/></queue></multicast></address>",
            "address[a]/multicast/queue[q]/filter: has no string: write <filter string='...'>",
        ),
    ],
)
def test_wrong_addresses_are_refused(address: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, f"<addresses>{address}</addresses>")
    assert found.startswith(f"core/addresses/{problem}")


def test_qualified_names_are_refused(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, "<addresses><address name='a::b'><anycast/></address></addresses>")
    assert "address 'a::b': '::' separates an address from its queue and cannot stand in a name" in found


async def test_a_broker_has_the_addresses_of_its_file(tmp_path: Path) -> None:
    core = "<addresses><address name='a'><anycast><queue name='q'/></anycast></address></addresses>"
    config = load(tmp_path, core + "<persistence-enabled>false</persistence-enabled>").config
    async with (
        EmbeddedBroker(config, host="127.0.0.1", port=0) as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
        session.create_consumer("a::q") as consumer,
    ):
        await session.create_producer("queue://a").send("hello")
        message = await consumer.receive(timeout=60)
        assert message is not None and message.body == "hello"
