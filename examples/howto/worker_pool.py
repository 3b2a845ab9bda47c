"""A pool of four threads: each takes jobs from one queue in its own session."""

from concurrent.futures import ThreadPoolExecutor

from embedbroker import EmbeddedBroker
from embedclient import Queue
from embedclient.blocking import Connection, ConnectionFactory

JOBS = Queue("jobs")


def work(connection: Connection) -> int:
    done = 0
    with (
        connection.session(transacted=True) as session,
        session.create_consumer(JOBS) as consumer,
    ):
        while (job := consumer.receive(timeout=0.5)) is not None:
            with session.transaction():
                session.create_producer("results").send(job.body.upper())
                done += 1
    return done


with (
    EmbeddedBroker.in_thread() as broker,
    ConnectionFactory(broker.url).connect() as connection,
    ThreadPoolExecutor(4) as pool,
):
    for number in range(40):
        connection.send(JOBS, f"job {number}")
    done = pool.map(work, [connection] * 4)
    print(sum(done), "jobs done")
