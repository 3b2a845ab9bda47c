"""Random settings, users and requests: whatever a client does, nothing exists that a permission does not cover.

What may exist is decided by `may`, which reads the settings in another way than the broker: it tries each match in the
order of how specific it is, word by word.
"""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.config import BrokerConfig, SecuritySetting, User
from embedbroker.kernel import Consumer, Permission, Queue
from embedclient.wire.core import (
    CreateAddress,
    CreateQueueV2,
    CreateSharedQueueV2,
    DeleteQueue,
    Packet,
    SessionCommit,
    SessionConsumerClose,
    SessionCreateConsumer,
    SessionRollback,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
)

from .scripted import Peer, Stage, letter

P = Permission
ADDRESSES = ["a", "a.b", "a.b.c", "a.x.c", "z"]
MATCHES = ["#", "a", "a.#", "a.b", "a.b.#", "a.*.c", "z", *(f"{address}::{address}" for address in ADDRESSES)]
# The most specific first, for addresses of this form.
ORDER = ["exact", "a.*.c", "a.b.#", "a.#", "#"]
USERS = ["one", "two", "three"]
CREATES = (P.CREATE_DURABLE_QUEUE, P.CREATE_NON_DURABLE_QUEUE)

Settings = dict[str, SecuritySetting]


def covers(match: str, address: str) -> bool:
    words = address.split(".")
    if match == "a.*.c":
        return len(words) == 3 and words[0] == "a" and words[2] == "c"
    stem = [word for word in match.split(".") if word != "#"]
    return words[: len(stem)] == stem


def may(settings: Settings, user: str, permission: Permission, address: str, queue: str | None = None) -> bool:
    candidates = [f"{address}::{queue}", address, *(one for one in ORDER[1:] if covers(one, address))]
    for match in candidates:
        if match in settings:
            roles: frozenset[str] = getattr(settings[match], permission.name.lower())
            return user in roles
    return False


def random_settings(chance: Random) -> Settings:
    return {
        match: SecuritySetting(**{one.name.lower(): [u for u in USERS if chance.random() < 0.5] for one in P})
        for match in MATCHES
        if chance.random() < 0.5
    }


def random_packet(chance: Random) -> Packet:
    address, name = chance.choice(ADDRESSES), chance.choice(ADDRESSES)
    durable, number = chance.random() < 0.5, chance.randrange(4)
    full = f"{address}::{name}"
    packets: list[Packet] = [
        SessionSend(letter("m", chance.choice([address, full])), chance.random() < 0.5, -1),
        SessionSend(letter("m", address, anycast=False), True, -1),
        SessionSendLarge(letter("", chance.choice([address, full]))),
        SessionCreateConsumer(number, chance.choice([name, full]), None, chance.random() < 0.3, True),
        SessionConsumerClose(number),
        CreateQueueV2(address, name, None, durable, False, True, chance.random() < 0.5, chance.randrange(2)),
        CreateQueueV2(address, name, None, False, True, True, False, 1),
        CreateSharedQueueV2(address, name, None, durable, 0, True),
        CreateAddress(address, (chance.randrange(2),), True, chance.random() < 0.5),
        DeleteQueue(chance.choice([name, full])),
        SessionCommit(1),
        SessionRollback(False),
    ]
    return chance.choice(packets)


class Watch:
    """What there was after the last request."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self.stage = stage
        self.settings = settings
        # Dead letters and expired messages have their queues from the start.
        self.queues: dict[int, Queue] = {each.id: each for each in stage.node.kernel.address_manager.queues.values()}
        self.addresses: dict[str, tuple[bool, bool]] = dict.fromkeys(("DLQ", "ExpiryQueue"), (True, False))
        self.counts: dict[int, int] = {}
        self.consumers: set[Consumer] = set()
        self.checked = 0
        self.large = 0

    def change_settings(self, settings: Settings) -> None:
        """Let other settings hold from now on."""
        self.settings = settings
        security = self.stage.node.core.security
        assert security is not None
        security.replace(BrokerConfig(users=self.stage.config.users, security_settings=settings))

    def check(self, user: str, packet: Packet) -> None:
        """Compare what there is now, behind a request of one user."""
        manager = self.stage.node.kernel.address_manager
        queues = {queue.id: queue for queue in manager.queues.values()}
        for identifier in queues.keys() - self.queues.keys():
            queue = queues[identifier]
            self.allowed(user, CREATES[not queue.definition.durable], queue.definition.address, queue.name)
        # A shared subscription also ends with its last consumer, which needs no permission.
        for identifier in self.queues.keys() - queues.keys() if isinstance(packet, DeleteQueue) else ():
            queue = self.queues[identifier]
            deletes = P.DELETE_DURABLE_QUEUE if queue.definition.durable else P.DELETE_NON_DURABLE_QUEUE
            self.allowed(user, deletes, queue.definition.address, queue.name)
        addresses = {
            name: (each.definition.anycast, each.definition.multicast) for name, each in manager.addresses.items()
        }
        for name, kinds in addresses.items():
            # A shared subscription creates its address without this permission, as in Artemis.
            if kinds != self.addresses.get(name, (False, False)) and not self.is_of_a_new_queue(name, queues):
                self.allowed(user, P.CREATE_ADDRESS, name)
        counts = {identifier: queue.added_count for identifier, queue in queues.items()}
        for identifier, count in counts.items():
            queue = queues[identifier]
            if count > self.counts.get(identifier, 0):
                address = queue.definition.address
                assert may(self.settings, user, P.SEND, address) or may(
                    self.settings, user, P.SEND, address, queue.name
                ), (user, "SEND", address, queue.name)
                self.checked += 1
                self.large += isinstance(packet, SessionSendLarge)
        sessions = self.stage.node.core.sessions.values()
        consumers = {each for session in sessions for each in session.kernel_session.consumers.values()}
        for consumer in consumers - self.consumers:
            definition = consumer.queue.definition
            self.allowed(user, P.BROWSE if consumer.browse else P.CONSUME, definition.address, definition.name)
        self.queues, self.addresses, self.counts, self.consumers = queues, addresses, counts, consumers

    def is_of_a_new_queue(self, name: str, queues: dict[int, Queue]) -> bool:
        return any(
            queues[identifier].definition.address == name and not queues[identifier].definition.temporary
            for identifier in queues.keys() - self.queues.keys()
        )

    def allowed(self, user: str, permission: Permission, address: str, queue: str | None = None) -> None:
        assert may(self.settings, user, permission, address, queue), (user, permission.name, address, queue)
        self.checked += 1


def life(seed: int) -> tuple[int, int]:
    """Run one seed; return how many effects were found to be allowed, and how many of them are large messages."""
    chance = Random(seed)
    settings = random_settings(chance)
    stage = Stage(users=[User(name, name, roles=[name]) for name in USERS], security_settings=settings)
    peers: dict[str, list[Peer]] = {
        name: [stage.connect().open_session(user=name, password=name) for _ in range(2)] for name in USERS
    }
    watch = Watch(stage, settings)
    for _ in range(150):
        user = chance.choice(USERS)
        peer = chance.choice(peers[user])
        packet = random_packet(chance)
        peer.send(packet)
        assert peer.closed is None
        if isinstance(packet, SessionSendLarge):
            if chance.random() < 0.3:
                # The permission at the end of the body counts.
                watch.change_settings(random_settings(chance))
            peer.send(SessionSendContinuation(b"large", False, 5, chance.random() < 0.5, -1))
            stage.run()
        watch.check(user, packet)
        if chance.random() < 0.02:
            # What was allowed before is not taken for allowed now.
            watch.change_settings(random_settings(chance))
    return watch.checked, watch.large


@pytest.mark.search
@pytest.mark.parametrize("block", range(4))
def test_a_permission_is_never_bypassed(block: int) -> None:
    checked, large = zip(*(life(seed) for seed in range(block * 25, block * 25 + 25)), strict=True)
    assert sum(checked) > 200 and sum(large) > 20
