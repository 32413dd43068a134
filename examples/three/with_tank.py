"""TANK's protocol, with Tank Cluster's own client: writes orders, or reads what all clients wrote.

    python examples/three/with_tank.py write 127.0.0.1:11011 shop.orders 100
    python examples/three/with_tank.py read 127.0.0.1:11011 shop.orders 300

A line of JSON for each message that is read: its offset, who wrote it, and its value.
"""

import json
import sys
import time

from tank_client.sync import Client

EVERY_S = 0.005


def write(servers: str, topic: str, count: int) -> None:
    """One order after the other, each with a header."""
    with Client(servers) as client, client.producer() as producer:
        for number in range(count):
            producer.send(topic, b"order %d" % number, headers={"from": b"tank"})
            time.sleep(EVERY_S)


def read(servers: str, topic: str, count: int) -> None:
    """From the first message on, until there were so many."""
    with Client(servers) as client, client.consumer(topic, start="first") as consumer:
        for read, message in enumerate(consumer.messages(), 1):
            writer = (dict(message.headers).get("from") or b"").decode()
            # TANK counts messages from 1 on, Kafka and Iggy from 0 on.
            print(json.dumps([message.sequence_number - 1, writer, (message.value or b"").decode()]))
            if read == count:
                return


if __name__ == "__main__":
    does = {"write": write, "read": read}[sys.argv[1]]
    does(sys.argv[2], sys.argv[3], int(sys.argv[4]))
