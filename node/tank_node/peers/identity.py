"""The brokers at the two ends of a connection between brokers."""

from dataclasses import dataclass
from typing import ClassVar

from tank_node.purpose import Purpose
from tank_protos.generated.tank import ReplicaIdRequest
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame_of


class WrongPeer(WireError):
    """The process at the other end is not the broker, or not the process of it, that was intended."""

    reason: ClassVar[str] = "wrong_peer"


@dataclass(slots=True, frozen=True)
class PeerIdentity:
    """The fields on which both ends must agree, from the view of the broker that connects."""

    cluster_id: str
    key: bytes
    own_id: int
    own_epoch: int
    peer: int
    """The id of the broker to connect to."""
    peer_epoch: int
    """The broker epoch of that broker's present process."""
    purpose: Purpose

    def opening(self) -> bytes:
        """Returns the first frame of the connection."""
        return frame_of(
            ReplicaIdRequest(self.own_id, self.cluster_id, self.own_epoch, self.peer, self.purpose, self.key)
        )

    def check(self, answer: ReplicaIdRequest) -> None:
        """Raises WrongPeer unless this answer comes from the intended broker, and names this one."""
        told = (answer.cluster_id, bytes(answer.key), answer.replica_id, answer.broker_epoch, answer.purpose)
        if told != (self.cluster_id, self.key, self.peer, self.peer_epoch, self.purpose):
            raise WrongPeer(
                f"broker {self.peer} (epoch {self.peer_epoch}) was expected; broker {answer.replica_id} "
                f"(epoch {answer.broker_epoch}) of cluster {answer.cluster_id} answered"
            )
        if answer.meant_broker != self.own_id:
            raise WrongPeer(
                f"broker {answer.replica_id} answered broker {answer.meant_broker}, not broker {self.own_id}"
            )
