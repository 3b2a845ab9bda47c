"""Runs a number of mutations against a family and counts what happened.

Responsible for repeatability: a failure names family, seed and number of the input, and carries the input itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from attrs import frozen

from .families import Family
from .mutations import mutations


@frozen
class Outcome:
    """How many inputs were read as a value, and how many were refused with RemoteProtocolError."""

    family: str
    accepted: int
    refused: int


def run(family: Family, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Outcome:
    """Check ``count`` mutations. ``progress`` is called every 100,000 inputs."""
    accepted = 0
    check = family.check
    for number, (index, data) in enumerate(islice(mutations(family.corpus, seed), count), 1):
        try:
            accepted += check(index, data)
        except BaseException as error:
            error.add_note(f"{family.name}, seed {seed}, input {number}: corpus {index}, {data.hex()}")
            raise
        if progress is not None and number % 100_000 == 0:
            progress(number)
    return Outcome(family.name, accepted, count - accepted)
