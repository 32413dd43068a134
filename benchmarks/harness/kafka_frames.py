"""Raw loads of Kafka's protocol: many connections that send Produce or Fetch requests again and again."""

import time
from struct import Struct

from benchmarks.harness.closed_loops import Answered, Line, run_loops
from benchmarks.harness.load_generator import LoadFailed
from tank_protos.generated.kafka import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    TopicProduceData,
    TopicProduceDataCollection,
)
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord

VERSION, FETCH_VERSION = 9, 12
"""The versions of the requests: the first flexible ones, which most clients of today can speak."""
_HEAD = Struct(">ihhi")
_CLIENT = b"\0\5bench\0"
"""The client's name, and no tagged fields."""
_SIZE = Struct(">i")


def batch_of(records: int, value_bytes: int) -> bytes:
    """A record batch of records without keys, as a client sends it."""
    value = b"x" * value_bytes
    stored = [KafkaRecord(None, value, offset, 0, ()) for offset in range(records)]
    return record_batch.encode(stored, base_timestamp_ms=int(time.time() * 1000))


def produce_frame(topic: str, partition: int, batch: bytes, acks: int = -1) -> bytes:
    """A whole Produce request with one batch."""
    part = PartitionProduceData(partition, batch)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=TopicProduceDataCollection([TopicProduceData(name=topic, partition_data=[part])]),
    )
    return _framed(request.ID, VERSION, b"".join(request.encode(VERSION)))


def fetch_frame(topic: str, partition: int, offset: int, most_bytes: int = 1) -> bytes:
    """A whole Fetch request for one partition, without a session; it doesn't wait."""
    wanted = FetchPartition(partition, -1, offset, -1, partition_max_bytes=most_bytes)
    request = FetchRequest(min_bytes=1, max_bytes=most_bytes, topics=[FetchTopic(topic, partitions=[wanted])])
    return _framed(request.ID, FETCH_VERSION, b"".join(request.encode(FETCH_VERSION)))


def _framed(key: int, version: int, body: bytes) -> bytes:
    size = _HEAD.size - _SIZE.size + len(_CLIENT) + len(body)
    return _HEAD.pack(size, key, version, 1) + _CLIENT + body


class _KafkaLine(Line):
    """A connection of Kafka's protocol."""

    HEAD_BYTES = _SIZE.size

    def answer_bytes(self, data: bytes) -> int:
        return _SIZE.size + int(_SIZE.unpack_from(data)[0]) if len(data) >= _SIZE.size else 0

    def check(self, answer: bytes) -> None:
        _check(self.frame, answer)


def _check(frame: bytes, answer: bytes) -> None:
    """Checks that an answer to this request has no error. LoadFailed."""
    body = memoryview(answer)[_SIZE.size * 2 + 1 :]
    if frame[_SIZE.size + 1] == FetchRequest.ID:
        codes = [
            part.error_code
            for topic in FetchResponse.decode(body, FETCH_VERSION).responses
            for part in topic.partitions
        ]
    else:
        codes = [
            part.error_code
            for topic in ProduceResponse.decode(body, VERSION).responses
            for part in topic.partition_responses
        ]
    for code in codes:
        if code:
            raise LoadFailed(f"the broker refuses a request with error {code}")


def run_frames(
    address: str,
    pid: int,
    frames: list[bytes],
    *,
    connections: int,
    depth: int,
    seconds: float,
    most: int | None = None,
) -> Answered:
    """Sends the frames in closed loops, connection by connection another one, and checks each answer by its
    length and the first ones by their errors. most: ends behind so many answers. LoadFailed."""
    host, _, port = address.rpartition(":")
    lines = [
        _KafkaLine((host, int(port)), frames[number % len(frames)], depth) for number in range(connections)
    ]
    return run_loops(lines, pid, seconds, most)
