"""kafka-python."""

import json
import sys

from kafka import (  # type: ignore[attr-defined]  # tests/node/kafka has the name here
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from tests.kafka_clients.programs.records import printed, record


def produce(servers: str, topic: str, codec: str, count: int, name: str, kind: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=servers.split(","),
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=20,
    )
    futures = []
    for number in range(count):
        key, value, headers = record(name, number, kind)
        futures.append(producer.send(topic, value, key, partition=0, headers=headers))
    producer.flush(25)
    print(json.dumps([future.get(25).offset for future in futures]))
    producer.close()


def consume(servers: str, topic: str, count: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=servers.split(","), auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    taken = 0
    for found in consumer:
        print(json.dumps(printed(found.offset, found.key, found.value, list(found.headers))))
        taken += 1
        if taken == count:
            break
    consumer.close()
    if taken < count:
        sys.exit(f"no more records after {taken}")


if sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6], sys.argv[7])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
