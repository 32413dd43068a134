"""Iggy's wire by hand: a blocking connection that sends generated messages, in any era, and reads answers."""

import os
import socket
from types import TracebackType
from typing import Final, Self, TypeVar

from tank_protos.generated.iggy import (
    IggyConsumer,
    LoginSessionRequest,
    LoginSessionResponse,
    LoginUserRequest,
    PollMessagesRequest,
)
from tank_protos.iggy import classic, send, vsr
from tank_protos.iggy.commands import IggyCode, VsrOperation, is_replicated, operation_of
from tank_protos.iggy.eras import B3, SEED, Era, Framing
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.message import Message
from tests.support.iggy.client_messages import ClientMessage, ReceivedMessage, received, sent
from tests.support.iggy.iggy_line import SDK, IggyStatus, classic_answer, framed_answer

ANSWER_S: Final = 60.0
"""Longer than a broker lets a request wait."""
POLLED: Final = 1_000
"""The most messages of one poll."""
_RECEIVED: Final = 1 << 16
M = TypeVar("M", bound=Message)


class EraSocket:
    """One connection to a broker's Iggy port."""

    def __init__(self, address: str, era: Era = B3, timeout_s: float = ANSWER_S) -> None:
        host, _, port = address.rpartition(":")
        self.era = era
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = os.urandom(16)
        self._session = self._changes = 0
        self._unread = b""

    def raw(self, code: int, payload: bytes = b"") -> bytes:
        """Sends a request and returns the payload of its answer. Raises IggyStatus, IggyEvicted, and
        ConnectionError when the broker closed."""
        self.socket.sendall(self.request(code, payload))
        is_framed = self.era.framing is Framing.VSR
        found = framed_answer(self._frame()) if is_framed else classic_answer(self._frame())
        if isinstance(found, int):
            raise IggyStatus(found)
        return found

    def tell(self, request: Message) -> bytes:
        """Sends a message and returns its answer's bytes."""
        return self.raw(request.ID, b"".join(request.encode(self.era.version)))

    def ask(self, request: Message, answer: type[M]) -> M:
        """Sends a message and returns its answer."""
        return answer.decode(memoryview(self.tell(request)), self.era.version)

    def login(self, name: str = "iggy", password: str = "iggy") -> None:
        """Logs in; a client of September 2023 can't, and needn't."""
        if self.era.framing is Framing.VSR:
            request = LoginSessionRequest(vsr.PROTOCOL, "test", "0.9.0", name, password, "")
            self._session = self.ask(request, LoginSessionResponse).session
        elif self.era is not SEED:
            self.tell(LoginUserRequest(name, password, SDK.get(self.era.name, ""), ""))

    def send_messages(
        self,
        stream: str,
        topic: str,
        messages: list[ClientMessage],
        key: bytes | None = None,
        partition: int = 0,
    ) -> None:
        """Returns when the messages are acknowledged. partition: from 0 on in every era, unless a key
        chooses it."""
        era = self.era
        chosen = Partitioning(PartitioningKind.PARTITION, partition + era.base)
        if key is not None:
            chosen = Partitioning(PartitioningKind.KEY, key=key)
        head = send.request(of_name(stream), of_name(topic), chosen, len(messages), era)
        self.raw(IggyCode.SEND_MESSAGES, head + sent(messages, era.name))

    def first_messages(self, stream: str, topic: str, count: int = POLLED) -> list[ReceivedMessage]:
        """The first messages of the first partition."""
        return self._poll(stream, topic, 0, PollingKind.FIRST, 0, count)

    def all_of(self, stream: str, topic: str, partition: int) -> list[bytes]:
        """The payloads of all messages of a partition, which must have offsets without gaps."""
        found: list[bytes] = []
        while polled := self._poll(stream, topic, partition, PollingKind.OFFSET, len(found), POLLED):
            assert [each.offset for each in polled] == list(range(len(found), len(found) + len(polled)))
            found += [each.payload for each in polled]
        return found

    def _poll(
        self, stream: str, topic: str, partition: int, strategy: PollingKind, value: int, count: int
    ) -> list[ReceivedMessage]:
        era = self.era
        request = PollMessagesRequest(
            consumer=IggyConsumer(1, 7 + era.base, of_number(7, era)),
            stream=of_name(stream),
            topic=of_name(topic),
            has_partition=1,
            partition=partition + era.base,
            strategy=strategy,
            value=value,
            count=count,
        )
        return received(self.tell(request), era.name).messages

    def request(self, code: int, payload: bytes) -> bytes:
        """A request's whole frame; a change has the next number."""
        if self.era.framing is not Framing.VSR:
            return classic.request(code, [payload])
        operation = operation_of(code)
        self._changes += is_replicated(operation)
        return vsr.request(
            self._client,
            operation,
            payload,
            code=code if operation is VsrOperation.READ else 0,
            number=self._changes,
            session=self._session,
        )

    def _frame(self) -> bytes:
        """The next answer."""
        framing = vsr.frame_bytes if self.era.framing is Framing.VSR else classic.response_bytes
        while (size := framing(self._unread)) is None or size > len(self._unread):
            data = self.socket.recv(_RECEIVED)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._unread += data
        frame, self._unread = self._unread[:size], self._unread[size:]
        return frame

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
