"""Threads: a connection that several threads share, each with its own session."""

import threading

from embedbroker import EmbeddedBroker
from embedclient import Queue
from embedclient.blocking import Connection, ConnectionFactory

JOBS = Queue("jobs")


def work(connection: Connection, done: list[str]) -> None:
    with connection.session() as session, session.create_consumer(JOBS) as consumer:
        while (message := consumer.receive(timeout=0.2)) is not None:
            done.append(message.body)


def main() -> None:
    done: list[str] = []
    with (
        EmbeddedBroker.in_thread() as broker,
        ConnectionFactory(broker.url).connect() as connection,
    ):
        with connection.session(transacted=True) as session:
            producer = session.create_producer(JOBS)
            with session.transaction():
                for number in range(20):
                    producer.send(f"job {number}")

        threads = [
            threading.Thread(target=work, args=(connection, done)) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"{len(done)} jobs done, {len(set(done))} of them different")


main()
