"""The broker's gRPC to the controllers: carries the messages of a `ControllerStream`, one stream at a
time."""

import asyncio
import contextlib
import logging
import time

import grpc
import grpc.aio

from tank_node.clock import next_beat_s
from tank_node.cluster.stream import ControllerStream
from tank_protos.call_proof import NO_PROOF, ChannelProofs, Prover
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import BrokersStub
from tank_protos.grpc_channel import channel as channel_to
from tank_protos.grpc_target import target_of
from tank_protos.resolver import Resolver, host_and_port, look_up

TICK_MS = 50
CONNECT_S = 1.0
"""A controller that doesn't accept a connection within this time is passed over."""
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A topic of 65,530 partitions, the largest single item, takes 4 MiB."""
SESSION = "/tank.control.Brokers/Session"
WARN_EVERY_S = 10.0
LOOK_UP_EVERY_S = 30.0
"""How old the looked-up addresses may be that are used while the name service is away: a controller's pod
that comes back has another address."""
LOOK_AROUND_S = 1.0
"""How soon a new broker's name is looked up."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),  # controllers are neighbours
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel inherits the old one's waiting time
)

_log = logging.getLogger("tank.controller")


class ControllerChannel:
    """Opens the streams that a `ControllerStream` asks for, and carries its messages."""

    def __init__(
        self, session: ControllerStream, prover: Prover = NO_PROOF, resolver: Resolver | None = None
    ) -> None:
        """prover: proves to the controllers that this broker knows the cluster's secret. resolver: looks up
        the controllers' names; without one, this machine's name service does."""
        self._session = session
        self._prover = prover
        self._resolver = resolver or Resolver(look_up, time.monotonic, _log)
        self._warned_s = -WARN_EVERY_S

    async def run(self) -> None:
        """Keeps a stream to the controller that leads, until it is cancelled.

        Raises ExceptionGroup for a bug, in here or in a listener; all its tasks have ended then.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_ticking())
            tasks.create_task(self._keep_talking())
            tasks.create_task(self._keep_looking_up())

    async def _keep_talking(self) -> None:
        while True:
            address = self._session.target()
            if address is None:
                await asyncio.sleep(TICK_MS / 1000)
            else:
                await self._talk(address)

    async def _keep_ticking(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now_s = loop.time()
            await asyncio.sleep(next_beat_s(now_s, TICK_MS / 1000) - now_s)
            self._session.tick()

    async def _keep_looking_up(self) -> None:
        """Looks up the addresses of all controllers and brokers before they are needed: the name service may
        be away when a controller or broker that was never dialed begins to lead."""
        loop = asyncio.get_running_loop()
        known: set[str] = set()
        looked_s = -LOOK_UP_EVERY_S
        while True:
            hosts = self._hosts()
            if not hosts <= known or loop.time() - looked_s >= LOOK_UP_EVERY_S:
                known, looked_s = hosts, loop.time()
                await self._resolver.learn(hosts, LOOK_AROUND_S)
            await asyncio.sleep(LOOK_AROUND_S)

    def _hosts(self) -> set[str]:
        controllers = {host_and_port(address)[0] for address in self._session.addresses}
        return controllers | {broker.host for broker in self._session.view.brokers.values() if broker.host}

    async def _talk(self, address: str) -> None:
        """Opens one stream to this controller, and carries messages until it ends."""
        line: _Line | None = None
        why = "it ended the stream"
        dialed = await target_of(self._resolver, address)
        options = (*CHANNEL_OPTIONS, *dialed.options)
        async with channel_to(dialed.target, options) as channel:
            try:
                async with asyncio.timeout(CONNECT_S):
                    await _connected(channel)
                metadata = await ChannelProofs(channel, self._prover).metadata(SESSION)
                call = BrokersStub(channel).Session(metadata=metadata)
                line = _Line(call)
                self._session.opened(line)
                sending = asyncio.create_task(line.carry())
                try:
                    while not line.ended and (message := await call.read()) is not grpc.aio.EOF:
                        self._session.received(line, message)
                finally:
                    sending.cancel()
            except (TimeoutError, ConnectionRefusedError):
                why = "it can't be reached"
            except grpc.aio.AioRpcError as error:
                why = error.details() or error.code().name
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    self._session.problem = why
                    self._warn(address, why)
            except asyncio.CancelledError:
                pass  # perhaps only the call is cancelled, not this task: the next lines find out
        # gRPC may also report this task's cancellation as the stream's end, or a refusal may have come first.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        self._session.closed(line, why)

    def _warn(self, address: str, why: str) -> None:
        """Logs a refusal that an operator has to end, at most every WARN_EVERY_S."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._warned_s >= WARN_EVERY_S:
            self._warned_s = now_s
            _log.error("this broker and controller %s refuse each other: %s", address, why)


async def _connected(channel: grpc.aio.Channel) -> None:
    """Returns when the channel is connected. Raises ConnectionRefusedError when its first attempt fails: gRPC
    alone would try this controller again and again, while another one leads."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise ConnectionRefusedError
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


class _Line:
    """An open gRPC stream, as `ControllerStream` uses it (ControllerLine)."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[pb.BrokerUp, pb.BrokerDown]") -> None:
        self._call = call
        self._queue: asyncio.Queue[pb.BrokerUp] = asyncio.Queue()
        self.ended = False

    def send(self, message: pb.BrokerUp) -> None:
        """Queues a message. `ControllerStream` bounds the queue: it holds requests without an answer, and a
        heartbeat now and then."""
        self._queue.put_nowait(message)

    def end(self) -> None:
        self.ended = True
        self._call.cancel()

    async def carry(self) -> None:
        """Writes the queued messages; returns when the stream has ended, which the task that reads
        notices."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await self._call.write(await self._queue.get())
