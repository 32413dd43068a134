"""A connection that another broker makes to this one: recognizes that broker, takes a leader's pushes, and
answers them. No I/O.

A client's connection becomes a broker's when its first frame is a ReplicaId (4): see docs/protocol/peers.md.
"""

from typing import ClassVar, Final

from tank_node.broker.broker import Broker
from tank_node.frame_session import FrameSession
from tank_node.metrics import OK
from tank_node.partition.follower import PeerLine
from tank_node.peers.identity import WrongPeer
from tank_node.purpose import Purpose
from tank_node.replication.push_frame import NotAPush, answer_to, read_all, read_one
from tank_node.session import Session
from tank_protos.generated.tank import (
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    PushedPartition,
    ReplicaIdRequest,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES, frame_of

_read_head: Final = FRAME_HEAD.unpack_from
_PING: Final = 3
_BARE_ID_BYTES: Final = 2


class OldPeer(WireError):
    """A ReplicaId that is a bare id, as the brokers of the original TANK document send."""

    reason: ClassVar[str] = "old_peer"


def open_peer(session: Session, broker: Broker, payload: memoryview) -> None:
    """Takes the ReplicaId of another broker, and answers it: the connection becomes a leader's, or carries
    forwarded requests. Raises WireError when the connection has to be closed."""
    if len(payload) == _BARE_ID_BYTES:
        raise OldPeer("the broker speaks the original TANK document's protocol, which this cluster can't use")
    opening = ReplicaIdRequest.decode(payload)
    if session.in_flight or session.is_full:
        raise WrongPeer(f"broker {opening.replica_id} sent its opening after a client's requests")
    purpose = recognize(broker, opening)
    broker.metrics.requests[ReplicaIdRequest.ID, OK] += 1
    if purpose is Purpose.REQUESTS:
        if session.is_forwarder:
            raise WrongPeer(f"broker {opening.replica_id} sent a second opening")
        session.forwards()
        broker.forwarding.taken(opening.replica_id, session)
        session.send(frame_of(_answer_to(broker, opening)))
    else:
        session.become(FollowerSession(broker, opening, purpose))


def _answer_to(broker: Broker, opening: ReplicaIdRequest) -> ReplicaIdRequest:
    """Makes this broker's answer, by which the other end recognizes it."""
    view, link = broker.link.view, broker.link
    return ReplicaIdRequest(
        view.broker_id,
        view.cluster_id,
        link.broker_epoch,
        opening.replica_id,
        opening.purpose,
        link.peer_key,
    )


def recognize(broker: Broker, opening: ReplicaIdRequest) -> Purpose:
    """Returns the connection's purpose. Raises WrongPeer unless the opening comes from a broker, and from the
    process of it, that this broker's view has, and names this broker."""
    link = broker.link
    view = link.view
    if not link.broker_epoch or not link.peer_key:
        raise WrongPeer("this broker is not registered yet")
    if opening.cluster_id != view.cluster_id or bytes(opening.key) != link.peer_key:
        raise WrongPeer(f"broker {opening.replica_id} is not of this cluster")
    if opening.meant_broker != view.broker_id:
        raise WrongPeer(
            f"broker {opening.replica_id} wants broker {opening.meant_broker}, and this is {view.broker_id}"
        )
    known = view.brokers.get(opening.replica_id)
    if known is None or known.epoch != opening.broker_epoch:
        raise WrongPeer(
            f"broker {opening.replica_id} has epoch {opening.broker_epoch}, and in this broker's view "
            f"{f'epoch {known.epoch}' if known else 'it is unknown'}"
        )
    try:
        return Purpose(opening.purpose)
    except ValueError:
        raise WrongPeer(
            f"broker {opening.replica_id} connects for an unknown purpose, {opening.purpose}"
        ) from None


class FollowerSession(FrameSession):
    """A leader's connection to this broker."""

    __slots__ = ("broker", "line")

    def __init__(self, broker: Broker, opening: ReplicaIdRequest, purpose: Purpose) -> None:
        """Answers the opening of a broker that was recognized, and ends the connections that this one
        replaces."""
        super().__init__()
        self.broker = broker
        self.line = PeerLine(opening.replica_id, opening.broker_epoch, purpose, self._tell, self._hang_up)
        broker.lost_brokers.opened(opening.replica_id)
        broker.followers.opened(self.line)
        self.send(frame_of(_answer_to(broker, opening)))

    @property
    def is_full(self) -> bool:
        return self.out_bytes >= self.broker.limits.unsent_bytes

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        # When `take` returns, a push is in the log's files, so its bytes need not stay in the buffer.
        self.kept = at
        try:
            while end - at >= HEADER_BYTES and not self.is_full:
                message_id, length = _read_head(buffer, at)
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
        """Raises NotAPush for a frame that no leader may send; called before the payload has come."""
        if not self.line.is_open:
            raise NotAPush("a later connection has replaced this one")
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
        self.send(frame_of(PushAnswer(0, covers, [answer])))

    def _hang_up(self) -> None:
        self.hang_up("replaced")

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.broker.followers.closed(self.line)
        self.broker.lost_brokers.ended(self.line.broker_id)
