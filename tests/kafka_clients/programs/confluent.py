"""confluent-kafka, which is librdkafka."""

import json
import sys
import time
from contextlib import suppress
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.kafka_clients.programs.input_end import end_of_input
from tests.kafka_clients.programs.records import printed, record


def produce(servers: str, topic: str, codec: str, count: int, name: str, kind: str) -> None:
    offsets: list[int] = []
    errors: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(str(error))
        else:
            offsets.append(message.offset())

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 20,
            "message.timeout.ms": 20_000,
        }
    )
    for number in range(count):
        key, value, headers = record(name, number, kind)
        producer.produce(topic, value, key, partition=0, headers=headers, on_delivery=delivered)
    left = producer.flush(25)
    if errors or left:
        sys.exit(f"{left} records were not delivered: {errors[:2]}")
    print(json.dumps(offsets))


def consume(servers: str, topic: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken = 0
    while taken < count:
        message = consumer.poll(20)
        if message is None:
            sys.exit(f"no more records after {taken}")
        if message.error():
            sys.exit(str(message.error()))
        headers = message.headers() or []
        print(json.dumps(printed(message.offset(), message.key(), message.value(), headers)))
        taken += 1
    consumer.close()


def steady(servers: str, topic: str, seconds: float) -> None:
    producer = Producer({"bootstrap.servers": servers})

    def delivered(sent: float, error: KafkaError | None, message: Message) -> None:
        if error is None:
            print(json.dumps([sent, time.time()]), flush=True)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        producer.produce(topic, "x" * 100, on_delivery=partial(delivered, time.time()))
        producer.poll(0.01)
    producer.flush(25)


def share(servers: str, topic: str, group: str, instance: str, protocol: str) -> None:
    settings: dict[str, str | bool | int] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        settings["partition.assignment.strategy"] = "range"
        settings["session.timeout.ms"] = 30_000 if instance else 10_000
        settings["heartbeat.interval.ms"] = 500
    if instance:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    stopped = end_of_input()
    assigned: list[int] = []
    while not stopped.is_set():
        message = consumer.poll(0.1)
        now = sorted(each.partition for each in consumer.assignment())
        if now != assigned:
            assigned = now
            say("assigned", assigned)
        if message is not None and not message.error():
            say("record", message.partition(), message.offset())
            with suppress(KafkaException):  # while the group gathers its members
                consumer.commit(message, asynchronous=False)
                say("committed", [[message.partition(), message.offset() + 1]])
    consumer.close()


def say(*event: object) -> None:
    print(json.dumps(event), flush=True)


def introduce(servers: str, topic: str, group: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    taken = 0
    while taken < count:
        message = consumer.poll(40.0)
        if message is None:
            sys.exit(f"no more records after {taken}")
        if message.error():
            sys.exit(str(message.error()))
        say(message.partition(), message.offset())
        taken += 1
    consumer.close()


if sys.argv[1] == "share":
    share(*sys.argv[2:7])
elif sys.argv[1] == "introduce":
    introduce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
elif sys.argv[1] == "steady":
    steady(sys.argv[2], sys.argv[3], float(sys.argv[4]))
elif sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6], sys.argv[7])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
