"""Kafka's protocol, with confluent-kafka: writes orders, or reads what all clients wrote.

    python examples/three/with_kafka.py write 127.0.0.1:9092 shop.orders 100
    python examples/three/with_kafka.py read 127.0.0.1:9092 shop.orders 300

A line of JSON for each message that is read: its offset, who wrote it, and its value.
"""

import json
import sys

from confluent_kafka import Consumer, KafkaException, Producer

EVERY_S = 0.005
PATIENCE_S = 60.0


def write(servers: str, topic: str, count: int) -> None:
    """One order after the other, each with a header."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"order %d" % number, headers={"from": b"kafka"})
        producer.poll(EVERY_S)
    if left := producer.flush(PATIENCE_S):
        sys.exit(f"{left} orders are not acknowledged after {PATIENCE_S:g} s")


def read(servers: str, topic: str, count: int) -> None:
    """As the one member of a group, from the first message on, until there were so many."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "three-protocols", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    for _ in range(count):
        message = consumer.poll(PATIENCE_S)
        if message is None:
            sys.exit(f"no message came for {PATIENCE_S:g} s")
        if message.error():
            raise KafkaException(message.error())
        writer = dict(message.headers() or []).get("from") or b""
        print(json.dumps([message.offset(), bytes(writer).decode(), (message.value() or b"").decode()]))
    consumer.close()


if __name__ == "__main__":
    does = {"write": write, "read": read}[sys.argv[1]]
    does(sys.argv[2], sys.argv[3], int(sys.argv[4]))
