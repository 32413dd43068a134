"""A program that reads a topic as a member of a group, and says what happens: to be killed by tests.

    python -m tests.support.clients.sharing_worker SERVERS TOPIC GROUP [INSTANCE]

It prints a line of JSON for each change of its partitions and for each batch, which it commits after that. It
ends when its input does.
"""

import json
import sys
import threading

from tank_client import ConsumerSettings
from tank_client.sync import Client


def say(*what: object) -> None:
    print(json.dumps(what), flush=True)


def main(servers: str, topic: str, group: str, instance: str = "") -> None:
    stopped = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=listen, daemon=True).start()
    with Client(servers) as client:
        consumer = client.consumer(
            topic,
            group=group,
            instance_id=instance,
            settings=ConsumerSettings(max_wait_ms=500),
            on_assigned=lambda got: say("assigned", [number for _, number in got]),
            on_revoked=lambda gone: say("revoked", [number for _, number in gone]),
            on_lost=lambda lost: say("lost", [number for _, number in lost]),
        )
        with consumer:
            while not stopped.is_set():
                batch = consumer.poll(100)
                if batch is not None:
                    say("read", batch.partition, list(batch.numbers))
                    consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
