"""Duplicate detection: the ids of messages, and the treatment of a second message with the same id.

Responsible for one cache per address that messages are sent to, and for the limits on its size and on the memory of
all. Also responsible for what transactions hold, and for the records that let ids survive (broker-semantics 5.5). Does
not depend on properties: a protocol finds the id of a message.

An id is in force from its send, or from the commit of its transaction. A prepared transaction holds its ids, because it
must be able to commit. The oldest ids of an address leave when newer ones need the room. That is not recorded: after a
restart the newest are in force again, in order of arrival. A request to clear an address is recorded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from embedbroker.config import AddressSettingsRepository, BrokerConfig
from embedclient.errors import ErrorCode

from .._deferred import DeferredWork, drained
from .._facts import DuplicateId
from .._refusal import Refused
from ..addressing._id_cache import IdCache
from ..message._message import Message

if TYPE_CHECKING:
    from .._ids import Ids
    from .._store import Store
    from ..addressing._address import Address

__all__ = [
    "BRIDGE_ID_PREFIX",
    "ENTRY_OVERHEAD_BYTES",
    "DuplicateIds",
    "IdClaimant",
    "Identified",
    "id_with_address",
    "sender_of",
    "split_id_with_address",
]

BRIDGE_ID_PREFIX = b"BRIDGE."
"""Beginning of the ids that bridges send, so that they and those of clients do not meet."""

ENTRY_OVERHEAD_BYTES = 200
"""Cost in bytes of an id beside its encoding: objects and its place in the cache (measured)."""

# An id is a property, and may thus have any size. Longer ones are kept as their beginning and a digest.
_VALUE_BYTES_MAX = 128
_BEGINNING_BYTES = 65
_NAME_LENGTH_BYTES = 4
# What a bridge of a cluster gives to a message: the node id of its broker, and the id of the message there.
_NODE_ID_BYTES, _MESSAGE_ID_BYTES = 16, 8
# Up to this many cleared ids cost about as much as one message.
_FREED_AT_ONCE = 64


class Identified:
    """Hold the id of a message that is being sent, or was in a transaction. ``recorded``: the store has it."""

    __slots__ = ("address", "entry", "recorded")

    def __init__(self, address: Address, entry: DuplicateId) -> None:
        self.address = address
        self.entry = entry
        self.recorded = False


class IdClaimant(Protocol):
    """Provide what duplicate detection needs of a transaction. ``recorded`` is True once the journal has its id.

    ``rivals`` are the transactions that sent one of its ``identified`` messages' ids, too. ``holds_ids`` is True while
    no other transaction may bring one of them into force. ``is_committed`` is True once its commit is recorded; the ids
    that ``identified`` still has then are on their way into force.
    """

    id: int
    recorded: bool
    identified: list[Identified]
    holds_ids: bool
    is_committed: bool
    rivals: dict[IdClaimant, Identified]

    @property
    def is_active(self) -> bool:
        """Return True if it is neither failed nor decided."""

    @property
    def is_ended(self) -> bool:
        """Return True if it was committed or rolled back."""

    def fail(self, reason: str, code: int) -> None:
        """Allow only a rollback from now on."""


class DuplicateIds:
    """Hold all ids of a broker. ``limit_bytes`` is for all addresses together."""

    __slots__ = (
        "_caches",
        "_claims",
        "_deferred",
        "_has_logged",
        "_ids",
        "_inform",
        "_keepers",
        "_log",
        "_persists",
        "_settings",
        "_size",
        "_store",
        "limit_bytes",
        "used_bytes",
    )

    def __init__(
        self,
        config: BrokerConfig,
        settings: AddressSettingsRepository,
        store: Store,
        ids: Ids,
        log: Callable[[str], None],
        limit_bytes: int,
        inform: Callable[[str], None],
        deferred: DeferredWork,
    ) -> None:
        self._size = config.id_cache_size
        self._persists = config.persist_id_cache
        self._settings = settings
        self._store = store
        self._ids = ids
        self._log = log
        # Duplicates are ordinary: clients send unconfirmed messages again.
        self._inform = inform
        self._deferred = deferred
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        # Caches with ids, the one with the latest id at the end.
        self._caches: OrderedDict[IdCache, None] = OrderedDict()
        # Those among them with ids for addresses that did not exist when their messages came, and whose they are.
        self._keepers: dict[IdCache, Address] = {}
        # Transactions that sent an id and neither brought it into force nor released it: mostly one, with its claim.
        self._claims: dict[tuple[int, bytes], IdClaimant | tuple[IdClaimant, ...]] = {}
        self._has_logged = False

    @property
    def claimed_count(self) -> int:
        """Return how many ids belong to transactions that have neither ended nor given them up."""
        return len(self._claims)

    # -- a message comes -----------------------------------------------------------------------------------------

    def admit(
        self,
        message: Message,
        address: Address,
        duplicate_id: bytes,
        transaction: IdClaimant | None,
        sent_to: str | None = None,
    ) -> Identified | Refused | None:
        """Check a message with an id; return None if it is a duplicate, which must not be routed.

        Outside a transaction the sender does not learn of it: its intention is fulfilled. Inside, the commit fails.
        ``sent_to`` is the address that the message was sent to, if that does not exist and ``address`` keeps its ids.
        """
        value = bounded = _bounded(duplicate_id)
        name = address.name if sent_to is None else sent_to
        if sent_to is not None:
            value = id_with_address(sent_to, bounded)
            self._add_keeper(address)
        cache = address.duplicate_ids
        holder = self._holder((address.definition.id, value)) if self._claims else None
        committed = holder is not None and holder.is_ended
        if committed or (cache is not None and value in cache) or (self._keepers and self._is_kept(name, bounded)):
            text = f"a duplicate of a message to {name!r} is dropped, its id is {_shown(duplicate_id)}"
            self._inform(text)
            if transaction is not None:
                transaction.fail(text, ErrorCode.DUPLICATE_ID_REJECTED)
            return None
        if holder is not None and transaction is None:
            # Whether it is a duplicate depends on the end of that transaction, and neither answer could be taken back.
            return Refused(
                ErrorCode.DUPLICATE_ID_REJECTED,
                f"a prepared transaction has a message to {address.name!r} with the id {_shown(duplicate_id)}",
            )
        return self._identified(address, value)

    def admit_run(self, address: Address, duplicate_ids: Sequence[bytes]) -> list[DuplicateId] | None:
        """Return the ids of messages outside a transaction, none of which is a duplicate; None: `admit` each."""
        cache = address.duplicate_ids
        if (
            self._claims
            or max(map(len, duplicate_ids)) > _VALUE_BYTES_MAX
            or len(set(duplicate_ids)) < len(duplicate_ids)
            or (cache is not None and not cache.numbers.keys().isdisjoint(duplicate_ids))
            or (self._keepers and any(self._is_kept(address.name, value) for value in duplicate_ids))
        ):
            return None
        address_id, count = address.definition.id, len(duplicate_ids)
        if not self._persists or not self._size_at(address):
            return [DuplicateId(0, address_id, value) for value in duplicate_ids]
        first = self._ids.take(count)
        return [DuplicateId(number, address_id, value) for number, value in enumerate(duplicate_ids, first)]

    def _add_keeper(self, address: Address) -> None:
        """Note that an address keeps ids for addresses that do not exist."""
        cache = address.duplicate_ids
        if cache is None:
            cache = address.duplicate_ids = IdCache(self)
        self._keepers[cache] = address

    def _is_kept(self, name: str, duplicate_id: bytes) -> bool:
        """Return True if a message with this id was sent to an address when that did not exist.

        Any keeper may have the id: it was chosen by the way that the message took, and the next one may take another.
        """
        kept = id_with_address(name, duplicate_id)
        return any(kept in keeper for keeper in self._keepers)

    def is_in_force(self, address: Address, duplicate_id: bytes) -> bool:
        """Return True if an id is in force at an address."""
        value, cache = _bounded(duplicate_id), address.duplicate_ids
        if (cache is not None and value in cache) or (self._keepers and self._is_kept(address.name, value)):
            return True
        # A large commit may still be carried out, and be decided all the same.
        holder = self._holder((address.definition.id, value)) if self._claims else None
        return holder is not None and holder.is_ended

    def identify(self, address: Address, duplicate_id: bytes) -> Identified:
        """Return the id of a message that is not checked: it goes to an address because it had to leave another one."""
        return self._identified(address, _bounded(duplicate_id))

    def _identified(self, address: Address, value: bytes) -> Identified:
        number = self._ids.take() if self._persists and self._size_at(address) else 0
        return Identified(address, DuplicateId(number, address.definition.id, value))

    def adopt(self, address: Address, duplicate_id: bytes) -> None:
        """Bring an id into force that another broker has seen."""
        self.accept(self.identify(address, duplicate_id), None)

    def accept(self, identified: Identified, transaction: IdClaimant | None) -> None:
        """Accept the id of a routed message: it is in force, or will be when the transaction commits."""
        entry = identified.entry
        if entry.number and not identified.recorded:
            self._store.add_duplicate_id(entry, transaction.id if transaction is not None else 0)
            identified.recorded = True
            if transaction is not None:
                transaction.recorded = True
        if transaction is not None:
            self.claim(identified, transaction)
        else:
            self.enforce(identified.address, entry)

    # -- transactions --------------------------------------------------------------------------------------------

    def claim(self, identified: Identified, transaction: IdClaimant) -> None:
        """Claim an id that a transaction has sent.

        Other transactions that have sent the same id are its rivals from now on.

        The same id twice in one transaction is no conflict, as in Artemis: a sender that repeats itself after a failure
        begins a new one.
        """
        transaction.identified.append(identified)
        key = identified.entry.address_id, identified.entry.value
        earlier = self._claims.setdefault(key, transaction)
        if earlier is transaction:
            return
        others = _claimants(earlier)
        if transaction in others:
            return
        self._claims[key] = (*others, transaction)
        for other in others:
            # A transaction that was rolled back is only not removed yet.
            if other.holds_ids or not other.is_ended:
                other.rivals[transaction] = transaction.rivals[other] = identified

    def hold(self, transaction: IdClaimant) -> None:
        """Ensure that the transaction can commit from now on, as to its ids; otherwise it becomes rollback-only.

        Another transaction that holds one of its ids was found at the send of that id. When an id came into force, the
        transactions that had sent it became rollback-only. So the cost does not depend on the number of ids.
        """
        for rival, identified in transaction.rivals.items():
            if rival.holds_ids:
                self._refuse(transaction, identified.address, identified.entry)
                return
        transaction.holds_ids = bool(transaction.identified)

    def let_go(self, transaction: IdClaimant) -> Iterator[None]:
        """Release the ids of a transaction that was rolled back and does not hold them, one with each step."""
        transaction.holds_ids = False
        self._forget_rivals(transaction)

        def gone() -> Iterator[None]:
            for identified in drained(transaction.identified):
                self._take_off(transaction, identified.entry)
                yield

        return gone()

    def commit(self, transaction: IdClaimant) -> Iterator[None]:
        """Bring the ids of a committed transaction into force, one with each step; until then it holds them."""
        transaction.holds_ids = True
        for identified in drained(transaction.identified):
            self.enforce(identified.address, identified.entry)
            self._take_off(transaction, identified.entry)
            yield
        transaction.holds_ids = False
        self._forget_rivals(transaction)

    def _holder(self, key: tuple[int, bytes]) -> IdClaimant | None:
        """Return the transaction that must be able to commit with this id."""
        for transaction in _claimants(self._claims.get(key, ())):
            if transaction.holds_ids:
                return transaction
        return None

    def _take_off(self, transaction: IdClaimant, entry: DuplicateId) -> None:
        key = entry.address_id, entry.value
        left = tuple([other for other in _claimants(self._claims.get(key, ())) if other is not transaction])
        if len(left) > 1:
            self._claims[key] = left
        elif left:
            self._claims[key] = left[0]
        else:
            self._claims.pop(key, None)

    def _forget_rivals(self, transaction: IdClaimant) -> None:
        for rival in transaction.rivals:
            del rival.rivals[transaction]
        transaction.rivals.clear()

    def _refuse(self, transaction: IdClaimant, address: Address, entry: DuplicateId) -> None:
        text = f"another transaction or message to {address.name!r} has the id {_shown(entry.value)}"
        self._inform(text)
        transaction.fail(text, ErrorCode.DUPLICATE_ID_REJECTED)

    # -- the caches ----------------------------------------------------------------------------------------------

    def enforce(self, address: Address, entry: DuplicateId) -> None:
        """Bring an id into force; the oldest leave if that makes too many."""
        if address.removed:
            return
        size = self._size_at(address)
        if not size or (entry.number and not self._persists):
            # Switched off since it was recorded, or altogether.
            self._forget(entry.number)
            return
        claim = self._claims.get((entry.address_id, entry.value)) if self._claims else None
        for transaction in _claimants(claim) if claim is not None else ():
            if transaction.is_active and not transaction.holds_ids:
                self._refuse(transaction, address, entry)
        cache = address.duplicate_ids
        if cache is None:
            cache = address.duplicate_ids = IdCache(self)
        earlier = cache.numbers.pop(entry.value, None)
        if earlier is None:
            size_bytes = ENTRY_OVERHEAD_BYTES + len(entry.value)
            self.used_bytes += size_bytes
            cache.used_bytes += size_bytes
        else:
            self._forget(earlier)
        cache.numbers[entry.value] = entry.number
        self._caches[cache] = None
        self._caches.move_to_end(cache)
        self._make_room(cache, size)

    def _make_room(self, cache: IdCache, size: int) -> None:
        """Forget the oldest ids of a cache beyond its size, and ids of all addresses beyond the limit in bytes."""
        excess = len(cache.numbers) - size
        if excess == 1:
            self._drop_oldest(cache)
        elif excess > 1:
            self._drop_run(cache, excess)
        while self.used_bytes > self.limit_bytes and self._caches:
            if not self._has_logged:
                self._has_logged = True
                self._log(
                    f"duplicate ids take {self.used_bytes} bytes, more than id_cache_bytes_max: those of addresses "
                    "that got no new ones for the longest time are forgotten early"
                )
            self._drop_oldest(next(iter(self._caches)))

    def enforce_run(self, address: Address, entries: Sequence[DuplicateId]) -> None:
        """Bring ids into force that `admit_run` has just returned, as `enforce` does with each."""
        size, cache = self._size_at(address), address.duplicate_ids
        if cache is None or not size or len(entries) > size:
            for entry in entries:
                self.enforce(address, entry)
            return
        cache.numbers.update([(entry.value, entry.number) for entry in entries])
        size_bytes = ENTRY_OVERHEAD_BYTES * len(entries) + sum([len(entry.value) for entry in entries])
        self.used_bytes += size_bytes
        cache.used_bytes += size_bytes
        self._caches[cache] = None
        self._caches.move_to_end(cache)
        self._make_room(cache, size)

    def restore(self, entries: Iterable[DuplicateId], addresses: dict[int, Address]) -> None:
        """Restore ids from the journal, without writing them again; those of each address oldest first.

        In a salvaged journal an address may stand twice, and only the later one counts.
        """
        for entry in entries:
            address = addresses.get(entry.address_id)
            if address is None:
                self._forget(entry.number)
                continue
            if split_id_with_address(entry.value) is not None:
                self._add_keeper(address)
            self.enforce(address, entry)

    def forget_all(self, address: Address) -> None:
        """Forget the ids in force at an address, for good. Those of open transactions may still come into force."""
        self._forget_at(address)
        for cache, keeper in list(self._keepers.items()):
            split = {value: split_id_with_address(value) for value in cache.numbers}
            others = [value for value, parts in split.items() if parts is None or parts[0] != address.name]
            if len(others) < len(split):
                # A record is for all ids of the keeper: those of other addresses are recorded anew.
                self._forget_at(keeper)
                self._add_keeper(keeper)
                for value in others:
                    self.accept(self._identified(keeper, value), None)

    def _forget_at(self, address: Address) -> None:
        """Forget what one cache has."""
        # The record of a commit stands before that of the clear, also while the commit is still carried out.
        numbers = self._withdraw_committed(address) if self._claims else []
        cache = address.duplicate_ids
        if cache is not None:
            numbers += cache.numbers.values()
            self.clear(cache)
        if numbers:
            self._store.clear_duplicate_ids(address.definition.id, [number for number in numbers if number])

    def _withdraw_committed(self, address: Address) -> list[int]:
        """Keep ids of recorded commits from coming into force at an address; return their numbers."""
        committed: dict[IdClaimant, None] = {}
        for (address_id, _value), claim in self._claims.items():
            if address_id == address.definition.id:
                committed.update((each, None) for each in _claimants(claim) if each.is_committed)
        numbers: list[int] = []
        for transaction in committed:
            left = []
            for identified in transaction.identified:
                if identified.address is address:
                    numbers.append(identified.entry.number)
                    self._take_off(transaction, identified.entry)
                else:
                    left.append(identified)
            # In place: the work that brings them into force takes them from this list.
            transaction.identified[:] = left
        return numbers

    def clear(self, cache: IdCache) -> None:
        """Forget the ids of a removed address. They need no records: that of the address' removal is enough."""
        self.used_bytes -= cache.used_bytes
        cache.used_bytes = 0
        left, cache.numbers = cache.numbers, OrderedDict()
        self._caches.pop(cache, None)
        self._keepers.pop(cache, None)
        if len(left) > _FREED_AT_ONCE:
            self._deferred.add(_freed(left))

    def hand_over(self, address: Address, heir_of: Callable[[str], Address | None], then: Callable[[], None]) -> bool:
        """Hand ids that an address keeps for others over to the heirs of these, and call ``then``.

        It takes several steps. An id without an heir goes to any other keeper. Return False, without effect, if the
        address keeps none.
        """
        cache = address.duplicate_ids
        if not cache or cache not in self._keepers:
            return False
        values = list(cache.numbers)

        def handed_over() -> Iterator[None]:
            for value in values:
                if value in cache:
                    self._hand_over(address, value, heir_of)
                yield
            then()
            yield

        self._deferred.add(handed_over())
        return True

    def _hand_over(self, keeper: Address, value: bytes, heir_of: Callable[[str], Address | None]) -> None:
        parts = split_id_with_address(value)
        if parts is None:
            return
        heir = heir_of(parts[0])
        if heir is None or heir is keeper:
            heir = next((each for each in self._keepers.values() if each is not keeper), None)
        if heir is not None and heir.name == parts[0]:
            self.adopt(heir, parts[1])
        elif heir is not None:
            self._add_keeper(heir)
            self.adopt(heir, value)

    def _size_at(self, address: Address) -> int:
        size = self._settings.of(address.name).id_cache_size
        return self._size if size is None else size

    def _drop_oldest(self, cache: IdCache) -> None:
        value, number = cache.numbers.popitem(last=False)
        size_bytes = ENTRY_OVERHEAD_BYTES + len(value)
        self.used_bytes -= size_bytes
        cache.used_bytes -= size_bytes
        self._forget(number)
        if not cache.numbers:
            del self._caches[cache]

    def _drop_run(self, cache: IdCache, count: int) -> None:
        """Drop several of the oldest ids of a cache."""
        popitem = cache.numbers.popitem
        dropped = [popitem(last=False) for _ in range(count)]
        size_bytes = ENTRY_OVERHEAD_BYTES * count + sum([len(value) for value, _ in dropped])
        self.used_bytes -= size_bytes
        cache.used_bytes -= size_bytes
        numbers = [number for _, number in dropped if number]
        if numbers:
            self._store.forget_duplicate_ids(numbers)
        if not cache.numbers:
            del self._caches[cache]

    def _forget(self, number: int) -> None:
        if number:
            self._store.forget_duplicate_ids((number,))


def id_with_address(name: str, duplicate_id: bytes) -> bytes:
    """Return an id as another address keeps it, for messages to the address ``name``, which does not exist."""
    # A client may have sent a name that is no valid text.
    encoded = name.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(_NAME_LENGTH_BYTES, "big") + encoded + duplicate_id


def sender_of(duplicate_id: bytes | None) -> bytes | None:
    """Return the 16 bytes of the node id of the broker whose bridge has given an id to a message; None for others."""
    if duplicate_id is None or not duplicate_id.startswith(BRIDGE_ID_PREFIX):
        return None
    given = duplicate_id.removeprefix(BRIDGE_ID_PREFIX)
    return given[:_NODE_ID_BYTES] if len(given) == _NODE_ID_BYTES + _MESSAGE_ID_BYTES else None


def split_id_with_address(value: bytes) -> tuple[str, bytes] | None:
    """Return the name and the id of `id_with_address`; None if the value has another form."""
    end = _NAME_LENGTH_BYTES + int.from_bytes(value[:_NAME_LENGTH_BYTES], "big")
    if len(value) < end:
        return None
    try:
        return value[_NAME_LENGTH_BYTES:end].decode("utf-8", "surrogatepass"), value[end:]
    except UnicodeDecodeError:
        return None


def _freed(numbers: OrderedDict[bytes, int]) -> Iterator[None]:
    """Free cleared ids in portions."""
    while numbers:
        for _ in range(min(len(numbers), _FREED_AT_ONCE)):
            numbers.popitem()
        yield


def _claimants(claim: IdClaimant | tuple[IdClaimant, ...]) -> tuple[IdClaimant, ...]:
    return claim if isinstance(claim, tuple) else (claim,)


def _bounded(duplicate_id: bytes) -> bytes:
    if len(duplicate_id) <= _VALUE_BYTES_MAX:
        return duplicate_id
    return duplicate_id[:_BEGINNING_BYTES] + blake2b(duplicate_id).digest()


def _shown(duplicate_id: bytes) -> str:
    """Return an id for a reader: as text if it has the form of a property of type string."""
    beginning = duplicate_id[:_VALUE_BYTES_MAX]
    try:
        text = beginning.decode("utf-16-le")
    except UnicodeDecodeError:
        text = ""
    return repr(text) if text.isascii() and text.isprintable() and text else beginning.hex()
