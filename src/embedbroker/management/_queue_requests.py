"""Requests to create a queue: the JSON of Artemis' queue configuration, and the older forms with positions.

Responsible for checking them and for the request that the session carries out. Queue kinds that do not exist yet are
refused, rather than created as another kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from embedbroker.kernel import QueueRequest, QueueUpdate
from embedclient.model import did_you_mean

from ._registry import ManagementRefused
from ._texts import routing_type_of

__all__ = ["json_object", "queue_request", "queue_update"]

T = TypeVar("T")
_SHOWN_MAX = 100
_TRUE, _FALSE = "true", "false"
# Settings of kinds that do not exist yet, with the values that ask for nothing.
_ABSENT: Mapping[str, tuple[object, ...]] = {
    "last-value": (False, None),
    "last-value-key": (None, ""),
    "non-destructive": (False, None),
    "consumers-before-dispatch": (0, None),
    "delay-before-dispatch": (-1, None),
    "ring-size": (-1, None),
}
# Settings that a broker returns, and that have no effect in a request.
_WITHOUT_EFFECT = {"id", "configuration-managed", "auto-create-address", "internal", "fqqn", "auto-created"}
_READ = {
    "name", "address", "routing-type", "filter-string", "durable", "user", "max-consumers", "exclusive",
    "purge-on-no-consumers", "auto-delete", "auto-delete-delay", "auto-delete-message-count", "temporary", "transient",
    "group-buckets", "group-rebalance", "group-rebalance-pause-dispatch", "group-first-key", "enabled",
}  # fmt: skip


def json_object(text: str | None, what: str) -> dict[str, object]:
    """Return the object in a text of JSON."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise ManagementRefused(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ManagementRefused(f"{what} must be a JSON object, not {text[:_SHOWN_MAX] if text else text!r}")
    return value


def queue_request(text: str | None, *, ignore_if_exists: bool) -> QueueRequest:
    """Return the request in a queue configuration of JSON."""
    fields, name = _configuration(text)
    transient = _field(fields, "transient", _flag) or False
    durable = _field(fields, "durable", _flag)
    return QueueRequest(
        _field(fields, "address", _text) or name,
        name,
        filter=_field(fields, "filter-string", _text),
        durable=(True if durable is None else durable) and not transient,
        temporary=_field(fields, "temporary", _flag) or False,
        routing_type=routing_type_of(_field(fields, "routing-type", _text)),
        max_consumers=_field(fields, "max-consumers", _int32),
        purge_on_no_consumers=_field(fields, "purge-on-no-consumers", _flag),
        exclusive=_field(fields, "exclusive", _flag),
        group_buckets=_field(fields, "group-buckets", _int32),
        group_rebalance=_field(fields, "group-rebalance", _flag),
        group_rebalance_pause_dispatch=_field(fields, "group-rebalance-pause-dispatch", _flag),
        group_first_key=_field(fields, "group-first-key", _text),
        enabled=_field(fields, "enabled", _flag),
        auto_delete=_field(fields, "auto-delete", _flag),
        auto_delete_delay=_field(fields, "auto-delete-delay", _int64),
        auto_delete_message_count=_field(fields, "auto-delete-message-count", _int64),
        ignore_if_exists=ignore_if_exists,
        user=_field(fields, "user", _text),
    )


def _configuration(text: str | None) -> tuple[dict[str, object], str]:
    """Return the fields of a queue configuration that request what exists, and the name of the queue."""
    fields = json_object(text, "the queue configuration")
    known = {*_READ, *_ABSENT, *_WITHOUT_EFFECT}
    for key in fields:
        if key not in known:
            shown = key[:_SHOWN_MAX]
            raise ManagementRefused(f"the queue configuration has an unknown field {shown!r}{did_you_mean(key, known)}")
    name = _field(fields, "name", _text)
    wanted = [each for each, values in _ABSENT.items() if _plain(fields.get(each)) not in values]
    if wanted:
        raise ManagementRefused(f"queue {name!r}: {', '.join(wanted)} is not supported by this broker yet")
    if not name:
        raise ManagementRefused("the queue configuration has no name")
    return fields, name


def queue_update(text: str | None) -> tuple[str, QueueUpdate]:
    """Return the name of a queue, and its changes. Fields that are missing change nothing; a null filter removes it."""
    fields, name = _configuration(text)
    removes_filter = "filter-string" in fields and fields["filter-string"] is None
    return name, QueueUpdate(
        filter="" if removes_filter else _field(fields, "filter-string", _text),
        routing_type=routing_type_of(_field(fields, "routing-type", _text)),
        max_consumers=_field(fields, "max-consumers", _int32),
        purge_on_no_consumers=_field(fields, "purge-on-no-consumers", _flag),
        exclusive=_field(fields, "exclusive", _flag),
        group_buckets=_field(fields, "group-buckets", _int32),
        group_rebalance=_field(fields, "group-rebalance", _flag),
        group_rebalance_pause_dispatch=_field(fields, "group-rebalance-pause-dispatch", _flag),
        group_first_key=_field(fields, "group-first-key", _text),
        enabled=_field(fields, "enabled", _flag),
        user=_field(fields, "user", _text),
    )


def _field(fields: Mapping[str, object], name: str, read: Callable[[object], T]) -> T | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        return read(value)
    except ValueError as error:
        raise ManagementRefused(f"field {name!r} of the queue configuration {error}") from None


def _plain(value: object) -> object:
    """Return the value that a text such as ``"true"`` or ``"-1"`` stands for: Artemis takes both forms."""
    if isinstance(value, str):
        if value.lower() in (_TRUE, _FALSE):
            return value.lower() == _TRUE
        if value.removeprefix("-").isascii() and value.removeprefix("-").isdigit() and len(value) <= 20:
            return int(value)
    # 0 and False are equal in Python, and different settings.
    return value if isinstance(value, bool | int | str) or value is None else _shown(value)


def _shown(value: object) -> str:
    try:
        return json.dumps(value)[:_SHOWN_MAX]
    except RecursionError:
        return "a value that is nested too deep"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {_shown(value)}")
    return value


def _flag(value: object) -> bool:
    plain = _plain(value)
    if not isinstance(plain, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return plain


def _integer(value: object, bits: int) -> int:
    plain = _plain(value)
    limit = 1 << (bits - 1)
    if isinstance(plain, bool) or not isinstance(plain, int) or not -limit <= plain < limit:
        raise ValueError(f"must be an integer of {bits} bits, not {_shown(value)}")
    return plain


def _int32(value: object) -> int:
    return _integer(value, 32)


def _int64(value: object) -> int:
    return _integer(value, 64)
