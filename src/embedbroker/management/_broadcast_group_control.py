"""The control ``broadcastgroup``: the announcements of a broker to others and to clients.

Responsible for the attributes and operations of Artemis. Does not depend on datagrams: a `BroadcastGroupView` is all
that is seen of a group.
"""

from __future__ import annotations

import json

from embedbroker.kernel import BroadcastGroupView, Kernel, Service

from ._registry import Attribute, Call, Control, Operation

__all__ = ["BROADCAST_GROUP"]


def _of(call: Call) -> BroadcastGroupView:
    return call.kernel.broadcast_groups[call.name]


def _start(call: Call) -> None:
    if _of(call).start():
        observers = call.kernel.observers
        observers.call(observers.commit.service_started, Service.BROADCAST_GROUP, call.name)
        call.kernel.inform(f"management: {call.caller} started broadcast group {call.name!r}")


def _stop(call: Call) -> None:
    if _of(call).stop():
        observers = call.kernel.observers
        observers.call(observers.commit.service_stopped, Service.BROADCAST_GROUP, call.name)
        call.kernel.inform(f"management: {call.caller} stopped broadcast group {call.name!r}")


def _exists(kernel: Kernel, name: str) -> bool:
    return name in kernel.broadcast_groups


BROADCAST_GROUP = Control(
    "broadcastgroup",
    (
        Attribute("Name", "String", lambda call: call.name, "Name."),
        Attribute("Started", "boolean", lambda call: _of(call).is_started, "This broker is announced."),
        Attribute(
            "BroadcastPeriod",
            "long",
            lambda call: _of(call).settings.broadcast_period_ms,
            "Time from one announcement to the next, in ms.",
        ),
        Attribute(
            "ConnectorPairs", "String[]", lambda call: list(_of(call).connectors), "Connectors that are announced."
        ),
        Attribute(
            "ConnectorPairsAsJSON",
            "String",
            lambda call: json.dumps(list(_of(call).connectors), ensure_ascii=False, separators=(",", ":")),
            "The same as JSON.",
        ),
        Attribute(
            "GroupAddress",
            "String",
            lambda call: _of(call).settings.group_address,
            "Address of the multicast group; null without one.",
        ),
        Attribute("GroupPort", "int", lambda call: _of(call).settings.group_port, "Port of the multicast group."),
        Attribute(
            "LocalBindPort",
            "int",
            lambda call: _of(call).settings.local_bind_port,
            "Port from which datagrams are sent; -1: a free one.",
        ),
        Attribute(
            "SharedDirectory",
            "String",
            lambda call: _of(call).settings.shared_directory,
            "Directory with the announcement; null without one. Not in Artemis.",
        ),
        Attribute(
            "ListenPort",
            "Integer",
            lambda call: _of(call).settings.listen_port,
            "TCP port at which others fetch the announcement; null without one. Not in Artemis.",
        ),
    ),
    (
        Operation("start", (), "void", _start, "Announce this broker again after a stop.", changes=True),
        Operation("stop", (), "void", _stop, "Announce this broker no more.", changes=True),
    ),
    _exists,
)
