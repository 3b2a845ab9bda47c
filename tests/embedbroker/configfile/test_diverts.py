"""Diverts and wildcard addresses of a broker.xml."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import DivertConfiguration, DivertRoutingType
from tests.embedbroker.configfile.config_files import load, refused

ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
PLACES = "<address>orders</address><forwarding-address>audit</forwarding-address>"


def diverts(content: str, name: str = "d") -> str:
    return f"<diverts><divert name='{name}'>{content}</divert></diverts>"


def test_a_whole_divert(tmp_path: Path) -> None:
    core = diverts(
        f"<transformer><class-name>{ADD_HEADERS}</class-name><property key='a' value='1'/><property key='b' value=''/>"
        f"</transformer><exclusive>true</exclusive><routing-name>r</routing-name>{PLACES}"
        "<filter string='x = 1'/><routing-type>ANYCAST</routing-type>"
    )
    loaded = load(tmp_path, core)
    assert loaded.config.diverts == {
        "d": DivertConfiguration(
            "orders",
            "audit",
            routing_name="r",
            exclusive=True,
            filter="x = 1",
            routing_type=DivertRoutingType.ANYCAST,
            properties={"a": "1", "b": ""},
        )
    }
    assert not loaded.warnings


@pytest.mark.parametrize("core", [diverts(PLACES), diverts(PLACES + "<filter string=''/>")])
def test_a_small_divert(core: str, tmp_path: Path) -> None:
    divert = load(tmp_path, core).config.diverts["d"]
    assert (divert.exclusive, divert.filter or None, divert.routing_type) == (False, None, DivertRoutingType.STRIP)


@pytest.mark.parametrize(
    ("core", "problem"),
    [
        ("<diverts><divert/></diverts>", "core/diverts/divert: has no address and no forwarding-address"),
        (diverts("<address>a</address>"), "core/diverts/divert[d]: has no forwarding-address"),
        (
            diverts(PLACES + "<transformer-class-name>com.acme.Upper</transformer-class-name>"),
            "core/diverts/divert[d]/transformer-class-name: names a class of Java, 'com.acme.Upper'; only "
            f"{ADD_HEADERS} exists here: use the transformer of DivertConfiguration in Python",
        ),
        (diverts(PLACES + "<transformer/>"), "core/diverts/divert[d]/transformer: has no class-name"),
        (
            diverts("<address>a</address><forwarding-address>b,a</forwarding-address>"),
            "core/diverts/divert[d]: forwarding_address 'b,a' contains 'a', the address of the divert: each message "
            "would be diverted for ever; name another address",
        ),
        (
            diverts("<address>a</address><forwarding-address>b,</forwarding-address>"),
            "core/diverts/divert[d]/forwarding-address: must name an address, or several with commas, not 'b,'",
        ),
        (
            diverts(PLACES + "<routing-type>BOTH</routing-type>"),
            "core/diverts/divert[d]/routing-type: expected one of STRIP, PASS, ANYCAST, MULTICAST, not 'BOTH'",
        ),
        (
            f"<diverts><divert name='d'>{PLACES}</divert><divert name='d'>{PLACES}</divert></diverts>",
            "core/diverts/divert[d]: there are two of the name 'd'",
        ),
        (
            "<wildcard-addresses><delimiter>#</delimiter></wildcard-addresses>",
            "core/wildcard-addresses: delimiter '#', any_words '#' and single_word '*' must be three different "
            "characters",
        ),
        (
            "<wildcard-addresses><any-words>/</any-words></wildcard-addresses>"
            "<address-settings><address-setting match='a/b'/></address-settings>",
            "core/address-settings/address-setting[a/b]: address-setting match 'a/b': '/' is allowed at the end only",
        ),
    ],
)
def test_wrong_diverts_are_refused(core: str, problem: str, tmp_path: Path) -> None:
    problems = refused(tmp_path, core)
    assert problem in problems, problems
