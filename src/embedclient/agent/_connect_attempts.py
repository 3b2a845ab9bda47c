"""Which connector to try next, and after which pause (core-protocol 10.3).

Responsible for the order and number of attempts of a first connection and of a reconnect. Does not depend on
connections or time: a pause is a number of seconds in front of a connector.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from attrs import frozen

from embedclient.model import TransportConfiguration

from ._policies import LoadBalancingPolicy
from ._settings import LocatorSettings
from ._topology import same_server


@frozen
class Attempt:
    """A pause of `pause_s` seconds, then a try of `connector`."""

    pause_s: float
    connector: TransportConfiguration


def _rounds(limit: int) -> Iterator[int]:
    return count() if limit < 0 else iter(range(limit))


def _pauses(settings: LocatorSettings) -> Iterator[float]:
    interval_ms: float = settings.retry_interval_ms
    longest_ms = settings.longest_retry_interval_ms
    while True:
        yield min(interval_ms, longest_ms) / 1000
        # Bounded before it is multiplied again: an unlimited number of rounds must not overflow.
        interval_ms = min(interval_ms * settings.retry_interval_multiplier, longest_ms)


def _chosen(connectors: Sequence[TransportConfiguration], policy: LoadBalancingPolicy) -> TransportConfiguration:
    index = policy(len(connectors))
    if index not in range(len(connectors)):
        raise ValueError(f"the load-balancing policy chose {index!r} of {len(connectors)} connectors, counted from 0")
    return connectors[index]


def first_attempts(
    settings: LocatorSettings,
    connectors: Sequence[TransportConfiguration],
    policy: LoadBalancingPolicy,
    partner: Callable[[TransportConfiguration], TransportConfiguration | None] = lambda connector: None,
    members: Callable[[], Sequence[TransportConfiguration]] = lambda: (),
) -> Iterator[Attempt]:
    """Return the attempts of a first connection: by policy, so many times per connector, each before its `partner`.

    Each round goes over the `members` of the cluster as they are then. If none of them can be reached, it goes on with
    the `connectors` that it has not tried. The other server of a pair is known from earlier connections only. The pause
    comes in front of a server that was tried since the last one.
    """
    pauses = _pauses(settings)
    tried: list[TransportConfiguration] = []
    for _ in _rounds(settings.initial_connect_attempts or 1):
        tried_in_round: list[TransportConfiguration] = []
        for chosen in _round(members, lambda: connectors, policy, tried_in_round):
            pause = 0.0
            if _leads_to_any(chosen, tried):
                pause = next(pauses)
                tried = []
            tried.append(chosen)
            yield Attempt(pause, chosen)
            other = partner(chosen)
            if other is not None and not _leads_to_any(other, tried):
                tried.append(other)
                tried_in_round.append(other)
                yield Attempt(0.0, other)


def _round(
    members: Callable[[], Sequence[TransportConfiguration]],
    others: Callable[[], Sequence[TransportConfiguration]],
    policy: LoadBalancingPolicy,
    tried: list[TransportConfiguration],
) -> Iterator[TransportConfiguration]:
    """Choose as many times as there are members, then as many times as there are other servers not `tried` so far."""
    for _ in range(len(members())):
        # Nodes join and leave while an attempt runs.
        present = members()
        if not present:
            break
        tried.append(_untried(_chosen(present, policy), present, tried))
        yield tried[-1]
    left = [connector for connector in others() if not _leads_to_any(connector, tried)]
    for _ in left:
        yield _chosen(left, policy)


def _untried(
    chosen: TransportConfiguration,
    members: Sequence[TransportConfiguration],
    tried: Sequence[TransportConfiguration],
) -> TransportConfiguration:
    """Return the chosen member, or the next one behind it if it was `tried`: a policy may choose a dead one again."""
    first = next((index for index, member in enumerate(members) if member is chosen), 0)
    in_order = [*members[first:], *members[:first]]
    return next((member for member in in_order if not _leads_to_any(member, tried)), chosen)


def _leads_to_any(connector: TransportConfiguration, others: Sequence[TransportConfiguration]) -> bool:
    return any(same_server(connector, other) for other in others)


def reconnect_attempts(
    settings: LocatorSettings,
    near: Callable[[], Sequence[TransportConfiguration]],
    everywhere: Callable[[], Sequence[TransportConfiguration]],
    policy: LoadBalancingPolicy,
    fallback: Callable[[], Sequence[TransportConfiguration]] = lambda: (),
) -> Iterator[Attempt]:
    """Return the attempts after a lost connection.

    The first rounds go over the servers that may have the sessions (`near`), then rounds over all connectors in the
    order of the policy. Such a round ends with the servers of `fallback` that it has not tried. The pause comes between
    rounds.
    """
    pauses = _pauses(settings)
    pause = 0.0
    for _ in _rounds(settings.reconnect_attempts):
        for connector in near():
            yield Attempt(pause, connector)
            pause = 0.0
        pause = next(pauses)
    for _ in _rounds(settings.failover_attempts):
        for connector in _round(everywhere, fallback, policy, []):
            yield Attempt(pause, connector)
            pause = 0.0
        pause = next(pauses)
