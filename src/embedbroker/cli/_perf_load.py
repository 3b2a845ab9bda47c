"""The load behind `embedbroker perf`, and its figures.

Responsible for sending at a rate or as fast as a limit of pending messages allows, and for the clock on each message.
Does not depend on options and on how figures are shown beyond their own text.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Awaitable, Callable, Iterator

import trio
from attrs import define, field, frozen

from embedclient import BytesMessage, ConnectionFactory, DeliveryMode
from embedclient.errors import JMSException, MessageFormatException

__all__ = ["Figures", "Load", "Meter", "measure"]

_STAMP = struct.Struct(">q")
_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999))


@frozen
class Load:
    """What to send and how."""

    destination: str
    seconds: float
    warmup_s: float
    producers: int
    consumers: int
    size_bytes: int
    durable: bool
    pending_max: int
    rate: float | None

    @property
    def copies(self) -> int:
        """The number of consumers that receive each message."""
        return self.consumers if self.destination.startswith("topic://") else 1


@frozen
class Figures:
    """The figures of a run, without the warm-up."""

    load: Load
    seconds: float
    sent: int
    received: int
    latencies_ns: array[int]  # sorted
    broker_cpu_s: float | None

    def quantile_ms(self, share: float) -> float:
        """Return the time within which this share of the messages arrived, in milliseconds."""
        times = self.latencies_ns
        return times[min(len(times) - 1, int(share * len(times)))] / 1e6 if times else 0.0

    def as_json(self) -> dict[str, object]:
        """Return the figures for scripts; times in milliseconds."""
        times = self.latencies_ns
        named = {name: round(self.quantile_ms(share), 4) for name, share in _QUANTILES}
        extremes = {"min": round(self.quantile_ms(0.0), 4), "max": round(self.quantile_ms(1.0), 4)}
        mean = round(sum(times) / len(times) / 1e6, 4) if times else 0.0
        return {
            "seconds": round(self.seconds, 3),
            "sent": self.sent,
            "received": self.received,
            "sent_per_s": round(self.sent / self.seconds, 1),
            "received_per_s": round(self.received / self.seconds, 1),
            "latency_ms": {"min": extremes["min"], "mean": mean, **named, "max": extremes["max"]},
            "broker_cpu_us_per_message": self.cpu_us,
            "durable": self.load.durable,
            "size_bytes": self.load.size_bytes,
            "producers": self.load.producers,
            "consumers": self.load.consumers,
            "destination": self.load.destination,
            "rate": self.load.rate,
            "max_pending": self.load.pending_max,
        }

    @property
    def cpu_us(self) -> float | None:
        """Processor time of the broker process per message sent, in microseconds, if the process is known."""
        if self.broker_cpu_s is None or not self.sent:
            return None
        return round(self.broker_cpu_s / self.sent * 1e6, 2)

    def as_text(self) -> str:
        """Return the figures for people."""
        load = self.load
        kind = "durable" if load.durable else "non-durable"
        lines = [
            f"{load.producers} producers, {load.consumers} consumers, {kind}, {load.size_bytes:,} bytes, "
            f"{load.destination}, {self.seconds:.1f} s",
            f"sent       {self.sent:>12,}   {self.sent / self.seconds:>12,.0f} per second",
            f"received   {self.received:>12,}   {self.received / self.seconds:>12,.0f} per second",
            "latency    "
            + "  ".join(f"{name} {self.quantile_ms(share):.3f}" for name, share in (("min", 0.0), *_QUANTILES))
            + f"  max {self.quantile_ms(1.0):.3f} ms",
        ]
        if self.cpu_us is not None:
            lines.append(f"broker     {self.cpu_us:.1f} µs of processor time per message")
        return "\n".join(lines)


@define(eq=False)
class Meter:
    """Count while it is open, and make producers wait while too much is pending."""

    load: Load
    sending: bool = True
    open: bool = False
    sent: int = 0
    received: int = 0
    pending: int = 0
    latencies_ns: array[int] = field(factory=lambda: array("q"))
    _room: trio.Event = field(factory=trio.Event)
    _drained: trio.Event = field(factory=trio.Event)

    async def room(self) -> None:
        limit = self.load.pending_max * self.load.producers * self.load.copies
        while self.pending >= limit and self.sending:
            self._room = trio.Event()
            await self._room.wait()

    def was_sent(self) -> None:
        self.pending += self.load.copies
        self.sent += self.open

    def was_received(self, body: bytes) -> None:
        self.pending -= 1
        self._room.set()
        if self.open:
            self.received += 1
            self.latencies_ns.append(time.perf_counter_ns() - _STAMP.unpack_from(body)[0])
        if not self.sending and self.pending <= 0:
            self._drained.set()

    async def stop(self) -> None:
        """Stop sending. Return when what is under way has arrived, or a moment later."""
        self.open = False
        self.sending = False
        self._room.set()
        with trio.move_on_after(5):
            if self.pending > 0:
                await self._drained.wait()


async def measure(
    factory: ConnectionFactory,
    load: Load,
    cpu_seconds: Callable[[], float] | None,
    watch: Callable[[Meter], Awaitable[None]],
) -> Figures:
    """Run the load and return its figures. ``watch`` shows progress until it is cancelled.

    Raises:
        JMSException: the broker cannot be reached, or refused something.
    """
    meter = Meter(load)
    failures: list[JMSException] = []
    elapsed = cpu = 0.0
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(load.consumers):
                await nursery.start(_consume, factory, meter)
            for _ in range(load.producers):
                nursery.start_soon(_produce, factory, meter)
            nursery.start_soon(watch, meter)
            await trio.sleep(load.warmup_s)
            meter.open = True
            began, cpu_began = trio.current_time(), cpu_seconds() if cpu_seconds else 0.0
            await trio.sleep(load.seconds)
            elapsed, cpu = trio.current_time() - began, cpu_seconds() - cpu_began if cpu_seconds else 0.0
            await meter.stop()
            nursery.cancel_scope.cancel()
    except* JMSException as group:
        failures.extend(_leaves(group))
    if failures:
        raise failures[0]
    times = array("q", sorted(meter.latencies_ns))
    return Figures(load, elapsed, meter.sent, meter.received, times, cpu if cpu_seconds else None)


def _leaves(group: BaseExceptionGroup[JMSException]) -> Iterator[JMSException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _consume(
    factory: ConnectionFactory, meter: Meter, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with (
        factory.connect() as connection,
        connection.session() as session,
        session.create_consumer(meter.load.destination) as consumer,
    ):
        task_status.started()
        async for message in consumer:
            body = message.body
            if not isinstance(body, bytes) or len(body) < _STAMP.size:
                raise MessageFormatException(f"{meter.load.destination} has messages that are not of a measurement")
            meter.was_received(body)


async def _produce(factory: ConnectionFactory, meter: Meter) -> None:
    load = meter.load
    padding = bytes(load.size_bytes - _STAMP.size)
    gap_s = load.producers / load.rate if load.rate else 0.0
    async with factory.connect() as connection, connection.session() as session:
        producer = session.create_producer(load.destination)
        producer.delivery_mode = DeliveryMode.PERSISTENT if load.durable else DeliveryMode.NON_PERSISTENT
        due = trio.current_time()
        while meter.sending:
            await meter.room()
            if gap_s:
                due += gap_s
                await trio.sleep_until(due)
            meter.was_sent()
            await producer.send(BytesMessage(_STAMP.pack(time.perf_counter_ns()) + padding))
        # Closing drops nothing, but the connection stays until the measurement ends.
        await trio.sleep_forever()
