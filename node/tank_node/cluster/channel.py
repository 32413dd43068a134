"""The node's gRPC to the controllers: carries the messages of a `ControllerSession`, one stream at a time."""

import asyncio
import contextlib
import logging
import time

import grpc
import grpc.aio

from tank_node.cluster.session import ControllerSession
from tank_protos.call_proof import NO_PROOF, ChannelProofs, Prover
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import BrokersStub
from tank_protos.grpc_target import target_of
from tank_protos.resolver import Resolver, host_and_port, look_up

TICK_MS = 50
CONNECT_S = 1.0
"""A controller that doesn't answer so long is passed over."""
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A topic of 65,530 partitions, the largest single item, takes 4 MiB."""
SESSION = "/tank.control.Brokers/Session"
WARN_EVERY_S = 10.0
LOOK_UP_EVERY_S = 30.0
"""A controller's pod that comes back has another address: so old those may be that are used while the name
service is away."""
LOOK_AROUND_S = 1.0
"""How soon a broker that is new is looked up."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),  # controllers are neighbours
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel inherits the old one's waiting time
)

_log = logging.getLogger("tank.controller")


class ControllerChannel:
    """`run` is its life."""

    def __init__(
        self, session: ControllerSession, prover: Prover = NO_PROOF, resolver: Resolver | None = None
    ) -> None:
        """prover: with what the cluster's secret is proved. resolver: where the controllers' names are looked
        up; without one, this machine's name service."""
        self._session = session
        self._prover = prover
        self._resolver = resolver or Resolver(look_up, time.monotonic, _log)
        self._warned_s = -WARN_EVERY_S

    async def run(self) -> None:
        """Keeps a stream to the controller that leads, until it is cancelled.

        ExceptionGroup: of a bug, in here or in a listener; both halves have ended then, none goes on alone.
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
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            self._session.tick()

    async def _keep_looking_up(self) -> None:
        """Knows the addresses of all controllers and brokers before the name service is away: the next
        leader may never have been dialed."""
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
        """One stream, from its beginning to its end."""
        line: _Line | None = None
        why = "it ended the stream"
        dialed = await target_of(self._resolver, address)
        options = (*CHANNEL_OPTIONS, *dialed.options)
        async with grpc.aio.insecure_channel(dialed.target, options=options) as channel:
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
                pass  # the call may be, and this task not
        # gRPC may have made an end of the stream of it, or a refusal was there first.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        self._session.closed(line, why)

    def _warn(self, address: str, why: str) -> None:
        """Nothing gets better by itself here."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._warned_s >= WARN_EVERY_S:
            self._warned_s = now_s
            _log.error("controller %s doesn't take this broker, or isn't believed: %s", address, why)


async def _connected(channel: grpc.aio.Channel) -> None:
    """Returns when the channel is connected. ConnectionRefusedError: nobody listens there; gRPC would try
    again and again, and meanwhile another controller leads."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise ConnectionRefusedError
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


class _Line:
    """A stream, as the session sees it."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[pb.BrokerUp, pb.BrokerDown]") -> None:
        self._call = call
        self._queue: asyncio.Queue[pb.BrokerUp] = asyncio.Queue()
        self.ended = False

    def send(self, message: pb.BrokerUp) -> None:
        """Bounded by the session: what waits for an answer, and a heartbeat now and then."""
        self._queue.put_nowait(message)

    def end(self) -> None:
        self.ended = True
        self._call.cancel()

    async def carry(self) -> None:
        """Writes what is put in; the reader finds out when the stream is gone."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await self._call.write(await self._queue.get())
