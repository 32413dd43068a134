"""The controller's gRPC services: thin shells around `member`, `leader.brokers` and `proposals`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TypeVar

import grpc
import grpc.aio

from tank_controller.commands.levels import said
from tank_controller.node import NodeHost
from tank_controller.raft.birth import IdentityQuestion
from tank_controller.raft.errors import MessageRefusedError
from tank_controller.raft.messages import NodeId
from tank_controller.raft_node import wire as raft_wire
from tank_controller.rpc.leaving import may_leave
from tank_controller.security.trust import Trust, caller, is_called_by
from tank_protos.cluster_secret import Party, PartyRole
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import (
    BrokersServicer,
    ControllersServicer,
)

MAX_STREAM_BYTES = 256 * 1024 * 1024
"""How many bytes may wait for a broker that doesn't read; the state of a million partitions takes a quarter
of it.
"""
MAX_STREAM_MESSAGES = 100_000

_log = logging.getLogger("tank.controller")

Value = TypeVar("Value")
Context = grpc.aio.ServicerContext[object, object]


class ControllersService(ControllersServicer):
    """The service between controllers."""

    def __init__(self, host: NodeHost, trust: Trust) -> None:
        self._host = host
        self._trust = trust

    async def Messages(self, requests: AsyncIterator[pb.RaftMessage], context: Context) -> pb.MessagesEnd:
        """Takes Raft's messages from one other controller."""
        sender: NodeId | None = None
        proven = None if (by := caller()) is None else NodeId(by.number, by.disk)
        if proven is not None:
            self._trust.opened(proven)
        try:
            async for wire in requests:
                node = self._host.node
                if node is None:
                    continue
                try:
                    message = raft_wire.decode(wire)
                    if proven not in (None, message.sender):
                        raise MessageRefusedError(
                            f"controller {proven} sent a message in the name of {message.sender}"
                        )
                    sender = message.sender
                    node.member.driver.receive(message)
                except MessageRefusedError as error:
                    _log.warning("%s", error)
        finally:
            if proven is not None:
                self._trust.closed(proven)
            if sender is not None and self._host.node is not None:
                self._host.node.member.raft.broken(sender)
        return pb.MessagesEnd()

    async def Identify(self, request: pb.IdentifyRequest, context: Context) -> pb.IdentifyAnswer:
        """Returns this controller's identity."""
        if self._host.node is not None:
            return self._host.node.member.identify(request)
        birth = self._host.birth
        if birth is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this controller is starting: ask again")
        assert birth is not None
        answer = birth.answer(
            IdentityQuestion(NodeId(request.asker.ordinal, request.asker.disk), request.nonce)
        )
        return pb.IdentifyAnswer(
            answerer=pb.RaftNode(ordinal=answer.answerer.ordinal, disk=answer.answerer.disk),
            nonce=answer.nonce,
        )

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.JoinAnswer:
        """Adds an empty controller to the group."""
        node = self._host.node
        if not is_called_by(PartyRole.CONTROLLER, request.node.ordinal, request.node.disk):
            return pb.JoinAnswer(
                kind=pb.JoinAnswer.REFUSED,
                message="the caller has proved to be another controller than the one it asks for",
            )
        if node is None:
            return pb.JoinAnswer(not_leader=pb.NotLeader())
        if request.cluster_id != node.member.raft.cluster_id:
            message = f"this is cluster {node.member.raft.cluster_id}"
            return pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message=message)
        if why := said(request).refusal(node.metadata.state.feature_level):
            return pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message=why)
        return node.member.join(NodeId(request.node.ordinal, request.node.disk))


class BrokersService(BrokersServicer):
    """The service for brokers."""

    def __init__(self, host: NodeHost) -> None:
        self._host = host

    async def Session(
        self, requests: AsyncIterator[pb.BrokerUp], context: Context
    ) -> AsyncIterator[pb.BrokerDown]:
        """Runs one broker's stream."""
        node = self._host.node
        if node is None:
            yield pb.BrokerDown(not_leader=pb.NotLeader())
            return
        line = _BrokerQueue()
        brokers = node.brokers
        stream = brokers.opened(line)
        proven = caller()
        stream.has_proved = proven is not None

        async def read() -> None:
            try:
                async for up in requests:
                    if up.HasField("register") and not _is_of(proven, up.register):
                        _log.warning("the caller has proved to be another broker than the one it registers")
                        break
                    brokers.received(stream, up)
            except Exception:  # a broker that disconnects ends the requests without an exception
                _log.exception("a fault of this program ended a broker's stream")
            finally:
                brokers.closed(stream)
                line.end()

        reading = asyncio.create_task(read())
        try:
            while (message := await line.next()) is not None:
                yield message
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await reading
            brokers.closed(stream)

    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveAnswer:
        """Whether a broker's process may be stopped."""
        if not is_called_by(PartyRole.BROKER, request.broker_id):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "the caller has proved to be another broker than the one it asks for",
            )
        return await may_leave(self._host.node, self._host.kubernetes, request)


def _is_of(proven: Party | None, register: pb.BrokerRegister) -> bool:
    return proven is None or proven == Party(PartyRole.BROKER, register.broker.broker_id)


class _BrokerQueue:
    """A bounded queue of messages to one broker: `tank_controller.leader.brokers.streams.BrokerLine`."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[pb.BrokerDown | None] = asyncio.Queue()
        self._bytes = 0
        self._ended = False

    def send(self, message: pb.BrokerDown) -> None:
        if self._ended:
            return
        self._bytes += message.ByteSize()
        if self._bytes > MAX_STREAM_BYTES or self._queue.qsize() > MAX_STREAM_MESSAGES:
            _log.warning("a broker doesn't read its stream: the stream is ended")
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
