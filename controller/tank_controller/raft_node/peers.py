"""The way to the other controllers: one gRPC channel and one stream of Raft's messages to each."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import grpc
import grpc.aio

from tank_controller.limits import MAX_CONTROLLERS
from tank_controller.raft.messages import Message, NodeId
from tank_controller.raft_node import wire
from tank_protos.call_proof import NO_PROOF, ProvenCalls
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import ControllersStub

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Of brokers' streams and Admin; Raft's own messages stay below 4 MiB (raft.settings)."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 2000),
    # For a ping's answer gRPC 1.85 waits as long as this says, 60 s by default, whatever the one above says.
    ("grpc.http2.ping_timeout_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A pod that comes back has another address under its name: gRPC would look it up again after 30 s only.
    ("grpc.dns_min_time_between_resolutions_ms", 250),
    # A channel that is not used keeps the last addresses of its name, for the time that the name service is
    # away: gRPC would forget them after 30 min.
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
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
KEPT_S = 0.5
"""A message waits so long for a stream that takes it: some attempts, and less than an election timeout, at
which a hand-over is given up and who asked for votes asks anew."""
BACKOFF_S = 0.1
STEADY_S = 1.0
"""A stream that breaks after so long is told of; one that never comes to last so long is told of once."""
MESSAGES = "/tank.control.Controllers/Messages"
ASK_S = 1.0
"""How long a question to another controller may take."""

_Call: TypeAlias = "grpc.aio.StreamUnaryCall[pb.RaftMessage, pb.MessagesEnd]"
_log = logging.getLogger("tank.controller")


class Peers:
    """Implements `tank_controller.raft_node.driver.Transport`. All calls on the event loop."""

    def __init__(self, addresses: Mapping[int, str], own: int) -> None:
        """host:port of all, by ordinal; this one's."""
        self._addresses = addresses
        self._own = own
        self.prover = NO_PROOF
        """Set before the first call."""
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
        line = self._lines[ordinal] = _PeerLine(ordinal, address, self)
        line.start()
        return line

    def know(self, ordinals: Iterable[int]) -> None:
        """Asks these as well, of whom it was not told when it was made."""
        for ordinal in ordinals:
            if ordinal not in self._lines:
                self._line_to(ordinal)

    def reaches(self, ordinal: int) -> bool:
        """Whether the last stream to this controller took a message: it was connected."""
        line = self._lines.get(ordinal)
        return line is not None and line.connected

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

    async def answers(self, asker: NodeId, target: NodeId) -> bool:
        """Whether this controller, with this very disk, answers now."""
        line = self._lines.get(target.ordinal)
        if line is None:
            return False
        node = pb.RaftNode(ordinal=asker.ordinal, disk=asker.disk)
        said = await self._identify(line, pb.IdentifyRequest(asker=node))
        return said is not None and said.answerer.disk == target.disk

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
    def __init__(self, ordinal: int, address: str, peers: Peers) -> None:
        self._peers = peers
        self._calls: ProvenCalls | None = None
        self._ordinal = ordinal
        self._address = address
        self._queue: deque[tuple[float, Message]] = deque(maxlen=MAX_QUEUED)
        """What is not written yet, each with the loop's time when it was put in."""
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
        """Over the one channel to this controller."""
        return ControllersStub(self._proven())

    def _proven(self) -> ProvenCalls:
        if self._calls is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS)
            self._calls = ProvenCalls(self._channel, self._peers.prover, self._ordinal)
        return self._calls

    def put(self, message: Message) -> None:
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
        """One stream, from its beginning to its end. Why it ended; empty: the other side has stopped."""
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
            why = "the stream was given up"  # or this task is to end
        finally:
            writing.cancel()
        # gRPC may have made an end of the stream of it.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        return why

    async def _write(self, call: "_Call") -> None:
        """All that is put in. A message stays in the queue until it is written: one that asks for an election
        must not be lost to an attempt to connect. And nothing waits behind an ended stream and takes what is
        for the next one, as gRPC's own reader of a generator does."""
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
            pass  # who waits for the call's end learns why
        finally:
            call.cancel()  # no stream stays open to which nobody writes

    def _encoded(self, message: Message) -> pb.RaftMessage | None:
        """None: it can't be written, by a fault of ours; it is lost, and no other with it."""
        try:
            return wire.encode(message)
        except Exception:
            _log.exception("a message to controller %d can't be written", self._ordinal)
            return None

    def _drop_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEPT_S
        while self._queue and self._queue[0][0] < oldest:
            self._queue.popleft()
