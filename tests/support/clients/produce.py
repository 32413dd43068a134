"""Sends produce requests, TANK's and our own, and returns their answers."""

from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.nodes.bench_node import BenchClient


def batch_of(*values: bytes) -> bytes:
    return bundle.as_batch(bundle.encode(list(values), timestamps=1))


def produce(client: BenchClient, batch: bytes, topic: str = "a", partition: int = 0) -> bytes:
    entry = ProducePartition(partition, memoryview(batch))
    return bytes(client.ask(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic(topic, [entry])]))[4:])


def idempotent(
    client: BenchClient, sequence: int, *values: bytes, producer: int = 9, epoch: int = 0, topic: str = "a"
) -> None:
    entry = IdempotentPartition(0, sequence, 0, memoryview(batch_of(*values)))
    client.send(IdempotentProduceRequest(0, 1, "", 0, 0, producer, epoch, [IdempotentTopic(topic, [entry])]))


def outcome(client: BenchClient) -> tuple[int, int, int]:
    ((message_id, payload),) = client.answers()
    assert message_id == 66
    result = IdempotentProduceResponse.decode(payload).topics[0].partitions[0]
    return result.error, result.first, result.last


def read(client: BenchClient, number: int = 0) -> list[tuple[int, bytes]]:
    """Everything from a number on, as a client counts it."""
    found: list[tuple[int, bytes]] = []
    while True:
        topics = [ConsumeTopic("a", [ConsumePartition(0, number, 1 << 20)])]
        answer = ConsumeResponse.decode(client.ask(ConsumeRequest(2, 1, "", 0, 0, 0, topics)))
        partition = answer.topics[0].partitions[0]
        if not partition.chunk_length:
            return found
        base = partition.base_sequence_number
        for stored in bundle.bundles(memoryview(answer.chunks)):
            for message in bundle.decode(stored, base):
                found.append((message.sequence_number, message.value))
                base = message.sequence_number + 1
        number = base
