"""One sender and one receiver in one Python process, for each client library: `python -m benchmarks.python_clients`.

Prints messages per second from receipt to receipt, after a warm-up, and the process's own CPU time per message.
Non-durable, 1 KiB of bytes, automatic acknowledgement, sender and receiver on separate connections. The window is about
a thousand messages in both directions, as Artemis gives it to AMQP senders (1,000 credits). STOMP has none in either
direction, which Artemis allows it with automatic acknowledgement only.

Each run has a separate queue, so that nothing of another run is counted. It ends with an error as soon as a connection
is lost: what is printed was measured.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

BODY = b"x" * 1024
WINDOW = 1_000
# The same window in bytes, for a frame of 1,024 bytes and headers.
WINDOW_BYTES = WINDOW * 1_248
WARM_UP = 5_000
SECONDS_MAX = 300


class Meter:
    """Count receipts; after the warm-up the clocks run."""

    def __init__(self, count: int) -> None:
        self.total = WARM_UP + count
        self.received = 0
        self._count = count
        self._start = self._cpu = 0.0

    def on_message(self) -> bool:
        """Count a message. Return True for the last one."""
        self.received += 1
        if self.received == WARM_UP:
            self._start, self._cpu = time.perf_counter(), _cpu_seconds()
        return self.received == self.total

    def report(self) -> str:
        """Return the text to print. Called right after the last message."""
        seconds, cpu_seconds = time.perf_counter() - self._start, _cpu_seconds() - self._cpu
        if self.received != self.total:
            raise SystemExit(f"{self.received} of {self.total} messages were received")
        return f"rate {self._count / seconds:.1f} cpu {cpu_seconds / self._count * 1e6:.2f}"


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def embedclient(port: int, name: str, count: int) -> str:
    """Run our client, on trio."""
    import trio

    from embedclient import ConnectionFactory, DeliveryMode, Queue

    meter = Meter(count)
    url = f"tcp://127.0.0.1:{port}?producerWindowSize={WINDOW_BYTES}&consumerWindowSize={WINDOW_BYTES}"
    queue = Queue(name)

    async def send() -> None:
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(queue)
            for _ in range(meter.total):
                await producer.send(BODY, delivery_mode=DeliveryMode.NON_PERSISTENT)

    async def main() -> str:
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer(queue) as consumer,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(send)
            done = False
            while not done:
                assert await consumer.receive() is not None
                done = meter.on_message()
            return meter.report()

    return trio.run(main)


def proton(port: int, name: str, count: int) -> str:
    """Run python-qpid-proton, AMQP 1.0, on its reactor."""
    from proton import Message
    from proton.handlers import MessagingHandler
    from proton.reactor import AtMostOnce, Container

    meter = Meter(count)

    class Exchange(MessagingHandler):  # the library has no types
        def __init__(self) -> None:
            super().__init__(prefetch=WINDOW, auto_accept=True)
            self.sent = 0
            self.outcome = ""

        def on_start(self, event: Any) -> None:
            url = f"amqp://127.0.0.1:{port}"
            self.receiver = event.container.create_receiver(event.container.connect(url), name)

        def on_link_opened(self, event: Any) -> None:
            if event.link == self.receiver:
                sending = event.container.connect(f"amqp://127.0.0.1:{port}")
                self.sender = event.container.create_sender(sending, name, options=AtMostOnce())

        def on_sendable(self, event: Any) -> None:
            while event.sender.credit and self.sent < meter.total:
                event.sender.send(Message(body=BODY, durable=False))
                self.sent += 1

        def on_message(self, event: Any) -> None:
            if meter.on_message():
                self.outcome = meter.report()
                event.container.stop()

    handler = Exchange()
    Container(handler).run()
    return handler.outcome or meter.report()


def stomp(port: int, name: str, count: int) -> str:
    """Run stomp.py, with the version and options in which it is fastest: 1.0 has no headers to escape."""
    import stomp as library

    meter = Meter(count)

    class Receiver(library.ConnectionListener):  # the library has no types
        def __init__(self) -> None:
            self.outcome = ""
            self.subscribed = threading.Event()
            self.ended = threading.Event()

        def on_receipt(self, frame: Any) -> None:
            self.subscribed.set()

        def on_message(self, frame: Any) -> None:
            if meter.on_message():
                self.outcome = meter.report()
                self.ended.set()

        def on_disconnected(self) -> None:
            # Artemis ends a connection that sends nothing for a minute, and this one only receives.
            self.ended.set()

    def connection() -> Any:
        # The body stays bytes, as with the other two.
        return library.StompConnection10([("127.0.0.1", port)], auto_decode=False)

    receiver = Receiver()
    receiving = connection()
    receiving.set_listener("", receiver)
    receiving.connect(wait=True)
    receiving.subscribe(name, "1", ack="auto", headers={"subscription-type": "ANYCAST", "receipt": "subscribed"})
    if not receiver.subscribed.wait(30):
        raise SystemExit("stomp.py was not subscribed")
    sending = connection()
    sending.connect(wait=True)
    headers = {"destination-type": "ANYCAST"}
    for _ in range(meter.total):
        sending.send(name, BODY, headers=headers)
    receiver.ended.wait(SECONDS_MAX)
    outcome = receiver.outcome or meter.report()
    receiving.disconnect()
    sending.disconnect()
    return outcome


CLIENTS: dict[str, Callable[[int, str, int], str]] = {"embedclient": embedclient, "proton": proton, "stomp": stomp}


if __name__ == "__main__":
    library_name, port_text, count_text = sys.argv[1:]
    print(CLIENTS[library_name](int(port_text), f"bench-{library_name}-{os.getpid()}", int(count_text)))
