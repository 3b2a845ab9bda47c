"""Routes: which message goes to which queues, and what a message without other bindings must not cost."""

from __future__ import annotations

import pytest

from embedbroker.config import DivertConfiguration
from embedbroker.config import DivertRoutingType as _Type
from embedbroker.kernel import Divert, Message, Refused, _router
from embedbroker.kernel.addressing._address import Address
from embedbroker.kernel.addressing._routing_context import Route, RoutingContext
from embedbroker.kernel.settling import _move

from ..letters import letter
from ..stage import ANYCAST, MULTICAST, Stage


def admit(_copy: Message, _address: Address) -> bool:
    return True


def routes_of(stage: Stage, name: str, context: RoutingContext) -> list[Route]:
    message = letter("m", name)
    message.assign_id(stage.kernel.ids.take())
    address = stage.kernel.address_manager.resolution.find(name)
    assert address is not None
    found = stage.kernel.diversion.route(message, address, context)
    assert not isinstance(found, Refused)
    assert found[0].message is message
    return found


def shown(routes: list[Route]) -> list[tuple[str, list[str], bool]]:
    return [(each.address.name, [queue.name for queue in each.queues], each.is_taken) for each in routes]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    for name in ("orders", "audit"):
        stage.queue(name)
    stage.queue("topic", routing_type=MULTICAST)
    return stage


def divert(stage: Stage, name: str, address: str, to: str, **wishes: object) -> None:
    wanted = DivertConfiguration(address, to, **wishes)  # type: ignore[arg-type]  # tests name real fields
    assert isinstance(stage.kernel.diverts.create(name, wanted), Divert)


def test_each_copy_is_paired_with_its_own_queues(stage: Stage) -> None:
    divert(stage, "one", "orders", "audit")
    divert(stage, "two", "audit", "topic", exclusive=True)
    context = RoutingContext(None, None, admit)
    routes = routes_of(stage, "orders", context)
    assert routes is context.routes
    # The second divert takes the first copy, so that no queue of its address has it.
    assert shown(routes) == [("orders", ["orders"], True), ("audit", [], True), ("topic", ["topic"], True)]
    assert len({each.message.message_id for each in routes}) == 3
    assert [each.message.address for each in routes] == ["orders", "audit", "topic"]


@pytest.mark.parametrize(("kind", "expected"), [(_Type.MULTICAST, ["topic"]), (_Type.ANYCAST, []), (_Type.PASS, [])])
def test_a_copy_has_a_routing_type_of_its_own(stage: Stage, kind: _Type, expected: list[str]) -> None:
    divert(stage, "one", "orders", "topic", routing_type=kind)
    context = RoutingContext(ANYCAST, None, admit, creates=False)
    routes = routes_of(stage, "orders", context)
    assert shown(routes) == [("orders", ["orders"], True), ("topic", expected, bool(expected))]
    assert context.routing_type == ANYCAST


def test_the_context_of_a_copy_has_the_way_behind_it_and_the_routes_of_all() -> None:
    first = RoutingContext(None, None, admit, creates=False)
    second = first.behind(("a",), MULTICAST)
    third = second.behind((*second.passed, "b"), ANYCAST)
    assert (first.passed, second.passed, third.passed) == ((), ("a",), ("a", "b"))
    assert (first.routing_type, second.routing_type, third.routing_type) == (None, MULTICAST, ANYCAST)
    assert not third.creates and third.admit is admit
    assert third.routes is first.routes


def test_messages_that_meet_queues_alone_have_no_context(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those to the queues of their address, nor those to queues of wildcard addresses, nor dead letters."""
    made: list[RoutingContext] = []

    class Counted(RoutingContext):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]  # passed on
            made.append(self)

    monkeypatch.setattr(_router, "RoutingContext", Counted)
    monkeypatch.setattr(_move, "RoutingContext", Counted)
    stage.queue("all", "wild.#", routing_type=MULTICAST)
    for address in ("orders", "topic", "wild.a", "orders::orders"):
        stage.send(letter("m", address))
    stage.run()
    assert [stage.waiting(name) for name in ("orders", "topic", "all")] == [["m", "m"], ["m"], ["m"]]
    assert made == []
    divert(stage, "one", "orders", "audit")
    stage.send(letter("m", "orders"))
    assert len(made) == 1
