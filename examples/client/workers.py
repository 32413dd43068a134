"""Several workers share the partitions of a topic, and go on where they stopped.

    python -m examples.client.workers --worker 0 --of 2 &
    python -m examples.client.workers --worker 1 --of 2

Worker 0 of 2 takes the even partitions, worker 1 the odd ones: no partition has two workers. The group keeps
the position of each partition, so a worker that is started again misses nothing.
"""

from examples.client.start import command_line, need_topic
from tank_client.sync import Client


def work(servers: str, worker: int, of: int) -> None:
    """Does all the work that is there. Without `stop_at_end` it would wait for more."""
    with Client(servers) as client:
        need_topic(client, "orders", partitions=4)
        partitions = client.admin.partition_counts(["orders"])["orders"]
        mine = range(worker, partitions, of)
        consumer = client.consumer(
            {"orders": mine}, start="committed", group="order-workers", stop_at_end=True
        )
        with consumer:
            for batch in consumer:
                for message in batch.messages():
                    order = (message.value or b"").decode()
                    print(f"worker {worker}: order {order} of partition {message.partition}")
                # After the work: a worker that dies before this repeats its last batch, and skips none.
                consumer.commit()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--worker", type=int, default=0, help="the number of this worker, from 0")
    parser.add_argument("--of", type=int, default=1, help="how many workers there are")
    given = parser.parse_args()
    work(given.servers, given.worker, given.of)
