"""The controller's gRPC service for people and their tools: thin, around `proposals` and `overview`."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import grpc

from tank_controller import limits
from tank_controller.leader import overview
from tank_controller.leader.proposals import Proposals
from tank_controller.node import Rooms
from tank_controller.raft.errors import ProposalRefusedError, UnansweredError
from tank_controller.raft.membership import Change, ChangeKind
from tank_controller.raft.messages import NodeId
from tank_controller.rpc.brokers import Context, House
from tank_controller.state.outcome import Outcome, Rejected
from tank_controller.state.view_parts import PART_BYTES
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminServicer

REMOVE_TRIES = 20
REMOVE_AGAIN_S = 0.1
"""Those who stay answer the next heartbeat; where that takes two seconds the removal is refused."""

Value = TypeVar("Value")


class AdminService(AdminServicer):
    """For people and their tools. The controller's own HTTP API calls it, too, and has no context to give."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._states_read = 0
        """Whole states that are being read; at most limits.MAX_STATES_READ."""

    async def Describe(
        self, request: pb.DescribeControllersRequest, context: Context | None = None
    ) -> pb.ControllersDescription:
        """This controller, and the members that it knows."""
        rooms = self._house.rooms
        if rooms is not None:
            described, space = rooms.member.describe(rooms.problem), rooms.space()
            if space is not None:
                described.free_bytes, described.disk_bytes = space.free, space.size
            return described
        birth = self._house.birth
        node = pb.RaftNode() if birth is None else pb.RaftNode(ordinal=birth.own.ordinal, disk=birth.own.disk)
        problem = "it belongs to no cluster yet: it waits until all configured controllers are there"
        return pb.ControllersDescription(node=node, problem=problem)

    async def State(self, request: pb.StateRequest, context: Context) -> AsyncIterator[pb.StateAnswer]:
        """All of it, in parts; RESOURCE_EXHAUSTED while as many read it as may."""
        rooms = await self._up_to_date()
        if rooms is None:
            yield pb.StateAnswer(not_leader=self._not_leader())
            return
        if self._states_read >= limits.MAX_STATES_READ:
            why = f"{self._states_read} others read the whole state now: try again when they have done"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        self._states_read += 1
        try:
            for update in rooms.metadata.state.whole_view(limits.VIEW_PART, PART_BYTES):
                if update is None:
                    await asyncio.sleep(0)  # brokers' heartbeats come in between
                else:
                    yield pb.StateAnswer(view=update)
        finally:
            self._states_read -= 1

    async def Change(self, request: pb.Command, context: Context | None = None) -> pb.ChangeAnswer:
        """One command."""
        rooms = self._leading()
        if rooms is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        if request.HasField("raise_level"):
            return _refused("the controllers raise the feature level by themselves, when all know the next")
        if request.HasField("commit_positions"):
            return _refused("positions are kept by way of a broker: its stream says in which order")
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        command = request
        if (duties := rooms.desk.duties) is not None:
            try:
                command = duties.by_ends(rooms.metadata.state, request)
            except Rejected as rejection:
                return _refused(str(rejection))
        rooms.proposals.propose(command, lambda outcome: _set(done, outcome))
        outcome = await done
        if outcome.rejection is not None and outcome.rejection.error is ErrorCode.NO_LEADER:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        return pb.ChangeAnswer(outcome=outcome.as_message())

    async def TransferLeadership(
        self, request: pb.TransferLeadershipRequest, context: Context | None = None
    ) -> pb.ChangeAnswer:
        """To another voter."""
        rooms = self._leading()
        if rooms is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        target = rooms.member.raft.configuration.member_with(request.ordinal)
        try:
            if target is None:
                return _refused(f"controller {request.ordinal} is no member")
            rooms.member.driver.transfer_leadership(target)
        except ProposalRefusedError as error:
            return _refused(str(error))
        return pb.ChangeAnswer(outcome=pb.ProposalOutcome())

    async def RemoveController(
        self, request: pb.RemoveControllerRequest, context: Context | None = None
    ) -> pb.ChangeAnswer:
        """One that is not coming back."""
        rooms = self._leading()
        if rooms is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        try:
            target = rooms.member.meant(request.ordinal, request.disk)
        except ProposalRefusedError as error:
            return _refused(str(error))
        if target == rooms.member.raft.own:  # it would see that it is no member, and ask to be added again
            return _refused("this controller leads: hand leadership over first (TransferLeadership)")
        if request.only_silent and await rooms.answers(target):
            return _refused(
                f"controller {target.ordinal} answers: it would be missed. Stop it first where it is to go"
            )
        result: object = None
        for _ in range(REMOVE_TRIES):
            result = await _removed(rooms, target)
            if not isinstance(result, UnansweredError):
                break
            await asyncio.sleep(REMOVE_AGAIN_S)
        return _refused(str(result)) if isinstance(result, Exception) else _DONE

    async def Overview(
        self, request: pb.OverviewRequest, context: Context | None = None
    ) -> pb.OverviewAnswer:
        """Brokers, and counts of partitions."""
        rooms = await self._up_to_date()
        if rooms is None:
            return pb.OverviewAnswer(not_leader=self._not_leader())
        state = rooms.metadata.state
        displaced = overview.Displaced()
        for _ in displaced.count(state):
            await asyncio.sleep(0)  # brokers' heartbeats come in between
        duties = rooms.desk.duties
        even = duties is not None and duties.balanced
        answer = overview.overview(state, displaced.found, rooms.desk.streams, balanced=even)
        brokers, controllers = rooms.raising.waits_for(state, rooms.desk.streams)
        answer.brokers_behind.extend(brokers)
        answer.controllers_behind.extend(controllers)
        for broker_id, why in rooms.scaling.refusals(state).items():
            answer.scale_down_refused.add(broker_id=broker_id, why=why)
        rooms.clocks.tell(answer)
        rooms.trust.tell(answer, state, rooms.desk.streams, rooms.member.ids())
        return answer

    async def Partitions(
        self, request: pb.PartitionsRequest, context: Context | None = None
    ) -> AsyncIterator[pb.PartitionsAnswer]:
        """Partitions as they are now, one portion after the other."""
        rooms = await self._up_to_date()
        if rooms is None:
            yield pb.PartitionsAnswer(not_leader=self._not_leader())
            return
        state = rooms.metadata.state
        for part in overview.partition_parts(state, request):
            if (duties := rooms.desk.duties) is not None:
                overview.add_unreadable(part, duties.unreadable)
            yield part
            await asyncio.sleep(0)

    async def Balance(self, request: pb.BalanceRequest, context: Context | None = None) -> pb.ChangeAnswer:
        """The next of the leader's rounds looks."""
        rooms = self._leading()
        if rooms is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        if (duties := rooms.desk.duties) is not None:
            duties.balance()
        return _DONE

    async def _up_to_date(self) -> Rooms | None:
        """When this controller leads, and its state holds all that was committed when this was called."""
        rooms = self._leading()
        return rooms if rooms is not None and await _asked(rooms.proposals) is None else None

    def _leading(self) -> Rooms | None:
        rooms = self._house.rooms
        return rooms if rooms is not None and rooms.desk.leads else None

    def _not_leader(self) -> pb.NotLeader:
        rooms = self._house.rooms
        return pb.NotLeader() if rooms is None else rooms.desk.not_leader()


_DONE = pb.ChangeAnswer(outcome=pb.ProposalOutcome())


def _refused(message: str) -> pb.ChangeAnswer:
    return pb.ChangeAnswer(outcome=pb.ProposalOutcome(error=ErrorCode.INVALID_REQUEST, message=message))


async def _removed(rooms: Rooms, target: NodeId) -> object:
    """None, or the exception that says why it is a member still."""
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    rooms.member.driver.change(Change(ChangeKind.REMOVE, target), lambda result: _set(done, result))
    return await done


async def _asked(proposals: Proposals) -> Rejected | None:
    done: asyncio.Future[Rejected | None] = asyncio.get_running_loop().create_future()
    proposals.read(lambda problem: _set(done, problem))
    return await done


def _set(future: "asyncio.Future[Value]", value: Value) -> None:
    if not future.done():  # whoever asked may have gone
        future.set_result(value)
