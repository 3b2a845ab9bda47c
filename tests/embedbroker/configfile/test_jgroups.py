"""Groups of a broker.xml whose place is in a JGroups file."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedbroker.config import BroadcastGroup, DiscoveryGroup
from tests.embedbroker.configfile.config_files import load, refused

STACK = """<config xmlns="urn:org:jgroups" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <UDP mcast_addr="${jgroups.udp.mcast_addr:231.7.7.9}" mcast_port="45588" bind_addr="127.0.0.1" ip_ttl="2"/>
  <PING/>
  <MERGE3 max_interval="30000"/>
  <pbcast.NAKACK2 use_mcast_xmit="true"/>
</config>"""
CHANNEL = "<jgroups-channel>channel</jgroups-channel>"
BOTH = (
    "<broadcast-groups><broadcast-group name='b'><jgroups-file>stack.xml</jgroups-file>{channel}"
    "</broadcast-group></broadcast-groups>"
    "<discovery-groups><discovery-group name='d'><jgroups-file>stack.xml</jgroups-file>{channel}"
    "</discovery-group></discovery-groups>"
)


def stack_of(*protocols: str) -> str:
    return f"<config>{''.join(protocols)}</config>"


def tcpping(protocol: str, transport: str = "<TCP bind_port='7800'/>") -> str:
    return stack_of(transport, protocol)


def test_a_stack_over_udp_is_its_multicast_group(tmp_path: Path) -> None:
    (tmp_path / "stack.xml").write_text(STACK)
    loaded = load(tmp_path, BOTH.format(channel=CHANNEL))
    place = ("231.7.7.9", 45588, "127.0.0.1")
    assert loaded.config.broadcast_groups == (BroadcastGroup("b", *place),)
    assert loaded.config.discovery_groups == (DiscoveryGroup("d", *place),)
    file = tmp_path / "stack.xml"
    assert [warning for warning in loaded.warnings if "broadcast" in warning] == [
        f"core/broadcast-groups/broadcast-group[b]/jgroups-file: {file}: {name} has no meaning here"
        for name in ("MERGE3", "NAKACK2")
    ]


@pytest.mark.parametrize(
    ("protocols", "place"),
    [
        (("<UDP/>", "<PING/>"), ("228.8.8.8", 7600, None)),
        (("<TCP bind_addr='10.0.0.1' bind_port='7800'/>", "<MPING/>"), ("230.5.6.7", 7555, "10.0.0.1")),
        (("<TCP bind_addr='SITE_LOCAL'/>", "<MPING mcast_port='1'/>"), ("230.5.6.7", 1, None)),
        (("<UDP bind_addr='loopback'/>",), ("228.8.8.8", 7600, "127.0.0.1")),
    ],
)
def test_defaults_and_words_for_interfaces(
    tmp_path: Path, protocols: tuple[str, ...], place: tuple[str, int, str | None]
) -> None:
    (tmp_path / "stack.xml").write_text(stack_of(*protocols))
    config = load(tmp_path, BOTH.format(channel=CHANNEL)).config
    assert config.discovery_groups == (DiscoveryGroup("d", *place),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (stack_of("<TCP/>", "<JDBC_PING/>"), "JDBC_PING is not supported: members find each other by"),
        (stack_of("<TCP/>", "<aws.S3_PING/>"), "S3_PING is not supported"),
        (stack_of("<TCP/>", "<org.jgroups.protocols.kubernetes.KUBE_PING/>"), "KUBE_PING is not supported"),
        (stack_of("<UDP/>", "<TCPPING initial_hosts='a[7800]'/>"), "TCPPING is not supported"),
        (stack_of("<TCP/>", "<TCPPING initial_hosts='a[7800]'/>"), "TCP needs a bind_port with TCPPING"),
        (tcpping("<TCPPING/>"), "TCPPING: initial_hosts must be a list such as a[7800],b[7800], which has no ''"),
        (tcpping("<TCPPING initial_hosts='a[7800],b[x]'/>"), "TCPPING: initial_hosts must be a list such as"),
        (tcpping("<TCPPING initial_hosts='a[70000]'/>"), "TCPPING: hosts: 'a:70000' must be a host and a port"),
        (tcpping("<TCPPING initial_hosts='a' port_range='x'/>"), "TCPPING: port_range must be a number, not 'x'"),
        (tcpping("<TCPPING initial_hosts='a,b' port_range='100'/>"), "TCPPING: 2 hosts with 100 further ports each"),
        (stack_of("<TCP/>", "<TCPGOSSIP/>"), "TCPGOSSIP is not supported"),
        (stack_of("<TCP/>", "<PING/>"), "PING is not supported"),
        (stack_of("<TCP/>", "<MERGE3/>"), "TCP without MPING, FILE_PING or TCPPING does not"),
        (stack_of("<PING/>"), "it must begin with a transport, one of UDP, TCP"),
        (stack_of("<UDP mcast_port='many'/>"), "UDP: mcast_port must be a port, not 'many'"),
        (stack_of("<UDP mcast_addr='10.0.0.1'/>"), "UDP: the group address '10.0.0.1' is no IPv4 multicast address"),
        (stack_of("<UDP mcast_addr='${place}'/>"), "${place} has no default: write ${place:value}"),
        ("<stack/>", "its outermost element must be config, not stack"),
        ("<config>", "it is no XML: no element found"),
        ("<!DOCTYPE config []><config/>", "it has a document type, which is not allowed"),
    ],
)
def test_a_stack_that_brokers_cannot_use_is_an_error_with_the_protocol(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "stack.xml").write_text(text)
    [first, second] = refused(tmp_path, BOTH.format(channel=CHANNEL))
    assert first.startswith(
        f"core/broadcast-groups/broadcast-group[b]/jgroups-file: {tmp_path / 'stack.xml'}: {problem}"
    )
    assert second.partition(": ")[2] == first.partition(": ")[2]


def test_the_directory_of_file_ping_is_a_shared_directory(tmp_path: Path) -> None:
    (tmp_path / "stack.xml").write_text(stack_of("<TCP/>", "<FILE_PING location='/shared/ping'/>"))
    config = load(tmp_path, BOTH.format(channel=CHANNEL)).config
    assert config.discovery_groups == (DiscoveryGroup("d", shared_directory="/shared/ping", channel="channel"),)
    assert config.broadcast_groups[0].group == config.discovery_groups[0].group


def test_the_hosts_of_tcpping_are_where_others_listen(tmp_path: Path) -> None:
    """A broker listens at the port of its transport, and fetches from each host."""
    hosts = "<TCPPING initial_hosts='${hosts:a[7801], b[7802] c,::1[7800]}' port_range='2' num_discovery_runs='3'/>"
    (tmp_path / "stack.xml").write_text(tcpping(hosts, "<TCP bind_addr='10.0.0.1' bind_port='7800' port_range='3'/>"))
    loaded = load(tmp_path, BOTH.format(channel=CHANNEL))
    assert loaded.config.broadcast_groups == (
        BroadcastGroup("b", listen_port=7800, port_range=3, channel="channel", local_bind_address="10.0.0.1"),
    )
    [group] = loaded.config.discovery_groups
    assert group == DiscoveryGroup(
        "d", hosts=["a:7801", "b:7802", "c:7800", "[::1]:7800"], port_range=2, channel="channel"
    )
    assert group.group.places[:3] == [("a", 7801), ("a", 7802), ("a", 7803)]  # type: ignore[union-attr]
    assert not [warning for warning in loaded.warnings if "TCP" in warning]


def test_file_and_channel_belong_together_and_the_file_must_exist(tmp_path: Path) -> None:
    found = [refused(tmp_path, BOTH.format(channel=channel))[0].partition(": ")[2] for channel in (CHANNEL, "")]
    assert found == [
        f"{tmp_path / 'stack.xml'} cannot be read: No such file or directory",
        "has a jgroups-file and no jgroups-channel: write both",
    ]


def test_encryption_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "stack.xml").write_text(stack_of("<UDP/>", "<SYM_ENCRYPT/>"))
    [warning, _] = [each for each in load(tmp_path, BOTH.format(channel=CHANNEL)).warnings if "ENCRYPT" in each]
    assert warning.endswith("SYM_ENCRYPT has no meaning here: datagrams are neither encrypted nor authenticated")
