"""``broadcast-groups`` and ``discovery-groups``: where a broker announces itself, and where it finds others.

Responsible for their elements, and for references to discovery groups. Does not depend on datagrams.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from attrs import AttrsInstance

from embedbroker.config import BroadcastGroup, DiscoveryGroup
from embedclient.model import (
    AnnouncementHosts,
    AnnouncementPort,
    SharedDirectory,
    describe_name,
    did_you_mean,
    parse_jgroups_stack,
)

from ._document import Element
from ._findings import Findings
from ._mapping import Fields, built, named_once, required_attribute, store, value_of, values_of
from ._transports import connector_refs
from ._values import text, whole

__all__ = ["broadcast_groups", "discovery_group_ref", "discovery_groups", "is_discovery_group"]

_GROUP: Fields = {
    "group-address": ("group_address", text),
    "group-port": ("group_port", whole),
    "local-bind-address": ("local_bind_address", text),
}
_BROADCAST: Fields = {
    **_GROUP,
    "local-bind-port": ("local_bind_port", whole),
    "broadcast-period": ("broadcast_period_ms", whole),
}
_DISCOVERY: Fields = {
    **_GROUP,
    "refresh-timeout": ("refresh_timeout_ms", whole),
    "initial-wait-timeout": ("initial_wait_timeout_ms", whole),
}


def broadcast_groups(
    core: Element, connectors: Collection[str], folder: Path, findings: Findings
) -> tuple[BroadcastGroup, ...]:
    """Return all broadcast groups."""
    found: dict[str, BroadcastGroup] = {}
    holder = core.take("broadcast-groups")
    for element in [] if holder is None else holder.take_all("broadcast-group"):
        errors_before = len(findings.errors)
        values = _values(element, _BROADCAST, BroadcastGroup, folder, findings)
        values["connectors"] = connector_refs(element, connectors, findings)
        group = None if len(findings.errors) > errors_before else built(BroadcastGroup, values, element.place, findings)
        if group is not None:
            named_once(found, group.name, group, element.place, findings)
    return tuple(found.values())


def discovery_groups(core: Element, folder: Path, findings: Findings) -> tuple[DiscoveryGroup, ...]:
    """Return all discovery groups."""
    found: dict[str, DiscoveryGroup] = {}
    holder = core.take("discovery-groups")
    for element in [] if holder is None else holder.take_all("discovery-group"):
        errors_before = len(findings.errors)
        values = _values(element, _DISCOVERY, DiscoveryGroup, folder, findings)
        group = None if len(findings.errors) > errors_before else built(DiscoveryGroup, values, element.place, findings)
        if group is not None:
            named_once(found, group.name, group, element.place, findings)
    return tuple(found.values())


def _values(
    element: Element, names: Fields, kind: type[AttrsInstance], folder: Path, findings: Findings
) -> dict[str, Any]:
    values = values_of(element, names, kind, findings)
    store(values, "name", required_attribute(element, "name", findings), kind, element.place, findings)
    file, channel = element.take("jgroups-file"), element.take("jgroups-channel")
    if file is not None:
        if channel is None:
            findings.refuse(element.place, "has a jgroups-file and no jgroups-channel: write both")
        else:
            # As in Artemis, the stack wins over a group-address.
            values |= _group_of_stack(file, channel, folder, kind is BroadcastGroup, findings)
    elif channel is not None:
        findings.refuse(element.place, "has a jgroups-channel and no jgroups-file: write both")
    elif "group_address" not in values and not element.children.get("group-address"):
        findings.refuse(element.place, "has no group-address: write that of a multicast group, such as 231.7.7.7")
    return values


def _group_of_stack(
    file: Element, channel: Element, folder: Path, announces: bool, findings: Findings
) -> dict[str, Any]:
    """Return where members meet by a JGroups file. Each protocol without a meaning here is a warning."""
    name, channel_name = value_of(file, text, findings), value_of(channel, text, findings)
    if not isinstance(name, str) or not isinstance(channel_name, str):
        return {}
    path = folder / name
    try:
        stack = parse_jgroups_stack(path.read_text("utf-8"), channel_name)
    except OSError as error:
        findings.refuse(file.place, f"{path} cannot be read: {error.strerror}")
    except ValueError as error:
        findings.refuse(file.place, f"{path}: {error}")
    else:
        for note in stack.notes:
            findings.warn(file.place, f"{path}: {note}")
        group = stack.announced_at if announces else stack.group
        if isinstance(group, SharedDirectory):
            return {"group_address": None, "shared_directory": group.location, "channel": group.channel}
        if isinstance(group, AnnouncementHosts | AnnouncementPort):
            values = {"group_address": None, "port_range": group.port_range, "channel": group.channel}
            if isinstance(group, AnnouncementHosts):
                return {**values, "hosts": group.hosts}
            return {**values, "listen_port": group.port, "local_bind_address": group.bind_address}
        return {
            "group_address": group.address,
            "group_port": group.port,
            "local_bind_address": group.local_bind_address,
        }
    return {}


def discovery_group_ref(
    owner: Element, values: dict[str, Any], kind: type[AttrsInstance], groups: Collection[str], findings: Findings
) -> None:
    """Keep the name of the discovery group that an element refers to; it must be one of the file."""
    element = owner.take("discovery-group-ref")
    if element is None:
        return
    name = required_attribute(element, "discovery-group-name", findings)
    if name is not None:
        is_discovery_group(name, element.place, groups, findings)
    store(values, "discovery_group", name, kind, element.place, findings)


def is_discovery_group(name: str, place: str, groups: Collection[str], findings: Findings) -> bool:
    """Return True if there is a discovery group of the name; add an error if not."""
    if name not in groups:
        others = [describe_name(group) for group in groups]
        findings.refuse(place, f"there is no discovery-group {describe_name(name)!r}{did_you_mean(name, others)}")
    return name in groups
