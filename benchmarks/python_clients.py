"""One sender and one receiver in one Python process, for each client library: `python -m benchmarks.python_clients`.

Prints messages per second, from the first send to the last receipt, after a warm-up. Non-durable, 1 KiB, automatic
acknowledgement, a receive window of about a thousand messages (STOMP: none, see below).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

BODY = b"x" * 1024
WINDOW = 1000
WARM_UP = 2_000


def embedclient(port: int, count: int) -> float:
    """Our client, on trio."""
    import trio

    from embedclient import ConnectionFactory, DeliveryMode, Queue

    async def send(url: str, name: str, amount: int) -> None:
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer(Queue(name))
            for _ in range(amount):
                await producer.send(BODY, delivery_mode=DeliveryMode.NON_PERSISTENT)

    async def exchange(amount: int) -> float:
        url = f"tcp://127.0.0.1:{port}"
        name = f"bench-client-{amount}"
        async with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer(Queue(name)) as consumer,
            trio.open_nursery() as nursery,
        ):
            start = time.perf_counter()
            nursery.start_soon(send, url, name, amount)
            for _ in range(amount):
                await consumer.receive()
            return amount / (time.perf_counter() - start)

    async def main() -> float:
        await exchange(WARM_UP)
        return await exchange(count)

    return trio.run(main)


def proton(port: int, count: int) -> float:
    """python-qpid-proton, AMQP 1.0."""
    from proton import Message
    from proton.handlers import MessagingHandler
    from proton.reactor import AtMostOnce, Container

    class Exchange(MessagingHandler):  # the library has no types
        def __init__(self) -> None:
            super().__init__(prefetch=WINDOW, auto_accept=True)
            self.sent = self.received = 0
            self.start = self.rate = 0.0

        def on_start(self, event: Any) -> None:
            url = f"amqp://127.0.0.1:{port}"
            self.receiver = event.container.create_receiver(event.container.connect(url), "bench-client-proton")
            sending = event.container.connect(url)
            self.sender = event.container.create_sender(sending, "bench-client-proton", options=AtMostOnce())

        def on_sendable(self, event: Any) -> None:
            while event.sender.credit and self.sent < WARM_UP + count:
                event.sender.send(Message(body=BODY, durable=False))
                self.sent += 1

        def on_message(self, event: Any) -> None:
            self.received += 1
            if self.received == WARM_UP:
                self.start = time.perf_counter()
            elif self.received == WARM_UP + count:
                self.rate = count / (time.perf_counter() - self.start)
                event.container.stop()

    handler = Exchange()
    Container(handler).run()
    return handler.rate


def stomp(port: int, count: int) -> float:
    """stomp.py, STOMP 1.2."""
    import stomp as library

    total = WARM_UP + count

    class Receiver(library.ConnectionListener):  # the library has no types
        def __init__(self) -> None:
            self.received = 0
            self.start = self.rate = 0.0
            self.done = threading.Event()

        def on_message(self, frame: Any) -> None:
            self.received += 1
            if self.received == WARM_UP:
                self.start = time.perf_counter()
            elif self.received == total:
                self.rate = count / (time.perf_counter() - self.start)
                self.done.set()

    receiver = Receiver()
    receiving = library.StompConnection12([("127.0.0.1", port)], auto_content_length=True)
    receiving.set_listener("", receiver)
    receiving.connect(wait=True)
    # With automatic acknowledgement Artemis sends STOMP without a window; with one it stops when that is used up.
    headers = {"subscription-type": "ANYCAST"}
    receiving.subscribe("bench-client-stomp", "1", ack="auto", headers=headers)
    sending = library.StompConnection12([("127.0.0.1", port)], auto_content_length=True)
    sending.connect(wait=True)
    text = BODY.decode()
    for _ in range(total):
        sending.send("bench-client-stomp", text, headers={"destination-type": "ANYCAST"})
    if not receiver.done.wait(120):
        raise SystemExit(f"stomp.py received {receiver.received} of {total}")
    receiving.disconnect()
    sending.disconnect()
    return receiver.rate


if __name__ == "__main__":
    library_name, port_text, count_text = sys.argv[1:]
    clients = {"embedclient": embedclient, "proton": proton, "stomp": stomp}
    print(f"rate {clients[library_name](int(port_text), int(count_text)):.1f}")
