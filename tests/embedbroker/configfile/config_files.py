"""Configuration files as tests write them: what stands in ``core``, or a whole text, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import frozen

from embedbroker.config import BrokerConfig
from embedbroker.configfile import ConfigFileError, load_config

# Without these two every file has a warning.
QUIET = "<security-enabled>false</security-enabled>"
ACCEPTOR = "<acceptors><acceptor name='main'>tcp://localhost:61616</acceptor></acceptors>"


@frozen
class Loaded:
    """A configuration, and the warnings without the name of the file."""

    config: BrokerConfig
    warnings: list[str]


def document(core: str, *, beside: str = "") -> str:
    """A whole file around what stands in ``core``."""
    return (
        f"<configuration xmlns='urn:activemq' xmlns:xi='http://www.w3.org/2001/XInclude'>{beside}"
        f"<core xmlns='urn:activemq:core'>{core}</core></configuration>"
    )


def load_text(directory: Path, text: str | bytes, properties: Mapping[str, str] | None = None) -> Loaded:
    """Write a file and load it."""
    file = directory / "broker.xml"
    if isinstance(text, str):
        file.write_text(text, encoding="utf-8")
    else:
        file.write_bytes(text)
    warnings: list[str] = []
    config = load_config(file, properties=properties, on_warning=warnings.append)
    return Loaded(config, [warning.removeprefix(f"{file}: ") for warning in warnings])


def load(directory: Path, core: str, properties: Mapping[str, str] | None = None) -> Loaded:
    """Load a file with an acceptor, and with what stands in ``core`` beside."""
    acceptor = "" if "<acceptors>" in core else ACCEPTOR
    quiet = "" if "<security-enabled>" in core else QUIET
    return load_text(directory, document(acceptor + quiet + core), properties)


def refused_text(directory: Path, text: str | bytes, properties: Mapping[str, str] | None = None) -> list[str]:
    """The errors of a whole file, without its name."""
    with pytest.raises(ConfigFileError) as caught:
        load_text(directory, text, properties)
    assert str(caught.value) == "\n".join(caught.value.problems)
    prefix = f"{directory / 'broker.xml'}: "
    return [problem.removeprefix(prefix) for problem in caught.value.problems]


def refused(directory: Path, core: str, properties: Mapping[str, str] | None = None) -> list[str]:
    """The errors of a file with an acceptor, and with what stands in ``core`` beside."""
    acceptor = "" if "<acceptors>" in core else ACCEPTOR
    return refused_text(directory, document(acceptor + core), properties)
