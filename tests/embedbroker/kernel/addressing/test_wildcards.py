"""Wildcard subscriptions, line by line of the acceptance list; the index against a naive matcher; their cost."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedbroker.config import AddressFullPolicy, AddressSettings, DivertConfiguration, WildcardConfiguration
from embedbroker.kernel import AddressDefinition, Divert, QueueDefinition, Refused
from embedbroker.kernel.addressing._wildcards import WildcardIndex

from ..cost import cost_of
from ..letters import letter
from ..stage import ANYCAST, MULTICAST, Stage

# Queue address -> addresses from which it receives, and from which not, as seen on a running Artemis 2.44.
SEEN = {
    "w.#": (["w", "w.a", "w.z", "w.", "w.a.z", "w.a.b.z", "w.z.z"], ["wx", "x.w", ""]),
    "w.*": (["w.a", "w.z", "w."], ["w", "w.a.z"]),
    "w.*.z": (["w.a.z", "w.z.z"], ["w.z", "w.a.b.z"]),
    "#.z": (["z", "w.z", "w.a.z", "w.a.b.z", "w.z.z"], ["w", "w.zz", "z.a"]),
    "w.#.z": (["w.z", "w.a.z", "w.a.b.z", "w.z.z"], ["w", "z", "w.z.a"]),
    "#": (["w", "", "w.a.b"], []),
    "*": (["w", ""], ["w.a"]),
    "#.b.*": (["a.b.c", "b.c"], ["a.c", "b"]),
    "a.#.c": (["a.c", "a.b.c", "a.b.b.b.c", "a.c.c"], ["a", "c", "a.b", "b.a.c"]),
    "#.a.#.b": (["a.b", "x.a.b", "a.x.b", "a.a.b.b", "a.b.a.b"], ["a", "b.a", "a.b.c"]),
}


def sent(stage: Stage, address: str, routing_type: int | None = MULTICAST) -> None:
    stage.send(letter(address, address), routing_type=routing_type)
    stage.run()


def index_of(*patterns: str, wildcards: WildcardConfiguration | None = None) -> WildcardIndex:
    index = WildcardIndex(wildcards or WildcardConfiguration())
    for pattern in patterns:
        index.add(pattern)
    return index


# -- the index ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", SEEN)
def test_patterns_match_what_artemis_matches(pattern: str) -> None:
    matching, others = SEEN[pattern]
    index = index_of(*SEEN)
    for name in matching:
        assert pattern in index.matching(name), name
    for name in others:
        assert pattern not in index.matching(name), name


def naive(pattern: list[str], words: list[str]) -> bool:
    """What the two wildcards mean, word by word."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(naive(pattern[1:], words[count:]) for count in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and naive(pattern[1:], words[1:])


@pytest.mark.search
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "", "*", "#"]), min_size=1, max_size=6), max_size=12),
    st.lists(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=6), min_size=1, max_size=8),
    st.data(),
)
def test_the_index_agrees_with_a_naive_matcher(
    patterns: list[list[str]], names: list[list[str]], data: st.DataObject
) -> None:
    index = index_of(*[".".join(pattern) for pattern in patterns])
    kept = {".".join(pattern) for pattern in patterns}
    for _ in range(3):
        assert len(index) == len(kept)
        for name in names:
            found = index.matching(".".join(name))
            assert sorted(found) == sorted(each for each in kept if naive(each.split("."), name))
        if kept:
            gone = data.draw(st.sampled_from(sorted(kept)))
            index.remove(gone)
            index.remove(gone)
            kept.discard(gone)


def test_an_empty_index_holds_nothing() -> None:
    index = index_of("a.#", "a.#.b", "a.*")
    for pattern in ("a.#.b", "a.#", "a.*", "b"):
        index.remove(pattern)
    assert len(index) == 0 and pickle.dumps(index) == pickle.dumps(index_of())


def test_a_pattern_with_many_wildcards_costs_little() -> None:
    index = index_of(".".join(["#", "a"] * 20))
    name = ".".join(["a"] * 200)
    assert cost_of(lambda: index.matching(name)).lines < 200_000


# -- subscriptions -----------------------------------------------------------------------------------------------------


def test_basic_wildcard_routing_queues_dont_exist() -> None:
    stage = Stage()
    stage.queue("wild", "a.*", MULTICAST)
    sent(stage, "a.b")
    assert stage.waiting("wild") == ["a.b"]
    assert not stage.kernel.address_manager.addresses["a.b"].has_queues


def test_wildcard_routing_queues_added_then_deleted() -> None:
    stage = Stage()
    stage.queue("plain", "a.b", MULTICAST)
    wild = stage.queue("wild", "a.#", MULTICAST)
    sent(stage, "a.b")
    stage.kernel.teardown.delete_queue(wild)
    sent(stage, "a.b")
    assert stage.waiting("plain") == ["a.b", "a.b"]
    stage.queue("wild", "a.#", MULTICAST)
    sent(stage, "a.b")
    assert stage.waiting("wild") == ["a.b"]
    stage.kernel.check()


def test_wildcard_routing_hash_and_star() -> None:
    stage = Stage()
    stage.queue("wild", "#.b.*", MULTICAST)
    sent(stage, "a.b.c")
    sent(stage, "a.c")
    assert stage.waiting("wild") == ["a.b.c"]


def test_wildcard_routing_with_hash_multi_length_addresses() -> None:
    stage = Stage()
    stage.queue("wild", "a.#.c", MULTICAST)
    for name in ("a.c", "a.b.c", "a.b.b.c", "a.b", "b.c", "x.a.c"):
        sent(stage, name)
    assert stage.waiting("wild") == ["a.c", "a.b.c", "a.b.b.c"]


def test_large_wildcard_routing() -> None:
    stage = Stage()
    words = ("a", "b", "c", "*", "#")
    patterns = [f"{one}.{two}.{three}" for one in words for two in words for three in words]
    for pattern in patterns:
        stage.queue(f"q {pattern}", pattern, MULTICAST)
    names = [f"{one}.{two}.{three}" for one in "abc" for two in "abc" for three in "abc"] + ["a", "a.b", "a.b.c.a"]
    for name in names:
        sent(stage, name)
    wildcards = WildcardConfiguration()
    for pattern in patterns:
        expected = [name for name in names if naive(pattern.split("."), name.split("."))]
        if not wildcards.is_wild(pattern):
            expected = [pattern]
        assert stage.waiting(f"q {pattern}") == expected, pattern
    stage.kernel.check()


def test_number_of_bindings_that_match() -> None:
    """Wildcard bindings are added to concrete addresses, never to other wildcard addresses."""
    stage = Stage()
    for number in range(3):
        stage.queue(f"wild{number}", "a.#", MULTICAST)
    stage.queue("star", "a.*", MULTICAST)
    sent(stage, "a.b")
    sent(stage, "a.*")
    sent(stage, "a.b.c")
    others = {name: stage.kernel.address_manager.addresses[name].others for name in ("a.b", "a.*", "a.b.c")}
    assert [0 if each is None else len(each.multicast) for each in others.values()] == [4, 0, 3]
    assert stage.waiting("star") == ["a.b", "a.*"]
    assert stage.waiting("wild0") == ["a.b", "a.b.c"]


def test_wildcard_address_removal() -> None:
    """Artemis' WildcardAddressManagerUnitTest.testWildCardAddressRemoval."""
    stage = Stage()
    one, two = stage.queue("one", "a.#", MULTICAST), stage.queue("two", "a.#", MULTICAST)
    sent(stage, "a.b")
    address = stage.kernel.address_manager.addresses["a.b"]
    for left, queue in ((1, one), (0, two)):
        stage.kernel.teardown.delete_queue(queue)
        sent(stage, "a.b")
        assert (len(address.others.multicast) if address.others is not None else 0) == left
    assert address.others is None


def test_basic_wildcard_routing_with_other_characters() -> None:
    """Artemis' WildcardConfigurationTest: the default characters are plain text."""
    stage = Stage(
        {"a/$": AddressSettings(default_max_consumers=3)},
        wildcard_addresses=WildcardConfiguration(delimiter="/", any_words="$", single_word="%"),
    )
    stage.queue("any", "a/$", MULTICAST)
    stage.queue("single", "a/%", MULTICAST)
    plain = stage.queue("plain", "a/#", MULTICAST)
    for name in ("a/b", "a/b/c", "a.b"):
        sent(stage, name)
    assert stage.waiting("any") == ["a/b", "a/b/c"]
    assert stage.waiting("single") == ["a/b"]
    assert stage.waiting("plain") == []
    assert plain.definition.max_consumers == 3


def test_auto_delete_address_with_wildcard_address() -> None:
    """Concrete addresses are swept although a wildcard queue takes their messages."""
    stage = Stage()
    stage.queue("wild", "a.#", MULTICAST)
    sent(stage, "a.b")
    stage.pass_time(200)
    assert "a.b" not in stage.kernel.address_manager.addresses
    sent(stage, "a.b")
    assert stage.waiting("wild") == ["a.b", "a.b"]


def test_routing_can_be_switched_off() -> None:
    stage = Stage(wildcard_addresses=WildcardConfiguration(routing_enabled=False))
    stage.queue("wild", "a.#", MULTICAST)
    sent(stage, "a.b")
    sent(stage, "a.#")
    assert stage.waiting("wild") == ["a.#"]


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        ({"delimiter": ""}, "delimiter must be one character, not ''"),
        ({"any_words": "##"}, "any_words must be one character, not '##'"),
        ({"single_word": "#"}, "delimiter '.', any_words '#' and single_word '#' must be three different characters"),
    ],
)
def test_wrong_characters_are_refused(wishes: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match="^" + problem.replace(".", r"\.").replace("*", r"\*") + "$"):
        WildcardConfiguration(**wishes)  # type: ignore[arg-type]  # texts only


def test_an_escaped_wildcard_is_plain_text() -> None:
    wildcards = WildcardConfiguration()
    assert not wildcards.is_wild(r"a.\#") and wildcards.is_wild(r"a\#.*") and wildcards.is_wild("a*b")


# -- anycast, qualified names, creation on demand ----------------------------------------------------------------------


def test_anycast_queues_of_each_address_take_turns() -> None:
    stage = Stage()
    for name, address in (("w1", "a.#"), ("w2", "a.#"), ("s1", "a.*"), ("own", "a.b")):
        stage.queue(name, address, ANYCAST)
    for _ in range(4):
        sent(stage, "a.b", ANYCAST)
    counts = {name: len(stage.waiting(name)) for name in ("w1", "w2", "s1", "own")}
    assert counts == {"w1": 2, "w2": 2, "s1": 4, "own": 4}


def test_mixed_routing_types_do_not_leak() -> None:
    """Artemis' MixRoutingTest, with wildcards.

    Artemis' MixRoutingTest.testMix.
    """
    stage = Stage()
    stage.queue("any", "a.#", ANYCAST)
    stage.queue("multi", "a.#", MULTICAST)
    for kind in (ANYCAST, MULTICAST, ANYCAST, None):
        sent(stage, "a.b", kind)
    assert (len(stage.waiting("any")), len(stage.waiting("multi"))) == (3, 2)


def test_an_anycast_send_to_a_known_address_creates_no_queue_beside_a_wildcard_queue() -> None:
    stage = Stage()
    stage.queue("wild", "a.#", ANYCAST)
    stage.kernel.address_manager.create_address("a.known", anycast=True, multicast=False, auto_created=False)
    sent(stage, "a.known", ANYCAST)
    sent(stage, "a.new", ANYCAST)
    queues = stage.kernel.address_manager.queues
    assert "a.known" not in queues and "a.new" in queues
    assert stage.waiting("wild") == ["a.known", "a.new"] and stage.waiting("a.new") == ["a.new"]


def test_a_send_without_a_routing_type_needs_no_address() -> None:
    stage = Stage()
    stage.queue("wild", "a.#", MULTICAST)
    sent(stage, "a.b", None)
    assert stage.waiting("wild") == ["a.b"] and "a.b" not in stage.kernel.address_manager.addresses
    sent(stage, "b", None)
    sent(stage, "a.b::other", None)
    assert stage.waiting("wild") == ["a.b"]


def test_a_qualified_name_reaches_a_wildcard_queue() -> None:
    stage = Stage()
    stage.queue("wild", "a.#", MULTICAST)
    stage.queue("two", "a.#", MULTICAST)
    sent(stage, "a.b::wild")
    sent(stage, "b.b::wild")
    assert stage.waiting("wild") == ["a.b::wild"] and stage.waiting("two") == []


def test_a_queue_filter_holds() -> None:
    stage = Stage()
    stage.queue("wild", "a.#", MULTICAST, filter="colour = 'red'")
    stage.send(letter("red", "a.b", colour="red"), letter("blue", "a.b", colour="blue"), routing_type=MULTICAST)
    stage.run()
    assert stage.waiting("wild") == ["red"]


def test_a_divert_of_a_wildcard_address() -> None:
    stage = Stage()
    stage.queue("audit")
    stage.queue("orders", "shop.orders")
    created = stage.kernel.diverts.create("d", DivertConfiguration("shop.#", "audit"))
    assert isinstance(created, Divert)
    sent(stage, "shop.orders", ANYCAST)
    sent(stage, "shop.other", MULTICAST)
    assert stage.waiting("orders") == ["shop.orders"]
    assert stage.waiting("audit") == ["shop.orders", "shop.other"]
    stage.kernel.diverts.remove("d")
    sent(stage, "shop.orders", ANYCAST)
    assert len(stage.waiting("audit")) == 2


def test_dead_letters_reach_wildcard_queues() -> None:
    stage = Stage()
    stage.queue("orders")
    stage.queue("all", "DLQ.#", MULTICAST)
    sent(stage, "orders", ANYCAST)
    queue = stage.kernel.address_manager.queues["orders"]
    stage.kernel.dead_letters.move(queue, queue.backlog.pop())
    stage.run_all()
    assert stage.waiting("DLQ") == stage.waiting("all") == ["orders"]
    stage.kernel.check()


# -- memory, records, cost ---------------------------------------------------------------------------------------------


def test_messages_count_on_the_address_they_were_sent_to() -> None:
    stage = Stage({"a.b": AddressSettings(max_size_bytes=1, address_full_policy=AddressFullPolicy.FAIL)})
    stage.queue("wild", "a.#", MULTICAST)
    sent(stage, "a.b")
    memory = stage.kernel.memory
    assert memory.address_bytes("a.b") > 0 and memory.address_bytes("a.#") == 0
    answer = stage.kernel.router.send(letter("x", "a.b"), MULTICAST, None)
    assert isinstance(answer, Refused) and answer.text == "address 'a.b' is full"
    session = stage.session()
    _, taker = stage.consumer(session, "wild")
    stage.run()
    session.settle(1, taker.messages[0].message_id)
    stage.assert_empty()
    assert not memory.statistics().homes


@pytest.mark.parametrize("transacted", [False, True])
def test_a_message_on_several_addresses_is_freed_once(transacted: bool) -> None:
    stage = Stage()
    stage.queue("wild", "a.#", MULTICAST)
    stage.queue("purged", "a.*", MULTICAST, purge_on_no_consumers=True)
    stage.queue("own", "a.b", MULTICAST)
    session = stage.session(transacted=transacted)
    stage.send(letter("m", "a.b", durable=True), session=session, routing_type=MULTICAST)
    if transacted:
        session.rollback(last_delivered=False)
        stage.assert_empty()
        return
    stage.run()
    assert len(stage.kernel.memory.statistics().homes) == 1
    for number, name in enumerate(("wild", "own"), 1):
        _, taker = stage.consumer(session, name)
        stage.run()
        session.settle(number, taker.messages[0].message_id)
    stage.assert_empty()
    assert not stage.kernel.memory.statistics().homes


def test_restored_wildcard_queues_take_messages() -> None:
    stage = Stage(restored=(AddressDefinition(1, "a.#", False, True), QueueDefinition(2, "wild", "a.#", MULTICAST)))
    sent(stage, "a.b")
    assert stage.waiting("wild") == ["a.b"]


def stage_with(count: int) -> Stage:
    """A stage with wildcard queues, of which three match the address that is used."""
    stage = Stage()
    for number in range(count - 3):
        stage.queue(f"q{number}", f"other.{number}.#", MULTICAST)
    for number, pattern in enumerate(("a.#", "a.*", "#.b")):
        stage.queue(f"match{number}", pattern, MULTICAST)
    sent(stage, "a.b")
    return stage


def cost_of_sends(stage: Stage, address: str) -> int:
    messages = [letter("m", address) for _ in range(100)]
    return cost_of(lambda: stage.send(*messages, routing_type=MULTICAST)).lines


def test_ten_thousand_wildcard_bindings_route_like_ten() -> None:
    costs = []
    for count in (10, 10_000):
        stage = stage_with(count)
        costs.append(cost_of_sends(stage, "a.b"))
        assert len(stage.waiting("match2")) == 101
    assert costs[1] <= 1.2 * costs[0], costs


def test_the_first_send_to_an_address_does_not_look_at_all_bindings() -> None:
    stage = stage_with(10_000)
    assert cost_of(lambda: sent(stage, "a.new")).lines < 2_000


def test_sends_without_wildcards_cost_the_same_beside_wildcards() -> None:
    costs = []
    for patterns in ((), ("a.#",)):
        stage = Stage()
        stage.queue("plain", "plain", MULTICAST)
        for pattern in patterns:
            stage.queue("wild", pattern, MULTICAST)
        sent(stage, "plain")
        costs.append(cost_of_sends(stage, "plain"))
    assert costs[0] == costs[1]
