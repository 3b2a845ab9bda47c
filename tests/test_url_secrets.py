"""Passwords in URLs: no error, log line, repr or report has one, wherever it stands and however wrong the URL is."""

from __future__ import annotations

import logging
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import embedclient
import embedclient.asyncio
import embedclient.blocking
from embedbroker.cli._commands import commands
from embedbroker.cli._connection_options import factory_for, failure_of
from embedbroker.config import BrokerConfig, LockManager, ReplicationPrimary
from embedbroker.configfile import load_config
from embedbroker.pipeline._option_reader import OptionReader
from embedbroker.pipeline._options import CONNECTION_OPTIONS, ConnectionOptions, SourceOptions
from embedclient.errors import JMSException
from embedclient.model import ACCEPTOR_PARAMETERS, CONNECTOR_PARAMETERS, describe_url, url_parameters
from embedclient.tls import connector_tls

MARKER = "xHunter2x"
# What ends a part of a URL, what is read as an escape, and some text.
JUNK = st.one_of(
    st.text(alphabet="&;=?#/@:,()[]%+ \\\"'<>{}$aZ9", max_size=6),
    st.sampled_from(["&", ";", "a&", "1?", "1#", "1;", "=", "==", "=b", "&a=", "),", "/", "@", "%26"]),
)
NAMES = st.sampled_from(
    ["password", "Password", "pasword", "passwrod", "p%61ssword", "pass", "pwd", "keyStorePassword", "socksPassword"]
)
OTHERS = st.sampled_from(
    ["", "ha=true&", "user=app;", "user=me@corp&", "colour=blue&", "callTimeout=soon&", "reconectAttempts=1&", "ha&"]
)


# Parts of a list of URLs: a password may be a whole one.
LISTED = st.sampled_from(
    [
        "tcp://",
        "5,tcp://",
        "1,",
        "failover:(tcp://",
        "5),tcp://",
        "5#tcp://",
        ",tcp://x",
        ":1)",
        "?ha=true",
        "",
        "[",
        "(tcp://a,(tcp://",
        "[::1]:5,tcp://",
        "tcp%3A//",
        "%40",
        "?user=a@b",
        "x@tcp://",
        ";tcp://",
        ":1@h,tcp://",
    ]
)


@st.composite
def passwords(draw: st.DrawFn) -> str:
    before, after = draw(st.sampled_from([(JUNK, JUNK), (LISTED, LISTED), (LISTED, JUNK), (JUNK, LISTED)]))
    return draw(before) + MARKER + draw(after)


@st.composite
def single_urls(draw: st.DrawFn) -> str:
    """One URL with a password in front of the host or in a parameter."""
    scheme = draw(st.sampled_from(["tcp", "vm", "amqp", "ssl", "nio", "http", "udp", "TCP"]))
    host = draw(st.sampled_from(["localhost", "h:1", "h:port", "[::1]:5", "::1", "a,b:1", ""]))
    if draw(st.booleans()):
        user = draw(st.sampled_from(["u:", "app:", ":", "u@corp:"]))
        query = draw(st.sampled_from(["", "?ha=true", "?nonsense=1", "?ha"]))
        return f"{scheme}://{user}{draw(passwords())}@{host}{query}"
    # In a list, a comma and a scheme end a parameter: what follows is the next broker.
    password = draw(passwords()).replace(",tcp://", "tcp://")
    return f"{scheme}://{host}?{draw(OTHERS)}{draw(NAMES)}={password}&{draw(OTHERS)}"


@st.composite
def urls(draw: st.DrawFn) -> str:
    """Single URLs, lists of all kinds, and texts from which a sign was lost."""
    one, other = draw(single_urls()), draw(st.one_of(st.just("tcp://b:2"), single_urls()))
    prefix = draw(st.sampled_from(["", "", "failover:", "static:", "failover://", "fanout:(static:", "discovery:"]))
    shapes = [one, f"{prefix}({one},{other})", f"({other},{one})?ha=true", f"{other}#{one}", f"{one},{other}"]
    shapes += [f"({one}", f"({one})ha=true", f"(tcp://a)?password={MARKER}{draw(JUNK)}", f"{prefix}{one}", f" {one} "]
    text = draw(st.sampled_from(shapes))
    lost = draw(st.sampled_from(["", "", "://", "@", "?", "&", ")", "tcp:"]))
    # Without an @, a list of URLs in a password is a list of URLs.
    assume(lost not in ("@", "?") or (text.count("://") == 1 and "," not in text))
    return text.replace(lost, "", 1) if lost else text


def outcome(action: Callable[[], object]) -> list[str]:
    """What can be seen of an action: its result's texts, or its error's."""
    try:
        result = action()
    except Exception as error:
        return [str(error), repr(error), "".join(traceback.format_exception(error))]
    return [str(result), repr(result)]


def attributes(kind: Callable[[str], object], url: str) -> list[str]:
    """The public attributes of a factory or a locator."""
    factory = kind(url)
    return [repr(getattr(factory, name, None)) for name in ("url", "settings", "connectors", "defaults")]


def client_actions(url: str) -> Iterator[Callable[[], object]]:
    for facade in (embedclient, embedclient.asyncio, embedclient.blocking):
        for kind in (facade.ConnectionFactory, facade.XAConnectionFactory, facade.ServerLocator):
            yield partial(kind, url)
            yield partial(attributes, kind, url)
        yield partial(facade.InitialContext({"connectionFactory.cf": url}).lookup, "cf")
        yield partial(facade.InitialContext({}).lookup, url)


def check(texts: list[str], url: str) -> None:
    for text in texts:
        # A traceback quotes this file, which builds no URL in a line that fails.
        assert MARKER.lower() not in text.lower(), (url, text)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


# The same URLs in each run: --hypothesis-seed and more examples search further.
COMMON = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@COMMON
@given(url=urls())
@example(url=f"tcp://app:{MARKER}@localhost:61616")
@example(url=f"tcp://u:5,tcp://{MARKER},tcp://y@h:1")
@example(url=f"tcp://u:5#tcp://{MARKER},tcp://x@h:1")
@example(url=f"tcp://app:tcp://x:{MARKER}@h:1")
@example(url=f"tcp://u:p@tcp://{MARKER}:1@h:1")
@example(url=f"tcp://h?sslEnabled=true&trustStorePassword=tcp://{MARKER}:1&ha=true")
@example(url=f"(tcp://u:(tcp://a,(tcp://{MARKER}:1))@h:1)")
@example(url=f"tcp://u:5,tcp://{MARKER}?user=a@b@h")
@example(url=f"ssl://u:5#tcp://{MARKER}?user=a@b[:1)@h,tcp://b")
@example(url=f"tcp://h?password=a&{MARKER}")
@example(url=f"tcp://h?password=a&{MARKER}=")
@example(url=f"tcp://u:1?{MARKER}=@h:1")
@example(url=f"tcp://h?ha=truepassword=&{MARKER}=&")
@example(url=f"tcp://u:@{MARKER}#@h:1")
@example(url=f"tcp://hpassword={MARKER}&")
@example(url=f"tcp://h?sslEnabled=true&keyStorePassword=a&keyStoreType={MARKER}")
@example(url=f"tcp://h?sslEnabled=true&trustStorePassword=a&enabledProtocols={MARKER}")
@example(url=f"tcp://h?keyStorePassword=a&verifyHost={MARKER}")
@example(url=f"tcp://h?sslEnabled={MARKER}&keyStorePassword={MARKER}")
def test_a_client_shows_no_password(url: str, log: pytest.LogCaptureFixture) -> None:
    for action in client_actions(url):
        check(outcome(action), url)
    check([log.text, describe_url(url)], url)
    log.clear()


@COMMON
@given(url=urls())
def test_a_properties_file_shows_no_password(url: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "jndi.properties"
        for written in (url, url.replace("\\", "\\u12")):
            file.write_text(f"connectionFactory.cf={written}\n", encoding="latin-1")
            check(outcome(lambda: embedclient.InitialContext(file).lookup("cf")), url)


@COMMON
@given(url=urls())
def test_a_command_shows_no_password(url: str) -> None:
    def failure() -> object:
        return failure_of(factory_for(url, None, None, None), JMSException("no"), connected=False).message

    check(outcome(failure), url)
    result = CliRunner().invoke(commands, ["send", url, "text"])
    check([result.output], url)


@COMMON
@given(url=urls())
def test_options_of_spark_show_no_password(url: str) -> None:
    check(outcome(lambda: SourceOptions.parse({"url": url, "queue": "q"})), url)
    check(outcome(lambda: SourceOptions.parse({"url": url, "queue": "q", "password": MARKER})), url)
    check(outcome(lambda: ConnectionOptions.taken_from(OptionReader({"url": url}, CONNECTION_OPTIONS))), url)
    check(outcome(lambda: ConnectionOptions(url, "u", MARKER)), url)


@COMMON
@given(url=urls())
@example(url=f"tcp://h?keyStorePassword=a&{MARKER}=b")
@example(url=f"tcp://h?sslEnabled=true&keyStorePath=x&keyStorePassword={MARKER}")
@example(url=f"tcp://h?sslEnabled=true&keyStorePassword=a&keyStoreType={MARKER}")
@example(url=f"tcp://h?sslEnabled=true&keyStorePassword=a&enabledProtocols={MARKER}")
@example(url=f"tcp://h?sslEnabled={MARKER}&keyStorePassword={MARKER}")
@example(url=f"tcp://u:?{MARKER}@localhost")
@example(url=f"tcp://localhostpassword=@{MARKER}?&")
def test_a_broker_shows_no_password(url: str) -> None:
    check(outcome(lambda: BrokerConfig(connectors={"a": url})), url)
    check(outcome(lambda: BrokerConfig(connectors=url)), url)
    check(outcome(lambda: connector_tls(BrokerConfig(connectors={"a": url}).connectors["a"])), url)
    for element in ("acceptor", "connector"):
        check(file_outcome(f"<{element}s><{element} name='a'>{escape(url)}</{element}></{element}s>"), url)


@COMMON
@given(url=urls())
@example(url=f"tcp://u:{MARKER}@h:1")
def test_a_url_in_the_place_of_a_name_shows_no_password(url: str) -> None:
    assume("://" in url)
    text, quoted = escape(url), quoteattr(url)
    good = "<connectors><connector name='a'>tcp://h:1</connector></connectors>"
    clusters = f"<cluster-connection name='c'><connector-ref>{text}</connector-ref></cluster-connection>"
    check(file_outcome(f"{good}<cluster-connections>{clusters}</cluster-connections>"), url)
    check(file_outcome(f"<connectors><connector name={quoted}>tcp://h:1</connector></connectors>"), url)
    check(file_outcome(f"<acceptors><acceptor name={quoted}/></acceptors>"), url)
    check(outcome(lambda: BrokerConfig(connectors={url: "tcp://h:1"})), url)


def test_passwords_outside_of_urls_are_not_shown() -> None:
    manager = LockManager("CuratorDistributedLockManager", {"password": MARKER, "connect-string": f"u:{MARKER}@zk:1"})
    check(outcome(lambda: ReplicationPrimary(lock_manager=manager)), "")
    assert "connect-string" in repr(manager)
    check(file_outcome(f"<mask-password>{MARKER}</mask-password>"), "")
    check(file_outcome(f"<cluster-password>ENC({MARKER})</cluster-password>"), "")


def file_outcome(core: str) -> list[str]:
    """What can be seen of a broker.xml: errors or the configuration, and warnings."""
    warnings: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "broker.xml"
        file.write_text(f"<configuration xmlns='urn:activemq'><core>{core}</core></configuration>")
        return [*outcome(lambda: load_config(file, on_warning=warnings.append)), *warnings]


def test_the_marker_would_be_found() -> None:
    with pytest.raises(AssertionError):
        check(outcome(MARKER.upper), "")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("tcp://app:hunter2@localhost:61616", "tcp://localhost:61616"),
        ("tcp://h?ha=true&password=a&b=c", "tcp://h?ha=***&password=***&***"),
        ("tcp://h?user=me@corp&ha=true", "tcp://h?user=***&ha=***"),
        ("failover:(tcp://u:hunter2@h:1,tcp://h2)?x=y", "failover:(tcp://h:1,tcp://h2)?x=***"),
        ("(tcp://a:1?localPort=9, tcp://b)?ha=true", "(tcp://a:1?localPort=***,tcp://b)?ha=***"),
        ("tcp://a:1?ha=true#tcp://b:2?x=1,tcp://c", "tcp://a:1?ha=***#tcp://b:2?x=***,tcp://c"),
        ("tcp://u:p@a:1,tcp://u:p@b:2", "tcp://***,***"),
        ("(tcp://h:1,tcp://i:2)?user=me@corp&ha=true", "(tcp://h:1,tcp://i:2)?user=***&ha=***"),
        ("(tcp://h:1?user=me@corp, tcp://i:2?clientID=a@b#c)", "(tcp://h:1?user=***,tcp://i:2?clientID=***)"),
        ("tcp://u:5,tcp://hunter2?user=a@b@h", "tcp://***,***"),
        ("tcp://app:hunter2", "tcp://***"),
        ("app:hunter2", "***"),
        ("vm://name", "vm://name"),
        (None, "a value of type NoneType"),
    ],
)
def test_a_description_has_hosts_and_names(url: object, shown: str) -> None:
    assert describe_url(url) == shown


def test_no_name_of_artemis_but_passwords_hides_the_names_after_it() -> None:
    for name in ACCEPTOR_PARAMETERS | CONNECTOR_PARAMETERS:
        *_, last = url_parameters(f"{name}=x&last=1")
        assert last.is_safe == ("password" not in name.lower()), name
