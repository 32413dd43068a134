"""Raw loads of Kafka's protocol: many connections that send Produce or Fetch requests again and again, in one
process without a client library. It takes little time itself, and has as many connections as are wanted.
"""

import selectors
import socket
import time
from dataclasses import dataclass
from struct import Struct

from benchmarks.load_generator import LoadFailed
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
_RECEIVE_BYTES = 1 << 18
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Answered:
    """What a load has done."""

    requests: int
    seconds: float
    server_s: float
    """Processor time of the server."""


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


class _Line:
    """One connection, with `depth` requests under way."""

    def __init__(self, address: tuple[str, int], frame: bytes, depth: int) -> None:
        self.socket = socket.create_connection(address, _PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._frame = frame
        self._unsent = memoryview(frame * depth)
        self._answer = b""
        self._received = b""
        self.answered = 0

    def send(self) -> bool:
        """Sends what can be sent. Returns whether all is."""
        try:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        return not self._unsent

    def receive(self, sends_more: bool) -> int:
        """Takes answers, and begins as many further requests. Returns their number. LoadFailed."""
        data = self._received + self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadFailed("the broker closed a connection")
        if not self._answer:
            if len(data) < _SIZE.size or len(data) < _SIZE.size + _SIZE.unpack_from(data)[0]:
                self._received = data
                return 0
            self._answer = _checked(self._frame, data[: _SIZE.size + _SIZE.unpack_from(data)[0]])
        count, rest = divmod(len(data), len(self._answer))
        size = self._answer[: _SIZE.size]
        for at in range(0, len(data) - rest, len(self._answer)):
            if data[at : at + _SIZE.size] != size:
                raise LoadFailed("an answer of another length than the first: an error")
        self._received = data[len(data) - rest :]
        self.answered += count
        if sends_more and count:
            self._unsent = memoryview(bytes(self._unsent) + self._frame * count)
        return count


def _checked(frame: bytes, answer: bytes) -> bytes:
    """An answer without an error to this request. LoadFailed."""
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
    return answer


def cpu_s(pid: int) -> float:
    """Processor time of a process, all threads."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def run_frames(
    address: str, pid: int, frames: list[bytes], *, connections: int, depth: int, seconds: float
) -> Answered:
    """Sends the frames in closed loops, connection by connection another one, and checks each answer by its
    length and the first ones by their errors. LoadFailed."""
    host, _, port = address.rpartition(":")
    chosen = selectors.DefaultSelector()
    lines = [_Line((host, int(port)), frames[number % len(frames)], depth) for number in range(connections)]
    try:
        for line in lines:
            line.send()
            chosen.register(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
        began = time.monotonic()
        answered, before = 0, cpu_s(pid)
        while time.monotonic() < began + seconds:
            ready = chosen.select(_PATIENCE_S)
            if not ready:
                raise LoadFailed(f"no answer in {_PATIENCE_S:.0f} s")
            for key, events in ready:
                line = key.data
                if events & selectors.EVENT_READ:
                    answered += line.receive(sends_more=True)
                wanted = selectors.EVENT_READ
                if not line.send():
                    wanted |= selectors.EVENT_WRITE
                if wanted != key.events:
                    chosen.modify(line.socket, wanted, line)
        return Answered(answered, time.monotonic() - began, cpu_s(pid) - before)
    finally:
        chosen.close()
        for line in lines:
            line.socket.close()
