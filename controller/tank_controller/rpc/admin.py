"""The controller's gRPC service for operators' tools: a thin shell around `proposals` and `overview`."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import grpc

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.reports import overview
from tank_controller.leader.reports.iggy_names import names_parts
from tank_controller.node import ControllerNode, NodeHost
from tank_controller.raft.errors import ProposalRefusedError, UnansweredError
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import NodeId
from tank_controller.rpc.brokers import Context
from tank_controller.rpc.users import hide_secrets, user_parts
from tank_controller.state.view_parts import PART_BYTES
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminServicer

REMOVE_TRIES = 20
REMOVE_AGAIN_S = 0.1
"""The pause between attempts of a removal: the members that stay have to answer a heartbeat first."""

Value = TypeVar("Value")


class AdminService(AdminServicer):
    """The service Admin. The controller's own HTTP API calls its methods, too, without a context."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._states_read = 0
        """How many whole states are being read; at most limits.MAX_STATES_READ."""

    async def Describe(
        self, request: pb.DescribeControllersRequest, context: Context | None = None
    ) -> pb.ControllersDescription:
        """Describes this controller, and the members that it knows."""
        node = self._host.node
        if node is not None:
            described, space = node.member.describe(node.problem), node.space()
            if space is not None:
                described.free_bytes, described.disk_bytes = space.free, space.size
            return described
        birth = self._host.birth
        own = pb.RaftNode() if birth is None else pb.RaftNode(ordinal=birth.own.ordinal, disk=birth.own.disk)
        problem = "it belongs to no cluster yet: it waits until all configured controllers are there"
        return pb.ControllersDescription(node=own, problem=problem)

    async def State(self, request: pb.StateRequest, context: Context) -> AsyncIterator[pb.StateAnswer]:
        """Sends the whole state in parts. Fails with RESOURCE_EXHAUSTED while too many calls read it."""
        node = await self._up_to_date()
        if node is None:
            yield pb.StateAnswer(not_leader=self._not_leader())
            return
        if self._states_read >= limits.MAX_STATES_READ:
            why = f"{self._states_read} other calls read the whole state now: try again in a while"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        self._states_read += 1
        try:
            for update in node.metadata.state.whole_view(limits.VIEW_PART, PART_BYTES):
                if update is None:
                    await asyncio.sleep(0)  # lets brokers' heartbeats be handled in between
                else:
                    for user in update.delta.users:
                        hide_secrets(user)
                    yield pb.StateAnswer(view=update)
        finally:
            self._states_read -= 1

    async def Change(self, request: pb.Command, context: Context | None = None) -> pb.ChangeAnswer:
        """Proposes an operator's command."""
        node = self._leading()
        if node is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        if request.HasField("raise_level"):
            return _refused(
                "the controllers raise the feature level by themselves, when all processes "
                "know the next level"
            )
        if request.HasField("commit_positions"):
            return _refused("positions are committed through a broker, whose stream gives them their order")
        if request.HasField("drop_positions"):
            return _refused("a group's coordinator has its positions dropped, when it holds them itself")
        done: asyncio.Future[CommandOutcome] = asyncio.get_running_loop().create_future()
        command = request
        if (tasks := node.brokers.tasks) is not None:
            try:
                command = tasks.by_ends(node.metadata.state, request)
            except Rejected as rejection:
                return _refused(str(rejection))
        node.proposals.propose(command, lambda outcome: _set(done, outcome))
        outcome = await done
        if outcome.rejection is not None and outcome.rejection.error is ErrorCode.NO_LEADER:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        return pb.ChangeAnswer(outcome=outcome.as_message())

    async def TransferLeadership(
        self, request: pb.TransferLeadershipRequest, context: Context | None = None
    ) -> pb.ChangeAnswer:
        """Transfers leadership to another voter."""
        node = self._leading()
        if node is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        target = node.member.raft.configuration.member_with(request.ordinal)
        try:
            if target is None:
                return _refused(f"controller {request.ordinal} is no member")
            node.member.driver.transfer_leadership(target)
        except ProposalRefusedError as error:
            return _refused(str(error))
        return pb.ChangeAnswer(outcome=pb.ProposalOutcome())

    async def RemoveController(
        self, request: pb.RemoveControllerRequest, context: Context | None = None
    ) -> pb.ChangeAnswer:
        """Removes a member that is not coming back."""
        node = self._leading()
        if node is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        try:
            target = node.member.meant(request.ordinal, request.disk)
        except ProposalRefusedError as error:
            return _refused(str(error))
        # its process would see that it is no member, and ask to be added again
        if target == node.member.raft.own:
            return _refused("this controller leads: hand leadership over first (TransferLeadership)")
        if request.only_silent and await node.answers(target):
            return _refused(f"controller {target.ordinal} answers, so it still runs: stop it first")
        result: object = None
        for _ in range(REMOVE_TRIES):
            result = await _removed(node, target)
            if not isinstance(result, UnansweredError):
                break
            await asyncio.sleep(REMOVE_AGAIN_S)
        return _refused(str(result)) if isinstance(result, Exception) else _DONE

    async def Overview(
        self, request: pb.OverviewRequest, context: Context | None = None
    ) -> pb.OverviewAnswer:
        """Describes the brokers, and counts partitions."""
        node = await self._up_to_date()
        if node is None:
            return pb.OverviewAnswer(not_leader=self._not_leader())
        state = node.metadata.state
        displaced = overview.Displaced()
        for _ in displaced.count(state):
            await asyncio.sleep(0)  # lets brokers' heartbeats be handled in between
        tasks = node.brokers.tasks
        even = tasks is not None and tasks.balanced
        answer = overview.overview(state, displaced.found, node.brokers.streams, balanced=even)
        brokers, controllers = node.raising.waits_for(state, node.brokers.streams)
        answer.brokers_behind.extend(brokers)
        answer.controllers_behind.extend(controllers)
        answer.topics_in_the_way.extend(node.raising.topics_in_the_way(state))
        answer.groups_in_the_way.extend(node.raising.groups_in_the_way(state))
        for broker_id, why in node.scaling.refusals(state).items():
            answer.scale_down_refused.add(broker_id=broker_id, why=why)
        node.clocks.report(answer)
        node.trust.report(answer, state, node.brokers.streams, node.member.ids())
        return answer

    async def Partitions(
        self, request: pb.PartitionsRequest, context: Context | None = None
    ) -> AsyncIterator[pb.PartitionsAnswer]:
        """Sends the present partitions, one portion after the other."""
        node = await self._up_to_date()
        if node is None:
            yield pb.PartitionsAnswer(not_leader=self._not_leader())
            return
        state = node.metadata.state
        for part in overview.partition_parts(state, request):
            if (tasks := node.brokers.tasks) is not None:
                overview.add_unreadable(part, tasks.unreadable)
            yield part
            await asyncio.sleep(0)

    async def Balance(self, request: pb.BalanceRequest, context: Context | None = None) -> pb.ChangeAnswer:
        """Makes the leader's next round look for uneven loads."""
        node = self._leading()
        if node is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        if (tasks := node.brokers.tasks) is not None:
            tasks.balance()
        return _DONE

    async def IggyNames(
        self, request: pb.IggyNamesRequest, context: Context | None = None
    ) -> AsyncIterator[pb.IggyNamesAnswer]:
        """Sends the names of Iggy's clients, one portion after the other."""
        node = await self._up_to_date()
        if node is None:
            yield pb.IggyNamesAnswer(not_leader=self._not_leader())
            return
        for part in names_parts(node.metadata.state):
            yield part
            await asyncio.sleep(0)

    async def Users(
        self, request: pb.UsersRequest, context: Context | None = None
    ) -> AsyncIterator[pb.UsersAnswer]:
        """Sends the present users, one portion after the other."""
        node = await self._up_to_date()
        if node is None:
            yield pb.UsersAnswer(not_leader=self._not_leader())
            return
        for part in user_parts(node.metadata.state):
            yield part
            await asyncio.sleep(0)

    async def _up_to_date(self) -> ControllerNode | None:
        """This controller's node if it leads and its state holds all that was committed before this call,
        else None.
        """
        node = self._leading()
        return node if node is not None and await _asked(node.proposals) is None else None

    def _leading(self) -> ControllerNode | None:
        node = self._host.node
        return node if node is not None and node.brokers.leads else None

    def _not_leader(self) -> pb.NotLeader:
        node = self._host.node
        return pb.NotLeader() if node is None else node.brokers.not_leader()


_DONE = pb.ChangeAnswer(outcome=pb.ProposalOutcome())


def _refused(message: str) -> pb.ChangeAnswer:
    return pb.ChangeAnswer(outcome=pb.ProposalOutcome(error=ErrorCode.INVALID_REQUEST, message=message))


async def _removed(node: ControllerNode, target: NodeId) -> object:
    """Removes a member. Returns None, or the exception of a failed removal."""
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    node.member.driver.change(Change(MembershipChangeKind.REMOVE, target), lambda result: _set(done, result))
    return await done


async def _asked(proposals: Proposals) -> Rejected | None:
    done: asyncio.Future[Rejected | None] = asyncio.get_running_loop().create_future()
    proposals.read(lambda problem: _set(done, problem))
    return await done


def _set(future: "asyncio.Future[Value]", value: Value) -> None:
    if not future.done():  # the caller may have gone
        future.set_result(value)
