"""Our own client, by TANK's protocol."""

import json
import sys

from tank_client import ProducerSettings
from tank_client.sync import Client
from tests.kafka_clients.programs.records import printed, record

COMPRESSION = {"none": False, "snappy": True}


def produce(servers: str, topic: str, codec: str, count: int, name: str, kind: str) -> None:
    settings = ProducerSettings(idempotent=True, compression=COMPRESSION[codec])
    with Client(servers) as client, client.producer(settings) as producer:
        sent = [record(name, number, kind) for number in range(count)]
        told = [
            producer.send(topic, each.value, key=each.key, partition=0, headers=each.headers) for each in sent
        ]
        stored = [each.result(25) for each in dict.fromkeys(told)]
    # TANK counts messages from 1 on, and Kafka from 0 on.
    print(json.dumps([number - 1 for each in stored for number in range(each.first, each.last + 1)]))


def consume(servers: str, topic: str, count: int) -> None:
    taken = 0
    with Client(servers) as client:
        for found in client.consumer(topic, stop_at_end=True).messages():
            headers = list(found.headers)
            print(json.dumps(printed(found.sequence_number - 1, found.key, found.value, headers)))
            taken += 1
    if taken != count:
        sys.exit(f"{taken} records, where {count} are")


if sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6], sys.argv[7])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
