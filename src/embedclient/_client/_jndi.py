"""JNDI as far as Artemis' documents use it: connection factories and destinations by the names of `jndi.properties`.

Responsible for the format of properties files, for the prefixes of the names, and for the objects that names stand
for. Opens no connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Final, Generic, TypeVar

from embedclient.errors import NamingException
from embedclient.model import Queue, Topic, describe_url, did_you_mean, summary

from ._connection_factory import ConnectionFactory
from ._locator import DEFAULT_URL
from ._url import parse_url
from ._xa import XAConnectionFactory

F = TypeVar("F")

DEFAULT_FILE: Final = "jndi.properties"
PROVIDER_URL: Final = "java.naming.provider.url"
# One page of Artemis' manual writes the shorter one.
_FACTORY_PREFIXES: Final = ("connectionFactory.", "connection.")
_DESTINATION_PREFIXES: Final[dict[str, type[Queue] | type[Topic]]] = {"queue.": Queue, "topic.": Topic}
_DYNAMIC_PREFIXES: Final[dict[str, type[Queue] | type[Topic]]] = {"dynamicQueues/": Queue, "dynamicTopics/": Topic}
_USUAL_XA_FACTORY: Final = "XAConnectionFactory"
_USUAL_FACTORIES: Final = (
    "ConnectionFactory",
    "QueueConnectionFactory",
    "TopicConnectionFactory",
    _USUAL_XA_FACTORY,
)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Names of these characters are shown in errors without change.
_NAME: Final = re.compile(r"[\w./ $*>-]*")
_BLANK: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{4}")


class Names(Generic[F]):
    """Factories and destinations by their names.

    Args:
        environment: the path of a properties file, or its entries as a mapping.
        plain: makes a connection factory from a URL.
        xa: makes an XA connection factory from a URL.

    Raises:
        NamingException: the file cannot be read.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | str | PathLike[str],
        plain: Callable[[str], F],
        xa: Callable[[str], F],
    ) -> None:
        self._plain = plain
        self._xa = xa
        self._destinations: dict[str, Queue | Topic] = {}
        self._urls: dict[str, str] = {}
        self._factories: dict[str, F] = {}
        entries = environment_of(environment)
        for key, value in entries.items():
            self._bind(key, value)
        # Without an entry for a factory these names exist, and the name decides the kind of factory.
        self._usual = not self._urls
        if self._usual:
            self._urls = dict.fromkeys(_USUAL_FACTORIES, entries.get(PROVIDER_URL, DEFAULT_URL))

    def __repr__(self) -> str:
        return summary(self, ", ".join([*self._urls, *self._destinations]))

    def _bind(self, key: str, value: str) -> None:
        for prefix in _FACTORY_PREFIXES:
            if key.startswith(prefix):
                self._urls[key.removeprefix(prefix)] = value
        for prefix, kind in _DESTINATION_PREFIXES.items():
            if key.startswith(prefix):
                self._destinations[key.removeprefix(prefix)] = kind(value)

    def lookup(self, name: str) -> F | Queue | Topic:
        """Return the destination or factory with this name.

        A factory is made once: each lookup returns the same object.

        Args:
            name: a name of an entry, or `dynamicQueues/...` or `dynamicTopics/...`.

        Raises:
            NamingException: no destination and no factory has this name.
            InvalidURLException: the factory's URL cannot be read.
        """
        found = self._destination(name)
        return self.connection_factory(name) if found is None else found

    def connection_factory(self, name: str) -> F:
        """Return the factory with this name, as `lookup` does.

        Raises:
            NamingException: no factory has this name.
            InvalidURLException: the factory's URL cannot be read.
        """
        if name not in self._factories:
            if name not in self._urls:
                raise self._unknown(name, "connection factory", self._destination(name) is not None)
            url = self._urls[name]
            is_xa = name == _USUAL_XA_FACTORY if self._usual else "XA" in parse_url(url).factory.type
            self._factories[name] = (self._xa if is_xa else self._plain)(url)
        return self._factories[name]

    def destination(self, name: str) -> Queue | Topic:
        """Return the queue or topic with this name, as `lookup` does.

        Raises:
            NamingException: no destination has this name.
        """
        found = self._destination(name)
        if found is None:
            raise self._unknown(name, "destination", name in self._urls)
        return found

    def _destination(self, name: str) -> Queue | Topic | None:
        for prefix, kind in _DYNAMIC_PREFIXES.items():
            if name.startswith(prefix) and name != prefix:
                return kind(name.removeprefix(prefix))
        return self._destinations.get(name)

    def _unknown(self, name: str, wanted: str, is_other: bool) -> NamingException:
        if not _NAME.fullmatch(name):
            # It may be a URL with a password, given in the place of a name.
            shown = describe_url(name)
            return NamingException(f"nothing has the name {shown!r}; a URL without a name is for ConnectionFactory")
        if is_other:
            return NamingException(f"{name!r} is the name of something else than a {wanted}")
        return NamingException(f"nothing has the name {name!r}{did_you_mean(name, [*self._urls, *self._destinations])}")


class InitialContext(Names[ConnectionFactory]):
    """Connection factories and destinations by name, from `jndi.properties` in the format of Java programs::

        connectionFactory.cf = (tcp://a:61616,tcp://b:61616)?ha=true&reconnectAttempts=-1
        queue.orders = OrdersQueue
        topic.news = NewsTopic

    A URL with `type=XA_CF` stands for an `XAConnectionFactory`. Without any `connectionFactory.` entry the names
    `ConnectionFactory` and `XAConnectionFactory` exist, for the URL in `java.naming.provider.url`. Names such as
    `dynamicQueues/orders` need no entry. Other entries are ignored.

    Args:
        environment: the path of such a file, or its entries as a mapping; default `jndi.properties` in the current
            directory.

    Raises:
        NamingException: the file cannot be read.
    """

    def __init__(self, environment: Mapping[str, str] | str | PathLike[str] = DEFAULT_FILE) -> None:
        super().__init__(environment, ConnectionFactory, XAConnectionFactory)


def environment_of(source: Mapping[str, str] | str | PathLike[str]) -> Mapping[str, str]:
    """Return the entries of a file, or the given mapping. Raises NamingException."""
    if isinstance(source, Mapping):
        return source
    try:
        # The encoding that Java uses for these files; other characters are written as \uXXXX.
        text = Path(source).read_text(encoding="latin-1")
    except OSError as error:
        raise NamingException(f"{source}: {error.strerror}", linked_exception=error) from error
    return dict(properties_in(text))


def properties_in(text: str) -> Iterator[tuple[str, str]]:
    """Return the entries of a properties file, in Java's format."""
    for line in _logical_lines(text):
        key, rest = _key_of(line)
        rest = rest.lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        yield _unescaped(key), _unescaped(rest)


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments. A line that ends with an odd number of backslashes continues in the next one."""
    gathered = ""
    for line in _LINE_END.split(text):
        stripped = line.lstrip(_BLANK)
        if not gathered and stripped[:1] in ("", "#", "!"):
            continue
        gathered += stripped
        if (len(gathered) - len(gathered.rstrip("\\"))) % 2:
            gathered = gathered[:-1]
            continue
        yield gathered
        gathered = ""
    if gathered:
        yield gathered


def _key_of(line: str) -> tuple[str, str]:
    """Split a line at the end of its key: the first separator without a backslash before it."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    return line[:position], line[position:]


def _unescaped(text: str) -> str:
    characters = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                character = _code_point(text[position : position + 4])
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        characters.append(character)
    return "".join(characters)


def _code_point(digits: str) -> str:
    if not _HEXADECIMAL.fullmatch(digits):
        # The text is not shown: it may be part of a password.
        raise NamingException("\\u must be followed by four hexadecimal digits; write a backslash as \\\\")
    return chr(int(digits, 16))
