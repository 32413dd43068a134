"""kafka-python."""

import json
import sys

from kafka import (  # type: ignore[attr-defined]  # tests/node/kafka has the name here
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)


def produce(servers: str, topic: str, codec: str, count: int, name: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=servers.split(","),
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=20,
    )
    futures = [
        producer.send(
            topic,
            None if number % 7 == 6 and number % 3 != 2 else (f"{name}-{number}-" + 100 * "x").encode(),
            None if number % 3 == 2 else f"{name}-{number}".encode(),
            partition=0,
            headers=[("h", str(number).encode())],
        )
        for number in range(count)
    ]
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
    for record in consumer:
        headers = [[key, value.decode()] for key, value in record.headers]
        key, value = record.key, record.value
        print(
            json.dumps(
                [record.offset, key and key.decode(), value if value is None else value.decode(), headers]
            )
        )
        taken += 1
        if taken == count:
            break
    consumer.close()
    if taken < count:
        sys.exit(f"no more records after {taken}")


if sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
