"""A client of Iggy's era B3 over TCP, written by hand: one request at a time, and no retries."""

import socket
from typing import Final, Self

from tank_protos.generated.iggy import IggyConsumer, LoginUserRequest, PollMessagesRequest
from tank_protos.iggy import classic
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.message import Message
from tests.support.iggy.iggy_line import IggyStatus
from tests.support.iggy.iggy_polls import read_poll
from tests.support.iggy.iggy_sends import send_payload

ANSWER_S: Final = 60.0
"""Longer than a broker lets a request wait."""
POLLED: Final = 1_000
"""The most messages of one poll."""


class IggySocket:
    """One connection. Its methods raise IggyStatus for an error that was answered, OSError for a broken
    connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def login(self, name: str = "iggy", password: str = "iggy") -> None:
        self.tell(LoginUserRequest(name, password, "0.9.0", ""))

    def tell(self, request: Message) -> bytes:
        """Sends a message, and returns its answer's bytes."""
        return self.raw(request.ID, b"".join(request.encode(B3.version)))

    def send(self, stream: str, topic: str, partition: int, payloads: list[bytes]) -> None:
        """Returns when the messages are acknowledged."""
        chosen = Partitioning(PartitioningKind.PARTITION, partition)
        self.raw(IggyCode.SEND_MESSAGES, send_payload(B3, of_name(stream), of_name(topic), chosen, payloads))

    def all_of(self, stream: str, topic: str, partition: int) -> list[bytes]:
        """The payloads of all messages of a partition, which must have offsets without gaps."""
        found: list[bytes] = []
        while True:
            poll = PollMessagesRequest(
                consumer=IggyConsumer(1, 0, of_name("reader")),
                stream=of_name(stream),
                topic=of_name(topic),
                has_partition=1,
                partition=partition,
                strategy=PollingKind.OFFSET,
                value=len(found),
                count=POLLED,
            )
            polled = read_poll(B3, self.tell(poll)).messages
            if not polled:
                return found
            assert [offset for offset, _ in polled] == list(range(len(found), len(found) + len(polled)))
            found += [payload for _, payload in polled]

    def raw(self, code: int, payload: bytes = b"") -> bytes:
        """Sends a request, and returns the payload of its answer."""
        self._socket.sendall(classic.request(code, [payload]))
        received = b""
        while (size := classic.response_bytes(received)) is None or len(received) < size:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            received += data
        status, answer = classic.read_response(received)
        if status:
            raise IggyStatus(status)
        return bytes(answer)
