"""Several workers share the partitions of a topic, and go on where they stopped.

    python -m examples.client.workers &
    python -m examples.client.workers

The workers are members of one group: the brokers give each of them some partitions, and others when a worker
comes, ends or dies. The group keeps the position of each partition, so no order is missed.
"""

from examples.client.start import command_line, need_topic
from tank_client.sync import Client


def work(servers: str, name: str) -> None:
    """Does all the work that is there. Without `stop_at_end` it would wait for more."""
    with Client(servers) as client:
        need_topic(client, "orders", partitions=4)
        consumer = client.consumer(
            "orders",
            group="order-workers",
            start="committed",
            stop_at_end=True,
            on_assigned=lambda got: print(f"{name}: got {len(got)} partitions"),
            on_revoked=lambda gone: print(f"{name}: gives {len(gone)} partitions up"),
        )
        with consumer:
            for batch in consumer:
                for message in batch.messages():
                    order = (message.value or b"").decode()
                    print(f"{name}: order {order} of partition {message.partition}")
                # After the work: a worker that dies before this repeats its last batch, and skips none.
                consumer.commit()


if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--name", default="worker", help="the name of this worker")
    given = parser.parse_args()
    work(given.servers, given.name)
