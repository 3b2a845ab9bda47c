"""URLs of brokers in texts for people: descriptions without secrets, and advice for URLs of other products.

Responsible for the split of a query into parameters, and for what a message, a log line or a repr may show of a URL:
schemes, hosts, ports and names of parameters. Does not depend on what a parameter does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from urllib.parse import unquote

from attrs import field, frozen

from ._similar_name import did_you_mean

__all__ = [
    "URLParameter",
    "describe_name",
    "describe_url",
    "is_host_name",
    "split_members",
    "unsupported_scheme",
    "url_parameters",
]

HIDDEN = "***"
_MEMBER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_NEXT_MEMBER = re.compile(r",\s*(?=[A-Za-z][A-Za-z0-9+.-]*://)")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.%-]+)?\]|[\w.%-]*)(?::(?P<port>[0-9]{1,5}))?")
_HOST_NAME = re.compile(r"[\w.:%-]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
# Their values may contain an @, which elsewhere is a sign of credentials.
_FREE_TEXTS = frozenset(("user", "userName", "username", "clientID", "clientId", "groupID", "groupId"))
_FREE_TEXT = re.compile(
    rf"[?&;](?:{'|'.join(sorted(_FREE_TEXTS))})=[\w.%+-]+@[\w.%+-]+(?=[&;)#]|,\s*[A-Za-z][A-Za-z0-9+.-]*://|\s*$)",
    re.ASCII,
)
# Also in names that are misspelt. A wrong guess hides the names that follow, and nothing else.
_SECRET_WORDS = ("pas", "word", "psw", "pwd", "pw", "secret", "token", "credential")

# ActiveMQ Classic puts these before one URL or a list in brackets.
_COMPOSITE = ("failover", "static", "fanout", "discovery", "masterslave")
_COMPOSITE_START = re.compile(
    rf"\s*(?P<name>{'|'.join(_COMPOSITE)}):(?://)?\s*(?=\(|[A-Za-z][A-Za-z0-9+.-]*:(?://|\()|$)", re.IGNORECASE
)
_COMPOSITE_PREFIX = re.compile(rf"\s*(?P<name>{'|'.join(_COMPOSITE)}):", re.IGNORECASE)
_FOR_EVER = "reconnectAttempts=-1"
_PAIR = "ha=true&" + _FOR_EVER
_PLAIN = frozenset(("tcp", "nio", "auto", "auto+nio", "openwire", "activemq"))
_OTHER_PROTOCOLS = {
    **dict.fromkeys(("amqp", "amqp+nio"), "AMQP"),
    **dict.fromkeys(("stomp", "stomp+nio"), "STOMP"),
    **dict.fromkeys(("mqtt", "mqtt+nio"), "MQTT"),
    **dict.fromkeys(("ws", "amqpws"), "WebSocket"),
}
_ENCRYPTED = frozenset(
    ("ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl", "amqps", "amqp+ssl", "amqp+nio+ssl", "stomp+ssl", "stomp+nio+ssl")
) | frozenset(("mqtts", "mqtt+ssl", "mqtt+nio+ssl", "wss", "amqpwss"))
_SCHEMES = frozenset(("tcp", "vm", "udp", "jgroups", "http", "https"))
_DISCOVERY = frozenset(("multicast", "peer", "zeroconf", "rendezvous"))
_ALL_SCHEMES = _SCHEMES | _PLAIN | _OTHER_PROTOCOLS.keys() | _ENCRYPTED | _DISCOVERY


@frozen
class URLParameter:
    """One parameter of a query: its name, its value, and whether the name is safe to show.

    Without a ``=`` in the text, ``value`` becomes None. A name is not safe after a password, which may contain the
    ``&`` or ``;`` that seems to end it. A name is not safe, either, where it does not look like a name.
    """

    name: str
    value: str | None = field(repr=False)
    is_safe: bool

    def shown(self, known: Collection[str] = ()) -> str:
        """Return the name in the form for an error: quoted, or ``***`` if it may be part of a password."""
        return repr(self.name) if self.is_safe or self.name in known else repr(HIDDEN)

    def advice(self, known: Collection[str]) -> str:
        """Return a replacement for an unknown name: a similar one, or signs of a password by their codes."""
        near = did_you_mean(self.name, known)
        return near or ("" if self.is_safe else "; write & and ; in the value before it as %26 and %3B")


def url_parameters(query: str) -> list[URLParameter]:
    """Split a query at ``&`` and ``;`` and decode names and values. Empty items are left out."""
    parameters: list[URLParameter] = []
    trusted = True
    rest = query
    while rest:
        item, _, rest = _next_item(rest)
        if not item.strip():
            continue
        raw_name, separator, value = item.partition("=")
        name = unquote(raw_name).strip()
        looks_like_name = bool(_NAME.fullmatch(name)) and bool(separator)
        is_safe = trusted and looks_like_name and (name in _FREE_TEXTS or "@" not in value + rest)
        parameters.append(URLParameter(name, unquote(value).strip() if separator else None, is_safe))
        # A second = is the sign of a lost &, perhaps in front of a password.
        trusted = trusted and looks_like_name and not _is_secret(name) and "=" not in value
    return parameters


def _next_item(query: str) -> tuple[str, str, str]:
    matched = re.search("[&;]", query)
    return (query, "", "") if matched is None else (query[: matched.start()], matched[0], query[matched.end() :])


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def split_members(text: str) -> list[str]:
    """Split a list of URLs at the commas before a scheme."""
    return [member.strip() for member in _NEXT_MEMBER.split(text)]


def describe_url(url: object, known: Collection[str] = ()) -> str:
    """Return a URL in the form for errors, logs and reprs: schemes, hosts, ports and names of parameters.

    Values, user names, passwords and all parts that cannot be read as one of the four are omitted or become ``***``.
    Safe for every text, also for one that is no URL. Names in ``known`` are shown also after a password.
    """
    if not isinstance(url, str):
        return f"a value of type {type(url).__name__}"
    return _Description(url, known).text


def describe_name(name: str) -> str:
    """Return a name in the form for errors, logs and reprs: unchanged, or as `describe_url` has it if it is a URL."""
    return describe_url(name) if "://" in name else name


class _Description:
    """One pass over a URL. ``trusted`` ends at the first part that may belong to a password."""

    def __init__(self, url: str, known: Collection[str] = ()) -> None:
        self._known = known
        self.trusted = True
        # A password may be a whole list of URLs: only what stands behind the last @ of a list is certainly a host.
        self._has_credentials = "@" in _FREE_TEXT.sub("", url)
        self._signs_left = self._count_signs(url)
        self.schemes: list[str] = []
        self.hosts: list[str] = []
        self.text = "".join(self._parts(url.strip()))

    def _parts(self, text: str) -> Iterator[str]:
        prefix = _COMPOSITE_START.match(text)
        brackets = ""
        while prefix is not None or text.startswith("("):
            if prefix is not None:
                yield f"{prefix['name'].lower()}:"
                text = text[prefix.end() :]
            else:
                text, brackets = text[1:].lstrip(), brackets + ")"
                yield "("
            prefix = _COMPOSITE_START.match(text)
        if brackets:
            inside, closed, tail = text.partition(")")
            yield ",".join(self._member(member, tail) for member in split_members(inside))
            if closed:
                yield brackets
                yield self._tail(tail.lstrip(")"))
            return
        main, mark, fragment = text.partition("#")
        head, question, query = main.partition("?")
        *first, last = split_members(head)
        yield ",".join(self._member(member, fragment) for member in [*first, last + question + query])
        if mark:
            yield "#" + ",".join(self._member(member, "") for member in split_members(fragment))

    def _tail(self, text: str) -> str:
        if not text:
            return ""
        return self._query(text[1:]) if text.startswith("?") else HIDDEN

    def _member(self, text: str, after: str) -> str:
        matched = _MEMBER.fullmatch(text)
        if matched is None or not self.trusted:
            self.trusted = False
            return HIDDEN if text else ""
        place, question, query = matched["rest"].partition("?")
        # A password may hold any of the signs that part a URL: only what follows the last @ is the place.
        self._signs_left -= self._count_signs(text)
        if self._signs_left:
            place = HIDDEN
        elif "@" in place:
            credentials, _, place = place.rpartition("@")
            if "=" in credentials or "@" in query + after:
                place = HIDDEN
        elif self._count_signs(query):
            place = HIDDEN
        hosts = place.rstrip("/").split(",")
        # An unknown scheme is a typing error at the start, and elsewhere perhaps part of a password.
        is_scheme = not self.schemes or matched["scheme"].lower() in _ALL_SCHEMES
        scheme = f"{matched['scheme'] if is_scheme else HIDDEN}://"
        self.schemes.append(matched["scheme"].lower())
        if not is_scheme or not all(map(_is_host, hosts)):
            self.trusted = False
            return scheme + HIDDEN
        self.hosts += hosts
        return scheme + ",".join(hosts) + (self._query(query) if question else "")

    def _count_signs(self, text: str) -> int:
        """Return how many signs of credentials a part has. Without other signs, those of user names are none."""
        return text.count("@") if self._has_credentials else 0

    def _query(self, query: str) -> str:
        names = []
        for parameter in url_parameters(query):
            self.trusted = self.trusted and parameter.is_safe
            is_shown = self.trusted or (parameter.name in self._known and parameter.value is not None)
            names.append(f"{parameter.name}={HIDDEN}" if is_shown else HIDDEN)
            self.trusted = self.trusted and not _is_secret(parameter.name)
        return "?" + "&".join(names) if names else ""


def _is_host(text: str) -> bool:
    matched = _HOST.fullmatch(text)
    return matched is not None and int(matched["port"] or 0) < 65_536


def is_host_name(text: str) -> bool:
    """Return True if a text has only characters of a host's name or address, so that it may be shown."""
    return _HOST_NAME.fullmatch(text) is not None


def unsupported_scheme(url: str) -> str | None:
    """Return a replacement for a URL of ActiveMQ Classic or of another protocol; None if it is neither.

    The corrected URL has the hosts of the given one, without its credentials and parameters.
    """
    prefix = _COMPOSITE_PREFIX.match(url)
    found = _Description(url)
    scheme = (_MEMBER.match(url.strip()) or {"scheme": ""})["scheme"].lower()
    if prefix is not None:
        name = prefix["name"].lower()
        reason = f"{name}: is a prefix of ActiveMQ Classic, which is not supported"
        parameters = _PAIR if name in ("failover", "masterslave") else _FOR_EVER
    elif scheme in _ENCRYPTED:
        reason, parameters = f"{scheme}:// is a scheme of ActiveMQ Classic or of another protocol", ""
    elif scheme in _OTHER_PROTOCOLS:
        reason = f"{scheme}:// is {_OTHER_PROTOCOLS[scheme]}, and CORE is the only protocol"
        return f"{reason}: write {_corrected(found, '', with_ports=False)}, with the port of an acceptor for CORE"
    elif scheme in _DISCOVERY:
        reason, parameters = f"{scheme}:// is a scheme of ActiveMQ Classic", _FOR_EVER
    elif scheme in _PLAIN - {"tcp"}:
        reason, parameters = f"{scheme}:// is a scheme of ActiveMQ Classic", ""
    else:
        return None
    if _ENCRYPTED.intersection(found.schemes) or scheme in _ENCRYPTED:
        return f"{reason}: write {_corrected(found, 'sslEnabled=true')}, with the port of an acceptor with TLS"
    with_ports = not _OTHER_PROTOCOLS.keys() & set(found.schemes)
    return f"{reason}: write {_corrected(found, parameters, with_ports=with_ports)}"


def _corrected(found: _Description, parameters: str, *, with_ports: bool = True) -> str:
    hosts = [host for host in found.hosts if host.strip(":")]
    if not hosts or _DISCOVERY.intersection(found.schemes):
        hosts = ["host-a:61616", "host-b:61616"]
    if not with_ports:
        hosts = [re.sub(r":[0-9]+$", "", host) + ":61616" for host in hosts]
    urls = [f"tcp://{host}" for host in hosts]
    text = urls[0] if len(urls) == 1 else f"({','.join(urls)})"
    return f"{text}?{parameters}" if parameters else text
