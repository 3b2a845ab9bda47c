"""``acceptors``, ``connectors`` and ``cluster-connections``: URLs, which acceptor is opened, what refers to what."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import AcceptorConfig, ClusterConnection, MessageLoadBalancing, ReplicationBackup
from embedbroker.security import DEFAULT_KEY, mask
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY, TLSSettings, TransportConfiguration
from tests.embedbroker.configfile.config_files import Loaded, load, refused

# -- acceptors -------------------------------------------------------------------------------------------------------


def acceptors(*urls: str) -> str:
    inner = "".join(f"<acceptor name='a{number}'>{url}</acceptor>" for number, url in enumerate(urls, 1))
    return f"<acceptors>{inner}</acceptors>"


def accept(directory: Path, *urls: str) -> Loaded:
    return load(directory, acceptors(*urls))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("tcp://0.0.0.0:61616", ("0.0.0.0", 61616)),
        ("tcp://host-a:5445/", ("host-a", 5445)),
        ("tcp://host-a", ("host-a", 61616)),
        ("tcp://:7", ("localhost", 7)),
        ("tcp://[::1]:61617?tcpNoDelay=true", ("::1", 61617)),
        ("tcp://[fe80::1]", ("fe80::1", 61616)),
        ("TCP://a:0?protocols=CORE", ("a", 0)),
        ("tcp://a:1?host=b;port=2", ("b", 2)),
        (" tcp://a:1 ", ("a", 1)),
    ],
)
def test_an_acceptor_says_where_the_broker_listens(url: str, place: tuple[str, int], tmp_path: Path) -> None:
    config = accept(tmp_path, url).config
    assert (config.host, config.port) == place


def test_parameters_of_an_acceptor_are_separated_by_both_signs(tmp_path: Path) -> None:
    loaded = accept(tmp_path, "tcp://a:1?protocols=core;connectionsAllowed=7&amp;handshake-timeout=3;")
    assert loaded.config.connections_max == 7
    assert loaded.config.handshake_timeout_ms == 3_000
    assert loaded.warnings == []


def test_minus_one_is_no_limit(tmp_path: Path) -> None:
    config = accept(tmp_path, "tcp://a:1?connectionsAllowed=-1;handshake-timeout=-1").config
    assert config.connections_max == 20_000
    assert config.handshake_timeout_ms == 0


def test_an_acceptor_has_prefixes_of_addresses(tmp_path: Path) -> None:
    url = "tcp://a:1?anycastPrefix=jms.queue.,q.;multicastPrefix=jms.topic.;sslEnabled=false;protocols=CORE"
    loaded = accept(tmp_path, url)
    assert (loaded.config.anycast_prefixes, loaded.config.multicast_prefixes) == (("jms.queue.", "q."), ("jms.topic.",))
    assert loaded.warnings == []


def test_what_an_acceptor_wants_beyond_is_a_warning(tmp_path: Path) -> None:
    url = "tcp://a:1?useEpoll=true;amqpCredits=5;protocols=CORE,AMQP,MQTT"
    assert accept(tmp_path, url).warnings == [
        "core/acceptors/acceptor[a1]: only CORE is spoken, not AMQP, MQTT",
        "core/acceptors/acceptor[a1]: parameters without effect here: useEpoll, amqpCredits",
    ]


def test_each_acceptor_that_can_be_opened_is(tmp_path: Path) -> None:
    loaded = accept(
        tmp_path,
        "tcp://a:1?protocols=AMQP",
        "tcp://a:2?needClientAuth=true;keyStorePath=x",
        "vm://0",
        "tcp://a:3",
        "tcp://a:4?protocols=HORNETQ,CORE;anycastPrefix=q.;connectionsAllowed=2;handshake-timeout=3;autoStart=False",
    )
    a5 = AcceptorConfig("a5", "a", 4, ["q."], connections_max=2, handshake_timeout_ms=3_000, auto_start=False)
    assert loaded.config.listens_at == (AcceptorConfig("a4", "a", 3), a5)
    assert loaded.config.connections_max == 20_000
    assert loaded.warnings == [
        "core/acceptors/acceptor[a1]: is not opened: only CORE is spoken, not AMQP",
        "core/acceptors/acceptor[a2]: is not opened: sslEnabled=true is missing, which needClientAuth, keyStorePath "
        "would need; write sslEnabled=false to open it without",
        "core/acceptors/acceptor[a3]: is not opened: vm:// URLs of the same process reach a broker by its name "
        "without an acceptor",
        "core/acceptors/acceptor[a5]: only CORE is spoken, not HORNETQ",
    ]


def test_an_acceptor_belongs_to_a_cluster_connection_by_its_name(tmp_path: Path) -> None:
    url = "tcp://a:1?clusterConnection=c"
    error = "acceptors: 'a1' has cluster_connection 'c', which does not exist; name one of cluster_connections"
    assert error in refused(tmp_path, acceptors(url))[0]
    cluster = (
        "<connectors><connector name='here'>tcp://a:1</connector></connectors><cluster-connections>"
        "<cluster-connection name='c'><connector-ref>here</connector-ref></cluster-connection></cluster-connections>"
    )
    (waiting,) = accept(tmp_path, "tcp://a:1?autoStart=false").config.listens_at
    assert waiting == AcceptorConfig("a1", "a", 1, auto_start=False)
    assert accept(tmp_path, "tcp://a:1?autoStart=True").config.acceptors == ()
    (line,) = refused(tmp_path, acceptors("tcp://a:1?autoStart=no"))
    assert line.endswith("acceptor[a1]: parameter 'autoStart': expected true or false, not 'no'")
    loaded = load(tmp_path, acceptors(url) + cluster)
    assert loaded.config.listens_at == (AcceptorConfig("a1", "a", 1, cluster_connection="c"),)
    assert not [line for line in loaded.warnings if "clusterConnection" in line]


def test_acceptors_at_one_address_are_refused_with_both_names(tmp_path: Path) -> None:
    text = refused(tmp_path, acceptors("tcp://a:1", "tcp://0.0.0.0:1", "tcp://[::1]:1"))
    assert text == [
        "core/acceptors/acceptor[a2]: 'a1' at a:1 and 'a2' at 0.0.0.0:1 are at one address; change the port of one of"
        " the two"
    ]


NO_TLS, WITHOUT = "sslEnabled=true is missing", "write sslEnabled=false to open it without"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("tcp://a:1?protocols=AMQP,MQTT", "only CORE is spoken, not AMQP, MQTT"),
        ("tcp://a:1?needClientAuth=true", f"{NO_TLS}, which needClientAuth would need; {WITHOUT}"),
        ("tcp://a:1?sslContext=x", f"{NO_TLS}, which sslContext would need; {WITHOUT}"),
        (
            "tcp://a:1?keyStorePath=x;keyStorePassword=y",
            f"{NO_TLS}, which keyStorePath, keyStorePassword would need; {WITHOUT}",
        ),
        ("tcp://a:1?proxyProtocolEnabled=true", "the PROXY protocol is not supported"),
        ("tcp://a:1?securityDomain=x", "securityDomain is not supported: all acceptors use the users of the broker"),
        ("vm://0", "vm:// URLs of the same process reach a broker by its name without an acceptor"),
    ],
)
def test_a_file_of_which_no_acceptor_can_be_opened_is_refused(url: str, reason: str, tmp_path: Path) -> None:
    assert refused(tmp_path, acceptors(url)) == [f"core/acceptors: none of them can be opened: {reason}"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "is empty; expected a text"),
        ("a:61616", "is no URL of one broker such as tcp://host:61616?name=value;name=value"),
        ("(tcp://a:1,tcp://b:1)", "is no URL of one broker"),
        ("tcp://a:1#tcp://b:1", "is no URL of one broker"),
        ("tcp://a:1,b:2", "has several hosts with a port each; write tcp://host-a,host-b:61616"),
        ("tcp://me@a:1", "has a user in front of its host; write tcp://a:1"),
        ("http://a:1", "has the scheme 'http'; tcp:// and vm:// are known"),
        ("tcp://a:port", "has a port that is no number from 0 to 65535"),
        ("tcp://a:70000", "has a port that is no number from 0 to 65535"),
        (f"tcp://a:{'1' * 5000}", "has a port that is no number"),
        ("tcp://a:1?host=", "has an empty host"),
        ("tcp://a:1?sslEnabled", "has a parameter 'sslEnabled' without a value"),
        (
            "tcp://a:1?sslEnable=true",
            "has an unknown parameter 'sslEnable', which would concern TLS; did you mean 'sslEnabled'?",
        ),
        (
            "tcp://a:1?needClientAuht=true",
            "has an unknown parameter 'needClientAuht', which would concern TLS; did you mean 'needClientAuth'?",
        ),
        ("nio://a:1", "nio:// is a scheme of ActiveMQ Classic: write tcp://a:1"),
        ("tcp://::1:61616", "has an IPv6 address without brackets; write tcp://[::1]:61616"),
        ("tcp://[::1:61616", "has a wrong IPv6 address; write tcp://[::1]:61616"),
        ("tcp://a:1?connectionsAllowed=many", "parameter 'connectionsAllowed': expected a whole number"),
        ("vm://", "has no name; write vm://name"),
    ],
)
def test_wrong_urls_are_refused(url: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, acceptors(url))
    assert found.startswith(f"core/acceptors/acceptor[a1]: {problem}")


def test_what_artemis_reads_past_is_a_warning(tmp_path: Path) -> None:
    url = "tcp://0.0.0.0:61616?protocols=CORE;amqpCredits=1000;amqpMinCredits=300;tcpKeepAlive=true&amp;colour=blue"
    loaded = accept(tmp_path, url)
    assert (loaded.config.host, loaded.config.port) == ("0.0.0.0", 61616)
    assert loaded.warnings == [
        "core/acceptors/acceptor[a1]: parameter 'amqpMinCredits' is unknown here and has no effect; "
        "did you mean 'amqpCredits'?",
        "core/acceptors/acceptor[a1]: parameter 'tcpKeepAlive' is unknown here and has no effect; "
        "did you mean 'useKeepAlive'?",
        "core/acceptors/acceptor[a1]: parameter 'colour' is unknown here and has no effect",
        "core/acceptors/acceptor[a1]: parameters without effect here: amqpCredits",
    ]


def test_of_two_values_the_last_counts(tmp_path: Path) -> None:
    loaded = accept(tmp_path, "tcp://a:1?connectionsAllowed=5;connectionsAllowed=6;protocols;protocols=CORE")
    assert loaded.config.connections_max == 6
    assert loaded.warnings == [
        "core/acceptors/acceptor[a1]: parameter 'connectionsAllowed' is there more than once; the last value counts",
        "core/acceptors/acceptor[a1]: parameter 'protocols' has no value and no effect",
    ]


@pytest.mark.parametrize("url", ["tcp://a,b:7", "tcp://x:7?host=a,b", "tcp://a,b?port=7"])
def test_of_several_hosts_the_first_is_used(url: str, tmp_path: Path) -> None:
    loaded = accept(tmp_path, url)
    assert (loaded.config.host, loaded.config.port) == ("a", 7)
    assert loaded.warnings == ["core/acceptors/acceptor[a1]: this broker listens on one host, a, not on b"]


def test_a_url_may_stand_in_several_lines(tmp_path: Path) -> None:
    loaded = accept(tmp_path, "\n tcp://a:1?\n  protocols=CORE;\n  connectionsAllowed=5\n")
    assert (loaded.config.port, loaded.config.connections_max, loaded.warnings) == (1, 5, [])


def test_tls_that_is_switched_off_keeps_an_acceptor_open(tmp_path: Path) -> None:
    loaded = accept(tmp_path, "tcp://a:1?sslEnabled=false;keyStorePath=x;needClientAuth=true")
    assert loaded.config.port == 1
    assert loaded.warnings == [
        "core/acceptors/acceptor[a1]: parameters without effect here: keyStorePath, needClientAuth"
    ]


def test_an_acceptor_with_tls_is_opened(tmp_path: Path) -> None:
    url = (
        "tcp://a:1?sslEnabled=true;keyStorePath=key.p12;keyStorePassword=secret;trustStorePath=trust.pem;"
        "needClientAuth=true;enabledProtocols=TLSv1.2,TLSv1.3;sniHost=.*;sslProvider=JDK"
    )
    loaded = accept(tmp_path, url)
    assert loaded.config.tls == TLSSettings(
        key_store_path="key.p12",
        key_store_password="secret",
        trust_store_path="trust.pem",
        need_client_auth=True,
        enabled_protocols=("TLSv1.2", "TLSv1.3"),
        sni_host=".*",
    )
    assert "secret" not in repr(loaded.config)
    assert loaded.warnings == ["core/acceptors/acceptor[a1]: parameters without effect here: sslProvider"]


def test_a_store_may_stand_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_text("x")
    url = "tcp://a:1?sslEnabled=true;keyStorePath=server.pem;trustStorePath=elsewhere.pem"
    loaded = load(tmp_path, acceptors(url) + connectors(f"<connector name='a'>{url}</connector>"))
    connector = loaded.config.connectors["a"]
    for found in (loaded.config.tls, connector.tls):
        assert isinstance(found, TLSSettings)
        assert found.key_store_path == str(tmp_path / "server.pem")
        assert found.trust_store_path == "elsewhere.pem"
    assert connector.parameters["keyStorePath"] == "server.pem"


def test_passwords_of_stores_may_be_masked(tmp_path: Path) -> None:
    masked = mask("sesame", DEFAULT_KEY)
    for parameters in (f"keyStorePassword=ENC({masked})", f"maskPassword=true;keyStorePassword={masked}"):
        url = f"tcp://a:1?sslEnabled=true;keyStorePath=x;{parameters}"
        loaded = load(tmp_path, acceptors(url) + connectors(f"<connector name='a'>{url}</connector>"))
        assert isinstance(loaded.config.tls, TLSSettings)
        assert loaded.config.tls.key_store_password == "sesame"
        connector = loaded.config.connectors["a"]
        assert isinstance(connector.tls, TLSSettings)
        assert connector.tls.key_store_password == "sesame"
        assert "sesame" not in str(connector.parameters)
        assert loaded.warnings == []
    found = refused(tmp_path, acceptors("tcp://a:1?sslEnabled=true;keyStorePath=x;keyStorePassword=ENC(xyz)"))
    assert found[0].startswith("core/acceptors/acceptor[a1], parameter 'keyStorePassword': ")


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ("sslEnabled=yes", "parameter 'sslEnabled' must be true or false"),
        ("sslEnabled=true", "sslEnabled=true needs keyStorePath, a file with a private key and a certificate"),
        ("sslEnabled=true;keyStorePath=x;needClientAuth=true", "needClientAuth and wantClientAuth need trustStorePath"),
        ("sslEnabled=true;keyStorePath=x;verifyHost=true", "verifyHost=true is not supported on an acceptor"),
        ("sslEnabled=true;keyStorePath=x;enabledProtocols=SSLv3", "TLS: enabledProtocols must be of TLSv1, TLSv1.1"),
        ("sslEnabled=true;sslContext=x", "parameter 'sslContext' names a part of Java"),
    ],
)
def test_wrong_settings_of_tls_are_refused(parameters: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, acceptors(f"tcp://a:1?{parameters}"))
    assert found.startswith(f"core/acceptors/acceptor[a1]: {problem}")


def test_an_acceptor_that_cannot_be_read_is_the_only_error(tmp_path: Path) -> None:
    """Whether one could be opened is not known then."""
    assert refused(tmp_path, acceptors("tcp://a:port", "tcp://a:5672?protocols=AMQP")) == [
        "core/acceptors/acceptor[a1]: has a port that is no number from 0 to 65535"
    ]


def test_two_acceptors_of_a_name_are_refused(tmp_path: Path) -> None:
    core = acceptors("tcp://a:1", "tcp://a:2").replace("a2", "a1")
    assert refused(tmp_path, core) == ["core/acceptors/acceptor[a1]: there are two of the name 'a1'"]


# -- connectors ------------------------------------------------------------------------------------------------------


def connectors(*texts: str) -> str:
    return f"<connectors>{''.join(texts)}</connectors>"


def test_connectors_keep_their_parameters_as_texts(tmp_path: Path) -> None:
    core = connectors(
        "<connector name='a'>tcp://host-a:5445?tcpNoDelay=true;localPort=0</connector>",
        "<connector name='b'>vm://7</connector>",
    )
    loaded = load(tmp_path, core)
    parameters = {"host": "host-a", "port": "5445", "tcpNoDelay": "true", "localPort": "0"}
    assert loaded.config.connectors == {
        "a": TransportConfiguration("a", TCP_CONNECTOR_FACTORY, parameters),
        "b": TransportConfiguration("b", IN_VM_CONNECTOR_FACTORY, {"serverId": "7"}),
    }
    assert loaded.warnings == []


def test_unknown_parameters_of_a_connector_travel_along(tmp_path: Path) -> None:
    loaded = load(tmp_path, connectors("<connector name='a'>tcp://a:1?clientID=me;backlog=5;colour=x</connector>"))
    parameters, extra = {"host": "a", "port": "1"}, {"clientID": "me", "backlog": "5", "colour": "x"}
    assert loaded.config.connectors == {"a": TransportConfiguration("a", TCP_CONNECTOR_FACTORY, parameters, extra)}
    assert [warning.partition("; ")[0] for warning in loaded.warnings] == [
        f"core/connectors/connector[a]: parameter {name!r} is unknown here and has no effect" for name in extra
    ]


def test_a_connector_with_several_hosts_leads_to_the_first(tmp_path: Path) -> None:
    loaded = load(tmp_path, connectors("<connector name='a'>tcp://a,b:1</connector>"))
    assert loaded.config.connectors["a"].parameters == {"host": "a", "port": "1"}
    (warning,) = loaded.warnings
    assert warning == "core/connectors/connector[a]: leads to one host, a, not to b: write one connector for each"


def test_a_connector_may_use_tls(tmp_path: Path) -> None:
    loaded = load(tmp_path, connectors("<connector name='a'>tcp://a:1?sslEnabled=true;trustStorePath=x</connector>"))
    assert loaded.config.connectors["a"].is_secure
    assert loaded.config.connectors["a"].parameters["trustStorePath"] == "x"
    assert loaded.warnings == []


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["<connector>tcp://a:1</connector>"], "/connector: has no name: write <connector name='...'>"),
        (["<connector name='a'/>"], "/connector[a]: is empty; expected a text"),
        (
            ["<connector name='a'>static:(tcp://u:x@a:1,tcp://b)</connector>"],
            "/connector[a]: static: is a prefix of ActiveMQ Classic, which is not supported: write (tcp://a:1,tcp://b)",
        ),
        (["<connector name='a'>tcp://a:1</connector>"] * 2, "/connector[a]: there are two of the name 'a'"),
    ],
)
def test_wrong_connectors_are_refused(texts: list[str], problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, connectors(*texts))
    assert found.startswith(f"core/connectors{problem}")


# -- cluster connections ---------------------------------------------------------------------------------------------

THREE = connectors(*(f"<connector name='{name}'>tcp://{name}:61616</connector>" for name in ("one", "two", "three")))


def cluster(*connections: str) -> str:
    return f"{THREE}<cluster-connections>{''.join(connections)}</cluster-connections>"


def test_a_cluster_connection_with_static_connectors(tmp_path: Path) -> None:
    core = cluster(
        "<cluster-connection name='c'><address>jms</address><connector-ref>one</connector-ref>"
        "<retry-interval>100</retry-interval><message-load-balancing>OFF</message-load-balancing>"
        "<static-connectors><connector-ref>two</connector-ref><connector-ref>three</connector-ref></static-connectors>"
        "</cluster-connection>"
    )
    loaded = load(tmp_path, core)
    assert loaded.config.cluster_connection == ClusterConnection(
        "c",
        "one",
        ("two", "three"),
        addresses=("jms",),
        message_load_balancing=MessageLoadBalancing.OFF,
        retry_interval_ms=100,
    )
    assert loaded.warnings == []


def uri(address: str) -> str:
    return f"<cluster-connection-uri name='c' address='{address}'/>"


def test_a_cluster_connection_as_a_url(tmp_path: Path) -> None:
    """Its connectors are added to those of the file."""
    loaded = load(
        tmp_path,
        cluster(
            uri(
                "static://(tcp://host-b:61617, tcp://host-c)?connectorName=one;address=jms;maxHops=2;retryInterval=100"
                ";messageLoadBalancingType=STRICT&amp;connectionTTL=5000;clientFailureCheckPeriod=1000"
                ";duplicateDetection=false;producerWindowSize=1k;allowDirectConnectionsOnly=true;other=1"
            )
        ),
    )
    static = ("tcp://host-b:61617", "tcp://host-c:61616")
    assert loaded.config.cluster_connection == ClusterConnection(
        "c",
        "one",
        static,
        addresses=("jms",),
        max_hops=2,
        retry_interval_ms=100,
        message_load_balancing=MessageLoadBalancing.STRICT,
        connection_ttl_ms=5_000,
        check_period_ms=1_000,
        use_duplicate_detection=False,
        producer_window_size=1_024,
        allow_direct_connections_only=True,
    )
    assert [loaded.config.connectors[name].port_text for name in static] == ["61617", "61616"]
    assert loaded.warnings == [
        "core/cluster-connections/cluster-connection-uri[c]/@address: parameter 'other' is unknown, and has no effect"
    ]


@pytest.mark.parametrize("start", ["static:", "STATIC://", "multicast://"])
def test_the_list_of_a_cluster_connection_as_a_url_begins_as_in_artemis(start: str, tmp_path: Path) -> None:
    loaded = load(tmp_path, cluster(uri(f"{start}(tcp://b:1)?connectorName=one")))
    assert loaded.config.cluster_connection == ClusterConnection("c", "one", ("tcp://b:1",))


def test_a_cluster_connection_as_a_url_names_a_discovery_group(tmp_path: Path) -> None:
    groups = (
        "<discovery-groups><discovery-group name='my-group'><group-address>231.7.7.7</group-address></discovery-group>"
        "</discovery-groups>"
    )
    loaded = load(tmp_path, groups + cluster(uri("multicast://my-group?connectorName=one;maxHops=2")))
    assert loaded.config.cluster_connection == ClusterConnection("c", "one", discovery_group="my-group", max_hops=2)
    (found,) = refused(tmp_path, groups + cluster(uri("multicast://my-grop?connectorName=one")))
    assert "@address: there is no discovery-group 'my-grop'; did you mean 'my-group'?" in found


def test_two_ways_to_one_place_inside_urls_are_two_connectors(tmp_path: Path) -> None:
    addresses = ("tcp://b:1", "tcp://b:1?sslEnabled=true", "tcp://b:1?tcpNoDelay=false", "tcp://b:1?sslEnabled=true")
    uris = [
        f"<cluster-connection-uri name='{name}' address='static://({place})?connectorName=one;address={name}'/>"
        for name, place in zip("wxyz", addresses, strict=True)
    ]
    loaded = load(tmp_path, cluster(*uris))
    names = [name for each in loaded.config.cluster_connections for name in each.static_connectors]
    assert names == ["tcp://b:1", "tcp://b:1#2", "tcp://b:1#3", "tcp://b:1#2"]
    assert [loaded.config.connectors[name].is_secure for name in names] == [False, True, False, True]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("udp://231.7.7.7:9876?connectorName=one", "is no URL such as static://(tcp://host:61616)?connectorName="),
        (
            "multicast:group?connectorName=one",
            "or multicast://group?connectorName=artemis with the name of a discovery",
        ),
        ("static://(tcp://b:1)", "has no connectorName: others would not know how to reach this broker"),
        ("static://(tcp://b:1)?connectorName=onee", "there is no connector 'onee'; did you mean 'one'?"),
        ("static://(http://b:1)?connectorName=one", "has the scheme 'http'"),
        ("static://(tcp://b:1)?connectorName=one;maxHops=far", "parameter 'maxHops' expected a whole number"),
    ],
)
def test_a_wrong_url_of_a_cluster_connection(tmp_path: Path, address: str, problem: str) -> None:
    (found,) = refused(tmp_path, cluster(uri(address)))
    assert problem in found


def test_several_cluster_connections(tmp_path: Path) -> None:
    one, two = (
        f"<cluster-connection name='{name}'><address>{name}</address><connector-ref>one</connector-ref>"
        "</cluster-connection>"
        for name in "ab"
    )
    loaded = load(tmp_path, cluster(one, two))
    a, b = (ClusterConnection(name, "one", addresses=(name,)) for name in "ab")
    assert loaded.config.cluster_connections == (a, b)
    assert loaded.config.cluster_connection == a
    assert loaded.warnings == []
    assert refused(tmp_path, cluster(one, one)) == [
        "core/cluster-connections/cluster-connection[a]: there are two of the name 'a'"
    ]


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("", "eu", "addresses that begin with 'eu'"),
        ("", "", "addresses"),
        ("eu", "us,eu.uk", "addresses that begin with 'eu.uk'"),
        ("!eu", "us", "addresses that begin with 'us'"),
        ("eu,!eu.uk", "eu,!eu.de", "addresses that begin with 'eu'"),
        ("eu", "us", None),
        ("!eu", "eu", None),
        ("eu,!eu.uk", "eu.uk", None),
        ("eu.uk.", "eu.uke", None),
    ],
)
def test_cluster_connections_with_addresses_in_common_are_refused(
    tmp_path: Path, one: str, other: str, common: str | None
) -> None:
    core = cluster(*(
        f"<cluster-connection name='{name}'><address>{address}</address><connector-ref>one</connector-ref>"
        "</cluster-connection>"
        for name, address in (("a", one), ("b", other))
    ))  # fmt: skip
    if common is None:
        assert load(tmp_path, core).config.cluster_connection is not None
    else:
        [text] = refused(tmp_path, core)
        start = f"core/cluster-connections/cluster-connection[b]: has {common} in common with cluster connection 'a': "
        assert text.startswith(start)


def test_the_policy_names_the_cluster_connection_of_its_group(tmp_path: Path) -> None:
    one, two = (
        f"<cluster-connection name='{name}'><address>{name}</address><connector-ref>one</connector-ref>"
        "</cluster-connection>"
        for name in "ab"
    )
    named = "<ha-policy><replication><backup><cluster-name>{}</cluster-name></backup></replication></ha-policy>"
    loaded = load(tmp_path, cluster(one, two) + named.format("b"))
    assert loaded.config.cluster_connection == ClusterConnection("b", "one", addresses=("b",))
    assert loaded.config.ha_policy == ReplicationBackup(cluster_name="b")
    assert refused(tmp_path, cluster(one, two) + named.format("x")) == [
        "core: ha_policy ReplicationBackup has cluster_name 'x', and cluster_connections has 'a', 'b': it must be the"
        " name of one"
    ]


def test_an_address_without_text_is_all_addresses_and_the_older_element_has_a_meaning(tmp_path: Path) -> None:
    start = "<cluster-connection name='c'><connector-ref>one</connector-ref>"
    core = cluster(
        f"{start}<address/><forward-when-no-consumers>false</forward-when-no-consumers></cluster-connection>"
    )
    assert load(tmp_path, core).config.cluster_connection == ClusterConnection("c", "one")
    both = (
        "<forward-when-no-consumers>true</forward-when-no-consumers>"
        "<message-load-balancing>OFF</message-load-balancing>"
    )
    assert refused(tmp_path, cluster(f"{start}<address>!</address>{both}</cluster-connection>")) == [
        "core/cluster-connections/cluster-connection[c]/forward-when-no-consumers: is the same as "
        "message-load-balancing, which stands there, too",
        "core/cluster-connections/cluster-connection[c]: addresses must be prefixes of addresses, one per entry, "
        "not '!'",
    ]


@pytest.mark.parametrize(
    ("connection", "problem"),
    [
        (
            "<cluster-connection><connector-ref>one</connector-ref></cluster-connection>",
            ": has no name: write <cluster-",
        ),
        ("<cluster-connection name='c'/>", "[c]: has no connector-ref: others would not know how to reach this broker"),
        (
            "<cluster-connection name='c'><connector-ref>tree</connector-ref></cluster-connection>",
            "[c]/connector-ref: there is no connector 'tree'; did you mean 'three'?",
        ),
        (
            "<cluster-connection name='c'><connector-ref>one</connector-ref><static-connectors>"
            "<connector-ref>four</connector-ref></static-connectors></cluster-connection>",
            "[c]/static-connectors/connector-ref: there is no connector 'four'",
        ),
        (
            "<cluster-connection name='c'><connector-ref>one</connector-ref><retry-interval>0</retry-interval>"
            "</cluster-connection>",
            "[c]/retry-interval: must be 1 or more, not 0",
        ),
        (
            "<cluster-connection name='c'><connector-ref>one</connector-ref>"
            "<static-connectors allow-direct-connections-only='maybe'/></cluster-connection>",
            "[c]/static-connectors/@allow-direct-connections-only: expected true or false, not 'maybe'",
        ),
    ],
)
def test_wrong_cluster_connections_are_refused(connection: str, problem: str, tmp_path: Path) -> None:
    (found,) = refused(tmp_path, cluster(connection))
    assert found.startswith(f"core/cluster-connections/cluster-connection{problem}")
