"""Raw loads of Iggy's protocol, in the form of the clients of servers 0.7 and 0.8 (era B3): sends and polls
again and again, and single messages at a steady rate.
"""

import contextlib
import select
import socket
import struct
import time
from collections import deque

from benchmarks.harness.closed_loops import PATIENCE_S, Answered, Line, run_loops
from benchmarks.harness.load_generator import LoadFailed
from tank_protos.generated.iggy import (
    CreateStreamRequest,
    CreateTopicRequest,
    LoginUserRequest,
    PollMessagesRequest,
)
from tank_protos.generated.iggy.iggy_consumer import IggyConsumer
from tank_protos.iggy import classic, send
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import ConsumerKind, PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.iggy.sent_messages import index_of
from tank_protos.wire.message import Message

USER = "iggy"
"""The name of the first user, and its password."""
STREAM = "bench"
_HEAD = struct.Struct("<II")
_COUNT_AT = 12
_MESSAGE = struct.Struct("<40xQII8x")
_FIRST_PARTITION = 0


def send_frame(topic: str, messages: int, payload_bytes: int) -> bytes:
    """A whole send to a topic's first partition, as stock clients write it: without ids and headers, each
    message with the microsecond at which it was made."""
    chosen = Partitioning(PartitioningKind.PARTITION, partition=_FIRST_PARTITION)
    origin_us = time.time_ns() // 1000
    framed, ends, end = [], [], 0
    for number in range(messages):
        framed.append(_MESSAGE.pack(origin_us + number, 0, payload_bytes) + b"x" * payload_bytes)
        end += len(framed[-1])
        ends.append(end)
    head = send.request(of_name(STREAM), of_name(topic), chosen, messages, B3)
    return classic.request(IggyCode.SEND_MESSAGES, [head, index_of(ends), *framed])


def poll_frame(topic: str, offset: int, count: int, *, consumer: int = 1) -> bytes:
    """A whole poll of a topic's first partition."""
    request = PollMessagesRequest(
        consumer=IggyConsumer(ConsumerKind.CONSUMER, 0, of_number(consumer, B3)),
        stream=of_name(STREAM),
        topic=of_name(topic),
        has_partition=1,
        partition=_FIRST_PARTITION,
        strategy=PollingKind.OFFSET,
        value=offset,
        count=count,
    )
    return _framed(request)


def _framed(request: Message) -> bytes:
    return classic.request(request.ID, request.encode(B3.version))


class IggyConnection:
    """One client, which asks and waits. LoadFailed from each call: an error, or no answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        """Returns the payload of the answer."""
        return ask(self.socket, frame)

    def login(self) -> None:
        self.ask(login_frame())

    def create(self, topic: str, replicas: int = 1) -> None:
        """Makes a topic of one partition, and its stream if it isn't there."""
        with contextlib.suppress(LoadFailed):
            self.ask(_framed(CreateStreamRequest(name=STREAM)))
        topic_request = CreateTopicRequest(
            of_name(STREAM), partitions_count=1, replication_factor=replicas, name=topic
        )
        self.ask(_framed(topic_request))

    def close(self) -> None:
        self.socket.close()


def login_frame() -> bytes:
    """A whole login of the first user."""
    return _framed(LoginUserRequest(USER, USER, "0.9.0", ""))


def ask(sock: socket.socket, frame: bytes) -> bytes:
    """Sends a request on a blocking socket; returns the payload of its answer. LoadFailed."""
    sock.sendall(frame)
    data = b""
    try:
        while len(data) < _HEAD.size or len(data) < _size(data):
            more = sock.recv(1 << 18)
            if not more:
                raise LoadFailed("the server closed a connection")
            data += more
    except OSError as error:
        raise LoadFailed(f"no answer: {error}") from None
    status, _ = _HEAD.unpack_from(data)
    if status:
        raise LoadFailed(f"the server refuses a request with error {status}")
    return data[_HEAD.size :]


def _size(data: bytes) -> int:
    return _HEAD.size + int(_HEAD.unpack_from(data)[1])


class _IggyLine(Line):
    """A connection of Iggy's protocol, whose user is logged in."""

    HEAD_BYTES = _HEAD.size

    def opened(self) -> None:
        ask(self.socket, login_frame())

    def answer_bytes(self, data: bytes) -> int:
        return _size(data) if len(data) >= _HEAD.size else 0

    def check(self, answer: bytes) -> None:
        status, _ = _HEAD.unpack_from(answer)
        if status:
            raise LoadFailed(f"the server refuses a request with error {status}")


def messages_in(answer: bytes) -> int:
    """How many messages the payload of an answer to a poll says that it has."""
    (count,) = struct.unpack_from("<I", answer, _COUNT_AT)
    return int(count)


def run_frames(
    address: str,
    pid: int,
    frames: list[bytes],
    *,
    connections: int,
    seconds: float,
    most: int | None = None,
) -> Answered:
    """Sends the frames in closed loops, one request of a connection at a time, connection by connection
    another frame, and checks each answer by its status and length. most: ends behind so many answers.
    LoadFailed."""
    host, _, port = address.rpartition(":")
    lines = [_IggyLine((host, int(port)), frames[number % len(frames)], 1) for number in range(connections)]
    return run_loops(lines, pid, seconds, most)


def run_paced(address: str, frame: bytes, *, rate: int, seconds: float) -> list[float]:
    """Sends the frame at a steady rate on one connection, whether or not earlier ones are answered. Returns
    for each answer the milliseconds from the moment when its request was due. LoadFailed."""
    connection = IggyConnection(address)
    connection.login()
    sock = connection.socket
    sock.setblocking(False)
    due: deque[float] = deque()
    found: list[float] = []
    received, number = b"", 0
    began = time.perf_counter()
    try:
        while number < rate * seconds or due:
            now = time.perf_counter()
            if due and now > due[0] + PATIENCE_S:
                raise LoadFailed(f"no answer in {PATIENCE_S:.0f} s")
            next_due = began + number / rate
            if number < rate * seconds and now >= next_due:
                if sock.send(frame) != len(frame):
                    raise LoadFailed("the socket is full: the server takes less than the rate")
                due.append(next_due)
                number += 1
                continue
            wait_s = max(next_due - now, 0.0) if number < rate * seconds else PATIENCE_S
            if not select.select([sock], [], [], wait_s)[0]:
                continue
            received += sock.recv(1 << 16)
            now = time.perf_counter()
            while len(received) >= _HEAD.size:
                status, size = _HEAD.unpack_from(received)
                if status or size or not due:
                    raise LoadFailed(f"the server refuses a request with error {status}")
                received = received[_HEAD.size :]
                found.append((now - due.popleft()) * 1000)
        return found
    finally:
        sock.close()
