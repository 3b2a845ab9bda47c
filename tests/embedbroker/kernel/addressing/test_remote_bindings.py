"""Queues of other brokers as bindings of an address: which message goes where, and what does not change without any."""

from __future__ import annotations

import pytest

from ..letters import letter
from ..remote import C, bind
from ..stage import MULTICAST, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_bindings_are_kept_by_address_in_order_of_addition(stage: Stage) -> None:
    manager = stage.kernel.address_manager
    first, second, elsewhere = bind(stage), bind(stage, node=C), bind(stage, "other")
    assert manager.remote_bindings_of("orders") == [first, second]
    assert 0 < first.id < second.id
    manager.remove_remote_binding(first)
    assert (first.id, manager.remote_bindings_of("orders")) == (0, [second])
    assert manager.remote_bindings_of("other") == [elsewhere]
    assert manager.remote_bindings_of("missing") == []


def test_an_address_is_resolved_with_its_remote_bindings_and_those_of_wildcard_addresses(stage: Stage) -> None:
    manager = stage.kernel.address_manager
    stage.queue("news.uk")
    sub = stage.queue("sub", "news.#", MULTICAST)

    def groups(name: str) -> dict[str, list[object]]:
        address = manager.resolution.find(name)
        if address is None or address.others is None or address.others.rotation is None:
            return {}
        return {name: list(group.bindings) for name, group in address.others.rotation.groups.items()}

    assert groups("news.uk") == {}
    wild = bind(stage, "sub", address="news.#", routing_name="sub")
    assert groups("news.uk") == {"sub": [sub, wild]}
    own = bind(stage, "news.uk", C)
    assert groups("news.uk") == {"sub": [sub, wild], "news.uk": [manager.queues["news.uk"], own]}
    # An address that no queue is bound to, and one of a remote binding alone.
    assert groups("news.fr") == {"sub": [sub, wild]}
    alone = bind(stage, "alone")
    assert groups("alone") == {"alone": [alone]}
    later = stage.queue("later", "alone")
    assert groups("alone") == {"alone": [alone, later]}
    for binding in (wild, own, alone):
        manager.remove_remote_binding(binding)
    assert groups("news.uk") == groups("news.fr") == groups("alone") == {}
    assert manager.resolution.find("missing") is None


def test_an_internal_queue_does_not_keep_groups_together(stage: Stage) -> None:
    """Its consumer is a bridge, and a group would stay known for ever."""
    queue = stage.queue("internal", internal=True)
    stage.send(letter("m", "internal", _AMQ_GROUP_ID="g").directed())
    stage.run()
    assert (queue.group_count, stage.waiting("internal")) == (None, ["m"])
