"""Connections to the other controllers: one gRPC channel, and one stream of Raft messages, to each."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import grpc
import grpc.aio

from tank_controller.limits import MAX_CONTROLLERS
from tank_controller.raft.messages import NodeId, RaftMessage
from tank_controller.raft_node import wire
from tank_protos.call_proof import NO_PROOF, ProvenCalls
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import ControllersStub
from tank_protos.grpc_channel import channel as channel_to

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The greatest message of brokers' streams and Admin; Raft's own messages stay below 4 MiB
(raft.settings).
"""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 2000),
    # How long gRPC 1.85 waits for the answer to a ping, 60 s by default; the option above doesn't change it.
    ("grpc.http2.ping_timeout_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A restarted pod has another address under its name, which gRPC looks up again only after 30 s by
    # default.
    ("grpc.dns_min_time_between_resolutions_ms", 250),
    # An unused channel keeps the last addresses of its name, for times in which the name service is away;
    # gRPC would forget them after 30 min.
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    ("grpc.enable_http_proxy", 0),  # controllers share a network: no proxy is between them
    ("grpc.use_local_subchannel_pool", 1),  # otherwise a new channel inherits the backoff of an old one
)
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),  # so that a port in use is an error
)
MAX_QUEUED = 1024
"""How many messages to one controller wait; beyond it the oldest are dropped, and Raft sends again what
matters.
"""
KEPT_S = 0.5
"""How long a message waits for a stream: long enough for some attempts to connect, and less than an election
timeout, after which Raft gives up a transfer of leadership and asks for votes again.
"""
BACKOFF_S = 0.1
STEADY_S = 1.0
"""A stream that lasted so long is logged when it breaks; of shorter ones in a row only the first is
logged.
"""
MESSAGES = "/tank.control.Controllers/Messages"
ASK_S = 1.0
"""How long a question to another controller may take."""

_Call: TypeAlias = "grpc.aio.StreamUnaryCall[pb.RaftMessage, pb.MessagesEnd]"
_log = logging.getLogger("tank.controller")


class Peers:
    """Implements `tank_controller.raft_node.driver.RaftTransport`. All calls on the event loop's thread."""

    def __init__(self, addresses: Mapping[int, str], own: int) -> None:
        """`addresses`: host:port of all controllers, by ordinal. `own`: this controller's ordinal."""
        self._addresses = addresses
        self._own = own
        self.prover = NO_PROOF
        """The receiver of messages; set before the first call."""
        self._lines = {
            ordinal: _PeerLine(ordinal, addresses[ordinal], self)
            for ordinal in sorted(addresses)
            if ordinal != own
        }

    def start(self) -> None:
        """Begins to connect."""
        for line in self._lines.values():
            line.start()

    async def stop(self) -> None:
        """Ends all streams."""
        self._addresses = {}  # messages sent meanwhile open no new streams
        for line in self._lines.values():
            await line.stop()

    def send(self, messages: Sequence[RaftMessage]) -> None:
        """As RaftTransport.send; messages for a controller without an address are dropped."""
        for message in messages:
            line = self._lines.get(message.target.ordinal) or self._line_to(message.target.ordinal)
            if line is not None:
                line.put(message)

    def _line_to(self, ordinal: int) -> "_PeerLine | None":
        """Adds a stream to a member that joined the group after this process began."""
        address = self._addresses.get(ordinal)
        # a message to this ordinal: its earlier disk may still be a member
        if address is None or ordinal == self._own:
            return None
        line = self._lines[ordinal] = _PeerLine(ordinal, address, self)
        line.start()
        return line

    def know(self, ordinals: Iterable[int]) -> None:
        """Adds controllers that were not configured when this process began."""
        for ordinal in ordinals:
            if ordinal not in self._lines:
                self._line_to(ordinal)

    def reaches(self, ordinal: int) -> bool:
        """Whether the last stream to this controller took a message: it was connected."""
        line = self._lines.get(ordinal)
        return line is not None and line.connected

    def ordinals(self) -> list[int]:
        """The ordinals of the other controllers."""
        return list(self._lines)

    async def identify(self, request: pb.IdentifyRequest) -> list[pb.IdentifyAnswer | None]:
        """The answers of all other controllers; None for one that can't be reached."""
        return await asyncio.gather(*(self._identify(line, request) for line in self._lines.values()))

    async def _identify(self, line: "_PeerLine", request: pb.IdentifyRequest) -> pb.IdentifyAnswer | None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            answer: pb.IdentifyAnswer = await line.stub().Identify(request, timeout=ASK_S)
            return answer
        return None

    async def answers(self, asker: NodeId, target: NodeId) -> bool:
        """Whether this controller, with this very disk, answers now."""
        line = self._lines.get(target.ordinal)
        if line is None:
            return False
        node = pb.RaftNode(ordinal=asker.ordinal, disk=asker.disk)
        said = await self._identify(line, pb.IdentifyRequest(asker=node))
        return said is not None and said.answerer.disk == target.disk

    async def ask_to_be_added(self, request: pb.JoinRequest) -> list[str]:
        """Asks all other controllers to add this one, and the leader that they name, which may have joined
        later. Returns the reasons of those that refused.
        """
        asked, refusals = self.ordinals(), []
        for ordinal in asked:  # the list grows in the loop
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
        """The ordinal of the other controller at host:port; None: there is none."""
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
    def __init__(self, ordinal: int, address: str, peers: Peers) -> None:
        self._peers = peers
        self._calls: ProvenCalls | None = None
        self._ordinal = ordinal
        self._address = address
        self._queue: deque[tuple[float, RaftMessage]] = deque(maxlen=MAX_QUEUED)
        """Messages that are not written yet, each with the loop's time when it was put in."""
        self._filled = asyncio.Event()
        """Set while something may be in the queue."""
        self._channel: grpc.aio.Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._writes_since_s: float | None = None
        """When the stream took its first message; None: it has taken none yet."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._channel is not None:
            await self._channel.close()

    @property
    def connected(self) -> bool:
        """Whether the last stream took a message."""
        return self._writes_since_s is not None

    def stub(self) -> ControllersStub:
        """A stub on the one channel to this controller."""
        return ControllersStub(self._proven())

    def _proven(self) -> ProvenCalls:
        if self._calls is None:
            self._channel = channel_to(self._address, CHANNEL_OPTIONS)
            self._calls = ProvenCalls(self._channel, self._peers.prover, self._ordinal)
        return self._calls

    def put(self, message: RaftMessage) -> None:
        self._queue.append((asyncio.get_running_loop().time(), message))
        self._filled.set()

    async def _run(self) -> None:
        loop, is_news = asyncio.get_running_loop(), True
        while True:
            await self._filled.wait()
            why = await self._carry()
            since = self._writes_since_s
            is_news = is_news or (since is not None and loop.time() - since >= STEADY_S)
            if why and is_news:
                _log.warning("controller %d at %s: %s", self._ordinal, self._address, why)
            is_news = is_news and not why
            self._drop_old()
            if not self._queue:
                self._filled.clear()
            await asyncio.sleep(BACKOFF_S)

    async def _carry(self) -> str:
        """Runs one stream from its beginning to its end. Returns why it ended; empty: the other controller
        has stopped.
        """
        self._writes_since_s = None
        try:
            metadata = await self._proven().proofs.metadata(MESSAGES)
        except grpc.aio.AioRpcError as error:
            return error.details() or error.code().name
        call: _Call = self.stub().Messages(metadata=metadata)
        writing = asyncio.create_task(self._write(call))
        why = ""
        try:
            await call
        except grpc.aio.AioRpcError as error:
            why = error.details() or error.code().name
        except asyncio.CancelledError:
            why = "the stream was given up"  # or this task was cancelled
        finally:
            writing.cancel()
        # gRPC may turn a cancelled task into the end of the stream.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        return why

    async def _write(self, call: "_Call") -> None:
        """Writes all messages that are put in. A message stays in the queue until it is written, so that a
        failed attempt to connect loses none. Not a generator that gRPC reads: that one would take a message
        for a stream that has ended.
        """
        try:
            while True:
                while self._queue:
                    first = self._queue[0]
                    if (message := self._encoded(first[1])) is not None:
                        await call.write(message)
                        if self._writes_since_s is None:
                            self._writes_since_s = asyncio.get_running_loop().time()
                    if self._queue and self._queue[0] is first:
                        self._queue.popleft()
                    self._drop_old()
                self._filled.clear()
                await self._filled.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the code that waits for the call's end gets the reason
        finally:
            call.cancel()  # a stream must not stay open without a writer

    def _encoded(self, message: RaftMessage) -> pb.RaftMessage | None:
        """The message as bytes; None: it can't be encoded, by a fault of ours. Only this message is lost
        then.
        """
        try:
            return wire.encode(message)
        except Exception:
            _log.exception("a message to controller %d can't be written", self._ordinal)
            return None

    def _drop_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEPT_S
        while self._queue and self._queue[0][0] < oldest:
            self._queue.popleft()
