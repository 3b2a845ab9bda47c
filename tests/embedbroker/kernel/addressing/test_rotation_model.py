"""Queues of this broker and of others that share messages, in step with a naive model of Artemis' rotation."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from embedbroker.config import MessageLoadBalancing
from embedclient.model import RoutingType

from ..letters import letter
from ..remote import B, C, bind, queue_ids
from ..stage import ANYCAST, MULTICAST, Stage

OFF, STRICT, ON_DEMAND, OFF_WITH = MessageLoadBalancing
# Filters as texts, with what they take of a message whose property n is 0 or 1.
FILTERS = {None: (0, 1), "n = 0": (0,), "n = 1": (1,)}
TEXTS = st.sampled_from(list(FILTERS))


@define
class Bound:
    """One binding of the model."""

    queue: str
    node: str | None
    routing_type: int | None
    filter: str | None
    consumers: tuple[str | None, ...]
    is_connected: bool
    load_balancing: MessageLoadBalancing

    def takes(self, n: int) -> bool:
        return n in FILTERS[self.filter]

    def is_high(self, n: int) -> bool:
        return self.load_balancing is not OFF and any(n in FILTERS[each] for each in self.consumers)


@define
class Model:
    """Groups in order of addition, each with its position."""

    groups: dict[str, list[Bound]] = field(factory=dict)
    positions: dict[str, int] = field(factory=dict)
    load_balancing: MessageLoadBalancing = OFF

    def add(self, routing_name: str, bound: Bound) -> None:
        self.groups.setdefault(routing_name, []).append(bound)
        if bound.node is not None:
            self.load_balancing = bound.load_balancing

    def matches(self, bound: Bound, n: int, kind: int | None, queue: str | None) -> bool:
        if bound.node is not None and kind != MULTICAST and self.load_balancing in (OFF, OFF_WITH):
            return False
        # Artemis chooses such a queue, too, and then drops the message.
        if bound.node is None and kind not in (None, bound.routing_type):
            return False
        return bound.takes(n) and queue in (None, bound.queue)

    def next(self, name: str, n: int, kind: int | None, queue: str | None) -> Bound | None:
        group = self.groups[name]
        start = self.positions.get(name, 0) % len(group)
        order = [(start + step) % len(group) for step in range(len(group))]
        candidate: int | None = None
        for place in order:
            bound = group[place]
            if not self.matches(bound, n, kind, queue):
                continue
            preferred = bound.is_connected and (self.load_balancing is STRICT or bound.is_high(n))
            # Queues that share with no other broker take turns whatever consumers they have.
            if len(group) == 1 or preferred or all(other.node is None for other in group):
                candidate = place
                break
            if candidate is None or (self.load_balancing is ON_DEMAND and bound.node is None):
                candidate = place
        if candidate is None:
            return None
        self.positions[name] = candidate + 1
        return group[candidate]

    def route(self, n: int, kind: int | None, queue: str | None) -> Iterable[Bound]:
        for name in self.groups:
            bound = self.next(name, n, kind, queue)
            if bound is not None:
                yield bound


@st.composite
def bindings(draw: st.DrawFn) -> list[tuple[str, Bound]]:
    """Bindings of one address with their routing names: shared queues, and subscriptions of one name."""
    found: list[tuple[str, Bound]] = []
    for node, name in [(B, "q"), (None, "q"), (C, "q"), (None, "s"), (B, "s"), (None, "p"), (C, "t")]:
        if not draw(st.booleans()):
            continue
        routing_type = ANYCAST if name in "pq" else MULTICAST
        consumers = tuple(draw(st.lists(TEXTS, max_size=2)))
        # With an unfiltered consumer beside a filtered one, Artemis overlooks the former.
        bound = Bound(
            name, node, None if node else routing_type, draw(TEXTS), consumers, node is None or draw(st.booleans()),
            draw(st.sampled_from(list(MessageLoadBalancing))) if node else ON_DEMAND,
        )  # fmt: skip
        found.append(("a" if routing_type == ANYCAST else name, bound))
    return draw(st.permutations(found))


SENDS = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from([None, ANYCAST, MULTICAST]), st.sampled_from([None, None, "q", "s", "t"])
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(bindings(), SENDS)
def test_messages_go_where_the_model_has_them(
    bound: list[tuple[str, Bound]], sends: list[tuple[int, int | None, str | None]]
) -> None:
    stage, model = Stage(), Model()
    stage.kernel.address_manager.create_address("a", anycast=True, multicast=True, auto_created=False)
    local = {each.queue for _, each in bound if each.node is None}
    session = stage.session()
    for number, (routing_name, each) in enumerate(bound):
        if each.node is None:
            stage.queue(each.queue, "a", each.routing_type or MULTICAST, filter=each.filter)
            for filter in each.consumers:
                stage.consumer(session, each.queue, filter=filter, credit=0)
        else:
            remote = bind(
                stage, each.queue, each.node, address="a", routing_name=routing_name, filter=each.filter,
                remote_queue_id=100 + number, load_balancing=each.load_balancing, consumers=each.consumers,
            )  # fmt: skip
            remote.is_connected = each.is_connected
        model.add(routing_name, each)
    expected: dict[str, list[str]] = {}
    ids: dict[str, list[tuple[str, set[int]]]] = {B: [], C: []}
    for number, (n, kind, queue) in enumerate(sends):
        text = str(number)
        if not local or (queue is not None and queue not in local):
            # Without a type, nothing is created on demand.
            kind = None
        named = RoutingType(kind) if kind is not None else None
        address = "a" if queue is None else f"a::{queue}"
        stage.kernel.router.send(letter(text, address, routing_type=named, n=n), kind, None)
        per_node: dict[str, set[int]] = {}
        for chosen in model.route(n, kind, queue):
            if chosen.node is None:
                expected.setdefault(chosen.queue, []).append(text)
            else:
                where = [each for _, each in bound].index(chosen)
                per_node.setdefault(chosen.node, set()).add(100 + where)
        for node, found in per_node.items():
            ids[node].append((text, found))
    stage.run_all()
    for name in local:
        assert stage.waiting(name) == expected.get(name, []), name
    for node, wanted in ids.items():
        assert [(text, set(found)) for text, found in queue_ids(stage, node)] == wanted
    stage.kernel.check()
