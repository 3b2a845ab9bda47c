"""What messages there are in the queues of all sites, compared with what the model of the bridges wants there.

Responsible for the verdict on loss, duplicates, order, wrong queues and changed bodies. Does not depend on how messages
travel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from embedbroker.kernel import Reference, StoredMessage
from embedbroker.storage import body_number
from embedbroker.testing._messages import key_of
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene
from embedclient.wire.core import CoreMessage

from .bridge_routes import Arrival, BridgeRoutes
from .send_book import Entry, SendBook
from .site import Site

__all__ = ["ArrivalChecker", "held_in"]


@frozen
class _Found:
    """One message in a queue. Ids grow in the order in which a broker takes messages."""

    key: str
    message_id: int


def held_in(site: Site, name: str) -> Iterator[Reference]:
    """Give the messages of a queue, waiting and in delivery."""
    queue = site.queue(name)
    if queue is None:
        return
    yield from queue.undelivered()
    for consumer in queue.consumers:
        yield from consumer.unsettled.values()


@define(eq=False)
class ArrivalChecker:
    """The checker of one scenario, when everything has healed and nothing moves any more.

    ``durable_only``: a life of a broker has ended, so that messages that are not durable may be gone.
    ``passing``: bridges that later messages may pass large ones in, with the size from which a message may be large. A
    target without room for a body refuses that message, and takes those already on their way behind it. A source that
    cannot read a body lets later messages pass. Both are repeated with the next connection.
    """

    scene: Scene
    sites: dict[str, Site]
    routes: BridgeRoutes
    book: SendBook
    homes: dict[str, tuple[str, str]]
    passing: dict[str, int] = field(factory=dict)
    _found: dict[tuple[str, str], list[_Found]] = field(factory=dict, init=False)
    _counts: defaultdict[tuple[str, str, str], int] = field(factory=lambda: defaultdict(int), init=False)

    def check(self, *, durable_only: bool) -> None:
        """End the run if a message is lost, doubled, out of order, changed, or where it must not be."""
        for site, name in self.routes.queues:
            found = [self._look_at(self.sites[site], reference) for reference in held_in(self.sites[site], name)]
            self._found[(site, name)] = sorted(found, key=lambda each: each.message_id)
            for each in found:
                self._counts[(site, name, each.key)] += 1
        for key, entry in self.book.entries.items():
            self._check_entry(key, entry, durable_only=durable_only)
        unknown = [key for _, _, key in self._counts if key not in self.book.entries]
        if unknown:
            self.scene.fail(f"messages that were never sent: {unknown[:5]}")
        self._check_order()

    def _expected(self, entry: Entry) -> list[Arrival]:
        return self.routes.of(entry, *self.homes[entry.sender])

    def _check_entry(self, key: str, entry: Entry, *, durable_only: bool) -> None:
        expected = self._expected(entry)
        wanted = {(each.site, each.queue): each for each in expected}
        for site, name in self.routes.queues:
            count = self._counts.get((site, name, key), 0)
            arrival = wanted.get((site, name))
            if count and arrival is None:
                self.scene.fail(f"{key} is in queue {name} of {site}, and not wanted there")
            if arrival is not None and count > 1:
                # One that is not durable may go on before its id is on disk, and its sender repeats it after a crash.
                is_repeated = entry.was_in_doubt and not entry.letter.durable
                if arrival.once and not is_repeated:
                    self.scene.fail(f"{key} is {count} times in queue {name} of {site}")
                self.scene.hit(Moment.BRIDGE_DOUBLED)
            if arrival is not None and arrival.bridges:
                self.scene.hits[Moment.BRIDGED] += count > 0
        missing = [f"queue {name} of {site}" for site, name in wanted if not self._counts.get((site, name, key))]
        if not missing or (durable_only and not entry.letter.durable):
            return
        if entry.is_confirmed:
            self.scene.fail(f"{key} was confirmed and is missing in {', '.join(missing)}")
        if len(missing) < len(wanted):
            self.scene.fail(f"{key} is missing in {', '.join(missing)}, and others have it")

    def _check_order(self) -> None:
        """Check that messages of one sender and one priority keep their order; doubled ones may repeat a part."""
        for (site, name), found in self._found.items():
            newest: dict[tuple[str, int], _Found] = {}
            for each in found:
                entry = self.book.entries[each.key]
                arrival = next(
                    arrival for arrival in self._expected(entry) if (arrival.site, arrival.queue) == (site, name)
                )
                if entry.was_in_doubt or not arrival.in_order or not arrival.once:
                    continue
                if any(entry.letter.size >= self.passing[name] for name in arrival.bridges if name in self.passing):
                    continue
                stream = entry.sender, entry.letter.priority
                before = newest.get(stream)
                if before is not None and self.book.entries[before.key].number > entry.number:
                    self.scene.fail(f"queue {name} of {site} has {before.key} in front of {each.key}")
                newest[stream] = each

    def _look_at(self, site: Site, reference: Reference) -> _Found:
        """Check the body of a message, and return what it is."""
        message = reference.message
        key = message.property("key")
        assert isinstance(key, str), "every message carries its key"
        whole = message.to_core()
        assert isinstance(whole, CoreMessage)
        if isinstance(message, StoredMessage) and message.body_number:
            host = site.live
            assert host is not None
            self.scene.hit(Moment.BRIDGED_LARGE)
            content = _file_of(host, message.body_number)
            whole = CoreMessage.build(
                type=whole.type, address=whole.address, durable=whole.durable, properties=whole.properties, body=content
            )
        key_of(whole)
        return _Found(key, message.message_id)


def _file_of(host: NodeHost, number: int) -> bytes:
    name = next(name for name in host.disk.names if body_number(name) == number)
    return bytes(host.disk.content(name))


def keys_of(found: Sequence[Reference]) -> list[str]:
    """Return the keys of messages."""
    return [str(reference.message.property("key")) for reference in found]
