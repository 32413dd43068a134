"""The controller's gRPC services: thin shells around `member`, `broker_desk` and `proposals`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from tank_controller import raft_wire
from tank_controller.outcome import Outcome, Rejected
from tank_controller.proposals import Proposals
from tank_controller.raft.birth import Birth, Question
from tank_controller.raft.errors import MessageRefusedError, ProposalRefusedError
from tank_controller.raft.membership import Change, ChangeKind
from tank_controller.raft.messages import NodeId
from tank_controller.rooms import Rooms
from tank_controller.view_parts import view_updates
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import (
    AdminServicer,
    BrokersServicer,
    ControllersServicer,
)

MAX_STREAM_BYTES = 256 * 1024 * 1024
"""What waits for one broker that doesn't read; a whole state of a million partitions is a quarter of it."""
MAX_STREAM_MESSAGES = 100_000

_log = logging.getLogger("tank.controller")

Value = TypeVar("Value")
Context = grpc.aio.ServicerContext[object, object]


class House(Protocol):
    """The process, as its services see it."""

    birth: Birth | None
    """While it belongs to no cluster."""
    rooms: Rooms | None


class ControllersService(ControllersServicer):
    """Between controllers."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def Messages(self, requests: AsyncIterator[pb.RaftMessage], context: Context) -> pb.MessagesEnd:
        """Raft's messages from one other controller."""
        async for wire in requests:
            rooms = self._house.rooms
            if rooms is None:
                continue
            try:
                rooms.member.driver.receive(raft_wire.decode(wire))
            except MessageRefusedError as error:
                _log.warning("%s", error)
        return pb.MessagesEnd()

    async def Identify(self, request: pb.IdentifyRequest, context: Context) -> pb.IdentifyAnswer:
        """Who this is."""
        if self._house.rooms is not None:
            return self._house.rooms.member.identify(request)
        birth = self._house.birth
        if birth is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "it is starting")
        assert birth is not None
        answer = birth.answer(Question(NodeId(request.asker.ordinal, request.asker.disk), request.nonce))
        return pb.IdentifyAnswer(
            answerer=pb.RaftNode(ordinal=answer.answerer.ordinal, disk=answer.answerer.disk),
            nonce=answer.nonce,
        )

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.JoinAnswer:
        """An empty controller wants to be a member."""
        rooms = self._house.rooms
        if rooms is None:
            return pb.JoinAnswer(not_leader=pb.NotLeader())
        if request.cluster_id != rooms.member.raft.cluster_id:
            message = f"this is cluster {rooms.member.raft.cluster_id}"
            return pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message=message)
        return rooms.member.join(NodeId(request.node.ordinal, request.node.disk))


class BrokersService(BrokersServicer):
    """Brokers' streams."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def Session(
        self, requests: AsyncIterator[pb.BrokerUp], context: Context
    ) -> AsyncIterator[pb.BrokerDown]:
        """One broker's."""
        rooms = self._house.rooms
        if rooms is None:
            yield pb.BrokerDown(not_leader=pb.NotLeader())
            return
        line = _Line()
        desk = rooms.desk
        stream = desk.opened(line)

        async def read() -> None:
            try:
                async for up in requests:
                    desk.received(stream, up)
            finally:
                desk.closed(stream)
                line.end()

        reading = asyncio.create_task(read())
        try:
            while (message := await line.next()) is not None:
                yield message
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await reading
            desk.closed(stream)


class _Line:
    """`tank_controller.broker_streams.Line`: a bounded queue towards one broker."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[pb.BrokerDown | None] = asyncio.Queue()
        self._bytes = 0
        self._ended = False

    def send(self, message: pb.BrokerDown) -> None:
        if self._ended:
            return
        self._bytes += message.ByteSize()
        if self._bytes > MAX_STREAM_BYTES or self._queue.qsize() > MAX_STREAM_MESSAGES:
            _log.warning("a broker doesn't read what it is sent: its stream is ended")
            self.end()
            return
        self._queue.put_nowait(message)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._queue.put_nowait(None)

    async def next(self) -> pb.BrokerDown | None:
        message = await self._queue.get()
        if message is not None:
            self._bytes -= message.ByteSize()
        return message


class AdminService(AdminServicer):
    """For people and their tools."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def Describe(
        self, request: pb.DescribeControllersRequest, context: Context
    ) -> pb.ControllersDescription:
        """This controller, and the members that it knows."""
        rooms = self._house.rooms
        if rooms is not None:
            return rooms.member.describe(rooms.problem)
        birth = self._house.birth
        node = pb.RaftNode() if birth is None else pb.RaftNode(ordinal=birth.own.ordinal, disk=birth.own.disk)
        problem = "it belongs to no cluster yet: it waits until all configured controllers are there"
        return pb.ControllersDescription(node=node, problem=problem)

    async def State(self, request: pb.StateRequest, context: Context) -> AsyncIterator[pb.StateAnswer]:
        """All of it, in parts."""
        rooms = self._leading()
        if rooms is None or await _asked(rooms.proposals) is not None:
            yield pb.StateAnswer(not_leader=self._not_leader())
            return
        state = rooms.proposals.metadata.state
        for update in view_updates(state.delta(), whole=True):
            yield pb.StateAnswer(view=update)

    async def Change(self, request: pb.Command, context: Context) -> pb.ChangeAnswer:
        """One command."""
        rooms = self._leading()
        if rooms is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        rooms.proposals.propose(request, lambda outcome: _set(done, outcome))
        outcome = await done
        if outcome.rejection is not None and outcome.rejection.error is ErrorCode.NO_LEADER:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        return pb.ChangeAnswer(outcome=outcome.as_message())

    async def TransferLeadership(
        self, request: pb.TransferLeadershipRequest, context: Context
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
        self, request: pb.RemoveControllerRequest, context: Context
    ) -> pb.ChangeAnswer:
        """One that is not coming back."""
        rooms = self._leading()
        if rooms is None:
            return pb.ChangeAnswer(not_leader=self._not_leader())
        target = rooms.member.raft.configuration.member_with(request.ordinal)
        if target is None:
            return _refused(f"controller {request.ordinal} is no member")
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        change = Change(ChangeKind.REMOVE, target)
        rooms.member.driver.change(change, lambda result: _set(done, result))
        result = await done
        return _refused(str(result)) if isinstance(result, Exception) else _DONE

    def _leading(self) -> Rooms | None:
        rooms = self._house.rooms
        return rooms if rooms is not None and rooms.desk.leads else None

    def _not_leader(self) -> pb.NotLeader:
        rooms = self._house.rooms
        return pb.NotLeader() if rooms is None else rooms.desk.not_leader()


_DONE = pb.ChangeAnswer(outcome=pb.ProposalOutcome())


def _refused(message: str) -> pb.ChangeAnswer:
    return pb.ChangeAnswer(outcome=pb.ProposalOutcome(error=ErrorCode.INVALID_REQUEST, message=message))


async def _asked(proposals: Proposals) -> Rejected | None:
    done: asyncio.Future[Rejected | None] = asyncio.get_running_loop().create_future()
    proposals.read(lambda problem: _set(done, problem))
    return await done


def _set(future: "asyncio.Future[Value]", value: Value) -> None:
    if not future.done():  # whoever asked may have gone
        future.set_result(value)
