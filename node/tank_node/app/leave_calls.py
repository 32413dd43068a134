"""The gRPC calls of `tank-node leave`. They reach controllers by their last known addresses when the name
service fails."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import grpc.aio

from tank_node.app.leave import ANSWER_S
from tank_node.cluster.channel import CHANNEL_OPTIONS, LOOK_UP_EVERY_S
from tank_protos.call_proof import ProvenCalls, Prover
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import BrokersStub
from tank_protos.grpc_channel import channel as channel_to
from tank_protos.grpc_target import target_of
from tank_protos.resolver import Resolver, host_and_port, is_no_such_name


class LeaveCalls:
    """Asks controllers whether this broker's process may be stopped. For one event loop."""

    def __init__(self, request: pb.LeaveRequest, prover: Prover, resolver: Resolver) -> None:
        """prover: proves the cluster's secret to the controllers."""
        self._request = request
        self._prover = prover
        self._resolver = resolver

    async def ask(self, address: str) -> pb.LeaveAnswer | None:
        """Asks the controller at host:port; None when it can't be reached, or its name has no address."""
        with contextlib.suppress(grpc.aio.AioRpcError, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                dialed = await target_of(self._resolver, address)
            options = (*CHANNEL_OPTIONS, *dialed.options)
            async with channel_to(dialed.target, options) as channel:
                stub = BrokersStub(ProvenCalls(channel, self._prover))
                answer: pb.LeaveAnswer = await stub.Leave(self._request, timeout=ANSWER_S)
                return answer
        return None

    async def is_named(self, address: str) -> bool:
        """As `leave.IsNamed`."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._resolver.resolve(host_and_port(address)[0])
        except OSError as error:  # TimeoutError is one
            return not is_no_such_name(error)
        return True

    @contextlib.asynccontextmanager
    async def looking_up(self, controllers: Iterable[str]) -> AsyncIterator[None]:
        """Keeps looking up the names of all controllers while its body runs, so that their addresses are
        known when the name service fails: a controller that was never asked may lead next."""
        hosts = [host_and_port(address)[0] for address in controllers]
        looking = asyncio.create_task(self._keep_looking_up(hosts))
        try:
            yield
        finally:
            looking.cancel()

    async def _keep_looking_up(self, hosts: list[str]) -> None:
        while True:
            await self._resolver.learn(hosts, refresh_s=0.0)
            await asyncio.sleep(LOOK_UP_EVERY_S)
