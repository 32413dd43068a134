"""The controller's gRPC services: thin shells around `member`, `leader.brokers` and `proposals`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from tank_controller.k8s.client import Kubernetes
from tank_controller.node import Rooms
from tank_controller.raft.birth import Birth, Question
from tank_controller.raft.errors import MessageRefusedError
from tank_controller.raft.messages import NodeId
from tank_controller.raft_node import wire as raft_wire
from tank_controller.rpc.leaving import may_leave
from tank_controller.security.trust import Trust, caller, is_called_by
from tank_controller.state.levels import said
from tank_protos.cluster_secret import Party, Role
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import (
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
    kubernetes: Kubernetes | None


class ControllersService(ControllersServicer):
    """Between controllers."""

    def __init__(self, house: House, trust: Trust) -> None:
        self._house = house
        self._trust = trust

    async def Messages(self, requests: AsyncIterator[pb.RaftMessage], context: Context) -> pb.MessagesEnd:
        """Raft's messages from one other controller."""
        sender: NodeId | None = None
        proven = None if (by := caller()) is None else NodeId(by.number, by.disk)
        if proven is not None:
            self._trust.opened(proven)
        try:
            async for wire in requests:
                rooms = self._house.rooms
                if rooms is None:
                    continue
                try:
                    message = raft_wire.decode(wire)
                    if proven not in (None, message.sender):
                        raise MessageRefusedError(f"controller {proven} speaks for {message.sender}")
                    sender = message.sender
                    rooms.member.driver.receive(message)
                except MessageRefusedError as error:
                    _log.warning("%s", error)
        finally:
            if proven is not None:
                self._trust.closed(proven)
            if sender is not None and self._house.rooms is not None:
                self._house.rooms.member.raft.broken(sender)
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
        if not is_called_by(Role.CONTROLLER, request.node.ordinal, request.node.disk):
            return pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message="it asks for another controller")
        if rooms is None:
            return pb.JoinAnswer(not_leader=pb.NotLeader())
        if request.cluster_id != rooms.member.raft.cluster_id:
            message = f"this is cluster {rooms.member.raft.cluster_id}"
            return pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message=message)
        if why := said(request).refusal(rooms.metadata.state.feature_level):
            return pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message=why)
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
        proven = caller()
        stream.has_proved = proven is not None

        async def read() -> None:
            try:
                async for up in requests:
                    if up.HasField("register") and not _is_of(proven, up.register):
                        _log.warning("a broker registers as another one than it has proved to be")
                        break
                    desk.received(stream, up)
            except Exception:  # a peer that goes ends the requests without one
                _log.exception("a fault of this program ended a broker's stream")
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

    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveAnswer:
        """Whether a broker's process may be stopped."""
        if not is_called_by(Role.BROKER, request.broker_id):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "it asks for another broker")
        return await may_leave(self._house.rooms, self._house.kubernetes, request)


def _is_of(proven: Party | None, register: pb.BrokerRegister) -> bool:
    return proven is None or proven == Party(Role.BROKER, register.broker.broker_id)


class _Line:
    """`tank_controller.leader.streams.Line`: a bounded queue towards one broker."""

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
