"""Destinations as users write them: queue attributes behind a question mark."""

from __future__ import annotations

import pytest

from embedclient import Queue
from embedclient._client._destinations import as_destination, place_of
from embedclient.errors import InvalidDestinationException


def test_attributes_are_read_as_what_they_are() -> None:
    place = place_of(Queue("a::q?max-consumers=2&exclusive=true&consumer-priority=3&last-value-key=k"))
    assert (place.address, place.queue, place.consumer_priority) == ("a", "q", 3)
    attributes = place.attributes
    assert (attributes.max_consumers, attributes.exclusive, attributes.last_value_key) == (2, True, "k")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q?max-consumer=2", r"unknown queue attribute 'max-consumer' in .*; did you mean 'max-consumers'\?$"),
        ("q?colour=blue", r"unknown queue attribute 'colour' in destination 'q\?colour=blue'$"),
        ("q?exclusive=maybe", "'exclusive' in .* is 'maybe': expected true or false"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidDestinationException, match=said):
        place_of(Queue(text))


@pytest.mark.parametrize("text", ["::q", "a::", "topic://::", "?max-consumers=1", "a::?max-consumers=1"])
def test_no_part_of_a_name_is_empty(text: str) -> None:
    with pytest.raises(InvalidDestinationException, match=r"lacks a name before or behind its '::' or '\?'$"):
        as_destination(text)
