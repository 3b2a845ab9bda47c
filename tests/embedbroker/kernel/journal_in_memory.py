"""A journal as a dictionary: what a kernel records, kept without files, and filled into the kernel that comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import Factory, define

from embedbroker.kernel import AddressDefinition, DuplicateId, Message, QueueDefinition, Recovery

from .stage import LaggingStore, Stage

__all__ = ["JournalInMemory"]


@define
class _Kept:
    """One message with its queues: position, delivery count and, for a delayed redelivery, when it is due."""

    message: Message
    places: dict[int, tuple[int, int]]
    delayed: dict[int, int] = Factory(dict)

    @property
    def message_id(self) -> int:
        return self.message.message_id

    @property
    def encoding(self) -> int:
        return int(self.message.encoding)

    @property
    def priority(self) -> int:
        return self.message.priority

    @property
    def durable(self) -> bool:
        return True

    @property
    def expiration(self) -> int:
        return self.message.expiration

    @property
    def deliver_at(self) -> int:
        return self.message.deliver_at

    @property
    def references(self) -> tuple[tuple[int, int, int], ...]:
        return tuple([(queue_id, position, count) for queue_id, (position, count) in self.places.items()])

    def stored_bytes(self) -> bytes:
        return bytes(self.message.stored_bytes())


@define
class _Open:
    """What a transaction that is not decided has recorded."""

    adds: list[tuple[Message, Sequence[tuple[int, int]]]] = Factory(list)
    acknowledgements: list[tuple[int, int]] = Factory(list)


@define(eq=False)
class JournalInMemory(LaggingStore):
    """Keep what a restart needs: definitions, messages with their places, and open transactions."""

    definitions: dict[int, AddressDefinition | QueueDefinition] = Factory(dict)
    kept: dict[int, _Kept] = Factory(dict)
    _open: dict[int, _Open] = Factory(dict)

    def add_message(self, message: Message, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        if transaction_id:
            self._open.setdefault(transaction_id, _Open()).adds.append((message, list(references)))
        else:
            self._keep(message, references)
        super().add_message(message, transaction_id, references)

    def add_message_once(self, message: Message, references: Sequence[tuple[int, int]], entry: DuplicateId) -> None:
        raise NotImplementedError("duplicate ids are not kept here")

    def _keep(self, message: Message, references: Sequence[tuple[int, int]]) -> None:
        places = {queue_id: (position, 0) for queue_id, position in references}
        known = self.kept.get(message.message_id)
        if known is not None:
            known.places.update(places)
        else:
            self.kept[message.message_id] = _Kept(message, places)

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        if transaction_id:
            self._open.setdefault(transaction_id, _Open()).acknowledgements.append((message_id, queue_id))
        else:
            self._forget(message_id, queue_id)
        super().acknowledge(message_id, queue_id, transaction_id)

    def _forget(self, message_id: int, queue_id: int) -> None:
        kept = self.kept[message_id]
        del kept.places[queue_id]
        if not kept.places:
            del self.kept[message_id]

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
        kept = self.kept[message_id]
        kept.places[queue_id] = kept.places[queue_id][0], count
        if due_ms:
            kept.delayed[queue_id] = due_ms
        super().update_delivery_count(message_id, queue_id, count, due_ms)

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        decided = self._open.pop(transaction_id, _Open())
        first = dict(positions)
        for message, references in decided.adds:
            self._keep(message, [(queue_id, first[queue_id] + place) for queue_id, place in references])
        for message_id, queue_id in decided.acknowledgements:
            self._forget(message_id, queue_id)
        super().commit(transaction_id, positions)

    def rollback(self, transaction_id: int) -> None:
        self._open.pop(transaction_id, None)
        super().rollback(transaction_id)

    def add_address(self, definition: AddressDefinition) -> None:
        self.definitions[definition.id] = definition
        super().add_address(definition)

    def add_queue(self, definition: QueueDefinition) -> None:
        self.definitions[definition.id] = definition
        super().add_queue(definition)

    def after_crash(self) -> JournalInMemory:
        """Return what a broker finds that starts again: nothing of open transactions."""
        found = JournalInMemory()
        found.definitions = dict(self.definitions)
        found.kept = self.kept
        return found

    def restore(self, stage: Stage) -> None:
        """Fill the queues of a kernel whose definitions were restored."""
        delayed = {
            (message_id, queue_id): due_ms
            for message_id, kept in self.kept.items()
            for queue_id, due_ms in kept.delayed.items()
        }
        recovery = Recovery(stage.kernel, delayed=delayed, grouped=list(self._grouped()))
        recovery.add(list(self.kept.values()))
        recovery.finish()

    def _grouped(self) -> Iterator[int]:
        for kept in self.kept.values():
            if kept.message.is_grouped:
                yield from kept.places
