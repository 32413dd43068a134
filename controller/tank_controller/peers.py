"""The way to the other controllers: one gRPC channel and one stream of Raft's messages to each."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import grpc
import grpc.aio

from tank_controller import raft_wire
from tank_controller.raft.messages import Message
from tank_controller.scaling_controllers import MAX_CONTROLLERS
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import ControllersStub

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Of brokers' streams and Admin; Raft's own messages stay below 4 MiB (raft.settings)."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A pod that comes back has another address under its name: gRPC would look it up again after 30 s only.
    ("grpc.dns_min_time_between_resolutions_ms", 250),
    ("grpc.enable_http_proxy", 0),  # controllers are neighbours
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel inherits an old one's waiting time
)
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),  # a port that another process has is an error
)
MAX_QUEUED = 1024
"""Messages to one controller. The oldest are lost when it is away: Raft sends again what matters."""
BACKOFF_S = 0.1
ASK_S = 1.0
"""How long a question to another controller may take."""

_log = logging.getLogger("tank.controller")


class Peers:
    """Implements `tank_controller.raft_driver.Transport`. All calls on the event loop."""

    def __init__(self, addresses: Mapping[int, str], own: int) -> None:
        """host:port of all, by ordinal; this one's."""
        self._addresses = addresses
        self._own = own
        self._lines = {
            ordinal: _PeerLine(ordinal, addresses[ordinal]) for ordinal in sorted(addresses) if ordinal != own
        }

    def start(self) -> None:
        """Begins to connect."""
        for line in self._lines.values():
            line.start()

    async def stop(self) -> None:
        """Ends all streams."""
        self._addresses = {}  # what is sent meanwhile makes no new ones
        for line in self._lines.values():
            await line.stop()

    def send(self, messages: Sequence[Message]) -> None:
        """As Transport; what is for a controller without an address is lost."""
        for message in messages:
            line = self._lines.get(message.target.ordinal) or self._line_to(message.target.ordinal)
            if line is not None:
                line.put(message)

    def _line_to(self, ordinal: int) -> "_PeerLine | None":
        """To one that came to the group after this one was told of the others."""
        address = self._addresses.get(ordinal)
        if address is None or ordinal == self._own:  # the disk that it had before may be a member still
            return None
        line = self._lines[ordinal] = _PeerLine(ordinal, address)
        line.start()
        return line

    def know(self, ordinals: Iterable[int]) -> None:
        """Asks these as well, of whom it was not told when it was made."""
        for ordinal in ordinals:
            if ordinal not in self._lines:
                self._line_to(ordinal)

    def ordinals(self) -> list[int]:
        """Of the others."""
        return list(self._lines)

    async def identify(self, request: pb.IdentifyRequest) -> list[pb.IdentifyAnswer | None]:
        """What all the others answer; None: it can't be reached."""
        return await asyncio.gather(*(self._identify(line, request) for line in self._lines.values()))

    async def _identify(self, line: "_PeerLine", request: pb.IdentifyRequest) -> pb.IdentifyAnswer | None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            answer: pb.IdentifyAnswer = await line.stub().Identify(request, timeout=ASK_S)
            return answer
        return None

    async def ask_to_be_added(self, request: pb.JoinRequest) -> list[str]:
        """Asks all the others, and whom they name as the leader: that may be one that came later than this
        one was told of the others. What was said by who refused it."""
        asked, refusals = self.ordinals(), []
        for ordinal in asked:  # it grows
            answer = await self._join(ordinal, request)
            if answer is None:
                continue
            if answer.kind == pb.JoinAnswer.REFUSED:
                refusals.append(answer.message)
            leader = self._ordinal_at(answer.not_leader.leader)
            if leader is not None and leader not in asked:
                asked.append(leader)
        return refusals

    def _ordinal_at(self, address: str) -> int | None:
        """Of another controller; None: there is none at host:port."""
        others = (ordinal for ordinal in range(MAX_CONTROLLERS) if ordinal != self._own)
        return next((each for each in others if self._addresses.get(each) == address), None)

    async def _join(self, ordinal: int, request: pb.JoinRequest) -> pb.JoinAnswer | None:
        line = self._lines.get(ordinal) or self._line_to(ordinal)
        if line is None:
            return None
        with contextlib.suppress(grpc.aio.AioRpcError):
            answer: pb.JoinAnswer = await line.stub().Join(request, timeout=ASK_S)
            return answer
        return None


class _PeerLine:
    def __init__(self, ordinal: int, address: str) -> None:
        self._ordinal = ordinal
        self._address = address
        self._queue: deque[Message] = deque(maxlen=MAX_QUEUED)
        self._filled = asyncio.Event()
        self._channel: grpc.aio.Channel | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._channel is not None:
            await self._channel.close()

    def stub(self) -> ControllersStub:
        """Over the one channel to this controller."""
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS)
        return ControllersStub(self._channel)

    def put(self, message: Message) -> None:
        self._queue.append(message)
        self._filled.set()

    async def _run(self) -> None:
        reachable = True
        while True:
            await self._filled.wait()
            filled = self._filled
            try:
                stream = self.stub().Messages(self._outgoing(filled))
                await stream.wait_for_connection()
                reachable = True
                await stream
            except grpc.aio.AioRpcError as error:
                if reachable:
                    _log.warning("controller %d at %s: %s", self._ordinal, self._address, error.details())
                reachable = False
            self._filled = asyncio.Event()
            if self._queue:
                self._filled.set()
            filled.set()
            await asyncio.sleep(BACKOFF_S)

    async def _outgoing(self, filled: asyncio.Event) -> AsyncIterator[pb.RaftMessage]:
        """Of one stream. Where that ends, gRPC leaves this waiting: it must not take the next one's messages,
        the first of which may ask for an election."""
        while self._filled is filled:
            while self._queue and self._filled is filled:
                yield raft_wire.encode(self._queue.popleft())
            filled.clear()
            await filled.wait()
