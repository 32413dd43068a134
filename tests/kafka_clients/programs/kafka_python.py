"""kafka-python."""

import json
import sys
from contextlib import suppress

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, RebalanceInProgressError

from kafka import (  # type: ignore[attr-defined]  # tests/node/kafka has the name here
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from tests.kafka_clients.programs.input_end import end_of_input
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


def share(servers: str, topic: str, group: str, instance: str) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        group_id=group,
        group_instance_id=instance or None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=30_000 if instance else 10_000,
        heartbeat_interval_ms=500,
    )
    stopped = end_of_input()
    assigned: list[int] = []
    while not stopped.is_set():
        records = consumer.poll(100)
        now = sorted(each.partition for each in consumer.assignment())
        if now != assigned:
            assigned = now
            print(json.dumps(["assigned", assigned]), flush=True)
        for found in records.values():
            for each in found:
                print(json.dumps(["record", each.partition, each.offset]), flush=True)
        if records:
            with suppress(CommitFailedError, RebalanceInProgressError):
                consumer.commit()
    consumer.close()


def introduce(servers: str, topic: str, group: str, count: int) -> None:
    consumer = KafkaConsumer(
        topic, group_id=group, bootstrap_servers=servers.split(","), auto_offset_reset="earliest"
    )
    for number, message in enumerate(consumer, start=1):
        print(json.dumps([message.partition, message.offset]), flush=True)
        if number == count:
            break
    consumer.close()


if sys.argv[1] == "share":
    share(*sys.argv[2:6])
elif sys.argv[1] == "introduce":
    introduce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
elif sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6], sys.argv[7])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
