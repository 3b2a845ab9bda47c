"""From a file to a tree of elements: encoding, substitution, XML, included files.

Responsible for all errors of a file that come before the check of its names. Also responsible for refusing what XML
allows and a configuration does not need: document types, and with them entities, external ones too. Does not depend on
the table of names.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.parsers import expat

from attrs import define, field

from embedclient.model import describe_name

from ._findings import ConfigFileError, Findings
from ._substitution import CircularProperties, substitute

__all__ = ["Element", "read_document"]

FILE_BYTES_MAX = 16 * 1024 * 1024
DEPTH_MAX = 64
INCLUDES_MAX = 100

_NAMESPACES = {
    "urn:activemq": None,
    "urn:activemq:core": None,
    "urn:activemq:jms": None,
    "http://www.w3.org/2001/XInclude": "xi",
    "http://www.w3.org/2001/XMLSchema-instance": "xsi",
    "http://www.w3.org/XML/1998/namespace": "xml",
}
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DECLARED_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]*)["']""")
_INCLUDE = "xi:include"
# Attributes that distinguish elements of one name in messages.
_IDENTITIES = ("@name", "@match", "@key", "@type")


@define(eq=False)
class Element:
    """Hold one element: its contents, and which of these have been used.

    ``path`` leads to it by names alone, ``way`` does the same with the name of one of several; both begin below the
    root.
    """

    name: str
    file: str
    path: str
    way: str
    text: str | None
    attributes: dict[str, str]
    children: dict[str, list[Element]]
    taken: bool = False
    attributes_taken: set[str] = field(factory=set)

    @property
    def place(self) -> str:
        """Return the place of the element, for a reader."""
        return f"{self.file}: {self.way}" if self.way else self.file

    def attribute_place(self, name: str) -> str:
        """Return the place of one of its attributes, for a reader."""
        return f"{self.place}{'/' if self.way else ': '}@{name}"

    def take(self, name: str) -> Element | None:
        """Return the child of a name that may stand here once, and mark it as used."""
        return next(iter(self.take_all(name)), None)

    def take_all(self, name: str) -> list[Element]:
        """Return all children of a name, and mark them as used."""
        found = self.children.get(name, [])
        for child in found:
            child.taken = True
        return found

    def attribute(self, name: str) -> str | None:
        """Return the text of an attribute, and mark it as used."""
        self.attributes_taken.add(name)
        return self.attributes.get(name)


class _Forbidden(Exception):
    """Refuse XML that is well-formed, but that no configuration needs."""


@define(eq=False)
class _Reader:
    """Read one file and those that it includes."""

    properties: Mapping[str, str]
    environment: Mapping[str, str]
    findings: Findings
    including: list[Path] = field(factory=list)
    includes: int = 0

    def read(self, path: Path, parent: Element | None = None) -> Element:
        """Return the tree of a file.

        Raises:
            OSError: The file cannot be read.
            ConfigFileError: The file is not XML.
        """
        self.including.append(_resolved(path))
        with self.findings.reading(path):
            text = _decoded(path)
        text = self._substituted(path, text)
        ((name, content),) = _parsed(path, text).items()
        place = ("", "") if parent is None else (_below(parent.path, name), _below(parent.way, name))
        element = self._element(name, content, str(path), *place)
        self.including.pop()
        return element

    def _substituted(self, path: Path, text: str) -> str:
        try:
            text, unknown = substitute(text, self.properties, self.environment)
        except CircularProperties as error:
            raise _wrong(path, str(error)) from None
        for name in unknown:
            self.findings.warn(
                str(path), f"${{{name}}} is neither a property nor in the environment: it reads as empty"
            )
        return text

    def _element(self, name: str, content: object, file: str, path: str, way: str) -> Element:
        entries = content if isinstance(content, dict) else {} if content is None else {"#text": content}
        element = Element(name, file, path, way, None, {}, {})
        for key, value in entries.items():
            if key == "#text":
                element.text = str(value)
            elif key.startswith("@"):
                # Namespaces, schema locations and attributes of XML itself do not configure a broker.
                if key != "@xmlns" and not key.startswith(("@xsi:", "@xml:")):
                    element.attributes[key[1:]] = str(value)
            else:
                self._add(element, key, value if isinstance(value, list) else [value])
        return element

    def _add(self, parent: Element, name: str, contents: list[object]) -> None:
        if name == _INCLUDE:
            for content in contents:
                self._include(parent, content)
            return
        for number, content in enumerate(contents, 1):
            which = _identity(content) or (str(number) if len(contents) > 1 else "")
            way = _below(parent.way, name) + (f"[{describe_name(which)}]" if which else "")
            child = self._element(name, content, parent.file, _below(parent.path, name), way)
            parent.children.setdefault(name, []).append(child)

    def _include(self, parent: Element, content: object) -> None:
        attributes = content if isinstance(content, dict) else {}
        place = f"{parent.file}: {_below(parent.way, _INCLUDE)}"
        href = attributes.get("@href")
        if not href or set(attributes) - {"@href", "@parse", "@xmlns"} or attributes.get("@parse", "xml") != "xml":
            self.findings.refuse(place, "an include is <xi:include href='FILE'/> here, without fallback or xpointer")
            return
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", href):
            self.findings.refuse(place, f"{href!r} is no file name: only local files are included")
            return
        included = Path(parent.file).parent / href
        self.includes += 1
        if _resolved(included) in self.including or self.includes > INCLUDES_MAX:
            self.findings.refuse(
                place, f"{href!r} is included in itself, or there are more than {INCLUDES_MAX} includes"
            )
            return
        try:
            child = self.read(included, parent)
        except OSError as error:
            self.findings.refuse(place, f"cannot read {included}: {error.strerror}")
            return
        parent.children.setdefault(child.name, []).append(child)


def read_document(
    path: Path, properties: Mapping[str, str], environment: Mapping[str, str], findings: Findings
) -> Element:
    """Read a file and what it includes into a tree.

    Raises:
        OSError: The file cannot be read.
        ConfigFileError: The file is not XML, or XML that no configuration needs.
    """
    return _Reader(properties, environment, findings).read(path)


def _resolved(path: Path) -> Path:
    """Return the file itself.

    For links in a circle, opening the file reports the error; `Path.resolve` fails with them.
    """
    return Path(os.path.realpath(path))


def _below(way: str, name: str) -> str:
    return f"{way}/{name}" if way else name


def _wrong(path: Path, text: str) -> ConfigFileError:
    return ConfigFileError((f"{path}: {text}",))


def _decoded(path: Path) -> str:
    """Return the file as text, by its byte order mark or its declaration, otherwise as UTF-8."""
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise _wrong(path, f"longer than {FILE_BYTES_MAX} bytes")
    if not data.strip():
        raise _wrong(path, "the file is empty")
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    if encoding is None:
        declared = _DECLARED_ENCODING.match(data)
        encoding = declared[1].decode("ascii") if declared else "utf-8"
    try:
        return data.decode(encoding)
    except LookupError:
        raise _wrong(path, f"the encoding {encoding!r} is unknown; use UTF-8") from None
    except UnicodeError as error:
        raise _wrong(path, f"the text is not {encoding}: {error}") from None


def _parsed(path: Path, text: str) -> dict[str, object]:
    import xmltodict  # only programs with a file pay for loading it

    try:
        _guard(text)
        document: dict[str, object] = xmltodict.parse(
            text, process_namespaces=True, namespaces=_NAMESPACES, strip_whitespace=True
        )
    except _Forbidden as error:
        raise _wrong(path, str(error)) from None
    except UnicodeEncodeError:
        raise _wrong(path, "a property that is put in holds bytes that are no text") from None
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code) or "no XML"
        raise _wrong(path, f"line {error.lineno}, column {error.offset + 1}: {reason}") from None
    return document


def _guard(text: str) -> None:
    """Refuse a document type, and nesting that no configuration has, before anything is built from the text."""
    depth = 0

    def on_document_type(*_: object) -> None:
        raise _Forbidden("a document type (<!DOCTYPE ...>) and entities are refused in a configuration")

    def on_start(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > DEPTH_MAX:
            raise _Forbidden(f"elements are nested more than {DEPTH_MAX} deep")

    def on_end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate("utf-8", ":")
    parser.StartDoctypeDeclHandler = on_document_type
    parser.StartElementHandler = on_start
    parser.EndElementHandler = on_end
    parser.Parse(text.encode(), True)


def _identity(content: object) -> str:
    if isinstance(content, dict):
        for key in _IDENTITIES:
            if isinstance(content.get(key), str) and content[key]:
                return str(content[key])
    return ""
