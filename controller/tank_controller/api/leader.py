"""Calls of the leading controller for the HTTP API: this controller itself, or the one that it names, by
gRPC.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from tank_controller import limits
from tank_controller.api.errors import refused
from tank_controller.raft_node.peers import CHANNEL_OPTIONS
from tank_protos.call_proof import NO_PROOF, ProvenCalls
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminStub
from tank_protos.grpc_channel import channel as channel_to

Part = TypeVar("Part", pb.IggyNamesAnswer, pb.UsersAnswer)
POLL_S = 0.1
"""The pause between two attempts to find a leader."""


class LeaderAdmin(Protocol):
    """The service Admin of a controller: `tank_controller.rpc.admin.AdminService`, or a stub."""

    def Describe(self, request: pb.DescribeControllersRequest) -> Awaitable[pb.ControllersDescription]: ...
    def Overview(self, request: pb.OverviewRequest) -> Awaitable[pb.OverviewAnswer]: ...
    def Partitions(self, request: pb.PartitionsRequest) -> AsyncIterator[pb.PartitionsAnswer]: ...
    def IggyNames(self, request: pb.IggyNamesRequest) -> AsyncIterator[pb.IggyNamesAnswer]: ...
    def Users(self, request: pb.UsersRequest) -> AsyncIterator[pb.UsersAnswer]: ...
    def Change(self, request: pb.Command) -> Awaitable[pb.ChangeAnswer]: ...
    def Balance(self, request: pb.BalanceRequest) -> Awaitable[pb.ChangeAnswer]: ...
    def TransferLeadership(self, request: pb.TransferLeadershipRequest) -> Awaitable[pb.ChangeAnswer]: ...
    def RemoveController(self, request: pb.RemoveControllerRequest) -> Awaitable[pb.ChangeAnswer]: ...


class Leader:
    """The leading controller, as one controller finds it. All methods raise ApiError."""

    def __init__(
        self,
        here: LeaderAdmin,
        elsewhere: Callable[[str], LeaderAdmin],
        ordinal: int,
        addresses: Mapping[int, str],
    ) -> None:
        """`here`: this controller, with ordinal `ordinal`. `elsewhere`: returns the controller at host:port.
        `addresses`: those of all configured controllers, by ordinal.
        """
        self._here = here
        self._elsewhere = elsewhere
        self._own_address = addresses[ordinal]
        self._configured = list(addresses.values())

    async def overview(self) -> pb.OverviewAnswer:
        """The brokers, and counts of partitions."""
        waiting = _LeaderWait()
        while True:
            admin = await self._leading(waiting)
            with contextlib.suppress(grpc.aio.AioRpcError):
                answer = await admin.Overview(pb.OverviewRequest())
                if not answer.HasField("not_leader"):
                    return answer
            await waiting.turn()

    async def partitions(self, request: pb.PartitionsRequest) -> AsyncGenerator[pb.PartitionsAnswer, None]:
        """The parts of an answer, at least one. The caller may close the generator early."""
        waiting = _LeaderWait()
        begun = False
        while not begun:
            parts = (await self._leading(waiting)).Partitions(request)
            try:
                async for part in parts:
                    if part.HasField("not_leader"):
                        break
                    begun = True
                    yield part
            except grpc.aio.AioRpcError:
                if begun:
                    message = "the controller that led has gone in the middle of its answer: ask again"
                    raise refused(ErrorCode.NO_LEADER, message) from None
            finally:
                await _end(parts)
            if not begun:
                await waiting.turn()

    async def iggy_names(self) -> list[pb.IggyNamesAnswer]:
        """All parts of the names of Iggy's clients."""
        return await self._whole(lambda admin: admin.IggyNames(pb.IggyNamesRequest()))

    async def users(self) -> list[pb.User]:
        """The users of Iggy's clients, by number, without what proves their logins."""
        parts = await self._whole(lambda admin: admin.Users(pb.UsersRequest()))
        return [user for part in parts for user in part.users]

    async def _whole(self, call: Callable[[LeaderAdmin], AsyncIterator[Part]]) -> list[Part]:
        """All parts of an answer, of one leader."""
        waiting = _LeaderWait()
        while True:
            parts = call(await self._leading(waiting))
            with contextlib.suppress(grpc.aio.AioRpcError):
                found = [part async for part in parts]
                if not any(part.HasField("not_leader") for part in found):
                    return found
            await waiting.turn()

    async def change(self, call: Callable[[LeaderAdmin], Awaitable[pb.ChangeAnswer]]) -> pb.ProposalOutcome:
        """Sends a change once; if the outcome is unknown, the error says so."""
        waiting = _LeaderWait()
        while True:
            admin = await self._leading(waiting)
            try:
                answer = await call(admin)
            except grpc.aio.AioRpcError as error:
                message = (
                    f"the controller that leads gave no answer ({_reason(error)}): check whether the "
                    f"change was made"
                )
                raise refused(ErrorCode.TIMED_OUT, message) from None
            if answer.HasField("not_leader"):
                await waiting.turn()
            elif answer.outcome.error:
                raise refused(answer.outcome.error, answer.outcome.message)
            else:
                return answer.outcome

    async def describe(self) -> dict[str, pb.ControllersDescription | str]:
        """The description of each controller, or why it can't be asked, by address."""
        own = await self._here.Describe(_DESCRIBE)
        members = [member.address for member in own.members if member.address]
        others = [address for address in members or self._configured if address != self._own_address]
        said = await asyncio.gather(*(self._ask_to_describe(address) for address in others))
        return {self._own_address: own, **dict(zip(others, said, strict=True))}

    async def _ask_to_describe(self, address: str) -> pb.ControllersDescription | str:
        try:
            async with asyncio.timeout(limits.API_DESCRIBE_S):
                return await self._elsewhere(address).Describe(_DESCRIBE)
        except TimeoutError:
            return "it doesn't answer in time"
        except grpc.aio.AioRpcError as error:
            return _reason(error)

    async def _leading(self, waiting: "_LeaderWait") -> LeaderAdmin:
        """The controller that describes itself as the leader; it may cease to lead before the next call."""
        while True:
            own = await self._here.Describe(_DESCRIBE)
            if own.leads:
                return self._here
            waiting.named, waiting.problem = own.leader, own.problem
            if own.leader:
                said = await self._ask_to_describe(own.leader)
                if not isinstance(said, str) and said.leads:
                    return self._elsewhere(own.leader)
            await waiting.turn()


class _LeaderWait:
    """Waits for a leader, within bounds."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + limits.API_LEADER_S
        self.named = ""
        """The leader's address by this controller's description."""
        self.problem = ""
        """Why this controller takes no commands."""

    async def turn(self) -> None:
        """Waits a moment. Raises ApiError when the time is over."""
        if time.monotonic() > self._until_s:
            why = self.problem or "more than half of the controllers must run, and reach each other"
            if self.named:
                why = f"the one that should, at {self.named}, can't be asked from here"
            raise refused(ErrorCode.NO_LEADER, f"no controller leads, as far as this one knows: {why}")
        await asyncio.sleep(POLL_S)


class Lines:
    """Channels to the other controllers, one each."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self.prover = NO_PROOF
        """Set before the first call."""

    def to(self, address: str) -> LeaderAdmin:
        """The Admin service of the controller at host:port."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = channel_to(address, CHANNEL_OPTIONS)
        stub: LeaderAdmin = AdminStub(ProvenCalls(channel, self.prover))
        return stub

    async def close(self) -> None:
        """Closes all channels."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


async def _end(parts: AsyncIterator[pb.PartitionsAnswer]) -> None:
    """Ends the generator or the call that makes the parts."""
    if isinstance(parts, AsyncGenerator):
        await parts.aclose()
    elif isinstance(parts, grpc.aio.Call):
        parts.cancel()


def _reason(error: grpc.aio.AioRpcError) -> str:
    """The error in a few words; gRPC's own text repeats the addresses of three layers."""
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return "it can't be reached"
    return str(error.code().name)


_DESCRIBE = pb.DescribeControllersRequest()
