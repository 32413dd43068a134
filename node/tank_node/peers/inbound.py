"""The other end of a connection that a broker makes, as a conversation: recognizes that broker, takes a
leader's pushes, answers them. No I/O.

A connection becomes one when a ReplicaId (4) comes as its first frame: see docs/protocol/peers.md.
"""

from struct import Struct
from typing import ClassVar, Final

from tank_node.broker import forwarding
from tank_node.broker.broker import Broker
from tank_node.frame_session import FrameSession
from tank_node.metrics import OK
from tank_node.partition.follower import CATCH_UP, LIVE, PeerLine
from tank_node.peers.identity import WrongPeer
from tank_node.replication.push_frame import NotAPush, answer_to, read_all, read_one
from tank_node.session import Session
from tank_protos.generated.tank import (
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    PushedPartition,
    ReplicaIdRequest,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import HEADER_BYTES
from tank_protos.wire.message import Message

_frame_head = Struct("<BI")
_PING: Final = 3
_BARE_ID_BYTES: Final = 2


class OldPeer(WireError):
    """The bare id that a broker of the old document sends: ours says more."""

    reason: ClassVar[str] = "old_peer"


def open_peer(session: Session, broker: Broker, payload: memoryview) -> None:
    """Makes a connection another broker's, after its ReplicaId: a leader's, or one's that forwards requests.
    Raises WireError: it is to be closed."""
    if len(payload) == _BARE_ID_BYTES:
        raise OldPeer("a broker of the old document, which this cluster does not work with")
    opening = ReplicaIdRequest.decode(payload)
    if session.in_flight or session.is_full:
        raise WrongPeer(f"broker {opening.replica_id} opened a connection that was a client's")
    recognize(broker, opening)
    broker.metrics.requests[ReplicaIdRequest.ID, OK] += 1
    if opening.purpose == forwarding.PURPOSE:
        if session.is_forwarder:
            raise WrongPeer(f"broker {opening.replica_id} opens a connection twice")
        session.forwards()
        broker.forwarding.taken(opening.replica_id, session)
        session.send(_frame(_answer_to(broker, opening)))
    else:
        session.become(FollowerSession(broker, opening))


def _answer_to(broker: Broker, opening: ReplicaIdRequest) -> ReplicaIdRequest:
    """What tells the other end that this is the broker that it means."""
    view, link = broker.link.view, broker.link
    return ReplicaIdRequest(
        view.broker_id,
        view.cluster_id,
        link.broker_epoch,
        opening.replica_id,
        opening.purpose,
        link.peer_key,
    )


def _frame(message: Message) -> bytes:
    payload = message.encode()
    return b"".join((_frame_head.pack(message.ID, sum(map(len, payload))), *payload))


def recognize(broker: Broker, opening: ReplicaIdRequest) -> None:
    """Raises WrongPeer unless this is the broker, and the process of it, that this node's view has, and it
    means this one."""
    link = broker.link
    view = link.view
    if not link.broker_epoch or not link.peer_key:
        raise WrongPeer("this node is not registered yet")
    if opening.cluster_id != view.cluster_id or bytes(opening.key) != link.peer_key:
        raise WrongPeer(f"broker {opening.replica_id} is not of this cluster")
    if opening.meant_broker != view.broker_id:
        raise WrongPeer(f"broker {opening.replica_id} takes broker {view.broker_id} for another")
    known = view.brokers.get(opening.replica_id)
    if known is None or known.epoch != opening.broker_epoch:
        raise WrongPeer(
            f"broker {opening.replica_id} has epoch {opening.broker_epoch}, and the view "
            f"{known.epoch if known else 'does not know it'}"
        )
    if opening.purpose not in (LIVE, CATCH_UP, forwarding.PURPOSE):
        raise WrongPeer(f"broker {opening.replica_id} connects for purpose {opening.purpose}")


class FollowerSession(FrameSession):
    """One leader's connection to this node."""

    __slots__ = ("broker", "line")

    def __init__(self, broker: Broker, opening: ReplicaIdRequest) -> None:
        """Answers the opening, which was recognized, and ends the connections that it replaces."""
        super().__init__()
        self.broker = broker
        self.line = PeerLine(
            opening.replica_id, opening.broker_epoch, opening.purpose, self._tell, self._hang_up
        )
        broker.followers.opened(self.line)
        self.send(_frame(_answer_to(broker, opening)))

    @property
    def is_full(self) -> bool:
        return self.out_bytes >= self.broker.limits.unsent_bytes

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        # What was taken is in the log's files when `take` returns: no bytes need to stay.
        self.kept = at
        try:
            while end - at >= HEADER_BYTES and not self.is_full:
                message_id, length = _frame_head.unpack_from(buffer, at)
                self._check(message_id, length)
                stop = at + HEADER_BYTES + length
                if stop > end:
                    break
                self._push(view[at + HEADER_BYTES : stop], message_id)
                at = stop
        finally:
            self.broker.followers.sync()
        return at

    def frame(self, message_id: int, payload: memoryview) -> None:
        self._check(message_id, len(payload))
        self._push(payload, message_id)
        self.broker.followers.sync()

    def _check(self, message_id: int, length: int) -> None:
        """Raises NotAPush, before the payload has come."""
        if not self.line.is_open:
            raise NotAPush("another connection has taken this one's place")
        most = self.broker.limits.frame_bytes if message_id == ProduceWithBaseSeqNumRequest.ID else 0
        if message_id not in (ProduceWithBaseSeqNumRequest.ID, _PING) or length > most:
            raise NotAPush(f"message {message_id} of {length} bytes from a leader")

    def _push(self, payload: memoryview, message_id: int) -> None:
        if message_id == _PING:
            return
        followers, line = self.broker.followers, self.line
        one = read_one(payload)
        if one is not None:
            taken = followers.take(line, one.request_id, one.number, one.start, one.stretch)
            self.send(answer_to(one.request_id, [taken]))
            return
        request_id, entries = read_all(payload)
        answers = [
            followers.take(line, request_id, number, start, content) for number, start, content in entries
        ]
        self.send(answer_to(request_id, answers))

    def _tell(self, covers: int, answer: PushedPartition) -> None:
        self.send(_frame(PushAnswer(0, covers, [answer])))

    def _hang_up(self) -> None:
        self.hang_up("replaced")

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.broker.followers.closed(self.line)
