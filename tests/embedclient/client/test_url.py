"""Artemis URLs: what they mean, and the errors for the ones that mean nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from embedclient import ConnectionFactory
from embedclient._client import parse_url
from embedclient.agent import LocatorSettings
from embedclient.errors import InvalidURLException, JMSException
from embedclient.model import (
    IN_VM_CONNECTOR_FACTORY,
    TCP_CONNECTOR_FACTORY,
    MulticastGroup,
    TransportConfiguration,
)


def places(text: str) -> list[tuple[str, int]]:
    return [(connector.host, connector.port) for connector in parse_url(text).connectors]


def test_a_plain_url_has_artemis_defaults() -> None:
    url = parse_url("tcp://broker:5445")
    assert url.settings == LocatorSettings()
    (connector,) = url.connectors
    assert (connector.host, connector.port, connector.factory) == ("broker", 5445, TCP_CONNECTOR_FACTORY)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tcp://localhost", ("localhost", 61616)),
        ("tcp://localhost/", ("localhost", 61616)),
        ("tcp://:7000", ("localhost", 7000)),
        ("TCP://h:1", ("h", 1)),
        ("tcp://[::1]:61617", ("::1", 61617)),
        ("tcp://[fe80::1%25eth0]", ("fe80::1%eth0", 61616)),
        (" tcp://h:2 ", ("h", 2)),
    ],
)
def test_host_and_port(text: str, place: tuple[str, int]) -> None:
    assert places(text) == [place]


def test_parameters_of_all_kinds_reach_their_settings() -> None:
    url = parse_url(
        "tcp://h:1?HA=true;reconnectAttempts=-1&retryIntervalMultiplier=1.5&groupID=a%20b&callTimeout=5&connectionTTL=70"
        "&consumerWindowSize=0&connect-timeout-millis=12&user=me&password=s%26cret&clientID=me"
    )
    settings = url.settings
    assert settings == LocatorSettings(
        ha=True,
        reconnect_attempts=-1,
        retry_interval_multiplier=1.5,
        group_id="a b",
        call_timeout_ms=5,
        connection_ttl_ms=70,
        consumer_window_size=0,
        connect_timeout_ms=12,
    )
    assert (url.factory.user, url.factory.password, url.factory.client_id) == ("me", "s&cret", "me")


def test_transport_parameters_stay_with_the_connector() -> None:
    (connector,) = parse_url("tcp://h:1?tcpNoDelay=false&name=first&localPort=99").connectors
    assert connector.name == "first"
    assert dict(connector.parameters) == {"host": "h", "port": 1, "tcpNoDelay": False, "localPort": 99}


def test_a_list_shares_its_query_and_its_members_keep_their_own() -> None:
    url = parse_url("(tcp://a:1?localPort=9, tcp://b)?ha=true&tcpNoDelay=false")
    assert [(c.host, c.port) for c in url.connectors] == [("a", 1), ("b", 61616)]
    assert [c.parameters.get("localPort") for c in url.connectors] == [9, None]
    assert [c.parameters["tcpNoDelay"] for c in url.connectors] == [False, False]
    assert url.settings.ha


def test_the_fragment_form_inherits_and_overrides() -> None:
    url = parse_url("tcp://a:1?ha=true&tcpNoDelay=false#tcp://b:2?tcpNoDelay=true,tcp://c:3")
    assert [(c.host, c.parameters["tcpNoDelay"]) for c in url.connectors] == [("a", False), ("b", True), ("c", False)]
    assert url.settings.ha


def test_a_name_in_the_vm_is_unwatched_unless_asked_for() -> None:
    url = parse_url("vm://broker")
    (connector,) = url.connectors
    assert connector.factory == IN_VM_CONNECTOR_FACTORY
    assert connector.parameters["serverId"] == "broker"
    assert (url.settings.connection_ttl_ms, url.settings.client_failure_check_period_ms) == (-1, -1)
    assert parse_url("vm://broker?connectionTTL=9").settings.connection_ttl_ms == 9


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("org.apache.activemq.artemis.api.core.client.loadbalance.RandomConnectionLoadBalancingPolicy", "Random"),
        ("RandomStickyConnectionLoadBalancingPolicy", "RandomSticky"),
        ("FirstElement", "FirstElement"),
        ("round_robin", "RoundRobin"),
    ],
)
def test_policies_go_by_their_java_names(text: str, policy: str) -> None:
    assert parse_url(f"tcp://h?connectionLoadBalancingPolicyClassName={text}").factory.policy == policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcp://h?reconectAttempts=1", "unknown parameter 'reconectAttempts' .*did you mean 'reconnectAttempts'"),
        ("tcp://h?HA_=true", "did you mean 'ha'"),
        ("tcp://h?colour=blue", r"unknown parameter 'colour' in tcp://h\?colour=\*\*\*$"),
        ("tcp://h?callTimeout=soon", "'callTimeout' in .*: expected a whole number"),
        ("tcp://h?callTimeout=-5", r"'callTimeout' in .*: must be from 1 to 9223372036854775807"),
        ("tcp://h?consumerWindowSize=2147483648", "'consumerWindowSize' in .*: must be from -1 to 2147483647"),
        ("tcp://h?connectionTTL=9223372036854775808", "'connectionTTL' in .*: must be from -1 to 9223372036854775807"),
        ("tcp://h?ha=yes", "'ha' in .*: expected true or false"),
        ("tcp://h?retryIntervalMultiplier=0", "'retryIntervalMultiplier' in .*: expected a number above 0"),
        ("tcp://h?ha", "parameter 'ha' in .* has no value"),
        ("tcp://h?connectionLoadBalancingPolicyClassName=com.acme.Mine", "expected RoundRobin"),
        ("(tcp://a,tcp://b?ha=true)", "'ha' concerns the whole list"),
        ("(tcp://a,tcp://b?tcpNoDelai=true)", "unknown parameter 'tcpNoDelai' in tcp://b.*'tcpNoDelay'"),
        ("(tcp://a,tcp://b", "no closing bracket"),
        ("tcp://a:1,tcp://b:2?ha=true", r"a list of brokers stands in brackets: \(tcp://a"),
        ("(tcp://a)ha=true", "unexpected text after the list"),
        ("()", "empty"),
        ("", "no scheme"),
        ("broker:61616", "no scheme; write tcp://broker:61616"),
        ("tcp://a,b:61616", r"several hosts are a list, as in \(tcp://a:61616,tcp://b:61616\)"),
        ("tcp://h?tcpKeepAlife=true", "unknown parameter 'tcpKeepAlife' .*did you mean 'tcpKeepAlive'"),
        ("tcp://h?sslEnabld=true", "unknown parameter 'sslEnabld' .*did you mean 'sslEnabled'"),
        ("tcp://h?trustStorePath=x", "trustStorePath in .* needs sslEnabled=true"),
        ("tcp://h?sslEnabled=true&verifyHost=maybe", "'verifyHost' in .*true or false"),
        ("tcp://h?sslEnabled=true&enabledProtocols=TLSv9", "'enabledProtocols' in .*: expected of TLSv1, TLSv1.1"),
        ("tcp://h?sslEnabled=true&keyStoreType=zip", "'keyStoreType' in .*: expected one of PKCS12, PEM"),
        ("tcp://h?sslEnabled=true&sslContext=x", "'sslContext' in .*ssl.SSLContext"),
        ("vm://me:secret@name", "user and password"),
        ("http://h:1", "unknown scheme 'http'"),
        ("jgroups://x", "needs a channel and a file, as in jgroups://channel[?]file=stack.xml"),
        ("jgroups://?file=x", "needs a channel and a file"),
        ("jgroups://x?file=missing.xml", "the JGroups file 'missing.xml' cannot be read: No such file"),
        ("(jgroups://x,tcp://h)", "jgroups:// finds all brokers of its group and stands alone"),
        ("udp://231.7.7.7:9876?file=x", "'file' in .* needs jgroups://"),
        ("tcp://h:port", "the port is not a number from 1 to 65535"),
        ("tcp://h:0", "the port is not"),
        ("tcp://h:70000", "the port is not"),
        ("tcp://h?localPort=70000", "'localPort' in .*: expected a port"),
        ("tcp://h?tcpSendBufferSize=-2", "'tcpSendBufferSize' in .*: expected a number of bytes"),
        ("tcp://h?tcpReceiveBufferSize=2147483648", "expected a number of bytes, or -1 for what the system gives"),
        ("tcp://::1", "needs brackets"),
        ("tcp://[::1", "an IPv6 address is written as"),
        ("tcp://me:secret@h", "user and password"),
        ("vm://", "no broker name"),
        ("tcp://h?sslEnabled=yes", "'sslEnabled' in .*true or false"),
        ("tcp://h?enable1xPrefixes=true", "'enable1xPrefixes' in .*version 1.x"),
        ("tcp://h?socksHost=proxy", "'socksHost' in .*SOCKS"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidURLException, match=said) as caught:
        parse_url(text)
    assert isinstance(caught.value, JMSException | ValueError)


def test_settings_of_large_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "embedclient")  # the command line, tested in this process too, wants less
    factory = ConnectionFactory("tcp://h?compressLargeMessages=true&compressionLevel=9&maxLargeMessageBodySize=-1")
    settings = factory.settings
    assert (settings.compress_large_message, settings.compression_level) == (True, 9)
    assert settings.max_large_message_body_size == -1
    assert caplog.records == []
    ConnectionFactory("tcp://h?cacheLargeMessagesClient=true")
    assert [record.getMessage().partition(" has no effect")[0] for record in caplog.records] == [
        "cacheLargeMessagesClient"
    ]


def test_what_would_change_nothing_is_accepted() -> None:
    parse_url(
        "tcp://h?sslEnabled=false&httpEnabled=false&useGlobalPools=true&type=CF&useEpoll=true&cacheDestinations=true"
    )


def test_urls_of_artemis_are_accepted_though_a_parameter_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "embedclient")
    ConnectionFactory("tcp://h?tcpKeepAlive=true&useNio=true&identity=me&nodeID=n&maskPassword=false")
    assert caplog.records == []
    ConnectionFactory("tcp://h:1?protocols=CORE,AMQP;amqpCredits=1000;ha=true;amqpCredits=300")
    assert [record.getMessage() for record in caplog.records] == [
        "protocols has no effect in a client: it is a parameter of acceptors",
        "amqpCredits has no effect in a client: it is a parameter of acceptors",
    ]


def test_the_last_of_two_values_counts_and_a_parameter_wins_over_the_place() -> None:
    url = parse_url("tcp://a:1?callTimeout=5&callTimeout=6&host=b&port=2&tcpNoDelay=true&tcpNoDelay=false")
    (connector,) = url.connectors
    assert url.settings.call_timeout_ms == 6
    assert (connector.host, connector.port, connector.parameters["tcpNoDelay"]) == ("b", 2, False)


def test_an_entry_of_a_list_has_its_own_connect_timeout() -> None:
    url = parse_url("(tcp://a?connect-timeout-millis=70,tcp://b,tcp://c?connect-timeout-millis=-1)?connectionTTL=5000")
    assert url.settings.connect_timeout_ms == -1
    assert [url.settings.connect_timeout_s(connector) for connector in url.connectors] == [0.07, 5, 5]
    url = parse_url("tcp://a?connect-timeout-millis=900#tcp://b?connect-timeout-millis=80")
    assert [url.settings.connect_timeout_s(connector) for connector in url.connectors] == [0.9, 0.08]
    told = TransportConfiguration("peer", parameters={"host": "p", "connect-timeout-millis": "3 s"})
    assert url.settings.connect_timeout_s(told) == 0.9
    with pytest.raises(InvalidURLException, match=r"'connect-timeout-millis' in tcp://b\?.*: expected a whole number"):
        parse_url("(tcp://a,tcp://b?connect-timeout-millis=soon)")


def test_the_first_entry_of_a_list_may_have_what_concerns_all() -> None:
    url = parse_url("(tcp://a:1?ha=true&callTimeout=5&user=me&localPort=9,tcp://b:2)?callTimeout=6")
    assert (url.settings.ha, url.settings.call_timeout_ms, url.factory.user) == (True, 6, "me")
    assert [connector.parameters.get("localPort") for connector in url.connectors] == [9, None]


FOR_EVER = "reconnectAttempts=-1"
PAIR = f"ha=true&{FOR_EVER}"
SOME = f"(tcp://host-a:61616,tcp://host-b:61616)?{FOR_EVER}"


@pytest.mark.parametrize(
    ("text", "product", "instead"),
    [
        ("failover:(tcp://u:secret@a:1,tcp://b)?maxReconnectAttempts=3", "Classic", f"(tcp://a:1,tcp://b)?{PAIR}"),
        ("failover://(tcp://a:1)", "Classic", f"tcp://a:1?{PAIR}"),
        ("FAILOVER:tcp://a:1", "Classic", f"tcp://a:1?{PAIR}"),
        ("failover:(nio://a:1,tcp://[::1]:2)", "Classic", f"(tcp://a:1,tcp://[::1]:2)?{PAIR}"),
        ("failover:(amqp://a:5672)", "Classic", f"tcp://a:61616?{PAIR}"),
        ("failover:", "Classic", f"(tcp://host-a:61616,tcp://host-b:61616)?{PAIR}"),
        ("static:(tcp://a,tcp://b)", "Classic", f"(tcp://a,tcp://b)?{FOR_EVER}"),
        ("static://a:1", "Classic", f"tcp://a:1?{FOR_EVER}"),
        ("masterslave:(tcp://a,tcp://b)", "Classic", f"(tcp://a,tcp://b)?{PAIR}"),
        ("fanout:(static:(tcp://a,tcp://b))", "Classic", f"(tcp://a,tcp://b)?{FOR_EVER}"),
        ("discovery:(multicast://default)", "Classic", SOME),
        ("multicast://default", "Classic", SOME),
        ("nio://a:61616?trace=true", "Classic", "tcp://a:61616"),
        ("amqp://a:5672", "AMQP", "tcp://a:61616, with the port of an acceptor for CORE"),
        ("stomp://a:61613", "STOMP", "tcp://a:61616, with the port of an acceptor for CORE"),
        ("mqtt://a", "MQTT", "tcp://a:61616, with the port of an acceptor for CORE"),
        ("ssl://a:61617", "TLS", "tcp://a:61617?sslEnabled=true, with the port of an acceptor with TLS"),
        (
            "failover:(ssl://a:1,ssl://b:1)",
            "TLS",
            "(tcp://a:1,tcp://b:1)?sslEnabled=true, with the port of an acceptor with TLS",
        ),
    ],
)
def test_urls_of_other_products_get_the_url_to_write_instead(text: str, product: str, instead: str) -> None:
    with pytest.raises(InvalidURLException, match=product) as caught:
        parse_url(text)
    corrected = str(caught.value).partition(": write ")[2].partition(" (in ")[0]
    assert corrected == instead
    parse_url(corrected.split(", with")[0].split(" for ")[0])
    assert "secret" not in str(caught.value)


def test_passwords_are_never_shown() -> None:
    url = parse_url("tcp://h?user=me&password=hunter2")
    assert "hunter2" not in url.text + repr(url)
    with pytest.raises(InvalidURLException) as caught:
        parse_url("tcp://h?password=hunter2&nonsense=1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("url", "said"), [(None, "None"), (61616, "int"), (b"tcp://h?password=secret", "bytes")])
def test_a_url_that_is_no_text_is_refused_in_words(url: object, said: str) -> None:
    """A variable of the environment that is not set must not mean localhost."""
    with pytest.raises(InvalidURLException, match=f"the URL of a broker is a str such as .*, not {said}$"):
        ConnectionFactory(url)  # type: ignore[arg-type]  # wrong on purpose


def test_udp_names_a_multicast_group_in_place_of_brokers() -> None:
    url = parse_url(
        "UDP://231.7.7.8:1000?localBindAddress=127.0.0.1&localBindPort=2000&discoveryInitialWaitTimeout=500"
        "&refreshTimeout=1&stoppingTimeout=1&name=group&reconnectAttempts=3&user=me&amqpCredits=1"
    )
    assert url.discovery is not None
    assert url.discovery.group == MulticastGroup("231.7.7.8", 1000, "127.0.0.1", 2000)
    assert url.discovery.initial_wait_timeout_ms == 500
    assert url.connectors == ()
    assert (url.settings.reconnect_attempts, url.factory.user, url.ignored) == (3, "me", ("amqpCredits",))


def test_a_jgroups_file_names_the_multicast_group(tmp_path: Path) -> None:
    file = tmp_path / "stack.xml"
    file.write_text("<config><UDP mcast_addr='231.7.7.9' mcast_port='7' bind_addr='127.0.0.1'/><PING/></config>")
    url = parse_url(f"jgroups://channel?file={file}&discoveryInitialWaitTimeout=500&reconnectAttempts=3")
    assert url.discovery is not None
    assert url.discovery.group == MulticastGroup("231.7.7.9", 7, "127.0.0.1")
    assert (url.discovery.initial_wait_timeout_ms, url.settings.reconnect_attempts) == (500, 3)
    file.write_text("<config><TCP/><JDBC_PING/></config>")
    with pytest.raises(InvalidURLException, match=r"the JGroups file .*JDBC_PING is not supported"):
        parse_url(f"jgroups://channel?file={file}")


def test_udp_has_the_defaults_of_artemis() -> None:
    url = parse_url("udp://231.7.7.7")
    assert url.discovery is not None
    assert url.discovery.group == MulticastGroup("231.7.7.7", 9876)
    assert url.discovery.initial_wait_timeout_ms == 10_000
    assert url.settings == LocatorSettings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("udp://10.0.0.1:9876", r"'udp://10.0.0.1:9876' names no IPv4 multicast address.*write udp://231.7.7.7:9876"),
        ("udp://", "names no IPv4 multicast address"),
        ("udp://[ff02::1]:9876", "names no IPv4 multicast address"),
        ("udp://231.7.7.7:70000", "the port is not a number from 1 to 65535"),
        ("(udp://231.7.7.7:9876)", "stands alone"),
        ("(tcp://a:1,udp://231.7.7.7:9876)", "stands alone"),
        ("udp://231.7.7.7:9876#tcp://a:1", "stands alone"),
        ("udp://me:secret@231.7.7.7:9876", "user and password"),
        ("udp://231.7.7.7:9876?tcpNoDelay=false", "'tcpNoDelay' in .*concerns one broker"),
        ("udp://231.7.7.7:9876?sslEnabled=true", "'sslEnabled' in .*concerns one broker"),
        ("udp://231.7.7.7:9876?socksHost=x", "'socksHost' in .*SOCKS"),
        ("udp://231.7.7.7:9876?localBindPort=70000", "'localBindPort' in .*: expected a port from 0 to 65535, or -1"),
        ("udp://231.7.7.7:9876?discoveryInitialWaitTimeout=-1", "expected a number of milliseconds, or 0 for no limit"),
        ("udp://231.7.7.7:9876?refreshTimeot=1", "'refreshTimeot' .*did you mean 'refreshTimeout'"),
        ("tcp://a?localBindAddress=h", "'localBindAddress' in .* needs discovery, as in udp://231.7.7.7:9876"),
    ],
)
def test_what_is_wrong_with_discovery_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidURLException, match=message):
        parse_url(text)
