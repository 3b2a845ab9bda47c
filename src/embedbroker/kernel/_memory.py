"""The memory that messages take, the producers that wait for room, and the sends that are refused for lack of it.

Responsible for the sum over all messages and per address, for credit requests that wait while a limit is passed, and
for the margin beyond it. Does not depend on the transport of credit: a request is a callable that grants it.

Credit is advice: it counts the size that the message states, not its cost here. It may be granted just before the limit
is passed, and a client may send without a request for credit. So there is a margin above the limit. Room in it is
reserved for credit that was granted and not used. A send that finds no room beside the reservations of others is
refused; one without a reservation is refused already at twice the limit. While reservations fit, no producer that keeps
to its credit is refused. Messages never take more than limit, margin and the one message that passed the limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field, frozen

from embedclient.errors import ErrorCode

from ._large_bodies import LargeBodies
from ._refusal import Refused, Scope
from .message._message import Message
from .queueing._reference import PackedReference

__all__ = ["MESSAGE_OVERHEAD_BYTES", "REFERENCE_BYTES", "MemoryAccount", "Reservation"]

MESSAGE_OVERHEAD_BYTES = 320
"""Cost in bytes of a message beside its encoding: objects, queue entry, ids (measured, see docs/performance.md)."""

REFERENCE_BYTES = 70
"""Bytes that each queue beyond the first adds: its reference to the message (measured with 100 queues)."""

CREDIT_COST = 4
"""Bytes reserved for a byte of credit: messages of JMS clients have hardly less than 110 bytes, and cost the above."""

RESERVED_ADDRESSES_MAX = 1000
"""Addresses for which a session has room reserved; its client keeps credit for no more (core-protocol 7.4)."""

# Each grant is a packet. When room comes back, a whole broker of producers may be waiting for it.
GRANTS_AT_ONCE_MAX = 500


@frozen
class MemoryStatistics:
    """Hold the bytes that messages take, by address; by message, the queues that share it, and its large body.

    ``waiting`` has the requests for credit, those of closed owners included, by address.
    """

    used_bytes: int
    reserved_bytes: int
    by_address: Mapping[str, int]
    shared: Mapping[int, int]
    large_bodies: Mapping[int, int]
    homes: Mapping[int, str]
    waiting: Mapping[str, int]


@define(eq=False)
class MemoryAccount:
    """Count the bytes held by messages.

    A message in several queues is counted once, with its references, on its address.
    """

    limit_bytes: int
    margin_bytes: int = 0
    used_bytes: int = 0
    # Room in the margin for credit that was granted and not used.
    reserved_bytes: int = 0
    _by_address: dict[str, int] = field(factory=dict)
    _shared: dict[int, int] = field(factory=dict)
    # Large bodies by the messages that refer to them; these messages are in ``_shared``, whatever their queues are.
    _bodies: dict[int, int] = field(factory=dict)
    large_bodies: LargeBodies | None = None
    # Messages of which a queue has another address, that of a wildcard: the address they count on.
    _homes: dict[int, str] = field(factory=dict)
    # Credit requests by address, oldest first; requests of closed owners stay until they are the greater part.
    _waiting: dict[str, deque[tuple[object, int, Callable[[], None]]]] = field(factory=dict)
    # Number of requests of each owner there.
    _owners: dict[object, int] = field(factory=dict)
    _waiting_count: int = 0
    _stale_count: int = 0
    # Addresses whose producers get no credit, whatever room there is.
    _blocked: dict[str, None] = field(factory=dict)
    # Addresses with requests at which room was released since the last grants.
    relieved: dict[str, None] = field(factory=dict)

    def hold(self, message_id: int, address: str, size: int, queues: int) -> None:
        """Count a message of ``size`` bytes that went into ``queues`` queues."""
        if self._homes:
            address = self._homes.get(message_id, address)
        cost = size + MESSAGE_OVERHEAD_BYTES
        if queues > 1:
            self._shared[message_id] = queues
            cost += (queues - 1) * REFERENCE_BYTES
        self.used_bytes += cost
        by_address = self._by_address
        by_address[address] = by_address.get(address, 0) + cost

    def hold_run(self, messages: Collection[Message], address: str) -> None:
        """Like `hold` for new messages that went into one queue each, and count on the address of that queue."""
        cost = sum([message.memory_size for message in messages]) + MESSAGE_OVERHEAD_BYTES * len(messages)
        self.used_bytes += cost
        self._by_address[address] = self._by_address.get(address, 0) + cost

    def hold_body(self, message_id: int, number: int, queues: int) -> None:
        """Count that a message, held just before in ``queues`` queues, refers to a large body."""
        assert self.large_bodies is not None
        self._shared[message_id] = queues
        self._bodies[message_id] = number
        self.large_bodies.hold(number)

    def _release_body(self, message_id: int) -> None:
        number = self._bodies.pop(message_id, None)
        if number is not None:
            assert self.large_bodies is not None
            self.large_bodies.release(number)

    def set_home(self, message_id: int, address: str) -> None:
        """Count a message on the address it was sent to, whatever the addresses of its queues. Must precede `hold`."""
        self._homes[message_id] = address

    def release(self, message_id: int, address: str, size: int) -> None:
        """Release one queue's part of a message."""
        cost = size + MESSAGE_OVERHEAD_BYTES
        left = None
        if self._shared:
            left = self._shared.get(message_id)
            if left is not None:
                if left > 1:
                    self._shared[message_id] = left - 1
                    cost = REFERENCE_BYTES
                else:
                    del self._shared[message_id]
                    if self._bodies:
                        self._release_body(message_id)
        if self._homes and message_id in self._homes:
            address = self._homes[message_id] if left is not None and left > 1 else self._homes.pop(message_id)
        self.used_bytes -= cost
        left_bytes = self._by_address[address] - cost
        assert left_bytes >= 0, (address, left_bytes)
        if left_bytes:
            self._by_address[address] = left_bytes
        else:
            del self._by_address[address]
        assert self.used_bytes >= 0, self.used_bytes
        waiting = self._waiting
        if waiting:
            if address in waiting:
                self.relieved[address] = None
            if self.used_bytes < self.limit_bytes <= self.used_bytes + cost:
                self.relieved.update(dict.fromkeys(waiting))

    def release_run(self, messages: Collection[Message], address: str) -> None:
        """Release one queue's parts of messages; see `release`."""
        if self._shared or self._homes or self._waiting:
            for message in messages:
                self.release(message.message_id, address, message.memory_size)
        elif messages:
            self._release_all(sum([message.memory_size for message in messages]), len(messages), address)

    def release_packed(self, taken: Sequence[PackedReference], address: str) -> None:
        """Like `release_run`, for messages that are packed."""
        if self._shared or self._homes or self._waiting:
            for entry in taken:
                self.release(entry[5], address, len(entry[4]))
            return
        self._release_all(sum([len(entry[4]) for entry in taken]), len(taken), address)

    def _release_all(self, size: int, count: int, address: str) -> None:
        """Release messages that are each in one queue."""
        cost = size + MESSAGE_OVERHEAD_BYTES * count
        self.used_bytes -= cost
        left_bytes = self._by_address[address] - cost
        assert left_bytes >= 0 <= self.used_bytes, (address, left_bytes, self.used_bytes)
        if left_bytes:
            self._by_address[address] = left_bytes
        else:
            del self._by_address[address]

    def statistics(self) -> MemoryStatistics:
        """Return the current figures."""
        return MemoryStatistics(
            self.used_bytes,
            self.reserved_bytes,
            dict(self._by_address),
            dict(self._shared),
            dict(self._bodies),
            dict(self._homes),
            {address: len(requests) for address, requests in self._waiting.items()},
        )

    def address_bytes(self, address: str) -> int:
        """Return the bytes held by messages that were sent to one address."""
        return self._by_address.get(address, 0)

    def is_full(self, address: str, address_limit_bytes: int) -> bool:
        """Return True if a producer to this address must wait."""
        if self.used_bytes >= self.limit_bytes:
            return True
        return 0 <= address_limit_bytes <= self._by_address.get(address, 0)

    def block(self, address: str) -> None:
        """Grant no credit for an address until it is unblocked."""
        self._blocked[address] = None

    def unblock(self, address: str) -> None:
        """Grant credit for an address again, beginning with the requests that wait. Ignored for one not blocked."""
        if address in self._blocked:
            del self._blocked[address]
            if address in self._waiting:
                self.relieved[address] = None

    def is_blocked(self, address: str) -> bool:
        """Return True if no credit is granted for an address, whatever room there is."""
        return address in self._blocked

    def has_room(self, cost: int) -> bool:
        """Return True if there is room for a message of this cost, or the part of it for which none is reserved."""
        used, limit, margin = self.used_bytes + cost, self.limit_bytes, self.margin_bytes
        return used <= limit + min(limit, margin) and used + self.reserved_bytes <= limit + margin

    def wait(self, owner: object, address: str, address_limit_bytes: int, grant: Callable[[], None]) -> None:
        """Keep a credit request until there is room, or its owner is forgotten."""
        requests = self._waiting.get(address)
        if requests is None:
            requests = self._waiting[address] = deque()
        requests.append((owner, address_limit_bytes, grant))
        self._waiting_count += 1
        self._owners[owner] = self._owners.get(owner, 0) + 1
        if not self.is_full(address, address_limit_bytes):
            self.relieved[address] = None

    def waiting_of(self, owner: object) -> int:
        """Return how many requests of one owner wait."""
        return self._owners.get(owner, 0)

    def forget(self, owner: object) -> None:
        """Drop the requests of an owner that is gone for good."""
        self._stale_count += self._owners.pop(owner, 0)
        if 2 * self._stale_count > self._waiting_count:
            for address, requests in list(self._waiting.items()):
                kept = deque(request for request in requests if request[0] in self._owners)
                if kept:
                    self._waiting[address] = kept
                else:
                    del self._waiting[address]
            self._waiting_count -= self._stale_count
            self._stale_count = 0

    def grant_waiting(self) -> None:
        """Grant some requests for which there is room now, oldest first at each address.

        See `can_grant` for the rest.
        """
        left = GRANTS_AT_ONCE_MAX
        while self.relieved and self.used_bytes < self.limit_bytes:
            address = next(iter(self.relieved))
            del self.relieved[address]
            # A grant may end other owners, so no part of this may be kept across it.
            while requests := self._waiting.get(address):
                if not left:
                    self.relieved[address] = None
                    return
                left -= 1
                owner, limit, grant = requests[0]
                if owner in self._owners and (address in self._blocked or self.is_full(address, limit)):
                    break
                requests.popleft()
                self._waiting_count -= 1
                if not requests:
                    del self._waiting[address]
                if owner not in self._owners:
                    self._stale_count -= 1
                    continue
                self._owners[owner] -= 1
                if not self._owners[owner]:
                    del self._owners[owner]
                grant()

    @property
    def can_grant(self) -> bool:
        """Return True if there may be room for a producer that waits."""
        return bool(self.relieved) and self.used_bytes < self.limit_bytes

    @property
    def has_waiting(self) -> bool:
        """Return True if any producer waits."""
        return bool(self._owners)


class Reservation:
    """Reserve room in the margin for the producers of one session, by address.

    A client requests the credit that it wants to hold, so it never holds more than twice what it requested
    (core-protocol 7.4). That much is reserved at the grant, and drawn on only while the limit is passed. Then nothing
    is granted, and the rest of the credit is all that its producers may send.
    """

    __slots__ = ("_account", "_by_address")

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self._by_address: dict[str, int] = {}

    def grant(self, address: str, credit: int) -> None:
        """Reserve for granted credit what the margin has left."""
        account, by_address = self._account, self._by_address
        reserved = by_address.pop(address, 0)
        wanted = 2 * credit * CREDIT_COST - reserved
        more = max(min(wanted, account.margin_bytes - account.reserved_bytes), 0)
        account.reserved_bytes += more
        by_address[address] = reserved + more
        if len(by_address) > RESERVED_ADDRESSES_MAX:
            account.reserved_bytes -= by_address.pop(next(iter(by_address)))

    def take(self, address: str, size: int) -> Refused | None:
        """Admit a message while the limit is passed.

        With the room reserved for it, or the room that others leave free.
        """
        account = self._account
        cost = size + MESSAGE_OVERHEAD_BYTES
        reserved = self._by_address.get(address, 0)
        if reserved < cost and not account.has_room(cost - reserved):
            return Refused(
                ErrorCode.ADDRESS_FULL,
                f"the broker is full: messages take {account.used_bytes} bytes, and producers wait since they take "
                f"{account.limit_bytes}",
                Scope.CONNECTION,
            )
        if reserved:
            drawn = min(reserved, cost)
            self._by_address[address] = reserved - drawn
            account.reserved_bytes -= drawn
        return None

    def give_up(self) -> None:
        """Release all reservations, because the session is over."""
        self._account.reserved_bytes -= sum(self._by_address.values())
        self._by_address.clear()
