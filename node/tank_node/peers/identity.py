"""Who is at both ends of a connection that a broker makes to another one."""

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

from tank_protos.generated.tank import ReplicaIdRequest
from tank_protos.wire.errors import WireError

_frame_head = Struct("<BI")


class WrongPeer(WireError):
    """Somebody else than the broker that was meant answers at its address."""

    reason: ClassVar[str] = "wrong_peer"


@dataclass(slots=True, frozen=True)
class PeerIdentity:
    """What both ends must agree on, as the view of the broker that connects has it."""

    cluster_id: str
    key: bytes
    own_id: int
    own_epoch: int
    peer: int
    """The broker that is meant."""
    peer_epoch: int
    """Of its present process."""
    purpose: int
    """0: live pushes; 1: catching up; 2: requests of clients for what that broker leads."""

    def opening(self) -> bytes:
        """The first frame of the connection."""
        message = ReplicaIdRequest(
            self.own_id, self.cluster_id, self.own_epoch, self.peer, self.purpose, self.key
        ).encode()
        return b"".join((_frame_head.pack(ReplicaIdRequest.ID, sum(map(len, message))), *message))

    def check(self, answer: ReplicaIdRequest) -> None:
        """Raises WrongPeer unless this comes from the broker that was meant."""
        told = (answer.cluster_id, bytes(answer.key), answer.replica_id, answer.broker_epoch, answer.purpose)
        if told != (self.cluster_id, self.key, self.peer, self.peer_epoch, self.purpose):
            raise WrongPeer(
                f"broker {self.peer} (epoch {self.peer_epoch}) was meant; broker {answer.replica_id} "
                f"(epoch {answer.broker_epoch}) of cluster {answer.cluster_id} is there"
            )
        if answer.meant_broker != self.own_id:
            raise WrongPeer(f"broker {answer.replica_id} takes us for broker {answer.meant_broker}")
