"""Names from properties files: Java's format, Artemis' prefixes, and what is wrong with a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedclient import ConnectionFactory, InitialContext, Queue, Topic, XAConnectionFactory
from embedclient._client._jndi import properties_in
from embedclient.errors import InvalidURLException, NamingException

FILE = r"""
# What the programs of this department use.
! and another comment
java.naming.factory.initial=org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory

connectionFactory.cf = (tcp://a:61616,tcp://b:61617)?ha=true&reconnectAttempts=-1
connectionFactory.xa: tcp://a:61616?type=XA_CF
connection.short = tcp://localhost:61616?loadBalancingPolicyClassName=\
    org.apache.activemq.artemis.api.core.client.loadbalance.RandomConnectionLoadBalancingPolicy
queue.queues/orders   exampleQueue
topic.news = \u0041nnouncements
"""


@pytest.fixture
def context(tmp_path: Path) -> InitialContext:
    path = tmp_path / "jndi.properties"
    path.write_text(FILE, encoding="latin-1")
    return InitialContext(path)


def test_a_file_names_factories_and_destinations(context: InitialContext) -> None:
    factory = context.connection_factory("cf")
    assert type(factory) is ConnectionFactory
    assert (factory.settings.ha, factory.settings.reconnect_attempts) == (True, -1)
    assert context.lookup("cf") is factory
    assert type(context.lookup("xa")) is XAConnectionFactory
    assert type(context.lookup("short")) is ConnectionFactory
    assert context.lookup("queues/orders") == context.destination("queues/orders") == Queue("exampleQueue")
    assert context.lookup("news") == Topic("Announcements")


def test_dynamic_names_need_no_entry(context: InitialContext) -> None:
    assert context.lookup("dynamicQueues/any") == Queue("any")
    assert context.lookup("dynamicTopics/any/thing") == Topic("any/thing")


def test_the_current_directory_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NamingException, match=r"jndi\.properties: No such file"):
        InitialContext()
    (tmp_path / "jndi.properties").write_text("queue.q=x\n")
    assert InitialContext().lookup("q") == Queue("x")


def test_without_named_factories_the_usual_ones_are_there() -> None:
    context = InitialContext({"java.naming.provider.url": "tcp://there:1234"})
    for name in ("ConnectionFactory", "QueueConnectionFactory", "TopicConnectionFactory"):
        factory = context.connection_factory(name)
        assert type(factory) is ConnectionFactory and factory.url == "tcp://there:1234"
    assert type(context.lookup("XAConnectionFactory")) is XAConnectionFactory
    assert InitialContext({}).connection_factory("ConnectionFactory").url == "tcp://localhost:61616"
    with pytest.raises(NamingException):
        InitialContext({"connectionFactory.cf": "tcp://there:1"}).lookup("ConnectionFactory")


def test_wrong_names_and_urls_say_what_is_wrong(context: InitialContext) -> None:
    with pytest.raises(NamingException, match="nothing has the name 'new'; did you mean 'news'") as caught:
        context.lookup("new")
    assert isinstance(caught.value, LookupError)
    with pytest.raises(NamingException, match="'news' is the name of something else than a connection factory"):
        context.connection_factory("news")
    with pytest.raises(NamingException, match="'cf' is the name of something else than a destination"):
        context.destination("cf")
    wrong = InitialContext({"connectionFactory.cf": "tcp://a?type=ZF", "queue.q": "q"})
    assert wrong.lookup("q") == Queue("q")
    with pytest.raises(InvalidURLException, match="expected CF, XA_CF"):
        wrong.lookup("cf")


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t:\tb=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("  a = b\n\n  \n#c=d\n  !e=f", {"a": "b"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=one\\\n   two\\\n#three", {"a": "onetwo#three"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=\\t\\n\\q\\u00e4\\\\", {"a": "\t\nqä\\"}),
        ("a=b\r\nc=d\r\n", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\x85\x0bc", {"a": "b\x85\x0bc"}),
    ],
)
def test_the_format_is_javas(text: str, entries: dict[str, str]) -> None:
    assert dict(properties_in(text)) == entries


def test_a_broken_escape_is_an_error() -> None:
    with pytest.raises(NamingException, match=r"^\\u must be followed by four hexadecimal digits"):
        dict(properties_in("a=\\u12"))
